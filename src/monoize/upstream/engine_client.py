"""Local engines behind the same contract as any provider: a chat completion in, its bytes out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from typing_extensions import override

from monoize import wirejson
from monoize.engine import ChatEngine, Engine, LocalEngines
from monoize.errors import EngineError
from monoize.sse import serialized
from monoize.upstream._chunks import beating
from monoize.upstream.client import Streamed, UpstreamCall, UpstreamClient, UpstreamReply
from monoize.urp import WireEvent

__all__ = ["LOCAL_SCHEME", "EngineClient"]

LOCAL_SCHEME = "local:"  # local:<engine id>
_DONE = serialized(WireEvent("[DONE]"))


class EngineClient(UpstreamClient):
    """Engines of every kind are handed in, to be closed together; those that chat are called through it."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    @override
    async def send(self, call: UpstreamCall) -> UpstreamReply:
        engine = self._engines.get(call.url.removeprefix(LOCAL_SCHEME))
        if not isinstance(engine, ChatEngine):
            raise EngineError(f"there is no chat engine {call.url.removeprefix(LOCAL_SCHEME)!r}")
        if isinstance(call.body, Streamed):
            raise EngineError("a chat engine takes its request in one piece")
        body = wirejson.loads(call.body)
        if body.get("stream"):
            return _Stream(engine.stream(body))
        return _Whole(wirejson.dumps(await engine.chat(body)))

    @override
    async def aclose(self) -> None:
        # What was never asked for is not built to be closed.
        known = self._engines
        built = known.built if isinstance(known, LocalEngines) else known
        for engine in built.values():
            await engine.aclose()


class _Whole(UpstreamReply):
    def __init__(self, body: bytes) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = body

    @override
    async def read(self, limit: int) -> bytes:
        return self._body

    @override
    async def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        yield self._body

    @override
    async def close(self) -> None:
        return


class _Stream(UpstreamReply):
    def __init__(self, payloads: AsyncGenerator[str, None]) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self._payloads = payloads

    @override
    async def read(self, limit: int) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    @override
    def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        written = self._written()
        return written if beat is None else beating(written, beat)

    async def _written(self) -> AsyncGenerator[bytes, None]:
        async for payload in self._payloads:
            yield serialized(WireEvent(payload))
        yield _DONE

    @override
    async def close(self) -> None:
        """Stops the generation if it still runs (T18)."""
        await self._payloads.aclose()
