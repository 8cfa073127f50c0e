"""The way into the management API: the endpoint, the key and its role, what was sent, the answer."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from monoize import wirejson
from monoize.errors import Forbidden, InvalidRequest, MethodNotAllowed, NotFound
from monoize.pipeline.call import Answer
from monoize.server.api.endpoint import Context, Endpoint, Given
from monoize.server.api.table import ENDPOINTS
from monoize.server.house import House
from monoize.server.http import HttpRequest, read_body
from monoize.server.state import State

__all__ = ["answered"]

_ROUTES = tuple((endpoint, endpoint.pattern()) for endpoint in ENDPOINTS)
_STRANGERS_BYTES = 64 * 1024  # of a body that is read before anybody knows whose it is
_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"required field `(.*)`", re.DOTALL)


async def answered(request: HttpRequest, state: State, house: House) -> Answer:
    endpoint, names = _found(request)
    if endpoint.role is not None:
        caller = await state.access.caller_of(
            request.headers, request.address, request.method, request.peer
        )
        if endpoint.role == "admin" and caller.role != "admin":  # CVE-2026-35029
            raise Forbidden(
                "this is for admins: use the key of a user whose role is admin, or sign in as one"
            )
        request.caller = caller
    query = None if endpoint.query is None else _query(request, endpoint)
    body = (
        None
        if endpoint.body is None
        else _read(await _body(request, state, endpoint), endpoint.body)
    )
    context = Context(request=request, state=state, house=house)
    value = await endpoint.act(context, Given(path=names, query=query, body=body))
    if isinstance(value, Answer):
        return await _bodiless(value) if request.method == "HEAD" else value
    return Answer(
        status=endpoint.status,
        content_type="application/json",
        # Balances, keys that are shown once: nothing for anybody's cache.
        headers={"cache-control": "no-store"},
        body=msgspec.json.encode(value),
    )


async def _bodiless(answer: Answer) -> Answer:
    """A stream that nobody reads must not be waited for."""
    if not isinstance(answer.body, bytes):
        await answer.body.aclose()
    return msgspec.structs.replace(answer, body=b"")


def _found(request: HttpRequest) -> tuple[Endpoint, dict[str, str]]:
    method = "GET" if request.method == "HEAD" else request.method
    allowed = []
    for endpoint, pattern in _ROUTES:
        match = pattern.fullmatch(request.path)
        if match is None:
            continue
        if endpoint.method == method:
            return endpoint, match.groupdict()
        allowed.append(endpoint.method)
    if not allowed:
        raise NotFound(f"there is nothing at {request.path}")
    takes = ", ".join(dict.fromkeys(allowed))
    refused = MethodNotAllowed(f"{request.path} takes {takes}, not {request.method}")
    refused.headers["allow"] = takes
    raise refused


def _query(request: HttpRequest, endpoint: Endpoint) -> Any:
    query = _read(dict(request.query), endpoint.query, strict=False)
    for name in request.query:
        if getattr(query, name) is None:  # who means nothing leaves it out
            raise InvalidRequest(f"{name}: null is no value of a query", param=name)
    return query


async def _body(request: HttpRequest, state: State, endpoint: Endpoint) -> Any:
    limits = state.kit.limits
    if endpoint.role is None:
        most = min(limits.body_bytes, _STRANGERS_BYTES)
        limits = msgspec.structs.replace(limits, body_bytes=most)
    raw = await read_body(request, limits, state.kit.timeouts)
    if not raw.strip():
        if not endpoint.body_required:
            return {}
        raise InvalidRequest("the body is empty: a JSON object is due")
    try:
        return wirejson.loads(raw)
    except wirejson.JsonError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None


def _read(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """The value as that struct; what is wrong is named by its path."""
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        text = str(error)
        placed = _PLACE.fullmatch(text)
        message, place = (placed[1], placed[2]) if placed else (text, "")
        for named in (_UNKNOWN.search(message), _MISSING.search(message)):
            if named:
                place = f"{place}.{named[1]}".lstrip(".")
        where = f"{place}: " if place else ""
        raise InvalidRequest(f"{where}{message}", param=place or None) from None
