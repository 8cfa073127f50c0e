"""A session that a provider holds: its events and the caller's, passed on in order, each at the other's pace."""

from __future__ import annotations

import asyncio
import logging

from monoize import wirejson
from monoize.clock import IdSource
from monoize.errors import MonoizeError, UpstreamError, UpstreamFailed
from monoize.realtime.frames import too_big
from monoize.realtime.gauge import Gauge
from monoize.realtime.mistake import Mistake, Trouble, trouble_of
from monoize.realtime.parting import INTERNAL, NORMAL, POLICY, Parting, first_of, sendable
from monoize.realtime.passing import Passing
from monoize.realtime.ports import Gone, Line
from monoize.realtime.turns import Turns
from monoize.settings.realtime import RealtimeSettings
from monoize.upstream.websocket import Closed, Frame, UpstreamSocket

__all__ = ["Proxied"]

log = logging.getLogger("monoize.realtime")

_DIED = 1006


class Proxied:
    """One session. Nothing is queued here: a message is taken when the one before it has been sent."""

    def __init__(
        self,
        line: Line,
        upstream: UpstreamSocket,
        passing: Passing,
        turns: Turns,
        gauge: Gauge,
        settings: RealtimeSettings,
        ids: IdSource,
    ) -> None:
        self._line = line
        self._upstream = upstream
        self._passing = passing
        self._turns = turns
        self._gauge = gauge
        self._settings = settings
        self._ids = ids
        self._to_blame: MonoizeError | None = None  # of the provider

    async def run(self, first: Frame) -> Parting:
        """`first`: what the provider has said already. Until either side ends it; then the other is told."""
        parting = Parting(code=NORMAL)  # also when somebody else ends it
        try:
            parting = await first_of(
                {"what the provider says": self._down(first), "what the caller says": self._up()},
                self._failed,
            )
            return parting
        finally:
            await self._turns.close(self._to_blame)
            await self._upstream.close(sendable(parting.code), "")

    # --- provider -> caller ---

    async def _down(self, first: Frame) -> Parting:
        frame: Frame | Closed = first
        while not isinstance(frame, Closed):
            await self._pass_down(frame)
            frame = await self._upstream.receive()
        return self._told(frame)

    async def _pass_down(self, frame: Frame) -> None:
        if isinstance(frame, bytes):
            await self._send(frame)
            return
        seen = self._passing.seen(frame)
        if seen.size:
            self._gauge.provider_said(seen.response_id, seen.type, seen.size)
        elif seen.type == "response.created":
            await self._turns.began(str(seen.whole_response().get("id")))
        elif seen.type == "response.done":
            await self._turns.ended(seen.whole_response())
            await self._send(self._passing.to_caller(frame))
            await self._turns.renew()
            return
        await self._send(self._passing.to_caller(frame))

    async def _send(self, frame: Frame) -> None:
        async with asyncio.timeout(self._settings.stall_seconds):
            await self._line.send(frame)

    def _told(self, closed: Closed) -> Parting:
        """The end is never kept from the caller: it would wait for ever (T47)."""
        died = closed.code == _DIED
        said = f": {closed.reason}" if closed.reason else ""
        error = UpstreamFailed(
            f"the provider's session broke off{said}"
            if died
            else f"the provider closed the session with code {closed.code}{said}",
            code="upstream_died" if died else "upstream_closed",
        )
        self._to_blame = error
        return Parting.of(error, sendable(closed.code))

    # --- caller -> provider ---

    async def _up(self) -> Parting:
        while True:
            frame = await self._line.receive()
            if isinstance(frame, Gone):
                return Parting(code=sendable(frame.code) if frame.code != _DIED else NORMAL)
            if len(frame) > self._settings.frame_bytes:
                return too_big(self._settings.frame_bytes)
            await self._turns.ready()
            await self._pass_up(frame)

    async def _pass_up(self, frame: Frame) -> None:
        if isinstance(frame, str):
            seen = self._passing.seen(frame)
            self._gauge.caller_sent(seen.type, len(frame))
            try:
                frame = self._passing.to_provider(frame)
            except Mistake as mistake:
                await self._send(self._refusal(mistake))
                return
        await self._upstream.send(frame)

    def _refusal(self, mistake: Mistake) -> str:
        error = {
            **Trouble(
                message=mistake.message,
                code=mistake.code,
                type="invalid_request_error",
                param=mistake.param,
            ).wire(),
            "event_id": None,
        }
        event = {"type": "error", "event_id": self._ids.new("event_"), "error": error}
        return wirejson.dumps(event).decode()

    # --- what may go wrong ---

    def _failed(self, name: str, error: BaseException) -> Parting:
        match error:
            case UpstreamError():  # it took no more: its own last words are lost
                self._to_blame = error
                return Parting.of(error, INTERNAL)
            case MonoizeError():  # the next turn was refused
                return Parting(code=POLICY, reason=error.error_code, trouble=trouble_of(error))
            case TimeoutError():
                return Parting(code=POLICY, reason="the caller takes nothing any more")
            case OSError():
                return Parting(code=NORMAL)
            case _:
                log.error("%s could not be passed on: a defect", name, exc_info=error)
                broken = Trouble(message="internal error", code="internal_error")
                return Parting(code=INTERNAL, reason="internal error", trouble=broken)
