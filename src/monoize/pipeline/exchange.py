"""One HTTP exchange with one channel: its address and secrets, its time-outs, and its own no."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal

import msgspec

from monoize import wirejson
from monoize.errors import ProviderError, UpstreamError, UpstreamUnreadable
from monoize.pipeline.call import Trace
from monoize.pipeline.kit import Kit
from monoize.routing.catalog import Candidate
from monoize.routing.verdict import failure, retry_after
from monoize.upstream.client import Streamed, UpstreamCall, UpstreamReply

__all__ = ["Exchange"]

_FIRST_FAILURE = 300
_SECONDS_TO_EXPLAIN = 10.0  # for the body of an error: somebody else may be waiting to try

ReadsError = Callable[[int, Any], ProviderError]  # status and body -> what the provider means


class Exchange:
    """Owns the reply from `send` to `close`."""

    def __init__(self, candidate: Candidate, kit: Kit, trace: Trace) -> None:
        self.line = kit.line(candidate)
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
    ) -> UpstreamReply:
        """`headers`: all of them, the channel's own too (see `Line`).

        Raises UpstreamRefused for the provider's own no, UpstreamFailed for what may work elsewhere.
        """
        self.trace.attempts += 1
        started = self.kit.clock.monotonic()
        try:
            client = self.kit.engines if self.line.is_local else self.kit.client
            self.reply = await client.send(self._call(path, body, headers, method))
            if self.reply.status >= _FIRST_FAILURE:
                await self._refuse(self.reply, reads_error)
        finally:
            self.trace.upstream_seconds += self.kit.clock.monotonic() - started
        return self.reply

    async def close(self) -> None:
        if self.reply is not None:
            await self.reply.close()

    async def read(self) -> bytes:
        """The whole reply, without our secrets: some providers repeat the key that they were sent (D18)."""
        if self.reply is None:
            raise UpstreamUnreadable("nothing was sent yet")
        started = self.kit.clock.monotonic()
        try:
            raw = await self.reply.read(self.kit.limits.reply_bytes)
        finally:
            self.trace.upstream_seconds += self.kit.clock.monotonic() - started
            await self.close()
        return self.line.discretion().whole(raw)

    async def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        """The same as it comes; some may be empty, one at least for every `beat` seconds of silence."""
        if self.reply is None:
            raise UpstreamUnreadable("nothing was sent yet")
        discretion = self.line.discretion()
        async for chunk in self.reply.chunks(beat):
            yield discretion.feed(chunk)
        yield discretion.close()

    def _call(
        self,
        path: str,
        body: bytes | Streamed,
        headers: Mapping[str, str],
        method: Literal["POST", "GET"],
    ) -> UpstreamCall:
        line = self.line
        return UpstreamCall(
            url=line.url(path),
            headers=headers,
            body=body,
            method=method,
            proxy=line.channel.proxy,
            first_byte_seconds=line.first_byte_seconds,
            idle_seconds=line.idle_seconds,
        )

    async def _refuse(self, reply: UpstreamReply, reads_error: ReadsError) -> None:
        try:
            async with asyncio.timeout(_SECONDS_TO_EXPLAIN):
                body = await reply.read(self.kit.limits.reply_bytes)
        except (UpstreamError, TimeoutError):  # its status says enough
            body = b""
        finally:
            await reply.close()
        error = reads_error(reply.status, _json_or_text(self.line.discretion().whole(body)))
        pause = retry_after(reply.headers, self.kit.clock.now())
        if pause is not None:
            details = {**(error.details or {}), "retry_after": pause}
            error = msgspec.structs.replace(error, details=details)
        raise failure(error, reply.status)


def _json_or_text(body: bytes) -> Any:
    try:
        return wirejson.loads(body)
    except wirejson.JsonError:
        return body.decode("utf-8", "replace")
