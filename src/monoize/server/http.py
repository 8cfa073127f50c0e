"""One HTTP request off the wire, within limits, and a JSON answer to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from typing import Protocol as Interface
from urllib.parse import parse_qsl, unquote

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.errors import InvalidRequest, PayloadTooLarge, RequestTimeout
from monoize.pipeline.call import NOBODY, Answer, Caller
from monoize.settings import LimitSettings, TimeoutSettings

__all__ = [
    "EMPTY",
    "FORWARDED",
    "Application",
    "CallerGone",
    "HttpRequest",
    "RequestBody",
    "body_here",
    "check_coding",
    "declared_size",
    "headers_of",
    "json_answer",
    "name_of",
    "names_known",
    "object_of",
    "path_of",
    "query_of",
    "read_body",
    "read_json",
]

Pairs: TypeAlias = Sequence[tuple[bytes, bytes]]

FORWARDED = "x-forwarded-for"
_LENGTH = re.compile("[0-9]{1,18}")
# Names as callers write them: nearly always the same few. What strangers make up must not fill the memory.
names_known: dict[bytes, str] = {}
_NAMES_KEPT = 512


class CallerGone(Exception):
    """The caller hung up before its request was complete."""


class RequestBody(Interface):
    """What a caller sends after the head, as it arrives; each byte of it is given out once."""

    __slots__ = ()

    def whole(self) -> bytes | None:
        """All of it, if it is here to its end."""

    async def read(self, enough: int, seconds: float) -> tuple[bytes, bool]:
        """At least `enough` bytes, or all that is left; and whether more is to come.

        Raises TimeoutError if that takes longer than so many seconds, and CallerGone.
        """


class _Empty(RequestBody):
    @override
    def whole(self) -> bytes:
        return b""

    @override
    async def read(self, enough: int, seconds: float) -> tuple[bytes, bool]:
        return b"", False


EMPTY = _Empty()


class HttpRequest(msgspec.Struct, kw_only=True):
    """As the wire brought it; what is found out about it on the way to its door is added."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[
        str, str
    ]  # names in lower case; the last of repeated ones, but see `headers_of`
    came_bytes: int = 0  # until the head was complete: its headers are no larger than that
    body: RequestBody = EMPTY
    address: str | None = None  # of the caller, as far as it is known
    peer: str | None = None  # of the other end of the connection
    request_id: str = ""
    started: float = 0.0  # monotonic seconds
    caller: Caller = NOBODY

    @classmethod
    def of_wire(
        cls, method: str, path: bytes, query: bytes, headers: Pairs, **more: Any
    ) -> HttpRequest:
        return cls(
            method=method,
            path=path_of(path),
            query=query_of(query) if query else {},
            headers=headers_of(headers),
            **more,
        )


def path_of(raw: bytes) -> str:
    path = raw.decode("latin-1")
    return unquote(path) if "%" in path else path


def query_of(raw: bytes) -> dict[str, str]:
    return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))


class Application(Interface):
    @property
    def header_bytes(self) -> int:
        """How large the headers of a request may be."""

    async def respond(self, request: HttpRequest) -> Answer:
        """Names the request (`request_id`) and answers it; CallerGone: there is nobody to answer."""


def headers_of(pairs: Pairs) -> dict[str, str]:
    headers = {name_of(k): v.decode("latin-1") for k, v in pairs}
    if FORWARDED in headers:  # each proxy on the way may add a line of its own
        lines = (v.decode("latin-1") for k, v in pairs if name_of(k) == FORWARDED)
        headers[FORWARDED] = ",".join(lines)
    return headers


def name_of(raw: bytes) -> str:
    """In lower case; remembered in `names_known`."""
    name = names_known.get(raw)
    if name is None:
        name = raw.decode("latin-1").lower()
        if len(names_known) < _NAMES_KEPT:
            names_known[raw] = name
    return name


def declared_size(request: HttpRequest) -> int | None:
    match = _LENGTH.fullmatch(request.headers.get("content-length", ""))
    return None if match is None else int(match[0])


def check_coding(request: HttpRequest) -> None:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise InvalidRequest("content-encoding is not supported: send the body uncompressed")


async def read_body(
    request: HttpRequest, limits: LimitSettings, timeouts: TimeoutSettings
) -> bytes:
    raw = body_here(request, limits)
    return raw if raw is not None else await _arrived(request, limits, timeouts)


def body_here(request: HttpRequest, limits: LimitSettings) -> bytes | None:
    """The body that came along with its head, as nearly all do; None: it has not come to its end yet."""
    raw = request.body.whole()
    size = len(raw) if raw is not None else declared_size(request) or 0
    if size > limits.body_bytes:
        raise _too_large(limits)
    if "content-encoding" in request.headers:
        check_coding(request)
    return raw


async def _arrived(request: HttpRequest, limits: LimitSettings, timeouts: TimeoutSettings) -> bytes:
    try:
        raw, _ = await request.body.read(limits.body_bytes + 1, timeouts.body)
    except TimeoutError:
        raise RequestTimeout(f"the body did not arrive within {timeouts.body:g} s") from None
    if len(raw) > limits.body_bytes:
        raise _too_large(limits)
    return raw


def _too_large(limits: LimitSettings) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the body is larger than {limits.body_bytes} bytes (server.limits.body_bytes)"
    )


async def read_json(
    request: HttpRequest, limits: LimitSettings, timeouts: TimeoutSettings
) -> tuple[bytes, Mapping[str, Any]]:
    raw = await read_body(request, limits, timeouts)
    return raw, object_of(raw)


def object_of(raw: bytes) -> Mapping[str, Any]:
    try:
        wire = wirejson.loads(raw)
    except wirejson.JsonError as error:
        if not raw.strip():
            raise InvalidRequest("the body is empty: a JSON object is due") from None
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(wire, dict):
        raise InvalidRequest("the body must be a JSON object")
    return wire


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(
        status=status,
        content_type="application/json",
        headers=headers or {},
        body=wirejson.dumps(value),
    )
