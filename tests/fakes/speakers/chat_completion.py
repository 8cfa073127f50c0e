"""Chat completions as OpenAI and the providers compatible with it write them (reasoning as OpenRouter does)."""

from __future__ import annotations

import json
from typing import Any

from fakes.scenarios import Hide, Refuse, Say, Think, Tokens, Turn, Use
from fakes.speakers.wire import Heard, Json, frame, mark, pieces

LINE_END = "\n"
_FINISH = {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "refusal": "stop"}


def unary(turn: Turn, model: str) -> Json:
    message: Json = {"role": "assistant", "content": turn.text or None, "refusal": None}
    for refusal in turn.of(Refuse):
        message["refusal"] = refusal.text
    if turn.of(Use):
        message["tool_calls"] = [_call(n, use) for n, use in enumerate(turn.of(Use))]
    if turn.thoughts:
        message["reasoning"] = turn.thoughts
        message["reasoning_details"] = _details(turn)
    if _annotations(turn):
        message["annotations"] = _annotations(turn)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _FINISH[turn.finish],
    }
    return {
        "id": "chatcmpl-CyYkR3sVnmyW1d0yT3x",
        "object": "chat.completion",
        "created": 1768500000,
        "model": model,
        "choices": [choice],
        "usage": _usage(turn.tokens),
        "service_tier": "default",
        "system_fingerprint": "fp_8b2f1a",
    }


def events(turn: Turn, model: str) -> list[bytes]:
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    details = _details(turn)
    for n, part in enumerate(p for p in turn.parts if isinstance(p, Think | Hide)):
        shown = {"reasoning": part.text} if isinstance(part, Think) else {}
        deltas.append({**shown, "reasoning_details": [details[n]]})
    for say in turn.of(Say):
        deltas += [{"content": piece} for piece in say.pieces]
    if _annotations(turn):
        deltas += [{"annotations": [annotation]} for annotation in _annotations(turn)]
    for refusal in turn.of(Refuse):
        deltas += [{"refusal": piece} for piece in pieces(refusal.text)]
    deltas += _call_deltas(turn.of(Use))
    frames = [_chunk(model, [{"index": 0, "delta": d, "finish_reason": None}]) for d in deltas]
    finish = {"index": 0, "delta": {}, "finish_reason": _FINISH[turn.finish]}
    return [
        *frames,
        _chunk(model, [finish]),
        _chunk(model, [], usage=_usage(turn.tokens)),
        frame("[DONE]"),
    ]


def terminal(frames: list[bytes]) -> int:
    """Where the frames begin without which a stream is cut: finish reason, usage, [DONE]."""
    return len(frames) - 3


def error(status: int, message: str) -> Json:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {
        "error": {"message": message, "type": kind, "param": None, "code": f"code_{status}"},
    }


def error_frame(message: str) -> bytes:
    return frame(error(500, message))


def count(body: Json) -> Json | None:
    return None


def hear(body: Json) -> Heard:
    heard = Heard(tools=[tool["function"]["name"] for tool in body.get("tools") or []])
    for message in body["messages"]:
        for call in message.get("tool_calls") or []:
            function = call["function"]
            heard.calls.append((call["id"], function["name"], json.loads(function["arguments"])))
        for detail in message.get("reasoning_details") or []:
            sits_on = detail.get("text") or "hidden"
            heard.seals.append((sits_on, detail.get("signature") or detail.get("data") or ""))
        text = _text(message.get("content"))
        if message["role"] == "tool":
            heard.results.append((message["tool_call_id"], text))
        elif text:
            heard.said.append((message["role"], text))
    return heard


def seals(turn: Turn) -> list[tuple[str, str]]:
    """What a second request must bring back, and on what."""
    return [
        (p.text if isinstance(p, Think) else "hidden", p.seal)
        for p in turn.parts
        if isinstance(p, Think | Hide)
    ]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _call(n: int, use: Use) -> Json:
    function = {"name": use.name, "arguments": json.dumps(use.arguments, ensure_ascii=False)}
    return {"id": f"call_Fq7{n}{mark(use.arguments)}", "type": "function", "function": function}


def _call_deltas(uses: list[Use]) -> list[Json]:
    """All calls begin, then their arguments come interleaved (T1, T3)."""
    calls = [_call(n, use) for n, use in enumerate(uses)]
    begun = [
        {"index": n, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
        for n, call in enumerate(calls)
    ]
    cut = [pieces(call["function"]["arguments"]) for call in calls]
    rest = [
        {"index": n, "function": {"arguments": cut[n][step]}}
        for step in range(3)
        for n in range(len(calls))
        if step < len(cut[n])
    ]
    return [{"tool_calls": [delta]} for delta in [*begun, *rest]]


def _details(turn: Turn) -> list[Json]:
    rows: list[Json] = []
    for part in turn.parts:
        place = {"format": "anthropic-claude-v1", "index": len(rows)}
        if isinstance(part, Think):
            text = {"type": "reasoning.text", "text": part.text, "signature": part.seal}
            rows.append({**text, **place})
        elif isinstance(part, Hide):
            rows.append({"type": "reasoning.encrypted", "data": part.seal, **place})
    return rows


def _annotations(turn: Turn) -> list[Json]:
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "url": url,
                "title": title,
                "start_index": 0,
                "end_index": len(say.text),
            },
        }
        for say in turn.of(Say)
        for url, title in say.cites
    ]


def _usage(tokens: Tokens) -> Json:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


def _chunk(model: str, choices: list[Json], **more: Any) -> bytes:
    return frame(
        {
            "id": "chatcmpl-CyYkR3sVnmyW1d0yT3x",
            "object": "chat.completion.chunk",
            "created": 1768500000,
            "model": model,
            "choices": choices,
            **more,
        }
    )
