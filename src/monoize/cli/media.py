"""`monoize media`: files in and out of a running gateway's media store."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from cyclopts import App, Parameter
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from monoize.cli._desk import AsJson, moment_text, show, show_json
from monoize.cli._gateway import HERE, Gateway, Line, run
from monoize.errors import Conflict, InvalidRequest, MonoizeError
from monoize.media.mime import UNKNOWN
from monoize.media.names import clean_name
from monoize.media.ref import SMS_SCHEME

__all__ = ["app"]

app = App(
    name="media",
    help="Media of a running gateway: put files there, get them back, list and remove them.",
)

MediaId = Annotated[str, Parameter(help="id, or the whole smsfile://… reference")]

_PATH = "/v1/media"
_PIECE = 1024**2
_PAGE = 200
_STANDARD = "-"  # input or output instead of a file


@app.command
def put(
    file: Annotated[
        str, Parameter(help="the file, or - for standard input", allow_leading_hyphen=True)
    ],
    *,
    mime: Annotated[str | None, Parameter(help="media type, such as image/png")] = None,
    name: Annotated[str | None, Parameter(help="what it is to be called there")] = None,
    as_json: AsJson = False,
    gateway: Gateway = HERE,
) -> int:
    """Store a file; the reference that is printed can stand in requests."""

    async def work(line: Line) -> None:
        with _opened(file) as (handle, size), _bar(f"storing {file}", size) as (bar, task):
            kind = mime or mimetypes.guess_type(file)[0]
            headers = {} if kind in (None, UNKNOWN) else {"content-type": str(kind)}
            if size is not None:
                headers["content-length"] = str(size)
            called = name or (None if file == _STANDARD else Path(file).name)
            made = await line.json(
                "POST",
                _PATH,
                params={} if called is None else {"name": called},
                headers=headers,
                skip_auto_headers=["content-type"],
                data=_pieces(handle, bar, task),
                expect100=True,  # what is refused need not be sent
            )
        if as_json:
            show_json(made)
        else:
            print(f"{made['uri']}  {made['mime']}, {_size(made['size'])}{_until(made)}")

    return run(gateway, work)


@app.command
def get(
    media: MediaId,
    *,
    output: Annotated[
        str | None,
        Parameter(
            name=["-o", "--output"],
            allow_leading_hyphen=True,
            help="file to write, or - for standard output; else the name it was stored with, unless there is such a file",
        ),
    ] = None,
    as_json: AsJson = False,
    gateway: Gateway = HERE,
) -> int:
    """Fetch a file; what arrives is checked against its hash."""

    async def work(line: Line) -> None:
        known = await line.json("GET", f"{_place(media)}/meta")
        target = output or _own_name(known)
        await _fetch(line, known, target)
        if target == _STANDARD:
            return
        if as_json:
            show_json({**known, "file": target})
        else:
            print(f"{target}  {known['mime']}, {_size(known['size'])}")

    return run(gateway, work)


@app.command(name="list")
def show_all(
    *,
    limit: Annotated[int, Parameter(help="files at most")] = 50,
    as_json: AsJson = False,
    gateway: Gateway = HERE,
) -> int:
    """List what is stored, the newest first."""

    async def work(line: Line) -> None:
        rows, usage = await _listed(line, max(1, limit))
        if as_json:
            show_json({"data": rows, "usage": usage})
            return
        cells = [
            (
                row["id"],
                moment_text(row["created_at"]),
                _size(row["size"]),
                row["mime"],
                row["name"],
                moment_text(row["expires_at"]),
            )
            for row in rows
        ]
        headings = ("id", "stored (UTC)", "size", "type", "name", "until (UTC)")
        show(headings, cells, empty="Nothing is stored.")
        used, quota = _size(usage["bytes"]), _size(usage["quota_bytes"])
        print(f"{usage['files']} files take {used} of {quota}.")

    return run(gateway, work)


@app.command
def meta(media: MediaId, *, as_json: AsJson = False, gateway: Gateway = HERE) -> int:
    """Show what is known of a file."""

    async def work(line: Line) -> None:
        known = await line.json("GET", f"{_place(media)}/meta")
        if as_json:
            show_json(known)
            return
        shown = {**known, "size": f"{known['size']} bytes"}
        for moment in ("created_at", "expires_at"):
            shown[moment] = moment_text(known[moment])
        del shown["ref"]
        show(("", ""), list(shown.items()), empty="")

    return run(gateway, work)


@app.command
def rm(media: MediaId, *, as_json: AsJson = False, gateway: Gateway = HERE) -> int:
    """Remove a file for good."""

    async def work(line: Line) -> None:
        gone = await line.json("DELETE", _place(media))
        if as_json:
            show_json(gone)
        else:
            print(f"{gone['id']} is gone.")

    return run(gateway, work)


# --- files ---


@contextmanager
def _opened(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """And how large it is, where that can be known."""
    if file == _STANDARD:
        yield sys.stdin.buffer, None
        return
    try:
        handle = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror or error}") from None
    with handle:
        yield handle, os.fstat(handle.fileno()).st_size or None  # a named pipe has no size


async def _pieces(handle: BinaryIO, bar: Progress, task: TaskID) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(handle.read, _PIECE):
        yield piece
        bar.update(task, advance=len(piece))


@contextmanager
def _written(target: str) -> Iterator[BinaryIO]:
    """Whole, or not at all: until then it has another name."""
    if target == _STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    draft = Path(f"{target}.part")
    try:
        with draft.open("wb") as handle:
            yield handle
        draft.replace(target)
    except OSError as error:
        raise InvalidRequest(f"{target}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


async def _fetch(line: Line, known: dict[str, Any], target: str) -> None:
    digest = hashlib.sha256()
    with (
        _bar(f"fetching {target}", known["size"]) as (bar, task),
        _written(target) as handle,
    ):
        async with line.send("GET", _place(known["id"])) as reply:
            async for piece in reply.content.iter_any():
                digest.update(piece)
                await asyncio.to_thread(handle.write, piece)
                bar.update(task, advance=len(piece))
        if digest.hexdigest() != known["sha256"]:
            raise MonoizeError("what arrived is not what was stored: its hash differs")


async def _listed(line: Line, limit: int) -> tuple[list[Any], Any]:
    rows: list[Any] = []
    after: str | None = None
    while True:
        asked = {"limit": str(min(_PAGE, limit - len(rows)))}
        page = await line.json(
            "GET", _PATH, params=asked if after is None else {**asked, "after": after}
        )
        rows += page["data"]
        after = page["next"]
        if after is None or len(rows) >= limit:
            return rows, page["usage"]


def _own_name(known: dict[str, Any]) -> str:
    name = clean_name(known["name"]) or str(known["id"])
    if Path(name).exists():
        raise Conflict(f"there is a file {name} already: name another one with -o")
    return name


def _place(media: str) -> str:
    media_id = media.removeprefix(SMS_SCHEME)
    if not media_id.isalnum() or not media_id.isascii():
        raise InvalidRequest(f"{media[:64]!r} is no id of media")
    return f"{_PATH}/{media_id}"


# --- saying ---


@contextmanager
def _bar(what: str, size: int | None) -> Iterator[tuple[Progress, TaskID]]:
    """On a terminal only, beside what a command prints."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        yield bar, bar.add_task(what.replace("[", r"\["), total=size)


def _size(number: int) -> str:
    return decimal(number)


def _until(made: dict[str, Any]) -> str:
    return (
        "" if made["expires_at"] is None else f", kept until {moment_text(made['expires_at'])} UTC"
    )
