"""Contract of an upstream client: one call out, one reply with a body that is read as it comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

__all__ = [
    "FixedHeaders",
    "Passable",
    "Streamed",
    "Taker",
    "UpstreamCall",
    "UpstreamClient",
    "UpstreamReply",
]

# Whether it took the chunk; if not, it is as if it had not been asked.
Taker: TypeAlias = Callable[[bytes], bool]


class FixedHeaders(dict[str, str]):
    """Headers that nobody changes once they are made: what a client writes of them it may keep in `written`."""

    __slots__ = ("written",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self.written: dict[Any, Any] = {}  # the client's own affair, and its to bound


class Streamed(msgspec.Struct, frozen=True, kw_only=True):
    """A body that is too large to be held: read from the beginning each time that it is sent."""

    chunks: Callable[[], AsyncIterator[bytes]]
    size: int | None = None  # None: sent in chunks


class UpstreamCall(msgspec.Struct, frozen=True, kw_only=True):
    url: str  # made from the operator's config, never from what a caller sent
    headers: Mapping[str, str]
    body: bytes | Streamed = b""
    method: Literal["POST", "GET"] = "POST"
    proxy: str | None = None
    first_byte_seconds: float
    idle_seconds: float
    at_once: bool = False  # not with the others of its turn: a stream shall begin soon


class Passable(AsyncIterator[bytes]):
    """Chunks that may be taken as they come, by somebody who need not be woken for it."""

    @abstractmethod
    def pass_to(self, taker: Taker) -> None:
        """While somebody waits for the next chunk, `taker` is asked first; what it takes nobody else sees.

        What it raises reaches whoever waits. The last chunk, with which the reply ends, it is not asked about.
        """


class UpstreamReply(ABC):
    """What came back. Whoever got it closes it, in every case."""

    __slots__ = ()

    status: int
    headers: Mapping[str, str]  # names in lower case

    def arrived(self, limit: int) -> bytes | None:
        """The whole body and the end of the reply, which is closed with it, if nothing of it is to be waited for.

        None: `read` it, be it that more is to come, that it is larger than `limit`, or that this client never knows.
        """
        del limit
        return None

    @abstractmethod
    async def read(self, limit: int) -> bytes:
        """The whole body; UpstreamUnreadable when it is larger than `limit`."""

    @abstractmethod
    def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        """The body as it arrives. UpstreamTimeout after too long a silence, UpstreamFailed when it breaks off.

        `beat`: an empty chunk for every so many seconds of silence, so that whoever waits here can give a sign of life
        meanwhile without a task of its own.
        """

    @abstractmethod
    async def close(self) -> None:
        """Give the connection back, or break it off when the body was not read to its end."""


class UpstreamClient(ABC):
    @abstractmethod
    async def send(self, call: UpstreamCall) -> UpstreamReply:
        """Raises UpstreamFailed or UpstreamTimeout when no status line came back."""

    @abstractmethod
    async def aclose(self) -> None: ...
