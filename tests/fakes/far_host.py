"""A host on the internet that is really on loopback, and an ear for every connection that this process makes."""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from monoize.media.fetch import Fetcher, LookUp
from monoize.media.policy import Address, FetchPolicy, is_public
from monoize.settings import HttpUrlSettings

NAME = "files.example.org"
# Loopback is a large network: some of it stands for the internet here, and the rest stays what it is.
FAR = "127.0.0.77"
EMPTY_FAR = "127.0.0.78"  # nobody is there
INSIDE = "127.0.0.1"

Reply = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes = b"", status: str = "200 OK", **headers: Any) -> bytes:
    """A whole reply; `content_length=None` leaves that header out."""
    named = {"content_type": "image/png", "content_length": len(body), **headers}
    lines = [
        f"{key.replace('_', '-')}: {line}"
        for key, value in named.items()
        if value is not None
        for line in (value if isinstance(value, list) else [value])
    ]
    return (
        "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("utf-8", "surrogatepass") + body
    )


def moved(place: str, status: int = 302, **headers: Any) -> bytes:
    return reply(status=f"{status} Moved", location=place, **headers)


class FarHost:
    """Answers each path with what the test put there; remembers the head of every request."""

    def __init__(self, tls: ssl.SSLContext | None = None, address: str = FAR) -> None:
        self.replies: dict[str, Reply] = {}
        self.heads: list[str] = []
        self.left = asyncio.Event()  # a connection has ended
        self._tls = tls
        self._address = address
        self._serving: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._address, 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def paths(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads]

    def url(self, path: str = "/a", name: str = NAME) -> str:
        return f"http{'s' if self._tls else ''}://{name}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("utf-8", "replace")
            self.heads.append(head)
            said = self.replies.get(head.split(" ")[1], reply(status="404 Not Found"))
            if isinstance(said, bytes):
                writer.write(said)
                await writer.drain()
            else:
                await said(reader, writer)
            await reader.read()  # until the other side goes
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.left.set()
            self._serving.discard(task)
            writer.transport.abort()

    def fetcher(
        self,
        look_up: LookUp | None = None,
        tls: ssl.SSLContext | None = None,
        hosts: Sequence[str] = ("*",),
        **settings: Any,
    ) -> Fetcher:
        """A fetcher for which this host is on the internet, at whatever name."""
        ports = [f"{glob}:{self.port}" for glob in hosts]
        chosen = HttpUrlSettings(enabled=True, hosts=(*hosts, *ports), **settings)
        policy = FetchPolicy(chosen, is_far)
        return Fetcher(chosen, policy=policy, look_up=look_up or answers(FAR), tls=tls)


def is_far(address: Address) -> bool:
    return is_public(address) or str(address) in (FAR, EMPTY_FAR)


class Names:
    """A name server: each name has a list of answers, the last one for ever; it remembers what it was asked."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self._answers = {name: list(given) for name, given in names.items()}
        self.asked: list[str] = []

    def __setitem__(self, name: str, given: Sequence[Sequence[str]]) -> None:
        self._answers[name] = list(given)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        given = self._answers.get(host) or self._answers.get("*")
        if not given:
            raise OSError(f"{host} is not known")
        return given.pop(0) if len(given) > 1 else given[0]


def answers(*addresses: str) -> Names:
    return Names(**{"*": [addresses]})


@dataclass
class Heard:
    """What this process did on the network meanwhile."""

    connections: list[Any] = field(default_factory=list)
    look_ups: list[Any] = field(default_factory=list)
    thread: int = field(default_factory=threading.get_ident)


_LISTENING: list[Heard] = []
_HOOKED = threading.Event()


def _hear(event: str, args: tuple[Any, ...]) -> None:
    """Python tells its auditors of every connection, whatever library makes it."""
    if not _LISTENING or not event.startswith("socket."):
        return
    thread = threading.current_thread()
    for heard in _LISTENING:
        if thread.ident != heard.thread and not thread.name.startswith("monoize-look-up"):
            continue  # some other test's server in the background
        if event in ("socket.connect", "socket.sendto"):
            heard.connections.append(args[1])
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            heard.look_ups.append(args[0])


@contextmanager
def listening() -> Iterator[Heard]:
    if not _HOOKED.is_set():  # a hook stays for ever
        _HOOKED.set()
        sys.addaudithook(_hear)
    heard = Heard()
    _LISTENING.append(heard)
    try:
        yield heard
    finally:
        _LISTENING.remove(heard)
