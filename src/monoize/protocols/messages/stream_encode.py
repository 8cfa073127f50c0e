"""URP events -> the vendor's events: one block open at a time, contiguous indices, no empty blocks (T3, T4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.protocol import Json, Reply
from monoize.protocols import _extras
from monoize.protocols._custom_tools import as_function_arguments
from monoize.protocols._serial import OneAtATime
from monoize.protocols._stream_runs import RunEncoder
from monoize.protocols.messages.calls import input_of
from monoize.protocols.messages.dialect import DIALECT, MODEL_PATHS
from monoize.protocols.messages.error import type_of_status
from monoize.protocols.messages.reply_blocks import (
    call_block,
    reply_blocks,
    seal_before,
    seals_after,
    shown,
    signature_of,
    text_block,
)
from monoize.protocols.messages.response import stop_reason_of
from monoize.protocols.messages.usage import delta_usage, wire_usage
from monoize.urp import (
    ArgumentsDelta,
    Citation,
    CitationDelta,
    Delta,
    EncryptedDelta,
    Error,
    Frame,
    MediaDelta,
    Part,
    PartDelta,
    PartDone,
    PartStart,
    ProviderEvent,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    UrpStreamEvent,
    Usage,
    WireEvent,
)
from monoize.urp.extra_body import flattened

__all__ = ["MessagesStreamEncoder"]

_STOP = WireEvent('{"type":"message_stop"}', "message_stop")
# Further fields of the last delta; others stand beside it in the event.
_DELTA_FIELDS = ("container", "stop_details")


class _Writing(msgspec.Struct):
    """The part that is being written, and what its end needs."""

    part: Part
    open: bool = False  # its block has been started
    pieces: list[str] = []  # what was written, for a carrier
    held: list[str] = []  # arguments that are no JSON object from their first letter on
    holding: bool = False
    early: list[Json] = []  # citations before the first word: a block for them alone would be empty


class MessagesStreamEncoder(RunEncoder):
    def __init__(self, reply: Reply) -> None:
        super().__init__(reply, MODEL_PATHS)
        self._serial = OneAtATime()
        self._hidden: set[int] = set()  # parts of further choices: this protocol has one
        self._now: _Writing | None = None
        self._index = 0  # of the next block
        self._started = False
        self._over = False
        self._same = False
        self._usage: Usage | None = None  # what the start said, in case the end says nothing
        self._calls = False
        self._refused = False

    @override
    def replay(self, frame: Frame) -> list[WireEvent]:
        """As it came, but for the marker of another protocol that some routers add (T10)."""
        if frame.wire is not None and frame.wire.data.strip() == "[DONE]":
            return []
        return super().replay(frame)

    @override
    def wrote(self, delta: Delta, events: int) -> None:
        if self._now is not None:
            for _ in self._add(self._now, delta.delta):
                pass

    @override
    def event(self, event: UrpStreamEvent) -> Iterable[WireEvent]:
        self.catch_up()
        if isinstance(event, PartStart) and event.choice != 0:
            self._hidden.add(event.part_index)
            self.reply.losses.drop(f"choices[{event.choice}]")
        if self._over or getattr(event, "part_index", None) in self._hidden:
            return []
        if self.reply.replays and not isinstance(event, Error):
            # The provider's own events have said the rest; without its last word, that is ours to say.
            return [_STOP] if isinstance(event, ResponseDone) else []
        return [
            WireEvent(wirejson.dumps(wire).decode(), wire["type"])
            for ordered in self._serial.feed(event)
            for wire in self._write(ordered)
        ]

    def _write(self, event: UrpStreamEvent) -> Iterator[Json]:
        if not isinstance(event, ResponseStart | Error | ProviderEvent):
            yield from self._begin(ResponseStart(id="", model=""))
        match event:
            case ResponseStart():
                yield from self._begin(event)
            case PartStart():
                yield from self._open_part(event.part)
            case Delta():
                if self._now is not None:
                    yield from self._add(self._now, event.delta)
            case PartDone():
                if self._now is not None:
                    yield from self._close_part(self._now)
                self._now = None
            case ResponseDone():
                yield from self._end(event)
            case Error():
                self._over = True
                yield _error(event)
            case ProviderEvent():
                if event.origin_protocol == DIALECT and isinstance(event.body, dict) and self._same:
                    yield {**event.body, "type": event.event_type}
            case _:
                assert_never(event)

    def _begin(self, start: ResponseStart) -> Iterator[Json]:
        if self._started:
            return
        self._started = True
        self._same = start.origin == DIALECT
        self._usage = start.usage
        message: Json = {
            "id": start.id or self.reply.ids.new("msg_"),
            "type": "message",
            "role": "assistant",
            "model": self.reply.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": wire_usage(start.usage, same=self._same),
        }
        flattened(message, _extras.of_reply(start, same=self._same))
        yield {"type": "message_start", "message": message}

    # --- parts ---

    def _open_part(self, part: Part) -> Iterator[Json]:
        self._now = now = _Writing(part)
        match part:
            case Text() | Refusal():
                self._refused = self._refused or isinstance(part, Refusal)
                if part.content:
                    yield from self._grow_text(now, part.content)
                for citation in part.citations if isinstance(part, Text) else ():
                    yield from self._cite(now, citation)
            case Reasoning():
                if part.content:
                    yield from self._grow_thinking(now, part.content)
            case ToolCall():
                self._calls = True
                for carrier in seal_before(part):
                    yield from self._whole(carrier)
                yield from self._start_block(now, call_block(part, same=self._same))
                now.part = msgspec.structs.replace(part, seal=None, arguments="")
                if part.arguments:
                    yield from self._grow_arguments(now, part.arguments)
            case _:
                pass  # written whole when it is complete

    def _add(self, now: _Writing, delta: PartDelta) -> Iterator[Json]:
        match delta:
            case TextDelta() | RefusalDelta():
                if isinstance(delta, TextDelta) and delta.logprobs:
                    self.reply.losses.drop("reply.logprobs")
                yield from self._grow_text(now, delta.content)
            case ReasoningDelta():
                yield from self._grow_thinking(now, delta.content)
            case ArgumentsDelta():
                yield from self._grow_arguments(now, delta.arguments)
            case CitationDelta():
                yield from self._cite(now, delta.citation)
            case SealDelta():
                if isinstance(now.part, Text | Reasoning | ToolCall):
                    now.part = msgspec.structs.replace(now.part, seal=delta.seal, source=None)
            case EncryptedDelta():
                if isinstance(now.part, ReasoningEncrypted):
                    now.part = msgspec.structs.replace(now.part, data=delta.data, source=None)
            case MediaDelta():
                pass  # a reply of this protocol holds no media: reported when the part ends
            case _:
                assert_never(delta)

    def _cite(self, now: _Writing, citation: Citation) -> Iterator[Json]:
        wire = shown(citation, self.reply.losses)
        if wire is None:
            return
        cited: Json = {"type": "citations_delta", "citation": wire}
        if now.open:
            yield self._delta(cited)
        else:
            now.early.append(cited)

    def _grow_text(self, now: _Writing, text: str) -> Iterator[Json]:
        if text and isinstance(now.part, Text | Refusal):
            yield from self._start_block(now, text_block(""))
            yield from map(self._delta, now.early)
            now.early = []
            now.pieces = [text]  # only whether there was any
            yield self._delta({"type": "text_delta", "text": text})

    def _grow_thinking(self, now: _Writing, text: str) -> Iterator[Json]:
        if text and isinstance(now.part, Reasoning):
            yield from self._start_block(now, _empty_thinking())
            now.pieces.append(text)
            yield self._delta({"type": "thinking_delta", "thinking": text})

    def _grow_arguments(self, now: _Writing, piece: str) -> Iterator[Json]:
        """An object is passed on as it comes; anything else waits until it is known whole (T24)."""
        if not isinstance(now.part, ToolCall) or not piece:
            return
        if not now.pieces and not now.held:
            if now.part.kind == "function" and not piece.strip():
                return  # only blanks so far
            now.holding = now.part.kind == "custom" or not piece.lstrip().startswith("{")
        if now.holding:
            now.held.append(piece)
            return
        now.pieces = [piece]
        yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def _close_part(self, now: _Writing) -> Iterator[Json]:
        match now.part:
            case Text():
                if now.early:
                    self.reply.losses.drop("reply.citations")
                yield from self._stop_block(now)
                content = "".join(now.pieces)
                sealed = msgspec.structs.replace(now.part, content=content)
                for carrier in seals_after(sealed):
                    yield from self._whole(carrier)
            case Refusal():
                yield from self._stop_block(now)
            case Reasoning():
                yield from self._close_thinking(now, now.part)
            case ToolCall():
                yield from self._close_call(now, now.part)
            case _:
                for block in reply_blocks(now.part, self.reply.losses, same=self._same):
                    yield from self._whole(block)

    def _close_thinking(self, now: _Writing, part: Reasoning) -> Iterator[Json]:
        if not now.open and part.seal is None:
            return
        yield from self._start_block(now, _empty_thinking())
        whole = msgspec.structs.replace(part, content="".join(now.pieces))
        yield self._delta({"type": "signature_delta", "signature": signature_of(whole)})
        yield from self._stop_block(now)

    def _close_call(self, now: _Writing, part: ToolCall) -> Iterator[Json]:
        if now.held or part.kind == "custom":  # a custom tool's empty text is its input too
            call = msgspec.structs.replace(part, arguments="".join(now.held))
            arguments = wirejson.dumps(input_of(as_function_arguments(call))).decode()
            yield self._delta({"type": "input_json_delta", "partial_json": arguments})
        yield from self._stop_block(now)
        for carrier in seal_before(part):  # a seal that came late; its id says whose it is
            yield from self._whole(carrier)

    # --- blocks ---

    def _start_block(self, now: _Writing, block: Json) -> Iterator[Json]:
        if not now.open:
            now.open = True
            yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stop_block(self, now: _Writing) -> Iterator[Json]:
        if now.open:
            yield {"type": "content_block_stop", "index": self._index}
            self._index += 1

    def _whole(self, block: Json) -> Iterator[Json]:
        """A block that is complete at once; a server tool's input comes as a delta, where clients look for it."""
        given = block.get("input")
        start = {**block, "input": {}} if isinstance(given, dict) else block
        yield {"type": "content_block_start", "index": self._index, "content_block": start}
        if given and isinstance(given, dict):
            text = wirejson.dumps(given).decode()
            yield self._delta({"type": "input_json_delta", "partial_json": text})
        yield {"type": "content_block_stop", "index": self._index}
        self._index += 1

    def _end(self, done: ResponseDone) -> Iterator[Json]:
        self._over = True
        finish = next((end.finish for end in done.choices if end.index == 0), None)
        delta: Json = {
            "stop_reason": stop_reason_of(finish, calls=self._calls, refused=self._refused),
            "stop_sequence": finish.stop_sequence if finish is not None else None,
        }
        ended: Json = {"type": "message_delta", "delta": delta}
        ended["usage"] = delta_usage(done.usage or self._usage, same=self._same)
        for key, value in done.extra_body.items() if self._same else ():
            (delta if key in _DELTA_FIELDS else ended).setdefault(key, value)
        yield ended
        yield {"type": "message_stop"}


def _empty_thinking() -> Json:
    return {"type": "thinking", "thinking": "", "signature": ""}


def _error(event: Error) -> Json:
    kind = type_of_status(event.status) if event.status else event.type or "api_error"
    return {"type": "error", "error": {"type": kind, "message": event.message}}
