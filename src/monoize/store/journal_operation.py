"""What waits to be written into the ledger, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.store.books import Closing
from monoize.store.journal_batch import Entry

__all__ = ["Note", "Operation", "admitted", "barer", "withdrawn"]


class Note(msgspec.Struct, frozen=True):
    """A whole row of the log."""

    row: Mapping[str, Any]


class Operation:
    """Something to write; once it is queued it is carried out, whether anybody waits for it or not (T18)."""

    __slots__ = ("again", "done", "is_abandoned", "what")

    def __init__(self, what: Entry | Closing | Note) -> None:
        self.what = what
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.again = False  # an earlier try may have been committed
        self.is_abandoned = False  # whoever opened it has left

    def resolve(self, error: Exception | None = None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            self.done.exception()  # nobody may be waiting, and that is no mistake


def admitted(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, admitted=True)


def withdrawn(entry: Entry) -> Closing:
    return Closing(request_id=entry.opening.request_id, charge=0, log={"status": "cancelled"})


def barer(what: Entry | Closing | Note) -> Entry | Closing | None:
    """The same money without the words around it: what is spent must be written."""
    match what:
        case Entry(admitted=True) as entry:
            bare = {"operation": "unknown", "is_stream": False}
            opening = msgspec.structs.replace(entry.opening, log=bare)
            return msgspec.structs.replace(entry, opening=opening)
        case Closing() as closing:
            status = {"status": closing.log.get("status", "success")}
            return msgspec.structs.replace(closing, log=status, detail=None)
        case _:
            return None
