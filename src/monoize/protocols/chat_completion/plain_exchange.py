"""The short way for a whole request and a whole reply that are nothing but words and the usual settings.

Most calls are. msgspec looks whether an object has one of the shapes below and nothing else, in a tenth of the time
that the long way needs to ask for every field that a dialect may have; what has another shape is left to the long way,
which would come to the same result. A null is another shape: in a request it says more than an absent field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from monoize.protocols.chat_completion.fields import DIALECT, KNOWN
from monoize.protocols.chat_completion.usage import known_finish
from monoize.urp import EMPTY, Choice, Message, Role, Source, Text, UrpRequest, UrpResponse, Usage

__all__ = ["plain_reply", "plain_request"]

_Name = Annotated[str, msgspec.Meta(min_length=1)]
# A tool's message needs the call that it answers.
_Speaker = Literal["system", "developer", "user", "assistant"]
_ROLES = {word: Role(word) for word in ("system", "developer", "user", "assistant")}


class _Shape(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What an object may hold; its values are read here, or in the object itself where types could change."""


class _Said(_Shape):
    role: _Speaker
    content: str


class _Request(_Shape):
    model: _Name
    messages: list[_Said]
    stream: bool = False
    temperature: float = 0
    top_p: float = 0
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream_options: dict[str, Any] = {}


def plain_request(body: Mapping[str, Any]) -> UrpRequest | None:
    """None: the long way knows."""
    try:
        plain = msgspec.convert(body, _Request)
    except (msgspec.ValidationError, UnicodeError):  # or half a character where a name is due
        return None
    extra: dict[str, Any] = {}
    limit = plain.max_completion_tokens
    if "max_tokens" in body:
        limit = plain.max_tokens
        if limit is None or "max_completion_tokens" in body:
            return None
        extra["max_tokens"] = None  # the caller's spelling (request_decode.ALIASES)
    elif limit is None and "max_completion_tokens" in body:
        return None
    if plain.stream_options:
        extra["stream_options"] = body["stream_options"]
    elif "stream_options" in body:
        return None
    if not plain.stream and "stream" in body:
        extra["stream"] = False  # false and absent differ in a request written anew (T34)
    return UrpRequest(
        model=plain.model,
        messages=tuple(
            [
                Message(
                    role=_ROLES[said.role],
                    parts=(Text(content=said.content),),
                    source=Source(DIALECT, wire),
                )
                for said, wire in zip(plain.messages, body["messages"], strict=True)
            ]
        ),
        stream=plain.stream,
        temperature=body.get("temperature"),  # `1` stays `1`
        top_p=body.get("top_p"),
        max_output_tokens=limit,
        origin=DIALECT,
        inherited=KNOWN.intersection(extra),
        extra_body=extra or EMPTY,
        source=Source(DIALECT, body, words=True),
    )


class _Answer(_Shape):
    role: Literal["assistant"]
    content: _Name
    refusal: None = None
    annotations: Annotated[list[Any], msgspec.Meta(max_length=0)] | None = None


class _Choice(_Shape):
    index: Literal[0]
    message: _Answer
    finish_reason: _Name
    logprobs: None = None


class _Prompt(_Shape):
    cached_tokens: int | None = None
    audio_tokens: int | None = None


class _Completion(_Shape):
    reasoning_tokens: int | None = None
    audio_tokens: int | None = None
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None


class _Usage(_Shape):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _Prompt | None = None
    completion_tokens_details: _Completion | None = None


class _Reply(_Shape):
    id: _Name
    object: str
    created: int
    model: str
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1, max_length=1)]
    usage: _Usage
    service_tier: str | None = None
    system_fingerprint: str | None = None


_NO_PROMPT, _NO_COMPLETION = _Prompt(), _Completion()
_PREDICTIONS = ("accepted_prediction_tokens", "rejected_prediction_tokens")


def plain_reply(body: Mapping[str, Any]) -> UrpResponse | None:
    """None: the long way knows."""
    try:
        plain = msgspec.convert(body, _Reply)
    except (msgspec.ValidationError, UnicodeError):  # or half a character where a name is due
        return None
    counts = plain.usage
    if counts.total_tokens != counts.prompt_tokens + counts.completion_tokens:
        return None  # xAI counts thoughts beside the output, others count more
    choice, wire = plain.choices[0], body["choices"][0]
    message = Message(
        role=Role.ASSISTANT,
        parts=(Text(content=choice.message.content),),
        source=Source(DIALECT, wire["message"]),
    )
    fingerprint = plain.system_fingerprint
    return UrpResponse(
        id=plain.id,
        model=plain.model,
        created=plain.created,
        choices=(
            Choice(
                messages=(message,),
                finish=known_finish(choice.finish_reason),
                source=Source(DIALECT, wire),
            ),
        ),
        usage=_used(counts, body["usage"]),
        service_tier=plain.service_tier or None,
        origin=DIALECT,
        extra_body=EMPTY if fingerprint is None else {"system_fingerprint": fingerprint},
        source=Source(DIALECT, body, words=True),
    )


def _used(counts: _Usage, wire: Mapping[str, Any]) -> Usage:
    prompt = counts.prompt_tokens_details or _NO_PROMPT
    completion = counts.completion_tokens_details or _NO_COMPLETION
    extra: Mapping[str, Any] = EMPTY
    if (
        completion.accepted_prediction_tokens is not None
        or completion.rejected_prediction_tokens is not None
    ):
        details = wire["completion_tokens_details"]
        told = {key: details[key] for key in _PREDICTIONS if details.get(key) is not None}
        extra = {"completion_tokens_details": told}
    return Usage(
        input_tokens=counts.prompt_tokens,
        output_tokens=counts.completion_tokens,
        cached_read=prompt.cached_tokens,
        reasoning=completion.reasoning_tokens,
        audio_input=prompt.audio_tokens,
        audio_output=completion.audio_tokens,
        extra_body=extra,
        source=Source(DIALECT, wire),
    )
