"""Replies of models as wire bytes, unary and streamed, in the dialect of each profile; written by hand, not by our encoders."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from monoize.agent.boundary.local_syntax import written
from monoize.agent.profile import Profile, profile, profiles

__all__ = ["PROFILES", "Said", "model_of", "reply", "text_syntax"]

PROFILES = tuple(profiles())
_HOLE = "@@%d@@"  # where a call's arguments go in as they are, well-formed or not

CHAT_FINISH = {
    "stop": "stop",
    "length": "length",
    "calls": "tool_calls",
    "filter": "content_filter",
}
MESSAGES_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "calls": "tool_use",
    "filter": "refusal",
}
GEMINI_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "calls": "STOP", "filter": "SAFETY"}


class Said(NamedTuple):
    """What a model says, whatever it speaks: text, reasoning, calls of (id, name, text of the arguments)."""

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    reasoning: str = ""
    finish: str | None = None  # stop | length | calls | filter; by default what fits
    usage: tuple[int, int] | None = (11, 7)

    @property
    def end(self) -> str:
        return self.finish or ("calls" if self.calls else "stop")


_NOTHING = Said()


def model_of(profile_id: str) -> str:
    return f"model-of-{profile_id}"


def text_syntax(profile_id: str) -> bool:
    return _profile(profile_id).syntax != "native"


def reply(profile_id: str, said: Said, *, streamed: bool, cut: int | None = None) -> bytes:
    """The bytes; `cut` leaves out that many events at the end of a stream."""
    kind = _profile(profile_id)
    if kind.syntax != "native":
        calls = [written(name, arguments, kind.syntax) for _, name, arguments in said.calls]
        text = "\n".join(piece for piece in (said.text, *calls) if piece)
        end = "stop" if said.end == "calls" else said.end
        said = Said(text=text, reasoning=said.reasoning, finish=end, usage=said.usage)
    unary, events = _WRITERS[kind.protocol]
    if not streamed:
        return _filled(json.dumps(unary(said, model_of(profile_id))), said)
    wire = events(said, model_of(profile_id))
    wire = wire[: len(wire) - cut] if cut else wire
    return b"".join(wire)


def _profile(profile_id: str) -> Profile:
    found = profile(profile_id)
    assert found is not None
    return found


def _filled(document: str, said: Said) -> bytes:
    for index, (_, _, arguments) in enumerate(said.calls):
        document = document.replace(json.dumps(_HOLE % index), arguments)
    return document.encode("utf-8", "surrogatepass")


def _pieces(text: str) -> tuple[str, ...]:
    size = max(7, len(text) // 100)
    return tuple(text[n : n + size] for n in range(0, len(text), size))


def _sse(*payloads: Any, said: Said = _NOTHING, named: bool = False) -> list[bytes]:
    out = []
    for payload in payloads:
        head = b"event: %s\n" % payload["type"].encode() if named else b""
        out.append(head + b"data: " + _filled(json.dumps(payload), said) + b"\n\n")
    return out


# --- chat_completion -------------------------------------------------------------------------------


def _chat_usage(said: Said) -> dict[str, Any]:
    if said.usage is None:
        return {}
    taken, given = said.usage
    return {
        "usage": {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given}
    }


def _chat(said: Said, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in said.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": CHAT_FINISH[said.end]}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    return {**head, "system_fingerprint": "fp_7", "choices": [choice], **_chat_usage(said)}


def _chat_stream(said: Said, model: str) -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    head["system_fingerprint"] = "fp_7"

    def chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"reasoning_content": piece}) for piece in _pieces(said.reasoning)]
    chunks += [chunk({"content": piece}) for piece in _pieces(said.text)]
    for index, (call_id, name, arguments) in enumerate(said.calls):
        begun = {"index": index, "id": call_id, "type": "function"}
        chunks.append(
            chunk({"tool_calls": [{**begun, "function": {"name": name, "arguments": ""}}]})
        )
        for piece in _pieces(arguments):
            more = {"index": index, "function": {"arguments": piece}}
            chunks.append(chunk({"tool_calls": [more]}))
    chunks.append(chunk({}, CHAT_FINISH[said.end]))
    if said.usage is not None:
        chunks.append({**head, "choices": [], **_chat_usage(said)})
    return [*_sse(*chunks), b"data: [DONE]\n\n"]


# --- messages --------------------------------------------------------------------------------------


def _messages(said: Said, model: str) -> dict[str, Any]:
    content: list[Any] = []
    if said.reasoning:
        content.append({"type": "thinking", "thinking": said.reasoning, "signature": "c2ln"})
    if said.text:
        content.append({"type": "text", "text": said.text})
    for index, (call_id, name, _) in enumerate(said.calls):
        content.append({"type": "tool_use", "id": call_id, "name": name, "input": _HOLE % index})
    usage = {}
    if said.usage is not None:
        usage = {"usage": {"input_tokens": said.usage[0], "output_tokens": said.usage[1]}}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": content, "stop_reason": MESSAGES_FINISH[said.end], **usage}


def _messages_stream(said: Said, model: str) -> list[bytes]:
    taken = (
        {} if said.usage is None else {"usage": {"input_tokens": said.usage[0], "output_tokens": 1}}
    )
    given = {} if said.usage is None else {"usage": {"output_tokens": said.usage[1]}}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    events: list[Any] = [{"type": "message_start", "message": {**message, **taken}}]

    def block(index: int, start: Any, deltas: list[Any]) -> None:
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})

    index = 0
    if said.reasoning:
        pieces: list[Any] = [
            {"type": "thinking_delta", "thinking": p} for p in _pieces(said.reasoning)
        ]
        pieces.append({"type": "signature_delta", "signature": "c2ln"})
        block(index, {"type": "thinking", "thinking": ""}, pieces)
        index += 1
    if said.text:
        pieces = [{"type": "text_delta", "text": piece} for piece in _pieces(said.text)]
        block(index, {"type": "text", "text": ""}, pieces)
        index += 1
    for call_id, name, arguments in said.calls:
        pieces = [{"type": "input_json_delta", "partial_json": p} for p in _pieces(arguments)]
        block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, pieces)
        index += 1
    stop = {"stop_reason": MESSAGES_FINISH[said.end], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, **given}, {"type": "message_stop"}]
    return _sse(*events, named=True)


# --- responses, grok -------------------------------------------------------------------------------


def _items(said: Said) -> list[Any]:
    items: list[Any] = []
    if said.reasoning:
        summary = [{"type": "summary_text", "text": said.reasoning}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary})
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        items.append({**item, "content": content})
    for index, (call_id, name, arguments) in enumerate(said.calls):
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": name}
        items.append({**item, "arguments": arguments, "status": "completed"})
    return items


def _response(said: Said, model: str) -> dict[str, Any]:
    reasons = {"length": "max_output_tokens", "filter": "content_filter"}
    is_cut = said.end in reasons
    usage = None
    if said.usage is not None:
        usage = {"input_tokens": said.usage[0], "output_tokens": said.usage[1]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": reasons[said.end]} if is_cut else None,
        "output": _items(said),
        "usage": usage,
    }


def _response_stream(said: Said, model: str) -> list[bytes]:
    whole = _response(said, model)
    begun = {
        **whole,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "incomplete_details": None,
    }
    events: list[Any] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        bare = {**item, "status": "in_progress"}
        match item["type"]:
            case "message":
                bare["content"] = []
                events.append(
                    {"type": "response.output_item.added", "output_index": index, "item": bare}
                )
                part = {"type": "output_text", "text": "", "annotations": []}
                inner = {**place, "content_index": 0}
                events.append({"type": "response.content_part.added", **inner, "part": part})
                events += [
                    {"type": "response.output_text.delta", **inner, "delta": piece}
                    for piece in _pieces(said.text)
                ]
                events.append({"type": "response.output_text.done", **inner, "text": said.text})
                done = {**part, "text": said.text}
                events.append({"type": "response.content_part.done", **inner, "part": done})
            case "reasoning":
                bare["summary"] = []
                events.append(
                    {"type": "response.output_item.added", "output_index": index, "item": bare}
                )
                inner = {**place, "summary_index": 0}
                part = {"type": "summary_text", "text": ""}
                events.append(
                    {"type": "response.reasoning_summary_part.added", **inner, "part": part}
                )
                for piece in _pieces(said.reasoning):
                    kind = "response.reasoning_summary_text.delta"
                    events.append({"type": kind, **inner, "delta": piece})
            case _:
                bare["arguments"] = ""
                events.append(
                    {"type": "response.output_item.added", "output_index": index, "item": bare}
                )
                for piece in _pieces(item["arguments"]):
                    kind = "response.function_call_arguments.delta"
                    events.append({"type": kind, **place, "delta": piece})
                kind = "response.function_call_arguments.done"
                events.append({"type": kind, **place, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    kind = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
    events.append({"type": kind, "response": whole})
    return _sse(*events, named=True)


# --- gemini ----------------------------------------------------------------------------------------


def _gemini_parts(said: Said, text: tuple[str, ...], reasoning: tuple[str, ...]) -> list[Any]:
    parts: list[Any] = [{"text": piece, "thought": True} for piece in reasoning if piece]
    parts += [{"text": piece} for piece in text if piece]
    for index, (call_id, name, _) in enumerate(said.calls):
        call: dict[str, Any] = {"name": name, "args": _HOLE % index}
        if call_id:
            call["id"] = call_id
        parts.append({"functionCall": call, "thoughtSignature": "c2ln"})
    return parts


def _gemini_chunk(parts: list[Any], finish: str | None, said: Said, model: str) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = GEMINI_FINISH[finish]
    usage = {}
    if said.usage is not None:
        taken, given = said.usage
        usage = {"usageMetadata": {"promptTokenCount": taken, "candidatesTokenCount": given}}
    return {"candidates": [candidate], "modelVersion": model, "responseId": "r1", **usage}


def _gemini(said: Said, model: str) -> dict[str, Any]:
    parts = _gemini_parts(said, (said.text,), (said.reasoning,))
    return _gemini_chunk(parts, said.end, said, model)


def _gemini_stream(said: Said, model: str) -> list[bytes]:
    parts = _gemini_parts(said, _pieces(said.text), _pieces(said.reasoning))
    chunks = [_gemini_chunk([part], None, said, model) for part in parts]
    chunks.append(_gemini_chunk([{"text": ""}], said.end, said, model))
    return _sse(*chunks, said=said)


_WRITERS = {
    "chat_completion": (_chat, _chat_stream),
    "messages": (_messages, _messages_stream),
    "responses": (_response, _response_stream),
    "grok": (_response, _response_stream),
    "gemini": (_gemini, _gemini_stream),
}
