"""POST /v1/operations: one canonical envelope in, one out, for every operation (spec 4, section 2)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET

from monoize import wirejson
from monoize.envelope import (
    CanonicalError,
    CanonicalRequestEnvelope,
    CanonicalResponseEnvelope,
    read_envelope,
)
from monoize.errors import (
    DeadlinePassed,
    InvalidRequest,
    MonoizeError,
    NoMediaStore,
    UpstreamTimeout,
)
from monoize.media.blob import Blob
from monoize.media.desk import MediaDesk
from monoize.media.owner import owner_of
from monoize.media.ref import MediaRef
from monoize.operation import Operation, Payload, UnaryOperation, operation
from monoize.operations._reading import read_payload
from monoize.operations.chat_completions import chat_wire
from monoize.pipeline.call import Answer, Body, Incoming, Trace
from monoize.pipeline.canonical import (
    backend_info,
    canonical_error,
    succeeded,
    usage_form,
    with_references,
)
from monoize.pipeline.decode import own_fields_taken
from monoize.pipeline.job import Job
from monoize.pipeline.kit import Kit
from monoize.pipeline.operate import operated
from monoize.pipeline.plan import Plan, check_model, planned, wants
from monoize.pipeline.run import run
from monoize.server.http import HttpRequest, json_answer, read_json
from monoize.server.operations import incoming_of
from monoize.server.state import State
from monoize.sse import SseParser, serialized
from monoize.urp import WireEvent

__all__ = ["envelope", "failed"]

_DEBUG_RAW = "debug_raw"  # in `extra`, for admins: the provider's own words beside ours
_INLINE_MEDIA = "inline_media"  # in `extra`: small media in the answer itself
_DONE = "[DONE]"
_OWN_EXTRAS = (_DEBUG_RAW, _INLINE_MEDIA)
_MAKES_MEDIA = ("image_generation", "text_to_speech")
_TRACE, _SPAN = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")


async def envelope(request: HttpRequest, state: State) -> Answer:
    _, wire = await read_json(request, state.kit.limits, state.kit.timeouts)
    said = wire.get("request_id")
    request_id = str(said) if isinstance(said, str | int) and said != "" else request.request_id
    try:
        return await _Handling(request, state, request_id, wire).answer(read_envelope(wire))
    except MonoizeError as error:
        named = wire.get("operation")
        return failed(error, named if isinstance(named, str) else "", request_id)


class _Handling:
    """One envelope on its way."""

    def __init__(
        self, request: HttpRequest, state: State, request_id: str, wire: Mapping[str, Any]
    ) -> None:
        self._request = request
        self._wire = wire
        self._kit: Kit = state.kit
        self._request_id = request_id
        self._owner = owner_of(request.caller)
        self._trace = Trace()

    async def answer(self, asked: CanonicalRequestEnvelope) -> Answer:
        if asked.operation == "realtime_voice":
            raise InvalidRequest(
                "realtime voice is a WebSocket: open /v1/realtime with this key", param="operation"
            )
        does = operation(asked.operation)
        incoming = incoming_of(self._request, asked.operation, asked.extra)
        model = asked.payload.get("model")
        incoming = msgspec.structs.replace(
            incoming, enveloped=True, model=model if isinstance(model, str) else None
        )
        incoming, ceiling, _ = own_fields_taken(incoming)
        extra = {k: v for k, v in incoming.wire.items() if k not in _OWN_EXTRAS}
        incoming = msgspec.structs.replace(
            incoming, wire=self._wire, headers=_traced(asked, incoming.headers)
        )
        try:
            self._check_room(asked)
            plan = self._planned(_with_extra(asked, extra), does, incoming)
            media = await self._normalised(does, plan.payload)
            blobs: dict[str, Blob] = {}
            if isinstance(does, UnaryOperation):
                blobs = {name: await self._desk.blob(self._owner, m) for name, m in media.items()}
                plan = await self._measured(does, plan, blobs)
            else:
                incoming = _as_chat(incoming, plan, media, ceiling)
        except MonoizeError as error:
            self._kit.admission.refused(incoming, error)
            raise
        if not isinstance(does, UnaryOperation):
            return await self._chatted(asked, incoming, plan)
        job = Job(
            incoming=incoming,
            operation=does,
            payload=plan.payload,
            media=blobs,
            asks=plan.asks,
            ceiling=ceiling,
        )
        return await self._operated(asked, job, plan)

    def _check_room(self, asked: CanonicalRequestEnvelope) -> None:
        """Whoever makes media needs a place for them; better said before somebody is paid."""
        if asked.operation not in _MAKES_MEDIA or self._inline_bytes(asked):
            return
        if self._kit.media is None or not self._kit.media.keeps:
            raise NoMediaStore

    def _planned(
        self, asked: CanonicalRequestEnvelope, does: Operation[Any], incoming: Incoming
    ) -> Plan:
        payload: Payload = read_payload(does.payload_type, asked.payload)
        check_model(incoming, payload.model)
        asks = wants(asked, self._kit, incoming.caller.key or "")
        degrade = asked.policy.degradation == "allow"
        return planned(does, payload, asks, self._kit, degrade=degrade)

    async def _measured(
        self, does: UnaryOperation[Any], plan: Plan, blobs: Mapping[str, Blob]
    ) -> Plan:
        """What only the media tell is held against the limits, too."""
        amounts = await does.measured(blobs)
        if not amounts:
            return plan
        asks = msgspec.structs.replace(plan.asks, amounts={**plan.asks.amounts, **amounts})
        checked = planned(does, plan.payload, asks, self._kit, degrade=False)
        return msgspec.structs.replace(checked, downgraded=plan.downgraded)

    # --- media ---

    @property
    def _desk(self) -> MediaDesk:
        if self._kit.media is None:
            raise NoMediaStore
        return self._kit.media

    async def _normalised(self, does: Operation[Any], payload: Payload) -> dict[str, MediaRef]:
        return {
            name: await self._desk.normalised(self._owner, ref, param=f"payload.{name}")
            for name, ref in does.media(payload).items()
        }

    # --- operations that are one call ---

    async def _operated(self, asked: CanonicalRequestEnvelope, job: Job, plan: Plan) -> Answer:
        until = _deadline(asked)
        started = self._kit.clock.monotonic()
        done = await operated(job, self._kit, self._trace, until=until)
        stored = with_references(
            done.made.result, self._owner, self._kit.media, inline=self._inline_bytes(asked)
        )
        try:
            async with asyncio.timeout_at(until):
                payload = await done.finished(stored)
        except TimeoutError:
            raise DeadlinePassed("the answer did not come to its end within timeout_ms") from None
        reply = succeeded(
            asked,
            self._request_id,
            payload,
            backend_info(self._trace, self._kit.clock.monotonic() - started),
            usage=usage_form(done.metered),
            downgraded=plan.downgraded,
            raw=self._raw(asked, done.made.raw),
        )
        answer = _sent(reply, HTTPStatus.OK, done.headers)
        if done.ticket.captures and isinstance(answer.body, bytes):
            done.ticket.keep(answer.body)
        return answer

    def _inline_bytes(self, asked: CanonicalRequestEnvelope) -> int:
        wanted = asked.extra.get(_INLINE_MEDIA) is True
        return self._kit.inline_bytes if wanted else 0

    def _raw(self, asked: CanonicalRequestEnvelope, raw: bytes | None) -> Any:
        """Gated: what a provider wrote may hold what the operator does not show to everybody (2.2)."""
        if raw is None or asked.extra.get(_DEBUG_RAW) is not True:
            return UNSET
        if self._request.caller.role != "admin":
            return UNSET
        return wirejson.loads(raw)

    # --- chat ---

    async def _chatted(
        self, asked: CanonicalRequestEnvelope, incoming: Incoming, plan: Plan
    ) -> Answer:
        """It goes the way of every chat, which settles it and writes the log."""
        started = self._kit.clock.monotonic()
        answer = await run(incoming, self._kit, self._trace, until=_deadline(asked))
        backend = backend_info(self._trace, self._kit.clock.monotonic() - started)
        if isinstance(answer.body, bytes):
            payload = wirejson.loads(answer.body)
            reply = succeeded(asked, self._request_id, payload, backend, downgraded=plan.downgraded)
            return _sent(reply, HTTPStatus.OK, answer.headers)
        first = succeeded(asked, self._request_id, None, backend, downgraded=plan.downgraded)
        body = _Deltas(answer.body, first, self._kit.limits.event_bytes)
        return msgspec.structs.replace(answer, body=body)


class _Deltas:
    """A chat stream inside envelopes: each chunk as `result.delta`, an error as `result.error`."""

    def __init__(self, body: Body, like: CanonicalResponseEnvelope, event_limit: int) -> None:
        self._body = body
        self._like = like
        self._parser = SseParser(event_limit)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self._body:
            events = [*self._parser.feed(chunk)]
            if not events:
                yield b": keep-alive\n\n"
            for event in events:
                yield self._wrapped(event)

    async def aclose(self) -> None:
        await self._body.aclose()

    def _wrapped(self, event: WireEvent) -> bytes:
        if event.data == _DONE:
            return serialized(event)
        wire = wirejson.loads(event.data)
        error = wire.get("error") if isinstance(wire, Mapping) else None
        result = {"delta": wire} if error is None else {"error": self._error(error)}
        envelope_ = msgspec.structs.replace(self._like, result=result)
        return serialized(WireEvent(wirejson.dumps(msgspec.to_builtins(envelope_)).decode()))

    def _error(self, told: Any) -> CanonicalError:
        """What broke off a stream that had begun is always a backend's (2.3)."""
        said = told if isinstance(told, Mapping) else {"message": told}
        return CanonicalError(
            code="Timeout" if said.get("code") == UpstreamTimeout.code else "BackendError",
            message=str(said.get("message", "")),
            operation=self._like.operation,
            retryable=True,
        )


def _with_extra(
    asked: CanonicalRequestEnvelope, extra: Mapping[str, Any]
) -> CanonicalRequestEnvelope:
    """What an envelope carries beside its fields goes where the payload's own extras go (2.1)."""
    own = asked.payload.get("extra")
    if not extra or not isinstance(own, Mapping | None):
        return asked
    payload = {**asked.payload, "extra": {**extra, **(own or {})}}
    return msgspec.structs.replace(asked, payload=payload)


def _traced(asked: CanonicalRequestEnvelope, headers: Mapping[str, str]) -> Mapping[str, str]:
    """The caller's own trace goes on, where it has the form that tracing knows."""
    trace, span = asked.meta.trace_id or "", asked.meta.span_id or ""
    if not (_TRACE.fullmatch(trace) and _SPAN.fullmatch(span)) or "traceparent" in headers:
        return headers
    return {**headers, "traceparent": f"00-{trace}-{span}-01"}


def _as_chat(
    incoming: Incoming, plan: Plan, media: Mapping[str, MediaRef], ceiling: Decimal | None
) -> Incoming:
    wire = chat_wire(plan.payload, media)
    if ceiling is not None:  # of the envelope: it was taken out of what travels
        wire["max_multiplier"] = str(ceiling)
    return msgspec.structs.replace(incoming, wire=wire, raw=wirejson.dumps(wire), asks=plan.asks)


def _deadline(asked: CanonicalRequestEnvelope) -> float | None:
    if asked.timeout_ms is None:
        return None
    return asyncio.get_running_loop().time() + asked.timeout_ms / 1000


def failed(error: MonoizeError, named: str, request_id: str) -> Answer:
    """`named`: the operation, as far as it is known."""
    body = CanonicalResponseEnvelope(
        request_id=request_id,
        operation=named,
        result={"error": canonical_error(error, named)},
    )
    return _sent(body, error.http_status, error.headers)


def _sent(reply: CanonicalResponseEnvelope, status: int, headers: Mapping[str, str]) -> Answer:
    return json_answer(msgspec.to_builtins(reply), status, headers)
