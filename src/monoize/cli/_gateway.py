"""A running gateway, reached over HTTP with a key, for commands that need more than its database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import msgspec
from cyclopts import Parameter
from yarl import URL

from monoize.errors import InvalidRequest, MonoizeError

__all__ = ["HERE", "Gateway", "Line", "run"]

_FIRST_KEY = Path("data") / "first-key"  # of a gateway that was started here without a config
_BAD = 400
# An upload or a download may take long, but not stand still.
_PATIENCE = aiohttp.ClientTimeout(total=None, connect=10, sock_read=300)


@Parameter(name="*")
@dataclass(frozen=True)
class Gateway:
    """Where the gateway is, and who asks."""

    url: Annotated[str, Parameter(env_var="MONOIZE_URL", help="address of the running gateway")] = (
        "http://127.0.0.1:8080"
    )
    key: Annotated[
        str | None,
        Parameter(
            env_var="MONOIZE_KEY",
            help="API key; else the one in ./data/first-key",
            show_default=False,
        ),
    ] = None


HERE = Gateway()


class Line:
    """One session with it; a refusal is raised in the gateway's own words."""

    def __init__(self, session: aiohttp.ClientSession, base: URL) -> None:
        self._session = session
        self._base = base

    @asynccontextmanager
    async def send(
        self, method: str, path: str, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = self._base / path.lstrip("/")
        try:
            async with self._session.request(method, url, **more) as reply:
                if reply.status >= _BAD:
                    raise _refusal(reply.status, await reply.read())
                yield reply
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise MonoizeError(f"no gateway answers at {self._base}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            said = str(error) or type(error).__name__
            raise MonoizeError(f"the connection to {self._base} broke: {said}") from None

    async def json(self, method: str, path: str, **more: Any) -> Any:
        async with self.send(method, path, **more) as reply:
            return msgspec.json.decode(await reply.read())


def run(gateway: Gateway, work: Callable[[Line], Awaitable[None]]) -> int:
    """The exit code of a command; what goes wrong is one sentence."""

    async def worked() -> None:
        async with aiohttp.ClientSession(
            headers=_headers(gateway), timeout=_PATIENCE, auto_decompress=False
        ) as session:
            await work(Line(session, _base(gateway)))

    try:
        asyncio.run(worked())
    except MonoizeError as error:
        print(f"monoize: {' '.join(error.message.split())}", file=sys.stderr)
        return 1
    return 0


def _base(gateway: Gateway) -> URL:
    try:
        url = URL(gateway.url)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidRequest(f"--url must be such as http://127.0.0.1:8080, not {gateway.url!r}")
    return url.with_query(None).with_fragment(None)


def _headers(gateway: Gateway) -> Mapping[str, str]:
    key = gateway.key
    if key is None and _FIRST_KEY.is_file():
        key = _FIRST_KEY.read_text("utf-8").strip()
    if key is not None and not (key.isascii() and key.isprintable()):
        raise InvalidRequest("--key holds characters that no key has")
    return {} if not key else {"authorization": f"Bearer {key}"}


def _refusal(status: int, raw: bytes) -> MonoizeError:
    try:
        said = msgspec.json.decode(raw)["error"]["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        said = "it does not say why"
    return MonoizeError(f"refused with {status}: {said}", http_status=status)
