"""Chat request -> URP."""

from __future__ import annotations

from collections.abc import Mapping
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
from monoize.urp import EMPTY, UrpRequest

__all__ = ["ALIASES", "decode_request"]

# One meaning, two spellings: the first that a request uses is read, and its name is remembered as a null in
# `extra_body`, so that a rebuilt chat request says it in the caller's own words. Other protocols drop nulls.
ALIASES = {
    "max_output_tokens": ("max_completion_tokens", "max_tokens"),
    "seed": ("seed", "random_seed"),
}

_PLAIN = (
    "model",
    "messages",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "top_logprobs",
    "parallel_tool_calls",
    "user",
    "metadata",
    "service_tier",
    "tools",
    "functions",
    "tool_choice",
    "function_call",
    *REASONING_KEYS,
)


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
    limit_key, seed_key = (_spelling(body, spellings) for spellings in ALIASES.values())
    form = decode_format(body)
    extra = _extra(body, form is not None, limit_key, seed_key)
    streams = boolean(body, "stream")
    return UrpRequest(
        model=name,
        messages=messages,
        stream=bool(streams if streams is not None else stream),
        temperature=number(body, "temperature"),
        top_p=number(body, "top_p"),
        top_k=integer(body, "top_k"),
        max_output_tokens=integer(body, limit_key),
        stop=text_list(body, "stop"),
        seed=integer(body, seed_key),
        n=integer(body, "n"),
        frequency_penalty=number(body, "frequency_penalty"),
        presence_penalty=number(body, "presence_penalty"),
        logprobs=boolean(body, "logprobs"),
        top_logprobs=integer(body, "top_logprobs"),
        reasoning=decode_reasoning(body),
        tools=decode_tools(body),
        tool_choice=decode_choice(body),
        parallel_tool_calls=boolean(body, "parallel_tool_calls"),
        response_format=form,
        user=text(body, "user"),
        metadata=optional_object(body, "metadata"),
        service_tier=text(body, "service_tier"),
        origin=DIALECT,
        inherited=frozenset(extra) & KNOWN,
        extra_body=extra or EMPTY,
        # a message without a source holds something that must not go out as it came in
        source=source(body) if all(message.source for message in messages) else None,
    )


def _spelling(body: Mapping[str, Any], spellings: tuple[str, ...]) -> str:
    return next((key for key in spellings if body.get(key) is not None), spellings[0])


def _extra(
    body: Mapping[str, Any], has_known_format: bool, limit_key: str, seed_key: str
) -> dict[str, Any]:
    taken = {key for key in _PLAIN if body.get(key) is not None}
    taken |= {"response_format"} if has_known_format else set()
    taken |= {limit_key, seed_key}
    extra = {key: value for key, value in body.items() if key not in taken}
    if body.get("stream") is False:
        extra["stream"] = False  # false and absent differ in a request written anew (T34)
    if isinstance(body.get("stop"), str):
        extra["stop"] = None  # remembered like a spelling: it was no list
    for key, (_, other) in zip((limit_key, seed_key), ALIASES.values(), strict=True):
        if key == other or (key in body and body[key] is None):
            extra[key] = None
        elif extra.get(other, "") is None:
            del extra[other]  # its null would be taken for the caller's spelling
    return extra
