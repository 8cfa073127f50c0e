"""What waits to be written into the ledger, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from monoize.store.books import Closing, Reservation
from monoize.store.fit import Row
from monoize.store.journal_batch import Batch, Closed, Entry, closed, entered

__all__ = [
    "Note",
    "Operation",
    "Slip",
    "admitted",
    "bare_entry",
    "barer",
    "batch_of",
    "withdrawn",
]


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


def batch_of(
    some: Sequence[Operation], reserved: Mapping[str, Entry], instance: str, now: int
) -> Batch:
    """What they are for the database; `reserved`: what this process holds, by request."""
    openings: list[Entry] = []
    closings: list[Closed] = []
    notes: list[Row] = []
    again: list[Operation] = []
    for operation in some:
        what = operation.what
        if isinstance(what, Entry):
            openings.append(what)
        elif isinstance(what, Closed):
            closings.append(what)
            if operation.slip is not None:
                openings.append(operation.slip.entry)
        else:
            notes.append(what.row)
        if operation.again:
            again.append(operation)
    return Batch(
        instance=instance,
        now=now,
        openings=openings,
        closings=closings,
        notes=notes,
        again=bool(again),
        doubtful=[held for operation in again for held in _held(operation, reserved)],
    )


def _held(operation: Operation, reserved: Mapping[str, Entry]) -> list[Reservation]:
    """What an operation is about, as far as this process knows."""
    what = operation.what
    entry = reserved.get(what.request_id) if isinstance(what, Closed) else what
    return [entry.reservation] if isinstance(entry, Entry) else []
