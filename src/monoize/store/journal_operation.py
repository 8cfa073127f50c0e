"""What waits to be written into the ledger, and who waits for it."""

from __future__ import annotations

import asyncio

import msgspec

from monoize.store.books import Closing
from monoize.store.fit import Row
from monoize.store.journal_batch import Closed, Entry, closed, entered

__all__ = ["Note", "Operation", "Slip", "admitted", "bare_entry", "barer", "withdrawn"]


class Note(msgspec.Struct, frozen=True, gc=False):
    """A whole row of the log."""

    row: Row


class Slip(msgspec.Struct, frozen=True, gc=False):
    """An opening that stands in no table yet (slips.py)."""

    entry: Entry
    piece: int
    since: float  # monotonic seconds


class Operation(msgspec.Struct, eq=False):
    """Something to write; once it is queued it is carried out, whether anybody waits for it or not (T18)."""

    what: Entry | Closed | Note
    done: asyncio.Future[None]  # cancelled together with whoever waits for it: nobody listens then
    again: bool = False  # an earlier try may have been committed
    is_accepted: bool = False  # an opening that is reserved
    is_abandoned: bool = False  # whoever opened it has left
    slip: Slip | None = None  # counts no more when this is written

    def resolve(self, error: Exception | None = None) -> None:
        done = self.done
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
            done.exception()  # nobody may be waiting, and that is no mistake


def admitted(entry: Entry) -> Entry:
    return Entry(entry.opening, entry.reservation, entry.log, admitted=True)


def withdrawn(entry: Entry) -> Closed:
    name = entry.reservation.request_id
    return closed(Closing(request_id=name, charge=0, log={"status": "cancelled"}))


def bare_entry(entry: Entry) -> Entry:
    bare = {"operation": "unknown", "is_stream": False}
    opening = msgspec.structs.replace(entry.opening, log=bare)
    return entered(opening, entry.reservation.opened_at, admitted=True)


def barer(what: Entry | Closed | Note) -> Entry | Closed | None:
    """The same money without the words around it: what is spent must be written."""
    match what:
        case Entry(admitted=True) as entry:
            return bare_entry(entry)
        case Closed(closing=closing):
            status = {"status": closing.log.get("status", "success")}
            return closed(msgspec.structs.replace(closing, log=status, detail=None))
        case _:
            return None
