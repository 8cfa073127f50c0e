"""One HTTP exchange with one channel: its address and secrets, its time-outs, and its own no."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.discretion import Discretion
from monoize.errors import ProviderError, UpstreamError, UpstreamUnreadable
from monoize.pipeline.call import Trace
from monoize.pipeline.kit import Kit
from monoize.routing.catalog import Candidate
from monoize.routing.verdict import failure, retry_after
from monoize.upstream.client import Passable, Streamed, Taker, UpstreamCall, UpstreamReply

__all__ = ["Exchange"]

_FIRST_FAILURE = 300
_SECONDS_TO_EXPLAIN = 10.0  # for the body of an error: somebody else may be waiting to try

_NOT_SENT = "nothing was sent yet"

ReadsError = Callable[[int, Any], ProviderError]  # status and body -> what the provider means


class Exchange:
    """Owns the reply from `send` to `close`."""

    __slots__ = ("kit", "line", "reply", "trace")

    def __init__(self, candidate: Candidate, kit: Kit, trace: Trace) -> None:
        self.line = kit.lines.of(candidate, kit.timeouts)
        self.kit = kit
        self.trace = trace
        self.reply: UpstreamReply | None = None

    @property
    def was_sent(self) -> bool:
        return self.reply is not None

    async def send(
        self,
        path: str,
        body: bytes | Streamed,
        headers: Mapping[str, str],
        reads_error: ReadsError,
        method: Literal["POST", "GET"] = "POST",
        *,
        at_once: bool = False,
    ) -> UpstreamReply:
        """`headers`: all of them, the channel's own too (see `Line`).

        Raises UpstreamRefused for the provider's own no, UpstreamFailed for what may work elsewhere.
        """
        kit, line, trace = self.kit, self.line, self.trace
        trace.attempts += 1
        monotonic = kit.clock.monotonic
        started = monotonic()
        try:
            self.reply = reply = await (kit.engines if line.is_local else kit.client).send(
                UpstreamCall(
                    url=line.url(path),
                    headers=headers,
                    body=body,
                    method=method,
                    proxy=line.channel.proxy,
                    first_byte_seconds=line.first_byte_seconds,
                    idle_seconds=line.idle_seconds,
                    at_once=at_once,
                )
            )
            if reply.status >= _FIRST_FAILURE:
                await self._refuse(reply, reads_error)
        finally:
            trace.upstream_seconds += monotonic() - started
        return reply

    async def close(self) -> None:
        if self.reply is not None:
            await self.reply.close()

    def arrived(self) -> bytes | None:
        """`read` where nothing is to be waited for, as most replies are there with their head; None: wait for it."""
        reply = self.reply
        raw = None if reply is None else reply.arrived(self.kit.limits.reply_bytes)
        return None if raw is None else self.line.discreet(raw)

    async def read(self) -> bytes:
        """The whole reply, without our secrets: some providers repeat the key that they were sent (D18)."""
        reply, here = self.reply, self.arrived()
        if reply is None:
            raise UpstreamUnreadable(_NOT_SENT)
        if here is not None:
            return here
        started = self.kit.clock.monotonic()
        try:
            raw = await reply.read(self.kit.limits.reply_bytes)
        finally:
            self.trace.upstream_seconds += self.kit.clock.monotonic() - started
            await reply.close()
        return self.line.discreet(raw)

    def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        """The same as it comes; some may be empty, one at least for every `beat` seconds of silence."""
        if self.reply is None:
            raise UpstreamUnreadable(_NOT_SENT)
        chunks, discretion = self.reply.chunks(beat), self.line.discretion()
        if isinstance(chunks, Passable):
            return _DiscreetPassable(chunks, discretion)
        return _Discreet(chunks, discretion)

    async def _refuse(self, reply: UpstreamReply, reads_error: ReadsError) -> None:
        try:
            async with asyncio.timeout(_SECONDS_TO_EXPLAIN):
                body = await reply.read(self.kit.limits.reply_bytes)
        except (UpstreamError, TimeoutError):  # its status says enough
            body = b""
        finally:
            await reply.close()
        error = reads_error(reply.status, _json_or_text(self.line.discreet(body)))
        pause = retry_after(reply.headers, self.kit.clock.now())
        if pause is not None:
            details = {**(error.details or {}), "retry_after": pause}
            error = msgspec.structs.replace(error, details=details)
        raise failure(error, reply.status)


class _Discreet(AsyncIterator[bytes]):
    """Chunks without our secrets. Cheaper than a generator: a stream passes here once per chunk."""

    def __init__(self, chunks: AsyncIterator[bytes], discretion: Discretion) -> None:
        self._next = chunks.__anext__
        self._feed = discretion.feed
        self._close = discretion.close
        self._is_over = False

    @override
    async def __anext__(self) -> bytes:
        if self._is_over:
            raise StopAsyncIteration
        try:
            return self._feed(await self._next())
        except StopAsyncIteration:
            self._is_over = True
            rest = self._close()
            if not rest:
                raise
            return rest


class _DiscreetPassable(_Discreet, Passable):
    def __init__(self, chunks: Passable, discretion: Discretion) -> None:
        super().__init__(chunks, discretion)
        self._pass_to = chunks.pass_to
        self._guarding = discretion.guarding

    @override
    def pass_to(self, taker: Taker) -> None:
        self._pass_to(self._guarding(taker))


def _json_or_text(body: bytes) -> Any:
    try:
        return wirejson.loads(body)
    except wirejson.JsonError:
        return body.decode("utf-8", "replace")
