"""Chat request -> URP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monoize.protocols._reading import (
    boolean,
    integer,
    items,
    number,
    optional_object,
    refuse,
    text,
    text_list,
)
from monoize.protocols.chat_completion.fields import DIALECT, KNOWN, source
from monoize.protocols.chat_completion.history_decode import decode_history
from monoize.protocols.chat_completion.settings import (
    REASONING_KEYS,
    decode_format,
    decode_reasoning,
)
from monoize.protocols.chat_completion.tools import decode_choice, decode_tools
from monoize.urp import EMPTY, ReasoningSettings, Tool, ToolChoice, UrpRequest

__all__ = ["ALIASES", "decode_request"]

# One meaning, two spellings: the first that a request uses is read, and its name is remembered as a null in
# `extra_body`, so that a rebuilt chat request says it in the caller's own words. Other protocols drop nulls.
ALIASES = {
    "max_output_tokens": ("max_completion_tokens", "max_tokens"),
    "seed": ("seed", "random_seed"),
}
_LIMIT, _SEED = ALIASES.values()


def _reasoning(body: Mapping[str, Any], key: str) -> ReasoningSettings | None:
    del key  # it has several, which are read together
    return decode_reasoning(body)


def _tools(body: Mapping[str, Any], key: str) -> tuple[Tool, ...] | None:
    del key
    return decode_tools(body)


def _choice(body: Mapping[str, Any], key: str) -> ToolChoice | None:
    del key
    return decode_choice(body)


# Wire field, URP field, how it is read, in the order in which mistakes are told. Of two wire fields for one
# URP field the first that is there is read.
_SETTINGS: tuple[tuple[str, str, Callable[[Mapping[str, Any], str], Any]], ...] = (
    ("stream", "stream", boolean),
    ("temperature", "temperature", number),
    ("top_p", "top_p", number),
    ("top_k", "top_k", integer),
    *((key, "max_output_tokens", integer) for key in _LIMIT),
    ("stop", "stop", text_list),
    *((key, "seed", integer) for key in _SEED),
    ("n", "n", integer),
    ("frequency_penalty", "frequency_penalty", number),
    ("presence_penalty", "presence_penalty", number),
    ("logprobs", "logprobs", boolean),
    ("top_logprobs", "top_logprobs", integer),
    *((key, "reasoning", _reasoning) for key in REASONING_KEYS),
    ("tools", "tools", _tools),
    ("functions", "tools", _tools),
    ("tool_choice", "tool_choice", _choice),
    ("function_call", "tool_choice", _choice),
    ("parallel_tool_calls", "parallel_tool_calls", boolean),
    ("user", "user", text),
    ("metadata", "metadata", optional_object),
    ("service_tier", "service_tier", text),
)
_NAMED = frozenset({"model", "messages", *(key for key, _, _ in _SETTINGS)} - {*_LIMIT, *_SEED})


def decode_request(
    body: Mapping[str, Any], *, model: str | None = None, stream: bool | None = None
) -> UrpRequest:
    name = text(body, "model") or model
    if not name:
        refuse("model", "is missing")
    if body.get("messages") is None:
        refuse("messages", "is missing")
    optional_object(body, "stream_options")  # the gateway itself acts on it
    messages = decode_history(items(body, "messages"))
    named: dict[str, Any] = {"stream": bool(stream)}
    form = decode_format(body)
    if form is not None:
        named["response_format"] = form
    said = set()
    for key, field, read in _SETTINGS:
        if key in body and body[key] is not None and field not in said:
            said.add(field)
            named[field] = read(body, key)
    extra = _extra(body, form is not None)
    return UrpRequest(
        model=name,
        messages=messages,
        origin=DIALECT,
        inherited=KNOWN.intersection(extra),
        extra_body=extra or EMPTY,
        # a message without a source holds something that must not go out as it came in
        source=None if None in [message.source for message in messages] else source(body),
        **named,
    )


def _spelling(body: Mapping[str, Any], usual: str, other: str) -> str:
    return usual if body.get(other) is None or body.get(usual) is not None else other


def _extra(body: Mapping[str, Any], has_known_format: bool) -> dict[str, Any]:
    spellings = (_spelling(body, *_LIMIT), _spelling(body, *_SEED))
    extra = {}
    for key, value in body.items():
        is_taken = (value is not None and key in _NAMED) or key in spellings
        if not is_taken and not (has_known_format and key == "response_format"):
            extra[key] = value
    if body.get("stream") is False:
        extra["stream"] = False  # false and absent differ in a request written anew (T34)
    if isinstance(body.get("stop"), str):
        extra["stop"] = None  # remembered like a spelling: it was no list
    for key, (_, other) in zip(spellings, (_LIMIT, _SEED), strict=True):
        if key == other or (key in body and body[key] is None):
            extra[key] = None
        elif extra.get(other, "") is None:
            del extra[other]  # its null would be taken for the caller's spelling
    return extra
