"""One HTTP request off ASGI and one answer back onto it, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec

from monoize import wirejson
from monoize.errors import InvalidRequest, PayloadTooLarge, RequestTimeout
from monoize.pipeline.call import NOBODY, Answer, Caller
from monoize.settings import LimitSettings, TimeoutSettings

__all__ = ["CallerGone", "HttpRequest", "json_answer", "read_json", "send_answer"]

_FORWARDED = "x-forwarded-for"

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class CallerGone(Exception):
    """The caller hung up before its request was complete."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case; the last of repeated ones, but see `_headers`
    receive: Receive
    request_id: str
    started: float
    caller: Caller = NOBODY
    address: str | None = None  # of the caller, as far as it is known

    @classmethod
    def from_scope(
        cls, scope: Mapping[str, Any], receive: Receive, request_id: str, started: float
    ) -> HttpRequest:
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        client = scope.get("client")
        return cls(
            address=client[0] if client else None,
            method=scope["method"],
            path=unquote(raw_path.split(b"?")[0].decode("latin-1")),
            query=dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
            headers=_headers(scope["headers"]),
            receive=receive,
            request_id=request_id,
            started=started,
        )


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in pairs}
    if _FORWARDED in headers:  # each proxy on the way may add a line of its own
        lines = (v.decode("latin-1") for k, v in pairs if k.decode("latin-1").lower() == _FORWARDED)
        headers[_FORWARDED] = ",".join(lines)
    return headers


async def read_body(
    request: HttpRequest, limits: LimitSettings, timeouts: TimeoutSettings
) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.body_bytes:
        raise _too_large(limits)
    if request.headers.get("content-encoding", "identity") != "identity":
        raise InvalidRequest("content-encoding is not supported: send the body uncompressed")
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeouts.body):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise CallerGone
                piece: bytes = message.get("body", b"")
                size += len(piece)
                if size > limits.body_bytes:
                    raise _too_large(limits)
                pieces.append(piece)
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        raise RequestTimeout(f"the body did not arrive within {timeouts.body:g} s") from None


def _too_large(limits: LimitSettings) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the body is larger than {limits.body_bytes} bytes (server.limits.body_bytes)"
    )


async def read_json(
    request: HttpRequest, limits: LimitSettings, timeouts: TimeoutSettings
) -> tuple[bytes, Mapping[str, Any]]:
    raw = await read_body(request, limits, timeouts)
    if not raw.strip():
        raise InvalidRequest("the body is empty: a JSON object is due")
    try:
        wire = wirejson.loads(raw)
    except wirejson.JsonError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(wire, dict):
        raise InvalidRequest("the body must be a JSON object")
    return raw, wire


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(
        status=status,
        content_type="application/json",
        headers=headers or {},
        body=wirejson.dumps(value),
    )


async def send_answer(
    send: Send, answer: Answer, extra: Mapping[str, str], *, bodiless: bool
) -> None:
    """`bodiless`: the request was HEAD."""
    try:
        await _send_open(send, answer, extra, bodiless=bodiless)
    finally:
        if not isinstance(answer.body, bytes):
            await answer.body.aclose()  # also when the caller left before its first byte (T18)


async def _send_open(
    send: Send, answer: Answer, extra: Mapping[str, str], *, bodiless: bool
) -> None:
    headers = {"content-type": answer.content_type, **answer.headers, **extra}
    if isinstance(answer.body, bytes):
        headers["content-length"] = str(len(answer.body))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [
                (k.encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()
            ],
        }
    )
    if isinstance(answer.body, bytes):
        await send({"type": "http.response.body", "body": b"" if bodiless else answer.body})
        return
    async for chunk in answer.body:
        if chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
