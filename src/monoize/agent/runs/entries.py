"""A transcript a page at a time, with what its entries name: a long one is looked at in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from monoize import wirejson
from monoize.agent.canonical_json import EMPTY_HASH

__all__ = ["EntryPage", "Payload", "entry_page", "is_hash", "payload_of"]

_BESIDE_BYTES = 8 * 1024  # of a payload that comes along with its entry
_ALONE_BYTES = 1024**2
_NAMES = ("action_hash", "result_hash", "meta_hash")


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Text whatever it is: bytes that are no UTF-8 are replaced."""

    bytes: int  # of the whole
    cut: bool  # the text is its beginning
    text: str


class EntryPage(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[dict[str, Any], ...]  # entries and checkpoints as written, each with its `line`
    payloads: dict[str, Payload | None] | None  # by hash; None in it: erased
    next: int | None  # `from` of the next page


def entry_page(
    folder: Path, transcript: bytes, first: int, limit: int, *, payloads: bool
) -> EntryPage:
    """From the entry `first` on; a checkpoint belongs to the entry before it. Blocking."""
    shown: list[dict[str, Any]] = []
    following: int | None = None
    for fields in _lines(transcript):
        seq = fields["seq"] if "seq" in fields else fields["size"] - 1
        if seq >= first + limit:
            following = first + limit
            break
        if seq >= first:
            shown.append(fields)
    beside = _beside(folder, shown) if payloads else None
    return EntryPage(data=tuple(shown), payloads=beside, next=following)


def payload_of(folder: Path, digest: str, limit: int = _ALONE_BYTES) -> Payload | None:
    """None: it was erased, or never was. `digest` is a hash in hex, which the caller has made sure of. Blocking."""
    try:
        with (folder / "payloads" / digest).open("rb") as file:
            data = file.read(limit + 1)
            size = len(data) if len(data) <= limit else file.seek(0, 2)
    except FileNotFoundError:
        return None
    text = data[:limit].decode("utf-8", "replace")
    return Payload(bytes=size, cut=size > limit, text=text)


def _lines(transcript: bytes) -> Iterator[dict[str, Any]]:
    for number, raw in enumerate(transcript.splitlines(), 1):
        fields = _read(raw)
        if fields is not None:  # what is none of these is the verifier's to tell
            yield {"line": number, **fields}


def _read(raw: bytes) -> dict[str, Any] | None:
    try:
        fields = wirejson.loads(raw)
    except wirejson.JsonError:
        return None
    match fields:
        case {"seq": int()} | {"checkpoint": True, "size": int()}:
            return dict(fields)
        case _:
            return None


def _beside(folder: Path, shown: list[dict[str, Any]]) -> dict[str, Payload | None]:
    named = {line.get(name) for line in shown for name in _NAMES} - {None, EMPTY_HASH}
    return {
        digest: payload_of(folder, digest, _BESIDE_BYTES)
        for digest in sorted(map(str, named))
        if is_hash(digest)
    }


def is_hash(text: str) -> bool:
    return len(text) == len(EMPTY_HASH) and not text.strip("0123456789abcdef")
