"""The doors of the media store: upload, look, fetch in whole or in part, delete (spec 4, 3)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from monoize.errors import InvalidRequest, NoMediaStore
from monoize.media import ids, mime
from monoize.media.names import disposition
from monoize.media.owner import owner_of
from monoize.media.shelf import Range, Shelf, StoredMedia
from monoize.multipart import MultipartEvent, PartBegin, PartData, boundary_of
from monoize.pipeline.call import Answer
from monoize.server.http import HttpRequest, declared_size, json_answer
from monoize.server.state import State
from monoize.server.uploads import body_pieces, form_events
from monoize.store.paging import LARGEST_PAGE

__all__ = ["download", "listed", "meta", "remove", "shelf_of", "upload"]

_LIMIT = "media.max_bytes"
_AROUND = 64 * 1024  # what a form may have beside its file
_PAGE = 50
# What `curl --data-binary` says when nobody tells it better.
_NO_MIME = ("", "application/x-www-form-urlencoded")
_RANGE = re.compile(r"bytes=\s*(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))\s*")
# Whatever somebody stored, a browser must not run it as if it were ours.
_INERT = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}


def shelf_of(state: State) -> Shelf:
    if state.shelf is None:
        raise NoMediaStore
    return state.shelf


async def upload(request: HttpRequest, state: State) -> Answer:
    """The body is the file, or a form with one file in it."""
    shelf, timeouts = shelf_of(state), state.kit.timeouts
    boundary = boundary_of(request.headers.get("content-type", ""))
    limit, name = shelf.settings.max_bytes, request.query.get("name")
    if boundary is None:
        said = request.headers.get("content-type", "")
        stored = await shelf.put(
            owner_of(request.caller),
            body_pieces(request, timeouts, limit, _LIMIT),
            mime=None if mime.essence(said) in _NO_MIME else said,
            name=name,
            declared_size=declared_size(request),
            key=request.caller.key,
        )
    else:
        events = form_events(body_pieces(request, timeouts, limit + _AROUND, _LIMIT), boundary)
        file = await _first_file(events)
        stored = await shelf.put(
            owner_of(request.caller),
            _only_file(events),
            mime=file.mime,
            name=name or file.filename,
            key=request.caller.key,
        )
    where = {"location": f"/v1/media/{stored.id}"}
    return json_answer(_form(stored), HTTPStatus.CREATED, where)


async def listed(request: HttpRequest, state: State) -> Answer:
    """Newest first, with what all of them take."""
    shelf, owner = shelf_of(state), owner_of(request.caller)
    after, limit = request.query.get("after"), _limit(request.query)
    if after is not None and not ids.is_id(after):
        raise InvalidRequest("after must be `next` of the page before", param="after")
    page = await shelf.page(owner, before=after, limit=limit)
    usage = await shelf.usage(owner)
    return json_answer(
        {
            "data": [_form(stored) for stored in page],
            "next": page[-1].id if len(page) == limit else None,
            "usage": {
                "files": usage.files,
                "bytes": usage.bytes,
                "quota_bytes": shelf.settings.quota_bytes,
            },
            "limits": {
                "max_bytes": shelf.settings.max_bytes,
                "keep_days": shelf.settings.keep_days,
            },
        }
    )


async def meta(request: HttpRequest, state: State, *, media_id: str) -> Answer:
    stored = await shelf_of(state).find(owner_of(request.caller), media_id)
    return json_answer(_form(stored))


async def remove(request: HttpRequest, state: State, *, media_id: str) -> Answer:
    await shelf_of(state).delete(owner_of(request.caller), media_id)
    return json_answer({"id": media_id, "deleted": True})


async def download(request: HttpRequest, state: State, *, media_id: str) -> Answer:
    """Whole, or one range of it; several at once are answered with all of it, as RFC 9110 allows."""
    shelf = shelf_of(state)
    stored = await shelf.find(owner_of(request.caller), media_id)
    headers = {
        **_INERT,
        "etag": f'"{stored.sha256}"',
        "accept-ranges": "bytes",
        "content-disposition": disposition(stored.name, inline=mime.is_passive(stored.mime)),
    }
    if _is_known(request.headers.get("if-none-match", ""), stored):
        return _answer(HTTPStatus.NOT_MODIFIED, stored, headers)
    if request.method == "HEAD":
        headers["content-length"] = str(stored.size)
        return _answer(HTTPStatus.OK, stored, headers)
    part = _wanted(request.headers, stored)
    start, end = part or (0, stored.size)
    headers["content-length"] = str(end - start)
    if part is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{stored.size}"
    status = HTTPStatus.OK if part is None else HTTPStatus.PARTIAL_CONTENT
    return _answer(status, stored, headers, await shelf.opened(stored, (start, end)))


# --- uploads ---


async def _first_file(events: AsyncIterator[MultipartEvent]) -> PartBegin:
    """Texts before it are of no interest."""
    async for event in events:
        if isinstance(event, PartBegin) and event.filename is not None:
            return event
    raise InvalidRequest("the form has no file in it")


async def _only_file(events: AsyncIterator[MultipartEvent]) -> AsyncIterator[bytes]:
    is_text = False
    async for event in events:
        match event:
            case PartBegin(filename=None):
                is_text = True
            case PartBegin():
                raise InvalidRequest("the form has more than one file: upload one at a time")
            case PartData(data) if not is_text:
                yield data
            case _:
                pass


def _form(stored: StoredMedia) -> dict[str, Any]:
    return {
        "id": stored.id,
        "uri": stored.uri,
        "mime": stored.mime,
        "size": stored.size,
        "sha256": stored.sha256,
        "name": stored.name,
        "created_at": stored.created_at,
        "expires_at": stored.expires_at,
        "ref": msgspec.to_builtins(stored.ref),
    }


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(_PAGE))
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= LARGEST_PAGE:
        raise InvalidRequest(f"limit must be between 1 and {LARGEST_PAGE}", param="limit")
    return int(text)


# --- downloads ---


class _Bytes:
    """As a body of an answer: closing it closes what it is read from."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = _generated(chunks)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def aclose(self) -> None:
        await self._chunks.aclose()


async def _generated(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        yield chunk


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield


def _answer(
    status: int,
    stored: StoredMedia,
    headers: Mapping[str, str],
    chunks: AsyncIterator[bytes] | None = None,
) -> Answer:
    """Without chunks the headers still tell the size: of HEAD, and of what the caller has already."""
    body = _Bytes(_nothing() if chunks is None else chunks)
    return Answer(status=status, content_type=stored.mime, headers=headers, body=body)


def _is_known(tags: str, stored: StoredMedia) -> bool:
    known = [tag.strip().removeprefix("W/").strip('"') for tag in tags.split(",")]
    return stored.sha256 in known or known == ["*"]


def _wanted(headers: Mapping[str, str], stored: StoredMedia) -> Range | None:
    """None: all of it, also where the range cannot be read, or is of something else (If-Range)."""
    match = _RANGE.fullmatch(headers.get("range", ""))
    if match is None or headers.get("if-range", f'"{stored.sha256}"') != f'"{stored.sha256}"':
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(0, stored.size - int(suffix)), stored.size
    else:
        start, end = int(first), min(int(last or stored.size) + 1, stored.size)
        if last and int(last) < start:
            return None
    if start >= stored.size:
        outside = InvalidRequest(
            f"there are only {stored.size} bytes", code="range_not_satisfiable", http_status=416
        )
        outside.headers["content-range"] = f"bytes */{stored.size}"
        raise outside
    return start, end
