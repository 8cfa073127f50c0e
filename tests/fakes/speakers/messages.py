"""Messages as Anthropic writes them."""

from __future__ import annotations

import json
from typing import Any

from fakes.scenarios import Hide, Refuse, Say, Think, Tokens, Turn, Use
from fakes.speakers.wire import Heard, Json, frame, mark, pieces

LINE_END = "\n"
_FINISH = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
}


def unary(turn: Turn, model: str) -> Json:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [_block(n, part) for n, part in enumerate(turn.parts)],
        "stop_reason": _FINISH[turn.finish],
        "stop_sequence": None,
        "usage": {**_input(turn.tokens), "output_tokens": turn.tokens.output},
    }


def events(turn: Turn, model: str) -> list[bytes]:
    begun = unary(turn, model)
    begun.update(content=[], stop_reason=None)
    begun["usage"] = {**_input(turn.tokens), "output_tokens": 1}
    rows: list[Json] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for n, part in enumerate(turn.parts):
        start, deltas = _streamed(_block(n, part), part)
        rows.append({"type": "content_block_start", "index": n, "content_block": start})
        rows += [{"type": "content_block_delta", "index": n, "delta": delta} for delta in deltas]
        rows.append({"type": "content_block_stop", "index": n})
    end = {"stop_reason": _FINISH[turn.finish], "stop_sequence": None}
    usage = {"output_tokens": turn.tokens.output}
    rows += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    return [frame(row, row["type"]) for row in rows]


def terminal(frames: list[bytes]) -> int:
    return len(frames) - 2


def error(status: int, message: str) -> Json:
    kinds = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "overloaded_error" if status >= 500 else "invalid_request_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    }


def error_frame(message: str) -> bytes:
    return frame(error(529, message), "error")


def count(body: Json) -> Json | None:
    return {"input_tokens": 4711}


def hear(body: Json) -> Heard:
    heard = Heard(tools=[tool["name"] for tool in body.get("tools") or []])
    for block in _blocks(body.get("system")):
        heard.said.append(("system", block["text"]))
    for message in body["messages"]:
        for block in _blocks(message["content"]):
            match block["type"]:
                case "tool_use":
                    heard.calls.append((block["id"], block["name"], block["input"]))
                case "tool_result":
                    text = "".join(b.get("text", "") for b in _blocks(block.get("content")))
                    heard.results.append((block["tool_use_id"], text))
                case "thinking":
                    heard.seals.append((block["thinking"], block["signature"]))
                case "redacted_thinking":
                    heard.seals.append(("hidden", block["data"]))
                case "text":
                    heard.said.append((message["role"], block["text"]))
    return heard


def seals(turn: Turn) -> list[tuple[str, str]]:
    return [
        (p.text if isinstance(p, Think) else "hidden", p.seal)
        for p in turn.parts
        if isinstance(p, Think | Hide)
    ]


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _block(n: int, part: Any) -> Json:
    match part:
        case Say():
            cited = {"citations": _citations(part)} if part.cites else {}
            return {"type": "text", "text": part.text, **cited}
        case Refuse():
            return {"type": "text", "text": part.text}
        case Think():
            return {"type": "thinking", "thinking": part.text, "signature": part.seal}
        case Hide():
            return {"type": "redacted_thinking", "data": part.seal}
        case Use():
            call_id = f"toolu_01A{n}{mark(part.arguments)}"
            return {"type": "tool_use", "id": call_id, "name": part.name, "input": part.arguments}
    raise AssertionError(part)


def _streamed(block: Json, part: Any) -> tuple[Json, list[Json]]:
    match block["type"]:
        case "text":
            parts = part.pieces if isinstance(part, Say) else pieces(block["text"])
            cited = block.get("citations", [])
            start = {"type": "text", "text": "", **({"citations": []} if cited else {})}
            return start, [
                *({"type": "citations_delta", "citation": citation} for citation in cited),
                *({"type": "text_delta", "text": piece} for piece in parts),
            ]
        case "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            shown = [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"])]
            return start, [*shown, {"type": "signature_delta", "signature": block["signature"]}]
        case "tool_use":
            text = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
            cut = ["", *pieces(text)]
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in cut
            ]
    return block, []


def _citations(say: Say) -> list[Json]:
    return [
        {
            "type": "web_search_result_location",
            "url": url,
            "title": title,
            "encrypted_index": "RW5jSW5kZXg=",
            "cited_text": say.text,
        }
        for url, title in say.cites
    ]


def _input(tokens: Tokens) -> Json:
    """Anthropic counts what was read from the cache apart."""
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "service_tier": "standard",
    }
