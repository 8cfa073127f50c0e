"""One try to open a session at one channel: until the provider's first word, another may be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from monoize import wirejson
from monoize.account import KeyPolicy
from monoize.discretion import channel_secrets
from monoize.errors import (
    ProviderError,
    UnsupportedByTarget,
    UpstreamFailed,
    UpstreamTimeout,
    UpstreamUnreadable,
)
from monoize.pipeline.call import Trace
from monoize.pipeline.kit import Kit
from monoize.protocol import protocol
from monoize.realtime.passing import Passing
from monoize.routing.catalog import Candidate
from monoize.routing.verdict import failure, retry_after
from monoize.settings.realtime import RealtimeSettings
from monoize.upstream.address import joined_url
from monoize.upstream.websocket import (
    Closed,
    HandshakeRefused,
    SocketCall,
    SocketClient,
    UpstreamSocket,
)

__all__ = ["OpenSession", "SocketAttempt"]

_PATH = "/v1/realtime"
_TYPES = frozenset({"chat_completion", "responses", "grok"})  # that speak as OpenAI does
_STATUSES = {  # of errors that come as an event, after the handshake
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "model_not_found": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
}
_SERVER_ERROR = 500
_FIRST_FAILURE = 300


class OpenSession(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    socket: UpstreamSocket
    first: str
    candidate: Candidate


class SocketAttempt:
    def __init__(
        self,
        kit: Kit,
        trace: Trace,
        sockets: SocketClient,
        settings: RealtimeSettings,
        passed: Mapping[str, str],
        candidate: Candidate,
    ) -> None:
        """`passed`: the caller's headers that may reach a provider, if its channel takes them."""
        self.candidate = candidate
        self._kit = kit
        self._trace = trace
        self._sockets = sockets
        self._settings = settings
        self._passed = passed
        self._socket: UpstreamSocket | None = None
        trace.provider = candidate.provider.id
        trace.channel = candidate.channel.id
        trace.upstream_model = candidate.upstream_model

    @property
    def upstream_model(self) -> str:
        return self.candidate.upstream_model

    @property
    def was_sent(self) -> bool:
        return self._socket is not None

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def opened(self) -> OpenSession:
        self._trace.attempts += 1
        started = self._kit.clock.monotonic()
        try:
            async with asyncio.timeout(self._settings.open_seconds):
                self._socket = await self._sockets.open(self._call())
                first = await self._first_word(self._socket)
        except TimeoutError:
            raise UpstreamTimeout("the provider did not open the session in time") from None
        except HandshakeRefused as refused:
            raise self._refusal(refused) from None
        finally:
            self._trace.upstream_seconds += self._kit.clock.monotonic() - started
        return OpenSession(socket=self._socket, first=first, candidate=self.candidate)

    def _call(self) -> SocketCall:
        provider, channel = self.candidate.provider, self.candidate.channel
        if provider.type not in _TYPES or channel.base_url is None:
            raise UnsupportedByTarget(
                f"a provider of type {provider.type} has no realtime sessions"
            )
        url = joined_url(channel.base_url, _PATH)
        scheme, _, rest = url.partition("://")
        secure = "wss" if scheme == "https" else "ws"
        # Of the caller's headers, only OpenAI's switch for older events, and what the operator lets through.
        allowed = ("openai-beta", *(name.lower() for name in channel.forward_headers))
        passed = {name: self._passed[name] for name in allowed if name in self._passed}
        return SocketCall(
            url=f"{secure}://{rest}?model={quote(self.upstream_model, safe='')}",
            headers={
                **protocol(provider.type).headers(channel.api_key),
                **passed,
                **{name.lower(): value for name, value in channel.headers.items()},
            },
            proxy=channel.proxy,
            connect_seconds=self._kit.timeouts.connect,
            open_seconds=self._settings.open_seconds,
            send_seconds=self._settings.stall_seconds,
            frame_bytes=self._kit.limits.event_bytes,
        )

    async def _first_word(self, socket: UpstreamSocket) -> str:
        frame = await socket.receive()
        if isinstance(frame, Closed):
            told = f": {frame.reason}" if frame.reason else ""
            raise UpstreamFailed(f"the provider closed the session at once ({frame.code}){told}")
        if not isinstance(frame, str):
            raise UpstreamUnreadable("the provider's first word is no event")
        if Passing.seen(frame).type == "error":
            raise failure(*self._first_error(frame))
        return frame

    def _first_error(self, frame: str) -> tuple[ProviderError, int]:
        discreet = Passing("", "", KeyPolicy(), channel_secrets(self.candidate.channel))
        try:
            wire: Any = wirejson.loads(discreet.to_caller(frame))
        except wirejson.JsonError:
            wire = {}
        error = wire.get("error") if isinstance(wire, Mapping) else None
        told = error if isinstance(error, Mapping) else {}
        words = [str(told.get(name) or "") for name in ("code", "type")]
        status = next((_STATUSES[word] for word in words if word in _STATUSES), _SERVER_ERROR)
        return ProviderError(
            message=str(told.get("message") or "the provider refused the session"),
            status=status,
            code=words[0] or None,
            type=words[1] or None,
        ), status

    def _refusal(self, refused: HandshakeRefused) -> Exception:
        if refused.status < _FIRST_FAILURE:
            return UpstreamUnreadable("the provider answered, but not with a WebSocket")
        pause = retry_after(refused.headers, self._kit.clock.now())
        error = ProviderError(
            message=f"the provider refused the session with status {refused.status}",
            status=refused.status,
            details=None if pause is None else {"retry_after": pause},
        )
        return failure(error, refused.status)
