"""The doors of the Reframer: one request, a batch of them, and the schemas (spec 3, 6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from http import HTTPStatus

from monoize import wirejson
from monoize.errors import InvalidRequest, MonoizeError, NotFound
from monoize.media import mime
from monoize.pipeline.call import Answer
from monoize.reframer import Refused
from monoize.reframer.schemas import FILES, checksum, raw_schema
from monoize.reframer.service import batch_items
from monoize.server.http import HttpRequest, json_answer
from monoize.server.reframer_bench import PIECE_BYTES
from monoize.server.reframer_work import Asked, Done, Work, log_refusals, room_for
from monoize.server.state import State
from monoize.server.uploads import body_pieces

__all__ = ["failed", "reframe_batch", "reframe_request", "schema"]

_SMALLEST = 1024  # what an item counts for beside its bytes: even an empty one is answered
# What clients say when they mean JSON, or when nobody told them better (`curl --data`).
_READ_AS_JSON = (
    "",
    "application/json",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "text/plain",
)


def failed(error: MonoizeError) -> Answer:
    """An error that is none of a document, in the form of those that are."""
    body = {
        "error_code": error.error_code.upper(),
        "message": error.message,
        "field_path": error.param or "",
        "details": {"diagnostics": []},
    }
    return json_answer(body, error.http_status, error.headers)


async def reframe_request(request: HttpRequest, state: State) -> Answer:
    work = Work(asked=Asked.of(request.query), tags=state.tags, clock=state.lasting.clock)
    raw = await _body(request, state)
    bench = state.lasting.bench
    with bench.place():
        done = await bench.done(partial(work.done, raw), len(raw))
    _tell(state, [done])
    return _json(done.body, done.status)


async def reframe_batch(request: HttpRequest, state: State) -> Answer:
    """One envelope for each, in order; 207 when not all of them passed (D25)."""
    asked, raw = Asked.of(request.query), await _body(request, state)
    lasting, limit = state.lasting, state.settings.settings.reframer.max_batch
    done: list[Done] = []
    with lasting.bench.place():
        items = await lasting.bench.done(partial(batch_items, raw, limit), len(raw))
        if isinstance(items, Refused):
            return _no_batch(items, state)
        room = room_for(len(items))
        work = Work(asked=asked, tags=state.tags, clock=lasting.clock, room=room)
        for piece in _pieces(items):
            size = sum(len(item) for _, item in piece)
            done += await lasting.bench.done(partial(_all_done, work, piece), size)
    lasting.reframes.batch.add(len(items))
    _tell(state, done)
    failures = sum(one.refused is not None for one in done)
    counts = wirejson.dumps({"passed": len(done) - failures, "failed": failures})
    body = b'{"results":[%s],"counts":%s}' % (b",".join(one.body for one in done), counts)
    return _json(body, HTTPStatus.MULTI_STATUS if failures else HTTPStatus.OK)


async def schema(request: HttpRequest, state: State, *, name: str) -> Answer:
    """The file itself, byte for byte."""
    del state
    if name not in FILES:
        known = ", ".join(FILES)
        raise NotFound(f"there is no such schema (known: {known})", code="unknown_schema")
    headers = {"etag": f'"{checksum(name)}"', "cache-control": "public, max-age=300"}
    is_known = _is_known(request.headers.get("if-none-match", ""), checksum(name))
    return Answer(
        status=HTTPStatus.NOT_MODIFIED if is_known else HTTPStatus.OK,
        content_type="application/schema+json",
        headers=headers,
        body=_Nothing() if is_known else raw_schema(name),
    )


# --- bodies --------------------------------------------------------------------------------------


async def _body(request: HttpRequest, state: State) -> bytes:
    kind = mime.essence(request.headers.get("content-type", ""))
    if kind not in _READ_AS_JSON and not kind.endswith("+json"):
        raise InvalidRequest(
            "the body must be application/json",
            param="content-type",
            code="unsupported_media_type",
            http_status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        )
    limit, name = min(
        (state.settings.settings.reframer.max_bytes, "settings.reframer.max_bytes"),
        (state.kit.limits.body_bytes, "server.limits.body_bytes"),
    )
    return b"".join([p async for p in body_pieces(request, state.kit.timeouts, limit, name)])


def _pieces(items: Sequence[bytes]) -> Iterator[list[tuple[int, bytes]]]:
    """Numbered, about `PIECE_BYTES` at a time."""
    piece: list[tuple[int, bytes]] = []
    size = 0
    for index, item in enumerate(items):
        piece.append((index, item))
        size += len(item) + _SMALLEST
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _all_done(work: Work, piece: Sequence[tuple[int, bytes]]) -> list[Done]:
    return [work.done(item, index) for index, item in piece]


# --- answers -------------------------------------------------------------------------------------


def _json(body: bytes, status: int) -> Answer:
    return Answer(status=status, content_type="application/json", headers={}, body=body)


def _no_batch(refused: Refused, state: State) -> Answer:
    state.lasting.reframes.found(finding.code for finding in refused.findings)
    is_long = refused.findings[0].code == "BATCH_TOO_LONG"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if is_long else HTTPStatus.BAD_REQUEST
    return json_answer(refused.as_json(), status)


def _tell(state: State, done: Sequence[Done]) -> None:
    """The counters, and the log where the operator wants it."""
    state.lasting.reframes.add(one.counted for one in done)
    if state.settings.settings.reframer.log_rejected:
        log_refusals([one.refused for one in done if one.refused is not None], len(done))


def _is_known(tags: str, digest: str) -> bool:
    known = [tag.strip().removeprefix("W/").strip('"') for tag in tags.split(",")]
    return digest in known or known == ["*"]


class _Nothing:
    """The body of a 304: without a length, which would have to be that of the schema."""

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return
        yield

    async def aclose(self) -> None:
        pass
