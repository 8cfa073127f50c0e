"""WebSockets to providers: a narrow contract, and aiohttp's client behind it; redirects are never followed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress

import aiohttp
import msgspec
from aiohttp import WSMsgType
from typing_extensions import override

from monoize.errors import UpstreamFailed, UpstreamTimeout
from monoize.upstream._reason import reason

__all__ = [
    "AiohttpSockets",
    "Closed",
    "Frame",
    "HandshakeRefused",
    "SocketCall",
    "SocketClient",
    "UpstreamSocket",
]

Frame = str | bytes

_NO_CLOSE_FRAME = 1006
_NO_CODE = 1005
_HEARTBEAT_SECONDS = 30.0  # a line that is dead without a word is noticed after one and a half
_FAREWELL_SECONDS = 2.0  # for the other side's closing frame


class SocketCall(msgspec.Struct, frozen=True, kw_only=True):
    url: str  # wss:// or ws://, made from the operator's config
    headers: Mapping[str, str]
    proxy: str | None = None
    connect_seconds: float
    open_seconds: float
    send_seconds: float  # for a provider that takes nothing
    frame_bytes: int


class Closed(msgspec.Struct, frozen=True):
    """The end of a line. 1005: without a code; 1006: without a closing frame, it died."""

    code: int
    reason: str = ""


class HandshakeRefused(Exception):
    """The provider answered, and not with a WebSocket."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(f"the provider refused the WebSocket with status {status}")
        self.status = status
        self.headers = headers  # names in lower case


class UpstreamSocket(ABC):
    """One open line. Whoever got it closes it; one task reads, another may write."""

    @abstractmethod
    async def receive(self) -> Frame | Closed:
        """The next message; after `Closed` there is none."""

    @abstractmethod
    async def send(self, frame: Frame) -> None:
        """Waits while the provider takes nothing. Raises UpstreamFailed or UpstreamTimeout."""

    @abstractmethod
    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Harmless when repeated."""


class SocketClient(ABC):
    @abstractmethod
    async def open(self, call: SocketCall) -> UpstreamSocket:
        """Raises HandshakeRefused, UpstreamFailed or UpstreamTimeout."""


class AiohttpSockets(SocketClient):
    """A line has its own session: no connection is ever shared, and closing the line leaves nothing behind."""

    @override
    async def open(self, call: SocketCall) -> UpstreamSocket:
        session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=call.connect_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            trace_configs=[_no_redirects()],
            headers={"user-agent": "monoize"},
        )
        socket = None
        try:
            async with asyncio.timeout(call.open_seconds):
                socket = await session.ws_connect(
                    call.url,
                    headers=call.headers,
                    proxy=call.proxy,
                    heartbeat=_HEARTBEAT_SECONDS,
                    max_msg_size=call.frame_bytes,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_FAREWELL_SECONDS),
                )
        except aiohttp.WSServerHandshakeError as error:
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            raise HandshakeRefused(error.status, headers) from None
        except TimeoutError:
            raise UpstreamTimeout("the provider did not open the session in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(f"the provider could not be reached: {reason(error)}") from None
        finally:
            if socket is None:
                await session.close()
        return _AiohttpSocket(session, socket, call)


def _no_redirects() -> aiohttp.TraceConfig:
    """The key must not be taken elsewhere; `ws_connect` itself has no switch for it."""

    async def refuse(
        _session: object, _context: object, params: aiohttp.TraceRequestRedirectParams
    ) -> None:
        raise HandshakeRefused(params.response.status, {})

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    return config


class _AiohttpSocket(UpstreamSocket):
    def __init__(
        self,
        session: aiohttp.ClientSession,
        socket: aiohttp.ClientWebSocketResponse[bool],
        call: SocketCall,
    ) -> None:
        self._session = session
        self._socket = socket
        self._call = call

    @override
    async def receive(self) -> Frame | Closed:
        message = await self._socket.receive()
        match message.type:
            case WSMsgType.TEXT | WSMsgType.BINARY:
                frame: Frame = message.data
                return frame
            case WSMsgType.CLOSE:
                return Closed(message.data or _NO_CODE, message.extra or "")
            case WSMsgType.ERROR if isinstance(message.data, aiohttp.WebSocketError):
                return Closed(_NO_CLOSE_FRAME, str(message.data))
            case _:
                return Closed(_NO_CLOSE_FRAME)

    @override
    async def send(self, frame: Frame) -> None:
        try:
            async with asyncio.timeout(self._call.send_seconds):
                if isinstance(frame, str):
                    await self._socket.send_str(frame)
                else:
                    await self._socket.send_bytes(frame)
        except TimeoutError:
            raise UpstreamTimeout("the provider takes nothing any more") from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(f"the provider is gone: {reason(error)}") from None

    @override
    async def close(self, code: int = 1000, reason: str = "") -> None:
        try:
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with asyncio.timeout(2 * _FAREWELL_SECONDS):
                    await self._socket.close(code=code, message=reason.encode()[:123])
        finally:
            await self._session.close()
