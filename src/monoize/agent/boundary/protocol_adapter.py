"""The boundary: what a model's bytes mean for a run, or why they mean nothing (S5-4.2, invariant A).

A pure function of the bytes. `native`: exactly what was asked for. `rejected`: anything else, with a code. `recovered`: only outside of
strict mode, for the deviations in the table below; what a call's arguments say is never changed, in no mode.

| failure_code of a recovery | what was recovered from |
|---|---|
| `call_as_xml`, `call_as_json_block`, `call_as_grammar` | the call stands in the text, in another syntax than this profile's |
| `native_call` | a call of the protocol's own where this profile writes calls into the text |
| `fenced_arguments` | arguments inside a code fence |
| `trailing_text` | words after a whole call, or after its arguments |
| `unclosed_call` | a whole call without its closing mark |
| `unreadable_event` | an event of the stream that is no JSON was passed over |

Text that merely looks like an error marker is text. Of several choices the first counts. A call of a custom tool, and a native item that is
some other kind of call (a search, a computer's click), are rejected: no contract offers such a tool. Other native items travel in `carried`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.agent.boundary.adapted import ProtocolAdapterResult, Spent
from monoize.agent.boundary.local_syntax import SYNTAXES, LocalCall, Reading, TextSyntax, read
from monoize.agent.boundary.strict_json import NotStrict, members, names_a_field_twice, object_of
from monoize.agent.boundary.wire_reply import (
    DerivedIds,
    StreamReading,
    WireReply,
    first_choice,
    is_foreign_call,
    read_reply,
)
from monoize.agent.canonical_json import sha256
from monoize.agent.manifest import TOOL_NAME
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.profile import Profile
from monoize.urp import (
    Choice,
    FinishReason,
    Message,
    Part,
    ProviderItem,
    Refusal,
    Text,
    ToolCall,
    UrpResponse,
    Usage,
    bare,
)

__all__ = ["ADAPTER_VERSION", "adapt"]

# The validator belongs to the boundary's version: two of them disagree on 2 % of real schemas (reference 3.3).
ADAPTER_VERSION = f"monoize-1+jsonschema-rs-{importlib.metadata.version('jsonschema-rs')}"

_BYTES_PER_TOKEN = 2  # fewer than any tokenizer needs: an estimate must not be too low (D43)
_LONGEST_ID = 256

# A provider's own words for a call that it could not read itself.
_BROKEN_CALLS = frozenset(("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"))
_REFUSED = "refusal"

Outcome: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"]
_FINISHES: Mapping[FinishReason, Outcome] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.OTHER: "other",
}


class _Rejected(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply says, and what had to be forgiven for it."""

    content: str
    calls: tuple[LocalCall, ...] = ()
    ids: tuple[str, ...] = ()  # of the calls; empty where the syntax has none
    carried: tuple[Message, ...] = ()
    recovered: str | None = None


def adapt(  # noqa: PLR0913 - all that the meaning of a reply hangs on
    raw: bytes,
    *,
    profile: Profile,
    streamed: bool,
    strict: bool,
    salt: str = "",
    prompt_bytes: int = 0,
    max_output_tokens: int = 0,
    reading: StreamReading | None = None,
) -> ProtocolAdapterResult:
    """Never raises. The same arguments give the same result, ids included.

    `salt` (the step) keeps the ids of calls that have none apart from those of an equal reply in another step; `prompt_bytes`
    and `max_output_tokens` are for the estimate where the provider counted nothing (D43). `reading` is what the gate has read of these very
    bytes; it saves the work, and changes nothing.
    """
    raw_hash = sha256(raw)
    ids = DerivedIds(f"{salt}\n{raw_hash}")
    reply = (
        read_reply(raw, profile.protocol, ids, streamed=streamed)
        if reading is None
        else reading.reply(raw)
    )
    known = ProtocolAdapterResult(
        status="rejected",
        canonical_message=None,
        raw_hash=raw_hash,
        adapter_version=ADAPTER_VERSION,
        model_fingerprint=_fingerprint(reply.response),
        spent=_spent(reply, prompt_bytes, max_output_tokens),
    )
    try:
        response, choice = _complete(reply, strict=strict)
        finish = _finish(choice)
        known = msgspec.structs.replace(known, finish=finish)
        found = _found(reply, choice, profile, finish, strict=strict)
        message = _message(found, ids, _plain(response.model))
    except _Rejected as why:
        return msgspec.structs.replace(known, failure_code=why.code, detail=why.detail)
    recovered = found.recovered or ("unreadable_event" if reply.unreadable else None)
    return msgspec.structs.replace(
        known,
        status="native" if recovered is None else "recovered",
        failure_code=recovered,
        canonical_message=message,
        finish="tool_calls" if found.calls else finish,
    )


# --- the reply as a whole ------------------------------------------------------------------------


def _complete(reply: WireReply, *, strict: bool) -> tuple[UrpResponse, Choice]:
    if reply.response is None:
        raise _Rejected(reply.problem or "unreadable_reply", reply.detail)
    if reply.unreadable and strict:
        raise _Rejected("unreadable_event", "an event of the stream is no JSON of this protocol")
    choice = first_choice(reply.response)
    if choice is None:
        raise _Rejected("no_choice", "the reply holds no answer")
    return reply.response, choice


def _finish(choice: Choice) -> Outcome:
    finish = choice.finish
    if finish is not None and finish.native == _REFUSED:
        return "refusal"
    if any(isinstance(part, Refusal) for part in _parts(choice)):
        return "refusal"
    return "other" if finish is None else _FINISHES[finish.reason]


def _fingerprint(response: UrpResponse | None) -> str:
    """Which model answered, as far as the provider tells."""
    if response is None:
        return ""
    version = response.extra_body.get("system_fingerprint")
    model = _plain(response.model)
    return f"{model}@{_plain(version)}" if isinstance(version, str) and version else model


def _spent(reply: WireReply, prompt_bytes: int, max_output_tokens: int) -> Spent:
    usage = reply.usage or Usage()
    is_whole = reply.response is not None
    if is_whole and (usage.input_tokens > 0 or usage.output_tokens > 0):
        return Spent(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return Spent(
        input_tokens=max(usage.input_tokens, -(-prompt_bytes // _BYTES_PER_TOKEN)),
        output_tokens=max(usage.output_tokens, max_output_tokens),
        estimated=True,
    )


# --- its calls -----------------------------------------------------------------------------------


def _found(
    reply: WireReply, choice: Choice, profile: Profile, finish: Outcome, *, strict: bool
) -> _Found:
    parts = tuple(_parts(choice))
    _no_foreign_call(parts)
    native_word = choice.finish.native if choice.finish is not None else None
    if native_word in _BROKEN_CALLS:
        raise _Rejected("malformed_call", "the provider says that the call is malformed")
    content = "".join(
        part.content for part in parts if isinstance(part, Text | Refusal) and part.content
    )
    calls = tuple(part for part in parts if isinstance(part, ToolCall))
    if calls:
        _whole(finish)
        return _native(reply, choice, content, calls, profile, strict=strict)
    if profile.syntax != "native":
        return _in_text(content, profile.syntax, finish, strict=strict)
    found = None if strict else _elsewhere(content, finish, tuple(SYNTAXES))
    if found is None and finish == "tool_calls":
        raise _Rejected("missing_call", "the reply ends with a call that is not there")
    return found or _Found(content=content, carried=_carried(choice))


def _no_foreign_call(parts: tuple[Part, ...]) -> None:
    for part in parts:
        if isinstance(part, ToolCall) and part.kind != "function":
            raise _Rejected("custom_tool_call", "no contract offers a custom tool")
        if isinstance(part, ProviderItem) and is_foreign_call(part.item_type):
            raise _Rejected("foreign_call", f"no contract offers {_plain(part.item_type)[:80]}")


def _whole(finish: Outcome) -> None:
    """A call of a reply that was cut short is not what the model meant to say."""
    if finish == "length":
        raise _Rejected("truncated_call", "the reply was cut off at its token limit")
    if finish == "content_filter":
        raise _Rejected("filtered_call", "the provider's filter cut the reply off")


def _native(
    reply: WireReply,
    choice: Choice,
    content: str,
    calls: tuple[ToolCall, ...],
    profile: Profile,
    *,
    strict: bool,
) -> _Found:
    recovered = None
    if profile.syntax != "native":
        if strict:
            raise _Rejected("native_call", "this profile writes its calls into the text")
        recovered = "native_call"
    if names_a_field_twice(*reply.documents):
        raise _Rejected("duplicate_key", "the reply names a field twice")
    read_calls = []
    for call in calls:
        one, mended = _arguments(call, strict=strict)
        read_calls.append(one)
        recovered = recovered or mended
    return _Found(
        content=content,
        calls=tuple(read_calls),
        ids=tuple(call.call_id for call in calls),
        carried=_carried(choice) if recovered is None else (),
        recovered=recovered,
    )


def _arguments(call: ToolCall, *, strict: bool) -> tuple[LocalCall, str | None]:
    text = call.arguments
    try:
        return LocalCall(name=call.name, arguments=object_of(text), raw_arguments=text), None
    except NotStrict as mistake:
        mended = None if strict else _mended(text)
        if mended is None:
            raise _Rejected(f"arguments_{mistake.code}", mistake.reason) from None
    code, start = mended
    try:
        fields, end = members(text, start)
    except NotStrict as mistake:
        raise _Rejected(f"arguments_{mistake.code}", mistake.reason) from None
    values = {name: member.value for name, member in fields.items()}
    return LocalCall(name=call.name, arguments=values, raw_arguments=text[start:end].strip()), code


def _mended(text: str) -> tuple[str, int] | None:
    """Where the object begins in a text that is one with something around it."""
    for fence in ("```json", "```"):
        if text.lstrip().startswith(fence):
            return "fenced_arguments", text.index(fence) + len(fence)
    return ("trailing_text", 0) if text.lstrip().startswith("{") else None


# --- calls in the text ---------------------------------------------------------------------------


def _in_text(content: str, syntax: TextSyntax, finish: Outcome, *, strict: bool) -> _Found:
    reading = read(content, syntax)
    if reading.problem is not None:
        _whole(finish)
        if strict or not (reading.mendable and reading.calls):
            raise _Rejected(reading.problem, reading.detail)
        return _Found(content=reading.text, calls=reading.calls, recovered=reading.problem)
    if reading.calls:
        _whole(finish)
        return _Found(content=reading.text, calls=reading.calls)
    others = tuple(other for other in SYNTAXES if other != syntax)
    found = None if strict else _elsewhere(content, finish, others)
    return found or _Found(content=content)


def _elsewhere(content: str, finish: Outcome, syntaxes: tuple[TextSyntax, ...]) -> _Found | None:
    """A whole call in a syntax that nobody asked for; half of one is just text."""
    if finish in ("length", "content_filter"):
        return None
    for syntax in syntaxes:
        reading: Reading = read(content, syntax)
        if reading.calls and (reading.problem is None or reading.mendable):
            return _Found(content=reading.text, calls=reading.calls, recovered=f"call_as_{syntax}")
    return None


# --- the canonical message -----------------------------------------------------------------------


def _message(found: _Found, ids: DerivedIds, model: str) -> AgentMessage:
    given = found.ids or tuple(ids.new("call_") for _ in found.calls)
    return AgentMessage(
        role="assistant",
        content=found.content,
        tool_calls=tuple(
            _invocation(call, call_id, model)
            for call, call_id in zip(found.calls, given, strict=True)
        ),
        carried=found.carried,
    )


def _invocation(call: LocalCall, call_id: str, model: str) -> ToolInvocation:
    if TOOL_NAME.fullmatch(call.name) is None:
        raise _Rejected("malformed_name", "a call names what cannot be a tool")
    if len(call_id) > _LONGEST_ID or _plain(call_id) != call_id:
        raise _Rejected("malformed_id", "the id of a call cannot be used")
    payload: dict[str, Any] = {
        "id": call_id,
        "name": call.name,
        "arguments": call.raw_arguments,
    }
    return ToolInvocation(
        id=call_id,
        name=call.name,
        arguments=call.arguments,
        source_model=model,
        raw_payload=payload,
        raw_arguments=call.raw_arguments,
    )


def _carried(choice: Choice) -> tuple[Message, ...]:
    """Without their wire objects: unary and streamed, the next request is the same."""
    return tuple(bare(message) for message in choice.messages)


def _parts(choice: Choice) -> Iterator[Part]:
    for message in choice.messages:
        yield from message.parts


def _plain(text: str) -> str:
    """Text that UTF-8 can write: names go into hashes."""
    return text.encode("utf-8", "replace").decode("utf-8")
