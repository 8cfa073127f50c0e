"""What the provider of the benchmark says: a reply and a stream of any length in each protocol."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

SENTENCE = "Measured on an idle machine, a gateway should cost less than the wire it sits on. "
REPLY = SENTENCE * 11
INPUT_TOKENS, OUTPUT_TOKENS = 187, 204
_MOMENT = 1_760_000_000
_CHAT_ID = "chatcmpl-benchBENCHbenchBENCHbench01"
_ITEM_ID = "msg_0be9c4b00000000000000000000000000000000000000001"


def word(number: int) -> str:
    """The text of one event."""
    return f" word-{number:04d}"


def streamed_text(count: int) -> str:
    return "".join(map(word, range(count)))


@cache
def unary(protocol: str) -> bytes:
    match protocol:
        case "chat":
            return _json(_chat("chat.completion", {"message": _chat_message()}, _chat_usage()))
        case "messages":
            return _json(_message([{"type": "text", "text": REPLY}], "end_turn", OUTPUT_TOKENS))
        case "responses":
            return _json(_response("completed", [_item("completed", [_output(REPLY)])]))
        case "gemini":
            return _json(_gemini(REPLY, "STOP"))
    raise ValueError(protocol)


@cache
def stream(protocol: str, count: int) -> tuple[bytes, ...]:
    """Server-sent events, `count` of them with a word of text."""
    match protocol:
        case "chat":
            return (*map(_event, _chat_stream(count)), b"data: [DONE]\n\n")
        case "messages":
            return tuple(map(_named_event, _message_stream(count)))
        case "responses":
            events = enumerate(_response_stream(count))
            return tuple(_named_event({**event, "sequence_number": n}) for n, event in events)
        case "gemini":
            ends = (*((None,) * (count - 1)), "STOP")
            return tuple(_event(_gemini(word(n), end)) for n, end in enumerate(ends))
    raise ValueError(protocol)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _event(value: Any) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _named_event(value: dict[str, Any]) -> bytes:
    return b"event: " + value["type"].encode() + b"\n" + _event(value)


# --- chat ---


def _chat(kind: str, choice: dict[str, Any] | None, usage: dict[str, Any] | None) -> dict[str, Any]:
    ending = "stop" if choice and ("message" in choice or not choice["delta"]) else None
    choices = [{"index": 0, **choice, "logprobs": None, "finish_reason": ending}] if choice else []
    return {
        "id": _CHAT_ID,
        "object": kind,
        "created": _MOMENT,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": choices,
        "usage": usage,
        "service_tier": "default",
        "system_fingerprint": "fp_bench00001",
    }


def _chat_message() -> dict[str, Any]:
    return {"role": "assistant", "content": REPLY, "refusal": None, "annotations": []}


def _chat_usage() -> dict[str, Any]:
    return {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _chat_stream(count: int) -> Iterable[dict[str, Any]]:
    kind = "chat.completion.chunk"
    yield _chat(kind, {"delta": {"role": "assistant", "content": "", "refusal": None}}, None)
    for number in range(count):
        yield _chat(kind, {"delta": {"content": word(number)}}, None)
    yield _chat(kind, {"delta": {}}, None)
    yield _chat(kind, None, _chat_usage())


# --- messages ---


def _message(content: list[Any], stop: str | None, tokens: int) -> dict[str, Any]:
    return {
        "id": "msg_01BenchBenchBenchBenchBe",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": tokens,
            "service_tier": "standard",
        },
    }


def _message_stream(count: int) -> Iterable[dict[str, Any]]:
    yield {"type": "message_start", "message": _message([], None, 1)}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for number in range(count):
        delta = {"type": "text_delta", "text": word(number)}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": OUTPUT_TOKENS},
    }
    yield {"type": "message_stop"}


# --- responses ---


def _output(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(status: str, content: list[Any]) -> dict[str, Any]:
    return {
        "id": _ITEM_ID,
        "type": "message",
        "status": status,
        "content": content,
        "role": "assistant",
    }


def _response(status: str, output: list[Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": INPUT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    return {
        "id": "resp_0be9c4b0000000000000000000000001",
        "object": "response",
        "created_at": _MOMENT,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-4o-mini-2024-07-18",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        "user": None,
        "metadata": {},
    }


def _response_stream(count: int) -> Iterable[dict[str, Any]]:
    text = streamed_text(count)
    place = {"item_id": _ITEM_ID, "output_index": 0, "content_index": 0}
    yield {"type": "response.created", "response": _response("in_progress", [])}
    yield {"type": "response.in_progress", "response": _response("in_progress", [])}
    begun = _item("in_progress", [])
    yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
    yield {"type": "response.content_part.added", **place, "part": _output("")}
    for number in range(count):
        delta = {"delta": word(number), "logprobs": []}
        yield {"type": "response.output_text.delta", **place, **delta}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _output(text)}
    whole = _item("completed", [_output(text)])
    yield {"type": "response.output_item.done", "output_index": 0, "item": whole}
    yield {"type": "response.completed", "response": _response("completed", [whole])}


# --- gemini ---


def _gemini(text: str, ending: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": [{"text": text}], "role": "model"}}
    if ending is not None:
        candidate["finishReason"] = ending
    return {
        "candidates": [{**candidate, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": INPUT_TOKENS,
            "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": INPUT_TOKENS}],
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "BenchBenchBenchBench01",
    }
