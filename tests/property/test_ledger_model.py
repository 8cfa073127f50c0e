"""Random histories of several processes on one ledger, against a naive oracle that adds everything up from the start."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from fakes.databases import database, database_url
from fakes.ledger import (
    DAY,
    HOUR,
    LOG,
    NOON,
    FaultyDatabase,
    MemoryDatabase,
    VirtualClock,
    add_user,
    balances,
    journal,
    kill,
    rows_of,
    spending,
)
from monoize.account import Budgets
from monoize.errors import BudgetExceeded, DatabaseAway
from monoize.store import recovery, slips
from monoize.store.books import Closing, Opening
from monoize.store.journal import JournalLimits
from monoize.store.journal_batch import Batch, Closed, Entry, closed, entered, write
from monoize.store.journal_layout import WHOLE
from monoize.store.tables import ledger, request_logs, reservations, users

__all__ = ["database", "database_url"]

pytestmark = [pytest.mark.soak, pytest.mark.spec("T38", "T39")]

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
BATCHES = 10
HISTORIES = 1_000 if SOAK else 50  # of transactions
CROWDS = 2_000 if SOAK else 100  # of tasks on whole journals
SERVED = 60 if SOAK else 2  # histories on each real database
STEPS = 60
KEYS = ("k0", "k1", "k2")
USERS = (None, "rich", "poor", "open")
BUDGETS = {
    "k0": Budgets(),
    "k1": Budgets(day=60, total=500),
    "k2": Budgets(day=100, month=150, total=260),
}


# --- the oracle: a list of requests and nothing else ---------------------------------------------


class Request:
    def __init__(self, entry: Entry, instance: str) -> None:
        self.entry = entry
        self.instance = instance
        self.charge: int | None = None  # None: under way
        self.estimated = False
        self.status = "pending"
        self.from_balance = False  # its user was prepaid when it ended

    @property
    def day(self) -> str:
        return f"{datetime.fromtimestamp(self.entry.reservation.opened_at / 1000, UTC):%Y-%m-%d}"


class Oracle:
    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self.adjusted: Counter[str] = Counter()
        self.notes: set[str] = set()

    def used(self, key: str, day: str) -> int:
        """Spent and reserved by a key on days that begin so."""
        return sum(
            r.entry.opening.amount if r.charge is None else r.charge
            for r in self.requests.values()
            if r.entry.opening.key_id == key and r.day.startswith(day)
        )

    def balance(self, user: str) -> int:
        of_user = [r for r in self.requests.values() if r.entry.opening.user_id == user]
        return self.adjusted[user] - sum(r.charge or 0 for r in of_user)

    def held(self, user: str) -> int:
        return sum(
            r.entry.opening.amount
            for r in self.requests.values()
            if r.entry.opening.user_id == user and r.charge is None
        )

    def allows(self, entry: Entry) -> bool:
        opening, limits = entry.opening, entry.opening.budgets
        day = Request(entry, "").day
        for limit, prefix in ((limits.day, day), (limits.month, day[:7]), (limits.total, "")):
            if limit is not None and self.used(opening.key_id, prefix) + opening.amount > limit:
                return False
        user = opening.user_id
        if user in ("rich", "poor"):
            return self.balance(user) - self.held(user) >= opening.amount
        return True

    def close(self, end: Closed) -> bool:
        closing = end.closing
        request = self.requests.get(closing.request_id)
        if request is None or request.charge is not None:
            return False
        request.charge, request.estimated = closing.charge, closing.estimated
        request.status = closing.log["status"]
        return True


# --- histories of transactions -------------------------------------------------------------------


class History:
    """Processes that open, close, die and are cleaned up after; some batches are lost, some written twice."""

    def __init__(self, seed: int, store: Any) -> None:
        self.rng = random.Random(seed)
        self.store = store
        self.oracle = Oracle()
        self.now = NOON
        self.seconds = 0.0
        self.number = 0
        self.instances = [self.new_name("i") for _ in range(3)]
        self.dead: set[str] = set()
        self.watch = recovery.Watch(60.0)
        self.seen: Counter[str] = Counter()

    def new_name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number:04d}"

    async def run(self) -> None:
        for user in ("rich", "poor"):
            self.oracle.adjusted[user] = {"rich": 10_000, "poor": 120}[user]
            await add_user(self.store, user, self.oracle.adjusted[user])
        await add_user(self.store, "open", None)
        steps = (*(self.batch,) * 7, self.die, self.clean, self.wait, self.adjust)
        for _ in range(STEPS):
            await self.rng.choice(steps)()
            if self.rng.random() < 0.25:
                await self.compare()
        self.dead.update(self.instances)
        self.instances = ["last"]
        await self.clean("here")
        await self.compare()
        assert await rows_of(self.store, reservations) == []

    # --- what may happen ---

    async def batch(self) -> None:
        rng, instance = self.rng, self.rng.choice(self.instances)
        openings = [self.entry() for _ in range(rng.choice((0, 1, 1, 2, 5)))]
        closings = self.closings(instance, openings)
        rng.shuffle(closings)
        notes = [
            WHOLE.row(
                {"request_id": self.new_name("n"), "status": "error", "created_at": self.now, **LOG}
            )
            for _ in range(rng.choice((0, 0, 0, 2)))
        ]
        batch = Batch(
            instance=instance, now=self.now, openings=openings, closings=closings, notes=notes
        )
        fate = rng.choice(("good", "good", "good", "lost", "doubled", "failed and again"))
        self.seen[fate] += 1
        if fate in ("lost", "failed and again"):
            await self.rolled_back(batch)
        if fate == "lost":
            return
        if fate == "failed and again":
            batch = Batch(
                instance=instance,
                now=self.now,
                openings=openings,
                closings=closings,
                notes=notes,
                again=True,
            )
        written = await self.store.book(partial(self.work, batch=batch))
        self.expect(batch, written)
        if fate == "doubled":
            again = Batch(
                instance=instance,
                now=self.now,
                openings=[e for e in openings if e.opening.request_id not in written.refusals],
                closings=closings,
                notes=notes,
                again=True,
            )
            repeated = await self.store.book(partial(self.work, batch=again))
            assert not repeated.refusals
            assert not repeated.settled

    def work(self, statements, *, batch):
        statements.saw(instance=batch.instance, host="here", pid=1, seen_at=self.now)
        return write(statements, batch)

    async def rolled_back(self, batch: Batch) -> None:
        class Lost(Exception):
            pass

        def work(statements):
            self.work(statements, batch=batch)
            raise Lost

        with pytest.raises(Lost):
            await self.store.book(work)

    def entry(self) -> Entry:
        rng = self.rng
        key = rng.choice(KEYS)
        opening = Opening(
            request_id=self.new_name("r"),
            key_id=key,
            user_id=rng.choice(USERS),
            amount=rng.choice((0, 1, 10, 25, 60)),
            budgets=BUDGETS[key],
            log=LOG,
        )
        return entered(opening, self.now, admitted=rng.random() < 0.1)

    def closings(self, instance: str, openings: list[Entry]) -> list[Closed]:
        rng = self.rng
        mine = [
            name
            for name, request in self.oracle.requests.items()
            if request.instance == instance and request.charge is None
        ]
        names = rng.sample(mine, rng.randint(0, len(mine)))
        if rng.random() < 0.2 and self.oracle.requests:  # ended before, or somebody else's
            names.append(rng.choice(list(self.oracle.requests)))
        if rng.random() < 0.1:
            names.append("nobody")
        if names and rng.random() < 0.1:
            names.append(names[0])
        names += [e.opening.request_id for e in openings if e.admitted and rng.random() < 0.5]
        return [self.closing(name) for name in names]

    def closing(self, name: str) -> Closed:
        rng = self.rng
        request = self.oracle.requests.get(name)
        amount = request.entry.opening.amount if request else 10
        return closed(
            Closing(
                request_id=name,
                charge=rng.choice((0, amount // 2, amount, amount, amount + 3)),
                estimated=rng.random() < 0.2,
                log={"status": rng.choice(("success", "success", "error", "cancelled"))},
            )
        )

    def expect(self, batch: Batch, written: Any) -> None:
        oracle, new = self.oracle, {e.opening.request_id for e in batch.openings}
        settled = {
            c.request_id for c in batch.closings if c.request_id not in new and oracle.close(c)
        }
        for entry in batch.openings:
            name = entry.opening.request_id
            if not entry.admitted and not oracle.allows(entry):
                assert name in written.refusals, f"{name} was let in"
                self.seen["refused"] += 1
                continue
            assert name not in written.refusals, written.refusals
            self.seen["admitted" if entry.admitted else "opened"] += 1
            oracle.requests[name] = Request(entry, batch.instance)
            first = next((c for c in batch.closings if c.request_id == name), None)
            if first is not None and oracle.close(first):
                self.seen["opened and closed"] += 1
                settled.add(name)
        assert written.settled == settled
        self.seen["settled"] += len(settled)
        oracle.notes.update(note.get("request_id") for note in batch.notes)

    async def die(self) -> None:
        if len(self.instances) > 1 and self.rng.random() < 0.5:
            name = self.rng.choice(self.instances)
            self.instances.remove(name)
            self.dead.add(name)
            self.instances.append(self.new_name("i"))
            self.seen["died"] += 1

    async def clean(self, host: str | None = None) -> None:
        """By one who looks at process numbers, or by one who has only silence to go by."""
        cleaner = self.rng.choice(self.instances)
        host = host or self.rng.choice(("here", "elsewhere"))
        others = await self.store.read(partial(recovery.processes, but=cleaner))
        dead = self.watch.dead(others, host, self.seconds, lambda *_: True)
        if host == "here":
            dead += [p for p in others if p.instance in self.dead and p not in dead]
        count = 0
        while dead:
            work = partial(recovery.settle_left, dead=dead, now=self.now)
            some = await self.store.write(work)
            if not some:
                break
            count += some
        names = {process.instance for process in dead}
        left = [
            r for r in self.oracle.requests.values() if r.charge is None and r.instance in names
        ]
        assert count == len(left)
        for request in left:
            request.charge, request.estimated = request.entry.opening.amount, True
            request.status = "interrupted"
            self.seen["interrupted"] += 1

    async def wait(self) -> None:
        step = self.rng.choice((1_000, 30_000, 61_000, HOUR, 7 * HOUR, DAY, 9 * DAY))
        self.now += step
        self.seconds += step / 1000

    async def adjust(self) -> None:
        user, amount = self.rng.choice((("rich", 50), ("poor", 40), ("rich", -20)))

        def work(connection):
            connection.execute(
                update(users).where(users.c.id == user).values(balance=users.c.balance + amount)
            )
            row = {"kind": "adjustment", "user_id": user, "amount": amount, "created_at": self.now}
            connection.execute(insert(ledger).values(**row, estimated=False, unpriced=False))

        await self.store.write(work)
        self.oracle.adjusted[user] += amount

    # --- what must hold ---

    async def compare(self) -> None:
        oracle = self.oracle
        spent: Counter[tuple[str, str]] = Counter()
        reserved: Counter[tuple[str, str]] = Counter()
        for request in oracle.requests.values():
            for window in ("total", f"day:{request.day}", f"month:{request.day[:7]}"):
                line = (request.entry.opening.key_id, window)
                spent[line] += request.charge or 0
                reserved[line] += request.entry.opening.amount if request.charge is None else 0
        lines = await spending(self.store)
        assert {line: n for line, n in lines.items() if n != (0, 0)} == {
            line: (spent[line], reserved[line])
            for line in spent.keys() | reserved.keys()
            if spent[line] or reserved[line]
        }
        assert await balances(self.store) == {
            "open": (None, oracle.held("open")),
            **{user: (oracle.balance(user), oracle.held(user)) for user in ("rich", "poor")},
        }
        held = {row["request_id"]: row for row in await rows_of(self.store, reservations)}
        assert {name: (row["instance"], row["amount"]) for name, row in held.items()} == {
            name: (request.instance, request.entry.opening.amount)
            for name, request in oracle.requests.items()
            if request.charge is None
        }
        charged = [row for row in await rows_of(self.store, ledger) if row["kind"] == "charge"]
        assert sorted((r["request_id"], r["amount"], r["estimated"]) for r in charged) == sorted(
            (name, request.charge, request.estimated)
            for name, request in oracle.requests.items()
            if request.charge is not None
        )
        logs = {row["request_id"]: row for row in await rows_of(self.store, request_logs)}
        assert logs.keys() == oracle.requests.keys() | oracle.notes
        for name, request in oracle.requests.items():
            assert (logs[name]["status"], logs[name]["charge"]) == (request.status, request.charge)


@pytest.mark.parametrize("batch", range(BATCHES))
async def test_every_history_leaves_what_the_oracle_says(batch):
    each = HISTORIES // BATCHES
    for seed in range(batch * each, (batch + 1) * each):
        store = MemoryDatabase()
        try:
            await History(seed, store).run()
        except Exception as error:
            pytest.fail(f"History({seed}) failed: {type(error).__name__}: {error}")
        finally:
            await store.aclose()


@pytest.mark.parametrize("seed", range(SERVED))
async def test_histories_on_real_databases(database, seed):
    await History(1_000_000 + seed, database).run()


async def test_the_histories_visit_what_matters():
    seen: Counter[str] = Counter()
    for seed in range(6):
        store = MemoryDatabase()
        history = History(seed, store)
        await history.run()
        await store.aclose()
        seen += history.seen
    for what in (
        "good", "lost", "doubled", "failed and again", "opened", "refused", "admitted",
        "opened and closed", "settled", "died", "interrupted",
    ):  # fmt: skip
        assert seen[what] >= 5, seen


# --- crowds of tasks on whole journals -----------------------------------------------------------


class Crowd:
    """Callers that come, stay, leave; a database that goes away at bad moments; processes that are killed."""

    def __init__(self, seed: int, store: MemoryDatabase, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.store = store
        self.keeps_slips = seed % 2 == 0
        self.faulty = FaultyDatabase(store, folder / f"store{seed}.db")
        self.faulty.check = self.fault
        self.trouble = self.rng.choice((0.0, 0.0, 0.1, 0.4))
        self.kills = self.rng.choice((0, 0, 1, 2))
        self.safe = not self.trouble  # nothing is kept in memory only
        self.limits = JournalLimits(
            queue=self.rng.choice((2, 100)),
            batch=self.rng.choice((1, 3, 100)),
            spool=self.rng.choice((5, 1000)),
            grace_seconds=self.rng.choice((0.5, 300.0)),
        )
        self.opened: dict[str, int] = {}  # told that it is reserved
        self.closed: dict[str, int] = {}  # told that it is settled
        self.refused: set[str] = set()
        self.left: set[str] = set()  # left while it opened
        self.generation = 0
        self.seen: Counter[str] = Counter()
        self.journal = self.new_journal()

    def fault(self) -> str | None:
        if self.rng.random() < self.trouble:
            return self.rng.choice(("before", "after"))
        return None

    def new_journal(self):
        self.generation += 1
        mine = self.generation
        return journal(
            self.faulty,
            self.clock,
            f"g{mine}",
            pid=mine,
            keeps_slips=self.keeps_slips,
            limits=self.limits,
            is_running=lambda pid, _: pid == self.generation,
        )

    async def calm(self, doing):
        """Beginning and end are no part of the trouble."""
        trouble, self.trouble = self.trouble, 0.0
        self.faulty.is_away = False
        task = asyncio.ensure_future(doing)
        while not task.done():
            self.clock.advance(5)
            await asyncio.sleep(0)
        self.trouble = trouble
        return await task

    async def run(self) -> None:
        for user, balance in (("rich", 10_000), ("poor", 100)):
            await add_user(self.store, user, balance)
        await self.calm(self.journal.start())
        tasks = []
        for number in range(40):
            tasks.append(asyncio.create_task(self.caller(f"r{number:03d}")))
            for _ in range(self.rng.choice((0, 0, 1, 3, 9))):
                await asyncio.sleep(0)
            if self.rng.random() < 0.2:
                self.rng.choice(tasks).cancel()
            if self.rng.random() < 0.3:
                self.clock.advance(self.rng.choice((0.1, 1, 5, 60)))
            if self.kills and self.rng.random() < 0.05:
                await self.kill(tasks)
        while not all(task.done() for task in tasks):
            self.clock.advance(1)
            await asyncio.sleep(0)
        for task in tasks:
            assert task.cancelled() or task.exception() is None, task
        await self.calm(self.journal.aclose())
        after = self.new_journal()
        await self.calm(after.start())
        await self.calm(after.aclose())
        await self.compare()

    async def caller(self, name: str) -> None:
        rng = self.rng
        key = rng.choice(("k0", *KEYS) if self.keeps_slips else KEYS)
        user = rng.choice((None, None, "rich", "poor"))
        opening = Opening(
            request_id=name,
            key_id=key,
            user_id=user,
            prepaid=user is not None,
            amount=rng.choice((1, 10, 25)),
            budgets=BUDGETS[key],
            log=LOG,
        )
        book = self.journal
        try:
            await book.open(opening)
        except (BudgetExceeded, DatabaseAway) as error:
            self.refused.add(name)
            self.seen[type(error).__name__] += 1
            return
        except asyncio.CancelledError:
            self.left.add(name)
            self.seen["left while opening"] += 1
            raise
        self.opened[name] = opening.amount
        charge = rng.choice((0, opening.amount // 2, opening.amount))
        try:
            for _ in range(rng.choice((0, 1, 5, 20))):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.seen["left in between"] += 1
            await asyncio.shield(self.end(book, name, charge))
            raise
        await self.end(book, name, charge)

    async def end(self, book, name: str, charge: int) -> None:
        try:
            await book.close(Closing(request_id=name, charge=charge, log={"status": "success"}))
        except DatabaseAway:
            self.seen["killed before closing"] += 1
            return
        self.closed[name] = charge
        self.seen["closed in memory" if book.is_away else "closed"] += 1

    async def kill(self, tasks: list[asyncio.Task[None]]) -> None:
        """As by SIGKILL, but for what the database had begun; its callers hear nothing more."""
        self.kills -= 1
        self.seen["killed"] += 1
        old = self.journal
        if old.is_away:
            self.safe = False
        self.seen["killed with slips"] += bool(old._writer.easy.on_slips)
        for task in tasks:
            task.cancel()
        await asyncio.wait(kill(old))
        old._writer.queue.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.journal = self.new_journal()
        await self.calm(self.journal.start())

    async def compare(self) -> None:
        assert await rows_of(self.store, reservations) == []
        charged = [row for row in await rows_of(self.store, ledger) if row["kind"] == "charge"]
        by_name = {row["request_id"]: row for row in charged}
        assert len(by_name) == len(charged), "charged twice"
        spent: Counter[str] = Counter()
        for row in charged:
            spent[row["key_id"]] += row["amount"]
        for (key, window), (line, held) in (await spending(self.store)).items():
            assert held == 0
            if window == "total":
                assert line == spent[key]
            limit = getattr(BUDGETS[key], window.partition(":")[0])
            assert limit is None or line <= limit, f"{key} spent {line} of {limit} in {window}"
        for user, begin in (("rich", 10_000), ("poor", 100)):
            paid = sum(row["amount"] for row in charged if row["user_id"] == user)
            assert (await balances(self.store))[user] == (begin - paid, 0)
        logs = {row["request_id"]: row for row in await rows_of(self.store, request_logs)}
        assert logs.keys() == by_name.keys()
        for name, row in logs.items():
            assert row["status"] != "pending"
            assert row["charge"] == by_name[name]["amount"]
        self.compare_callers(by_name)

    def compare_callers(self, by_name: dict[str, Any]) -> None:
        """A process that is killed while the database is away takes what it has in memory with it."""
        killed = self.seen["killed"]
        for name in self.refused & by_name.keys():
            free = by_name[name]["amount"] == 0
            assert free or (killed and not self.safe), f"{name} was refused, and charged"
        for name, charge in self.closed.items():
            if name in by_name:
                exact = by_name[name]["amount"] == charge and not by_name[name]["estimated"]
                assert exact or not self.safe, f"{name} was settled at another sum"
            else:
                assert not self.safe, f"{name} was settled, and is lost"
            if not killed:
                assert by_name[name]["amount"] == charge
        for name in self.opened:
            assert name in by_name or (killed and not self.safe), f"{name} was opened, and is lost"
        for name in self.left & by_name.keys():
            assert by_name[name]["amount"] == 0 or killed, f"{name} left, and was charged"


@pytest.mark.spec("T18", "D19")
@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("room", ["much", "little"])
async def test_crowds_settle_exactly_once_whatever_happens(batch, room, tmp_path, monkeypatch):
    if room == "little":  # for slips: three pieces, two or three in each
        monkeypatch.setattr(slips, "_PIECE", 512)
        monkeypatch.setattr(slips, "_PIECES", 3)
    each = CROWDS // BATCHES // 2
    for seed in range(batch * each, (batch + 1) * each):
        store = MemoryDatabase()
        try:
            async with asyncio.timeout(60):
                await Crowd(seed, store, tmp_path).run()
        except Exception as error:
            pytest.fail(f"Crowd({seed}) failed: {type(error).__name__}: {error}")
        finally:
            await store.aclose()
        assert not list(tmp_path.glob("*-slips-*")), f"Crowd({seed}) left slips"


async def test_the_crowds_visit_what_matters(tmp_path):
    seen: Counter[str] = Counter()
    for seed in range(64):
        store = MemoryDatabase()
        crowd = Crowd(seed, store, tmp_path)
        await crowd.run()
        await store.aclose()
        seen += crowd.seen
    for what in (
        "closed", "closed in memory", "left while opening", "left in between", "killed",
        "BudgetExceeded", "DatabaseAway", "killed with slips",
    ):  # fmt: skip
        assert seen[what] >= 4, seen
