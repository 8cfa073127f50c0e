"""URP events -> the events of a Responses stream and the object that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from monoize.protocol import Reply
from monoize.protocols.responses.call_writer import CallWriter
from monoize.protocols.responses.output import Output, Owner
from monoize.protocols.responses.skeleton import skeleton
from monoize.protocols.responses.tools import as_declared, called_tools
from monoize.protocols.responses.usage import encode_status, encode_usage
from monoize.protocols.responses.vocabulary import DIALECT, FAILURE_CODES, SERVICE_TIERS
from monoize.protocols.responses.writers import (
    EncryptedWriter,
    ImageWriter,
    LostWriter,
    NativeWriter,
    PartWriter,
    ReasoningWriter,
    RefusalWriter,
    TextWriter,
)
from monoize.urp import (
    Audio,
    Delta,
    Error,
    File,
    Image,
    Part,
    PartDone,
    PartStart,
    ProviderEvent,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    ResponseDone,
    ResponseStart,
    Text,
    ToolCall,
    ToolResult,
    UrpStreamEvent,
)

__all__ = ["Composer"]

_TERMINAL = {"completed": "completed", "failed": "failed"}


class Composer:
    """One reply. Events go in by method; `drain` gives what is to be sent, `response` the object so far."""

    def __init__(self, reply: Reply) -> None:
        self.response: dict[str, Any] = {}
        self._reply = reply
        self._output = Output(reply)
        self._declared = called_tools(reply.request.tools or ())
        self._writers: dict[int, PartWriter] = {}
        self._ended = False

    def drain(self) -> list[dict[str, Any]]:
        return self._output.drain()

    def start(self, event: ResponseStart) -> None:
        if self.response:
            return  # one response.created (T5)
        self._output.native = event.origin == DIALECT
        self.response = skeleton(self._reply, event)
        self._output.emit("response.created", response=self.response)
        self._output.emit("response.in_progress", response=self.response)

    def follow(self, events: Iterable[UrpStreamEvent]) -> None:
        """The provider's own event goes out: remember who speaks and count, in case the stream breaks off."""
        for event in events:
            if isinstance(event, ResponseStart):
                self.start(event)
        self._output.skip()

    def skip(self, events: int) -> None:
        """So many events went out that were written elsewhere."""
        for _ in range(events):
            self._output.skip()

    def part_start(self, event: PartStart) -> None:
        self._begin()
        if event.choice != 0:  # a Responses reply is one answer
            self._reply.losses.drop(f"choices[{event.choice}]")
            return
        owner = event.message_index
        if event.message is not None:
            self._output.headers[owner] = event.message
        self._writers[event.part_index] = self._writer(event.part, owner)

    def _writer(self, part: Part, owner: Owner) -> PartWriter:
        path = f"output[{owner}].{type(part).__name__.lower()}"
        match part:
            case Text():
                return TextWriter(self._output, owner, part)
            case Refusal():
                return RefusalWriter(self._output, owner, part)
            case Reasoning():
                return ReasoningWriter(self._output, owner, part)
            case ReasoningEncrypted():
                return EncryptedWriter(self._output, owner, part)
            case ToolCall():
                return CallWriter(self._output, owner, part, self._declared.get(part.name))
            case Image():
                return ImageWriter(self._output, owner, part, path)
            case ProviderItem() if part.origin_protocol == DIALECT:
                return NativeWriter(self._output, owner, part)
            case ProviderItem():
                return LostWriter(self._output, owner, f"output[{owner}].{part.item_type}")
            case Audio() | File() | ToolResult():
                return LostWriter(self._output, owner, path)
            case _:
                assert_never(part)

    def delta(self, event: Delta) -> None:
        writer = self._writers.get(event.part_index)
        if writer is not None:
            writer.delta(event.delta)

    def part_done(self, event: PartDone) -> None:
        writer = self._writers.pop(event.part_index, None)
        if writer is not None:
            writer.done()

    def whole_item(self, item: Mapping[str, Any]) -> None:
        """An item that nobody touched: written as its provider wrote it."""
        self._output.whole(as_declared(item, self._declared))

    def retire_all(self) -> None:
        self._output.retire()

    def native_event(self, event: ProviderEvent) -> None:
        """Progress of an item cannot be shown: the item itself is written when it is complete."""
        body = event.body
        if event.origin_protocol != DIALECT or not isinstance(body, Mapping):
            return
        if "output_index" not in body and "response" not in body:
            fields = {k: v for k, v in body.items() if k not in ("type", "sequence_number")}
            self._output.emit(event.event_type, **fields)

    def done(self, event: ResponseDone) -> None:
        if self._ended:
            return
        self._ended = True
        self._close()
        finish = next((end.finish for end in event.choices if end.index == 0), None)
        status, details = encode_status(finish)
        native = event.extra_body if self._output.native else {}
        self.response = {
            **self.response,
            **native,
            "status": status,
            "incomplete_details": details,
            "output": list(self._output.items),
            "usage": encode_usage(event.usage, native=self._output.native),
        }
        self._show_tier(event.service_tier)
        self._output.emit(f"response.{_TERMINAL.get(status, 'incomplete')}", response=self.response)

    def _show_tier(self, tier: str | None) -> None:
        if tier is None:
            return
        if self._output.native or tier in SERVICE_TIERS:
            self.response["service_tier"] = tier
        else:
            self._reply.losses.drop("service_tier")

    def fail(self, event: Error) -> None:
        """As the vendor does it: an `error` for clients that look for one, then the failed response."""
        if self._ended:
            return
        self._ended = True
        self._begin()
        for writer in self._writers.values():
            writer.abandon()
        self._output.retire()
        code = event.code or "server_error"
        error = {
            "type": event.type or "server_error",
            "code": code,
            "message": event.message,
            "param": None,
        }
        self._output.emit("error", code=code, message=event.message, param=None, error=error)
        self.response = {
            **self.response,
            "status": "failed",
            "error": {
                "code": code if code in FAILURE_CODES else "server_error",
                "message": event.message,
            },
            "output": list(self._output.items),
        }
        self._output.emit("response.failed", response=self.response)

    def _begin(self) -> None:
        if not self.response:
            self.start(ResponseStart(id="", model=""))

    def _close(self) -> None:
        self._begin()
        for writer in self._writers.values():
            writer.done()
        self._writers = {}
        self._output.retire()
