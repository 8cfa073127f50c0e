"""Streams: Responses events -> URP events, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from typing_extensions import override

from monoize import wirejson
from monoize.clock import IdSource
from monoize.protocol import Reply
from monoize.protocols._plain_text import Cast, PlainDelta
from monoize.protocols._stream_runs import RunDecoder, RunEncoder
from monoize.protocols.responses.composer import Composer
from monoize.protocols.responses.error import stream_error
from monoize.protocols.responses.reading import ItemReader
from monoize.protocols.responses.response import RESPONSE_FIELDS, with_namespaces
from monoize.protocols.responses.tools import as_declared, called_tools
from monoize.protocols.responses.usage import decode_finish, decode_usage, seconds
from monoize.protocols.responses.vocabulary import DIALECT
from monoize.sse import SseWriter
from monoize.urp import (
    ChoiceEnd,
    Delta,
    Error,
    Frame,
    PartDone,
    PartStart,
    ProviderEvent,
    ResponseDone,
    ResponseStart,
    UrpStreamEvent,
    WireEvent,
)
from monoize.urp.extra_body import rest
from monoize.urp.mould import Path

__all__ = ["MODEL_PATHS", "ResponsesDecoder", "ResponsesEncoder"]

MODEL_PATHS = (("model",), ("response", "model"))
_PADDINGS = ("sequence_number", "obfuscation")  # of another value in every event
_NUMBER = '"sequence_number":'
_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")
_TERMINAL = ("response.completed", "response.incomplete", "response.done", "response.cancelled")


class ResponsesDecoder(RunDecoder):
    def __init__(self, ids: IdSource) -> None:
        super().__init__()
        self._items = ItemReader(ids)
        self._started = False
        self._ended = False

    @override
    def decode_in_full(self, event: WireEvent) -> Frame:
        if self._ended or event.data.strip() in ("", "[DONE]"):
            return Frame((), event)
        payload = _object(event.data)
        if payload is None:
            return Frame((), event, readable=False)
        return Frame(tuple(self._events(payload, event.name)), event)

    @override
    def finish_in_full(self) -> Frame:
        if self._ended:
            return Frame(())
        self._ended = True
        message = "the provider's stream ended before response.completed"
        return Frame((Error(message=message, code="stream_truncated"),))

    @override
    def places(self, payload: Any, earlier: Any) -> tuple[Path, Sequence[Path]] | None:
        if not str(payload.get("type")).endswith(".delta"):
            return None  # an end that says what was left out
        return ("delta",), [(key,) for key in _PADDINGS if isinstance(payload.get(key), int | str)]

    @override
    def heard(self, payload: Any, name: str | None) -> None:
        self._events(payload, name)

    def _events(self, payload: Mapping[str, Any], name: str | None) -> Iterable[UrpStreamEvent]:
        kind = payload.get("type")
        if not isinstance(kind, str):
            kind = name or ""
        if kind == "error" or (kind in ("", "message") and payload.get("error")):
            return self._fail(stream_error(payload))
        response = payload.get("response")
        return self._event(kind, payload, response if isinstance(response, dict) else {})

    def _event(
        self, kind: str, payload: Mapping[str, Any], response: Mapping[str, Any]
    ) -> Iterable[UrpStreamEvent]:
        if kind in _BEGINNINGS:
            return self._start(response)
        if kind == "response.failed":
            return self._fail(stream_error(response))
        if kind in _TERMINAL:
            return self._finish(response)
        events = self._items.event(kind, payload)
        if events is None:
            return [_native(kind, payload)]
        return [*self._start({}), *events] if events else []

    def _start(self, response: Mapping[str, Any]) -> list[UrpStreamEvent]:
        if self._started:
            return []
        self._started = True
        id_, model = response.get("id"), response.get("model")
        return [
            ResponseStart(
                id=id_ if isinstance(id_, str) else "",
                model=model if isinstance(model, str) else "",
                created=seconds(response.get("created_at")),
                origin=DIALECT,
                extra_body=rest(response, RESPONSE_FIELDS),
            )
        ]

    def _finish(self, response: Mapping[str, Any]) -> list[UrpStreamEvent]:
        self._ended = True
        output = response.get("output")
        events = [*self._start(response), *self._items.close(output)]
        tier = response.get("service_tier")
        end = ChoiceEnd(finish=decode_finish(response, has_calls=self._items.has_calls))
        done = ResponseDone(
            choices=(end,),
            usage=decode_usage(response.get("usage")),
            service_tier=tier if isinstance(tier, str) else None,
            extra_body=rest(response, RESPONSE_FIELDS),
        )
        return [*events, done]

    def _fail(self, error: Error) -> list[UrpStreamEvent]:
        """OpenAI says it twice, as `error` and as `response.failed`: the first counts."""
        self._ended = True
        return [error]


def _object(data: str) -> dict[str, Any] | None:
    try:
        payload = wirejson.loads(data)
    except wirejson.JsonError:
        return None
    return payload if isinstance(payload, dict) else None


def _native(kind: str, body: Any) -> ProviderEvent:
    return ProviderEvent(origin_protocol=DIALECT, event_type=kind, body=body)


class ResponsesEncoder(RunEncoder):
    def __init__(self, reply: Reply) -> None:
        super().__init__(reply, MODEL_PATHS)
        self._composer = Composer(reply)
        declared = called_tools(reply.request.tools or ())
        self._declared = declared if any(tool.namespace for tool in declared.values()) else {}
        self._number = 0  # of the last event that was written the short way
        self._around_number = ("", "")

    @override
    def replay(self, frame: Frame) -> list[WireEvent]:
        self._composer.follow(frame.events)
        return [] if frame.wire is None else [self.replayed(frame.wire)]

    @override
    def replayed(self, wire: WireEvent) -> WireEvent:
        named = super().replayed(wire)
        return self._with_namespaces(named) if self._declared else named

    def _with_namespaces(self, event: WireEvent) -> WireEvent:
        """The provider's own event, with the namespace of the tool that it calls."""
        if '_call"' not in event.data:
            return event
        payload = _object(event.data) or {}
        changed = dict(payload)
        if "item" in payload:
            changed["item"] = as_declared(payload["item"], self._declared)
        if isinstance(payload.get("response"), dict):
            changed["response"] = with_namespaces(payload["response"], self.reply)
        if changed == payload:
            return event
        return WireEvent(wirejson.dumps(changed).decode(), event.name)

    @override
    def passed(self, events: int) -> None:
        self._composer.skip(events)

    @override
    def wrote(self, delta: Delta, events: int) -> None:
        self._composer.delta(delta)
        self._composer.drain()
        self._composer.skip(events - 1)

    @override
    def cast(self, wire: WireEvent, plain: PlainDelta) -> Cast | None:
        cast = super().cast(wire, plain)
        if cast is not None:
            head, mark, tail = cast.before.partition(_NUMBER)
            number, comma, place = tail.partition(",")
            self._number, self._around_number = int(number), (head + mark, comma + place)
        return cast

    @override
    def before(self, cast: Cast) -> str:
        self._number += 1
        head, tail = self._around_number
        return f"{head}{self._number}{tail}"

    @override
    def cast_run(self, cast: Cast, words: list[bytes], writer: SseWriter) -> bytes:
        head, tail = writer.around(cast.name)
        tail = cast.after.encode() + tail
        return b"".join([head + self.before(cast).encode() + each + tail for each in words])

    @override
    def event(self, event: UrpStreamEvent) -> list[WireEvent]:
        self.catch_up()
        composer = self._composer
        match event:
            case ResponseStart():
                composer.start(event)
            case PartStart():
                composer.part_start(event)
            case Delta():
                composer.delta(event)
            case PartDone():
                composer.part_done(event)
            case ResponseDone():
                composer.done(event)
            case Error():
                composer.fail(event)
            case ProviderEvent():
                composer.native_event(event)
            case _:
                assert_never(event)
        return [
            WireEvent(wirejson.dumps(payload).decode(), payload["type"])
            for payload in composer.drain()
        ]
