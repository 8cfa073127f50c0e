"""Output items while they arrive: the events of items -> parts, each thing once (T2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from monoize.clock import IdSource
from monoize.protocols.responses.arriving import (
    OpenItem,
    OpenPart,
    blank_part,
    emptied,
    whole_text,
)
from monoize.protocols.responses.content import decode_citation, decode_logprobs
from monoize.protocols.responses.items import argument_text, decode_output_item
from monoize.protocols.responses.vocabulary import CONTENT
from monoize.urp import (
    ArgumentsDelta,
    CitationDelta,
    Delta,
    Message,
    Part,
    PartDelta,
    PartDone,
    PartStart,
    ProviderItem,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    Text,
    TextDelta,
    ToolCall,
    UrpStreamEvent,
)

__all__ = ["ItemReader"]

# Events that carry a piece of a part: which list of the item it stands in, and which field counts there.
_TEXT = ("content", "content_index")
_SUMMARY = ("summary", "summary_index")
_PIECES: dict[str, tuple[tuple[str, str], Part]] = {
    "response.output_text": (_TEXT, Text(content="")),
    "response.refusal": (_TEXT, Refusal(content="")),
    "response.reasoning_text": (_TEXT, Reasoning(content="")),
    "response.reasoning_summary_text": (_SUMMARY, Reasoning(content="", kind="summary")),
}
_WHOLE = {"response.output_text": "text", "response.refusal": "refusal"}
_PARTS = {
    "response.content_part": _TEXT,
    "response.reasoning_part": _TEXT,
    "response.reasoning_summary_part": _SUMMARY,
}
_ARGUMENTS = {
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
_ANNOTATIONS = ("response.output_text.annotation.added", "response.output_text_annotation.added")


class ItemReader:
    def __init__(self, ids: IdSource) -> None:
        self.has_calls = False
        self._ids = ids
        self._items: dict[Any, OpenItem] = {}  # by output_index, or by id where there is none
        self._messages = 0
        self._parts = 0

    def event(self, kind: str, payload: Mapping[str, Any]) -> list[UrpStreamEvent] | None:
        """The events that an item's event becomes; None when only its own protocol understands it."""
        stem, _, step = kind.rpartition(".")
        if stem == "response.output_item" and isinstance(payload.get("item"), dict):
            if step == "added":
                return list(self._added(payload, payload["item"]))
            if step == "done":
                item = self._item(payload) or self._open(payload, payload["item"])
                return list(self._complete(item, payload["item"]))
        if stem in _PIECES and step in ("delta", "done"):
            return list(self._piece(payload, stem, step))
        if stem in _PARTS and step in ("added", "done"):
            return list(self._part(payload, _PARTS[stem], step))
        if stem in _ARGUMENTS and step in ("delta", "done"):
            return list(self._argument(payload, _ARGUMENTS[stem], step))
        if kind in _ANNOTATIONS:
            return list(self._annotation(payload))
        return None

    def close(self, output: Any) -> Iterator[UrpStreamEvent]:
        """The final object repeats every item: only what the stream did not show is new (T2)."""
        finals = (
            [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        )
        for position, wire in enumerate(finals):
            known = self._repeated(position, wire)
            if known is None:
                payload = {"output_index": position, "item_id": wire.get("id")}
                yield from self._complete(self._open(payload, wire), wire)
            elif not known.done:
                yield from self._complete(known, wire)
        for item in self._items.values():
            if not item.done:
                yield from self._complete(item, item.wire)

    def _repeated(self, position: int, wire: Mapping[str, Any]) -> OpenItem | None:
        same_place = self._items.get(position)
        if same_place is not None and same_place.kind == wire.get("type"):
            return same_place
        names = _names(wire)
        return next((item for item in self._items.values() if names & _names(item.wire)), None)

    # --- items ---

    def _key(self, payload: Mapping[str, Any]) -> Any:
        index = payload.get("output_index")
        if isinstance(index, int):
            return index
        item = payload.get("item")
        found = item.get("id") if isinstance(item, dict) else payload.get("item_id")
        return found if isinstance(found, str) else None

    def _item(self, payload: Mapping[str, Any]) -> OpenItem | None:
        return self._items.get(self._key(payload))

    def _open(self, payload: Mapping[str, Any], wire: Mapping[str, Any]) -> OpenItem:
        item = OpenItem(wire, self._messages)
        self._messages += 1
        self._items[self._key(payload)] = item
        return item

    def _added(
        self, payload: Mapping[str, Any], wire: Mapping[str, Any]
    ) -> Iterator[UrpStreamEvent]:
        known = self._item(payload)
        if known is not None and (not known.done or known.wire.get("id") == wire.get("id")):
            return  # announced twice
        item = self._open(payload, wire)
        if item.kind in ("function_call", "custom_tool_call"):
            yield from self._start_call(item, wire)

    def _start_call(self, item: OpenItem, wire: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        if not wire.get("name") or not wire.get("call_id"):
            return  # its name comes with its end
        message = decode_output_item(wire, self._ids)
        call = message.parts[0]
        if isinstance(call, ToolCall):
            empty = msgspec.structs.replace(call, arguments="", source=None)
            yield from self._start_part(item, ("call", 0), empty, message)

    def _complete(self, item: OpenItem, wire: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        """The item as it is at its end: say what is missing, and close it."""
        if item.done:
            return
        item.done = True
        if wire.get("type") is None and item.wire.get("type") is not None:
            wire = {**wire, "type": item.wire["type"]}
        message = decode_output_item(wire, self._ids)
        for place, part in self._places(message):
            yield from self._catch_up(item, place, part, message)
        for part_state in item.parts.values():
            yield from self._close_part(part_state)
        item.wire = wire

    @staticmethod
    def _places(message: Message) -> Iterator[tuple[tuple[str, int], Part]]:
        """Where each part of a whole item stands; a place tells whether its deltas have been seen."""
        counts: dict[str, int] = {}
        for part in message.parts:
            match part:
                case Reasoning(kind="summary"):
                    field = "summary"
                case ToolCall():
                    field = "call"
                case ReasoningEncrypted():
                    field = "encrypted"
                case ProviderItem() if not part.item_type.startswith(CONTENT):
                    field = "native"
                case _:
                    field = "content"
            counts[field] = counts.get(field, -1) + 1
            yield (field, counts[field]), part

    def _catch_up(
        self, item: OpenItem, place: tuple[str, int], part: Part, message: Message
    ) -> Iterator[UrpStreamEvent]:
        known = self._known(item, place)
        if known is None:
            part = msgspec.structs.replace(part, source=None)
            if isinstance(part, ToolCall) and not part.arguments:
                part = msgspec.structs.replace(part, arguments="".join(item.held))
            yield from self._start_part(item, place, emptied(part), message)
            known = item.parts[place]
        match part:
            case Text():
                yield from self._say(known, TextDelta(content=known.missing(part.content)))
                if part.logprobs and not known.has_logprobs:
                    yield from self._say(known, TextDelta(content="", logprobs=part.logprobs))
                for citation in part.citations[known.citations :]:
                    yield from self._say(known, CitationDelta(citation=citation))
            case Reasoning():
                yield from self._say(known, ReasoningDelta(content=known.missing(part.content)))
            case Refusal():
                yield from self._say(known, RefusalDelta(content=known.missing(part.content)))
            case ToolCall():
                missing = known.missing(part.arguments)
                yield from self._say(known, ArgumentsDelta(arguments=missing))
            case _:
                pass

    @staticmethod
    def _known(item: OpenItem, place: tuple[str, int]) -> OpenPart | None:
        """The part at a place. Some providers count content from one: then the order tells."""
        if place in item.parts:
            return item.parts[place]
        field, position = place
        same = [part for (other, _), part in item.parts.items() if other == field]
        return same[position] if position < len(same) else None

    # --- parts ---

    def _start_part(
        self, item: OpenItem, place: tuple[str, int], part: Part, message: Message
    ) -> Iterator[UrpStreamEvent]:
        header = None
        if not item.announced:
            item.announced = True
            header = msgspec.structs.replace(message, parts=(), source=None)
        self.has_calls = self.has_calls or isinstance(part, ToolCall)
        item.parts[place] = OpenPart(self._parts, part)
        yield PartStart(
            part_index=self._parts, part=part, message_index=item.message_index, message=header
        )
        self._parts += 1

    def _say(self, part: OpenPart, delta: PartDelta) -> Iterator[UrpStreamEvent]:
        if part.closed:
            return
        match delta:
            case TextDelta():
                piece = delta.content
                part.has_logprobs = part.has_logprobs or delta.logprobs is not None
                empty = not piece and delta.logprobs is None
            case ReasoningDelta() | RefusalDelta():
                piece = delta.content
                empty = not piece
            case ArgumentsDelta():
                piece = delta.arguments
                empty = not piece
            case _:
                part.citations += 1
                piece, empty = "", False
        if not empty:
            part.pieces.append(piece)
            yield Delta(part_index=part.index, delta=delta)

    def _close_part(self, part: OpenPart) -> Iterator[UrpStreamEvent]:
        if not part.closed:
            part.closed = True
            yield PartDone(part_index=part.index)

    def _place(self, payload: Mapping[str, Any], where: tuple[str, str]) -> tuple[str, int]:
        field, counter = where
        index = payload.get(counter)
        return field, index if isinstance(index, int) else 0

    def _holder(self, payload: Mapping[str, Any], part: Part) -> OpenItem:
        """The item that an event speaks of; one that was never announced is made up."""
        item = self._item(payload)
        if item is None or item.done:
            kind = "reasoning" if isinstance(part, Reasoning) else "message"
            item = self._open(payload, {"type": kind, "id": payload.get("item_id")})
        return item

    def _ensure(
        self, payload: Mapping[str, Any], where: tuple[str, str], part: Part
    ) -> tuple[OpenPart, list[UrpStreamEvent]]:
        item, place = self._holder(payload, part), self._place(payload, where)
        if place in item.parts:
            return item.parts[place], []
        lists: dict[str, Any] = {
            field: [] for field in ("content", "summary") if field in item.wire
        }
        header = decode_output_item({**item.wire, **lists}, self._ids)
        events = list(self._start_part(item, place, part, header))
        return item.parts[place], events

    def _piece(self, payload: Mapping[str, Any], stem: str, step: str) -> Iterator[UrpStreamEvent]:
        where, blank = _PIECES[stem]
        text = payload.get("delta" if step == "delta" else _WHOLE.get(stem, "text"))
        if not isinstance(text, str):
            return
        part, events = self._ensure(payload, where, blank)
        yield from events
        piece = text if step == "delta" else part.missing(text)
        match blank:
            case Text():
                logprobs = None
                if step == "delta" or not part.has_logprobs:
                    logprobs = decode_logprobs(payload.get("logprobs"))
                yield from self._say(part, TextDelta(content=piece, logprobs=logprobs))
            case Refusal():
                yield from self._say(part, RefusalDelta(content=piece))
            case _:
                yield from self._say(part, ReasoningDelta(content=piece))

    def _part(
        self, payload: Mapping[str, Any], where: tuple[str, str], step: str
    ) -> Iterator[UrpStreamEvent]:
        wire = payload.get("part")
        part = blank_part(wire if isinstance(wire, dict) else {}, in_summary=where == _SUMMARY)
        if part is None:
            return  # known in full only at the item's end
        open_part, events = self._ensure(payload, where, part)
        yield from events
        if step == "added":
            return
        whole = whole_text(wire)
        if whole:
            match open_part.part:
                case Text():
                    delta: PartDelta = TextDelta(content=open_part.missing(whole))
                case Refusal():
                    delta = RefusalDelta(content=open_part.missing(whole))
                case _:
                    delta = ReasoningDelta(content=open_part.missing(whole))
            yield from self._say(open_part, delta)
        if isinstance(wire, dict) and isinstance(open_part.part, Text):
            annotations = wire.get("annotations")
            known = annotations if isinstance(annotations, list) else []
            for found in known[open_part.citations :]:
                if isinstance(found, dict):
                    citation = decode_citation(found)
                    yield from self._say(open_part, CitationDelta(citation=citation))
        yield from self._close_part(open_part)

    def _annotation(self, payload: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        wire = payload.get("annotation")
        if not isinstance(wire, dict):
            return
        part, events = self._ensure(payload, _TEXT, Text(content=""))
        yield from events
        yield from self._say(part, CitationDelta(citation=decode_citation(wire)))

    def _argument(
        self, payload: Mapping[str, Any], field: str, step: str
    ) -> Iterator[UrpStreamEvent]:
        item = self._item(payload)
        if item is None:
            kind = "function_call" if field == "arguments" else "custom_tool_call"
            item = self._open(payload, {"type": kind, "id": payload.get("item_id")})
        text = argument_text(payload.get("delta" if step == "delta" else field))
        part = item.parts.get(("call", 0))
        if part is None:
            if step == "delta":
                item.held.append(text)
            elif text:
                item.held = [text]
            return
        piece = text if step == "delta" else part.missing(text)
        yield from self._say(part, ArgumentsDelta(arguments=piece))


def _names(wire: Mapping[str, Any]) -> set[str]:
    """By what an item is known again."""
    found = (wire.get("id"), wire.get("call_id"))
    return {name for name in found if isinstance(name, str)}
