"""What tests of the ledger need: time that stands still, a database that fails on demand, and plain looks at the tables."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert, select
from sqlalchemy.pool import StaticPool

from monoize.account import Budgets
from monoize.clock import SequentialIds
from monoize.errors import DatabaseAway
from monoize.store.database import Database
from monoize.store.journal import Closing, Journal, Opening
from monoize.store.journal_dialects import statements_of
from monoize.store.slips import Slips, files_beside
from monoize.store.tables import (
    METADATA,
    instances,
    ledger,
    request_logs,
    reservations,
    spend,
    users,
)

NOON = 1_794_744_000_000  # 2026-11-15T12:00:00Z
HOUR = 3_600_000
DAY = 24 * HOUR
LOG = {"operation": "chat", "is_stream": False, "requested_model": "m"}


class VirtualClock:
    """Stands still until it is told to move; sleepers wake in order."""

    def __init__(self, now: int = NOON) -> None:
        self.ms = now
        self._asleep: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.ms / 1000

    def monotonic(self) -> float:
        return (self.ms - NOON) / 1000 + 1000

    async def sleep(self, seconds: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._asleep.append((self.ms + int(seconds * 1000), waiter))
        await waiter

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)
        due = [entry for entry in self._asleep if entry[0] <= self.ms]
        self._asleep = [entry for entry in self._asleep if entry[0] > self.ms]
        for _, waiter in sorted(due, key=lambda entry: entry[0]):
            if not waiter.done():
                waiter.set_result(None)

    @property
    def sleepers(self) -> int:
        return sum(not waiter.done() for _, waiter in self._asleep)


class MemoryDatabase(Database):
    """SQLite in memory: every wish to write is a chance for others to run, nothing waits for a disk."""

    dialect = "sqlite"

    def __init__(self) -> None:
        self._engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        METADATA.create_all(self._engine)

    async def read(self, work):
        return await self.write(work)

    async def write(self, work):
        await asyncio.sleep(0)
        with self._engine.begin() as connection:
            result = work(connection)
        await asyncio.sleep(0)
        return result

    async def book(self, booking, *, settles=True):
        return await self.write(lambda connection: booking(statements_of(connection)))

    async def aclose(self) -> None:
        self._engine.dispose()


class FaultyDatabase(Database):
    """A database that goes away: before it does anything, or after it has done it and before it could say so."""

    dialect = "sqlite"

    def __init__(self, real: Database, slips_beside: Path | None = None) -> None:
        self.real = real
        self.slips_beside = slips_beside
        self.is_away = False
        self.faults: deque[str | None] = deque()  # for the next writes: "before", "after"
        self.writes = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.check: Callable[[], str | None] = lambda: None

    async def read(self, work):
        if self.is_away:
            raise DatabaseAway("the database is away")
        return await self.real.read(work)

    async def write(self, work):
        return await self._faulted(self.real.write, work)

    async def book(self, booking, *, settles=True):
        return await self._faulted(partial(self.real.book, settles=settles), booking)

    def slips(self, name: str) -> Slips | None:
        if self.slips_beside is None:
            return self.real.slips(name)
        return Slips.beside(self.slips_beside, name)

    def slip_files(self, *, but: str) -> Sequence[Path]:
        if self.slips_beside is None:
            return self.real.slip_files(but=but)
        return files_beside(self.slips_beside, but=but)

    async def _faulted(self, write, work):
        self.begun.set()
        await self.gate.wait()
        fault = self.faults.popleft() if self.faults else self.check()
        if self.is_away or fault == "before":
            raise DatabaseAway("the database is away")
        result = await write(work)
        self.writes += 1
        if fault == "after":
            raise DatabaseAway("the database went away while it committed")
        return result

    async def aclose(self) -> None:
        await self.real.aclose()


def opening(request_id: str, amount: int = 10, key: str = "k1", **more: Any) -> Opening:
    budgets = more.pop("budgets", None) or Budgets()
    log = LOG | more.pop("log", {})
    return Opening(
        request_id=request_id, key_id=key, amount=amount, budgets=budgets, log=log, **more
    )


def closing(request_id: str, charge: int = 7, **more: Any) -> Closing:
    return Closing(request_id=request_id, charge=charge, **{"log": {"status": "success"}} | more)


def journal(database: Database, clock: VirtualClock, name: str = "a", **more: Any) -> Journal:
    """One process; two of them on one database are two processes."""
    defaults = {"host": "here", "pid": 1, "sleep": clock.sleep, "is_running": lambda *_: True}
    return Journal(database, clock, SequentialIds(), instance=name, **defaults | more)


def kill(book: Journal) -> list[asyncio.Task[None]]:
    """As by SIGKILL, but for what the database had begun: these tasks are about to end, and nothing more is written."""
    tasks = [task for task in (book._writing, book._tending, book._filing) if task is not None]
    for task in tasks:
        task.cancel()
    slips = book._writer.easy.slips
    if slips is not None:  # the system closes the file, and so opens its lock
        slips._memory.close()
        os.close(slips._descriptor)
        book._writer.easy.slips = None
    return tasks


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a thread or a task; a test that hangs says where."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)  # and for what was called back


# --- looks at the tables -------------------------------------------------------------------------


async def add_user(database: Database, name: str, balance: int | None) -> None:
    def work(connection):
        row = {"id": name, "username": name, "role": "user", "enabled": True, "balance": balance}
        connection.execute(insert(users).values(**row, reserved=0, created_at=0, updated_at=0))
        if balance is not None:
            adjust = {"kind": "adjustment", "user_id": name, "amount": balance, "created_at": 0}
            adjust |= {"balance_after": balance, "estimated": False, "unpriced": False}
            connection.execute(insert(ledger).values(adjust))

    await database.write(work)


async def rows_of(database: Database, table: Any) -> list[dict[str, Any]]:
    def work(connection):
        key = [*table.primary_key.columns]
        return [dict(row._mapping) for row in connection.execute(select(table).order_by(*key))]

    return await database.read(work)


async def spending(database: Database) -> dict[tuple[str, str], tuple[int, int]]:
    """Key and window: what is spent and what is reserved."""
    return {
        (row["key_id"], row["window"]): (row["spent"], row["reserved"])
        for row in await rows_of(database, spend)
    }


async def total(database: Database, key: str = "k1") -> tuple[int, int]:
    return (await spending(database)).get((key, "total"), (0, 0))


async def charges(database: Database) -> dict[str, int]:
    found = [row for row in await rows_of(database, ledger) if row["kind"] == "charge"]
    assert len({row["request_id"] for row in found}) == len(found)
    return {row["request_id"]: row["amount"] for row in found}


async def reserved(database: Database) -> dict[str, int]:
    return {row["request_id"]: row["amount"] for row in await rows_of(database, reservations)}


async def statuses(database: Database) -> dict[str, str]:
    return {row["request_id"]: row["status"] for row in await rows_of(database, request_logs)}


async def balances(database: Database) -> dict[str, tuple[int | None, int]]:
    return {row["id"]: (row["balance"], row["reserved"]) for row in await rows_of(database, users)}


async def processes(database: Database) -> dict[str, int]:
    return {row["id"]: row["seen_at"] for row in await rows_of(database, instances)}
