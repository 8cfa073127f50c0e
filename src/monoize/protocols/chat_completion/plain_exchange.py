"""The short way for a whole request and a whole reply that are nothing but words and the usual settings.

Most calls are. msgspec looks whether an object has one of the shapes below and nothing else, in a tenth of the time
that the long way needs to ask for every field that a dialect may have; what has another shape is left to the long way,
which would come to the same result. A null is another shape: in a request it says more than an absent field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from monoize.protocols.chat_completion.fields import DIALECT, KNOWN
from monoize.protocols.chat_completion.usage import known_finish
from monoize.urp import EMPTY, Choice, Message, Role, Source, Text, UrpRequest, UrpResponse, Usage
from monoize.wirejson import Unread

__all__ = ["passing_reply", "passing_request", "plain_reply", "plain_request"]

_Name = Annotated[str, msgspec.Meta(min_length=1)]
# A tool's message needs the call that it answers.
_Speaker = Literal["system", "developer", "user", "assistant"]
_ABSENT: Any = None  # where null would be another shape
_OTHER_SHAPES = (
    msgspec.DecodeError,  # ValidationError is one
    UnicodeError,  # half a character where a name is due
    RecursionError,
)
_ROLES = {word: Role(word) for word in ("system", "developer", "user", "assistant")}


class _Shape(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What an object may hold; its values are read here, or in the object itself where types could change."""


class _Said(_Shape):
    role: _Speaker
    content: str


class _Request(_Shape):
    model: _Name
    messages: list[_Said]
    stream: bool | UnsetType = UNSET
    temperature: int | float = _ABSENT  # `1` stays `1`
    top_p: int | float = _ABSENT
    max_tokens: int | UnsetType = UNSET
    max_completion_tokens: int | UnsetType = UNSET
    stream_options: dict[str, Any] | UnsetType = UNSET


_REQUEST = msgspec.json.Decoder(_Request)


def plain_request(body: Mapping[str, Any]) -> UrpRequest | None:
    """None: the long way knows."""
    try:
        plain = msgspec.convert(body, _Request)
    except _OTHER_SHAPES:
        return None
    messages = [
        Message(
            role=_ROLES[said.role],
            parts=(Text(content=said.content),),
            source=Source(DIALECT, wire),
        )
        for said, wire in zip(plain.messages, body["messages"], strict=True)
    ]
    return _asked(plain, messages, body)


def passing_request(raw: bytes) -> UrpRequest | None:
    """The same from bytes that hold it: no object is made of them, unless somebody looks for one.

    So its messages do not know what they were made of. None: the long way knows, also whether it is JSON.
    """
    try:
        plain = _REQUEST.decode(raw)
    except _OTHER_SHAPES:
        return None
    messages = [
        Message(role=_ROLES[said.role], parts=(Text(content=said.content),))
        for said in plain.messages
    ]
    return _asked(plain, messages, Unread(raw))


def _asked(plain: _Request, messages: list[Message], body: Mapping[str, Any]) -> UrpRequest | None:
    extra: dict[str, Any] = {}
    limit: int | None = None
    if plain.max_tokens is not UNSET:
        if plain.max_completion_tokens is not UNSET:
            return None
        limit = plain.max_tokens
        extra["max_tokens"] = None  # the caller's spelling (request_decode.ALIASES)
    elif plain.max_completion_tokens is not UNSET:
        limit = plain.max_completion_tokens
    if plain.stream_options is not UNSET:
        if not plain.stream_options:
            return None
        extra["stream_options"] = plain.stream_options
    if plain.stream is False:
        extra["stream"] = False  # false and absent differ in a request written anew (T34)
    return UrpRequest(
        model=plain.model,
        messages=tuple(messages),
        stream=plain.stream is True,
        temperature=plain.temperature,
        top_p=plain.top_p,
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


_REPLY = msgspec.json.Decoder(_Reply)


def plain_reply(body: Mapping[str, Any]) -> UrpResponse | None:
    """None: the long way knows."""
    try:
        plain = msgspec.convert(body, _Reply)
    except _OTHER_SHAPES:
        return None
    wire = body["choices"][0]
    own = Source(DIALECT, wire), Source(DIALECT, wire["message"]), Source(DIALECT, body["usage"])
    return _answered(plain, *own, body)


def passing_reply(raw: bytes) -> UrpResponse | None:
    """The same from bytes that hold it, for a reply that goes on as it came: only the whole knows what it was made of."""
    try:
        plain = _REPLY.decode(raw)
    except _OTHER_SHAPES:
        return None
    return _answered(plain, None, None, None, Unread(raw))


def _answered(
    plain: _Reply,
    choice: Source | None,
    message: Source | None,
    usage: Source | None,
    body: Mapping[str, Any],
) -> UrpResponse | None:
    counts = plain.usage
    if counts.total_tokens != counts.prompt_tokens + counts.completion_tokens:
        return None  # xAI counts thoughts beside the output, others count more
    said = plain.choices[0]
    words = Message(
        role=Role.ASSISTANT, parts=(Text(content=said.message.content),), source=message
    )
    fingerprint = plain.system_fingerprint
    return UrpResponse(
        id=plain.id,
        model=plain.model,
        created=plain.created,
        choices=(
            Choice(messages=(words,), finish=known_finish(said.finish_reason), source=choice),
        ),
        usage=_used(counts, usage),
        service_tier=plain.service_tier or None,
        origin=DIALECT,
        extra_body=EMPTY if fingerprint is None else {"system_fingerprint": fingerprint},
        source=Source(DIALECT, body, words=True),
    )


def _used(counts: _Usage, source: Source | None) -> Usage:
    prompt = counts.prompt_tokens_details or _NO_PROMPT
    completion = counts.completion_tokens_details or _NO_COMPLETION
    return Usage(
        input_tokens=counts.prompt_tokens,
        output_tokens=counts.completion_tokens,
        cached_read=prompt.cached_tokens,
        reasoning=completion.reasoning_tokens,
        audio_input=prompt.audio_tokens,
        audio_output=completion.audio_tokens,
        extra_body=_predicted(completion),
        source=source,
    )


def _predicted(completion: _Completion) -> Mapping[str, Any]:
    accepted, rejected = (
        completion.accepted_prediction_tokens,
        completion.rejected_prediction_tokens,
    )
    told = {}
    if accepted is not None:
        told["accepted_prediction_tokens"] = accepted
    if rejected is not None:
        told["rejected_prediction_tokens"] = rejected
    return {"completion_tokens_details": told} if told else EMPTY
