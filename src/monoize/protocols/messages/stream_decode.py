"""The vendor's events -> frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.clock import IdSource
from monoize.protocol import Json
from monoize.protocols._stream_runs import RunDecoder
from monoize.protocols.messages.blocks import part_of, provider_item
from monoize.protocols.messages.citations import citation_of
from monoize.protocols.messages.dialect import DIALECT
from monoize.protocols.messages.error import STATUS_OF_TYPE, decode_error
from monoize.protocols.messages.response import REPLY_FIELDS, finish_of, reply_id
from monoize.protocols.messages.usage import tier_of, usage_of
from monoize.urp import (
    ArgumentsDelta,
    ChoiceEnd,
    CitationDelta,
    Delta,
    Error,
    Frame,
    Message,
    Part,
    PartDelta,
    PartDone,
    PartStart,
    ProviderEvent,
    ProviderItem,
    Reasoning,
    ReasoningDelta,
    ResponseDone,
    ResponseStart,
    Role,
    Seal,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    UrpStreamEvent,
    WireEvent,
    replace,
)
from monoize.urp.extra_body import rest
from monoize.urp.mould import Path

__all__ = ["MessagesStreamDecoder"]


# What compatible servers leave out at the start of a block, because it is still empty.
_EMPTY_BLOCKS: Mapping[str, Json] = {"text": {"text": ""}, "thinking": {"thinking": ""}}

# A keep-alive of no words, and the marker of another protocol that some routers add.
_NOTHING_SAID = ("", "[DONE]")


class _Open(msgspec.Struct):
    """A block between its start and its stop."""

    part_index: int
    part: Part
    block: Json
    input: list[str]  # pieces of partial_json
    signature: list[str]


class MessagesStreamDecoder(RunDecoder):
    def __init__(self, ids: IdSource) -> None:
        super().__init__()
        self._ids = ids
        self._started = False
        self._ended = False
        self._open: dict[int | None, _Open] = {}
        self._parts = 0
        self._announced = False  # the first part brings its message with it
        self._usage: Json = {}
        self._stop: Json = {}
        self._extra: Json = {}

    @override
    def decode_in_full(self, event: WireEvent) -> Frame:
        if self._ended or event.data.strip() in _NOTHING_SAID:
            return Frame((), event)
        try:
            wire = wirejson.loads(event.data)
        except wirejson.JsonError:
            wire = None
        if not isinstance(wire, dict):
            return Frame((), event, readable=False)
        bare_error = "error" if wire.get("error") else None  # as routers write it
        kind = wire.get("type") or event.name or bare_error
        return Frame(tuple(self._read(kind, wire)), event)

    @override
    def finish_in_full(self) -> Frame:
        if self._ended:
            return Frame(())
        if self._stop.get("stop_reason") is not None:  # only the closing word is missing
            return Frame(tuple(self._done()))
        self._ended = True
        problem = "the provider's stream ended before its answer was complete"
        return Frame((Error(message=problem, code="stream_truncated", type="api_error"),))

    @override
    def places(self, payload: Any, earlier: Any) -> tuple[Path, Sequence[Path]] | None:
        delta = _object(payload, "delta")
        return ("delta", "thinking" if delta.get("type") == "thinking_delta" else "text"), ()

    def _read(self, kind: Any, wire: Json) -> list[UrpStreamEvent]:
        index = wire["index"] if isinstance(wire.get("index"), int) else None
        match kind:
            case "message_start":
                return self._start(_object(wire, "message"))
            case "content_block_start":
                return self._block_start(index, _object(wire, "content_block"))
            case "content_block_delta":
                return self._block_delta(index, _object(wire, "delta"), wire)
            case "content_block_stop":
                return self._block_stop(index)
            case "message_delta":
                return self._message_delta(wire)
            case "message_stop":
                return self._done()
            case "error":
                return self._error(wire)
            case "ping":
                return []
            case _:
                return [_native(kind, wire)]

    def _start(self, message: Json) -> list[UrpStreamEvent]:
        if self._started:
            return []
        self._started = True
        self._usage = dict(_object(message, "usage"))
        model = message.get("model")
        return [
            ResponseStart(
                id=reply_id(message, self._ids),
                model=model if isinstance(model, str) else "",
                usage=usage_of(self._usage, keep_tier=True),
                origin=DIALECT,
                extra_body=rest(message, REPLY_FIELDS),
            )
        ]

    # --- blocks ---

    def _block_start(self, index: int | None, block: Json) -> list[UrpStreamEvent]:
        kind = str(block.get("type"))
        part = part_of({**_EMPTY_BLOCKS.get(kind, {}), **block}, self._ids)
        part = provider_item(block, kind) if part is None else part
        if isinstance(part, ToolCall):
            part = replace(part, arguments="")  # a start shows {} and the pieces follow
        closed = self._block_stop(index)  # of a block whose own stop got lost
        opened = _Open(self._parts, part, dict(block), [], [])
        self._open[index] = opened
        self._parts += 1
        if isinstance(part, ProviderItem):
            return closed  # a native block is known only when it is complete
        return [*closed, self._part_start(opened, part)]

    def _part_start(self, opened: _Open, part: Part) -> PartStart:
        header = None if self._announced else Message(role=Role.ASSISTANT)
        self._announced = True
        return PartStart(part_index=opened.part_index, part=part, message=header)

    def _block_delta(self, index: int | None, delta: Json, wire: Json) -> list[UrpStreamEvent]:
        before: list[UrpStreamEvent] = []
        if index not in self._open and delta.get("type") == "text_delta":
            before = self._block_start(index, {"type": "text", "text": ""})  # a start got lost
        opened = self._open.get(index)
        if opened is None:
            return [_native(delta.get("type"), wire)]
        if isinstance(opened.part, ProviderItem):
            self._grow_native(opened, delta)
            return []
        change = self._change(opened, delta)
        if change is None:
            return [*before, _native(delta.get("type"), wire)]
        return [*before, Delta(part_index=opened.part_index, delta=change)]

    def _change(self, opened: _Open, delta: Json) -> PartDelta | None:
        match opened.part, delta:
            case Text(), {"type": "text_delta", "text": str(text)}:
                return TextDelta(content=text)
            case Text(), {"type": "citations_delta", "citation": dict(citation)}:
                return CitationDelta(citation=citation_of(citation))
            case Reasoning(), {"type": "thinking_delta", "thinking": str(text)}:
                return ReasoningDelta(content=text)
            case Reasoning(), {"type": "signature_delta", "signature": str(signature)}:
                opened.signature.append(signature)
                return SealDelta(seal=Seal(protocol=DIALECT, data="".join(opened.signature)))
            case ToolCall(), {"type": "input_json_delta", "partial_json": str(piece)}:
                opened.input.append(piece)
                return ArgumentsDelta(arguments=piece)
            case _:
                return None

    def _grow_native(self, opened: _Open, delta: Json) -> None:
        if isinstance(delta.get("partial_json"), str):
            opened.input.append(delta["partial_json"])
        else:
            opened.block.update(rest(delta, ("type",)))  # compaction_delta brings whole fields

    def _block_stop(self, index: int | None) -> list[UrpStreamEvent]:
        opened = self._open.pop(index, None)
        if opened is None:
            return []
        done = PartDone(part_index=opened.part_index)
        if isinstance(opened.part, ProviderItem):
            return [self._part_start(opened, self._native_part(opened)), done]
        if isinstance(opened.part, ToolCall) and not "".join(opened.input):
            known = opened.block.get("input")
            arguments = wirejson.dumps(known if known is not None else {}).decode()
            filled = Delta(part_index=opened.part_index, delta=ArgumentsDelta(arguments=arguments))
            return [filled, done]
        return [done]

    def _native_part(self, opened: _Open) -> ProviderItem:
        typed = "".join(opened.input)
        if typed:
            try:
                opened.block["input"] = wirejson.loads(typed)
            except wirejson.JsonError:
                opened.block["input"] = {"raw_arguments": typed}
        return provider_item(opened.block, str(opened.block.get("type")))

    # --- the end ---

    def _message_delta(self, wire: Json) -> list[UrpStreamEvent]:
        delta = _object(wire, "delta")
        self._stop.update({key: value for key, value in delta.items() if value is not None})
        self._usage.update({k: v for k, v in _object(wire, "usage").items() if v is not None})
        self._extra.update(rest(delta, ("stop_reason", "stop_sequence")))
        self._extra.update(rest(wire, ("type", "delta", "usage")))
        return []

    def _done(self) -> list[UrpStreamEvent]:
        self._ended = True
        closed: list[UrpStreamEvent] = []
        for index in list(self._open):
            closed += self._block_stop(index)
        finish = finish_of(self._stop)
        ends = (ChoiceEnd(finish=finish),) if finish is not None or self._parts else ()
        return [
            *closed,
            ResponseDone(
                choices=ends,
                usage=usage_of(self._usage),
                service_tier=tier_of(self._usage),
                extra_body=self._extra,
            ),
        ]

    def _error(self, wire: Json) -> list[UrpStreamEvent]:
        """Nothing follows an error: no message_stop is to be waited for (T15)."""
        self._ended = True
        said = decode_error(0, wire)
        status = STATUS_OF_TYPE.get(said.type or "")
        message = said.message if said.message != "HTTP 0" else "the provider reported an error"
        return [Error(message=message, code=said.code, type=said.type, status=status)]


def _object(wire: Mapping[str, Any], key: str) -> Json:
    value = wire.get(key)
    return value if isinstance(value, dict) else {}


def _native(kind: Any, wire: Json) -> ProviderEvent:
    return ProviderEvent(origin_protocol=DIALECT, event_type=str(kind), body=wire)
