"""Openings on slips: no table knows of them until they last or close, and whatever happens they settle exactly once."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes.ledger import (
    NOON,
    FaultyDatabase,
    MemoryDatabase,
    VirtualClock,
    add_user,
    balances,
    charges,
    closing,
    journal,
    kill,
    opening,
    rows_of,
    spending,
    until,
)
from fakes.slips_seen import slips_in
from monoize.account import Budgets
from monoize.errors import BudgetExceeded, DatabaseAway
from monoize.store.easy_openings import SLIP_SECONDS
from monoize.store.journal import Journal
from monoize.store.journal_batch import entered
from monoize.store.retention import Retention
from monoize.store.slips import slip_of
from monoize.store.tables import ledger, request_logs, reservations

pytestmark = pytest.mark.spec("T18", "T38", "T39")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def faulty(tmp_path: Path):
    store = FaultyDatabase(MemoryDatabase(), tmp_path / "store.db")
    yield store
    await store.aclose()


async def begun(
    faulty: FaultyDatabase, clock: VirtualClock, name: str = "a", **more: Any
) -> Journal:
    book = journal(faulty, clock, name, keeps_slips=True, **more)
    await book.start()
    return book


@pytest.fixture
async def book(faulty, clock):
    book = await begun(faulty, clock)
    yield book
    if book._writer.easy.slips is not None:  # it was not killed
        await book.aclose()


async def killed(book: Journal) -> None:
    await asyncio.wait(kill(book))
    book._writer.queue.clear()


async def statuses(faulty: FaultyDatabase) -> dict[str, tuple[str, int | None]]:
    rows = await rows_of(faulty, request_logs)
    return {row["request_id"]: (row["status"], row["charge"]) for row in rows}


async def test_an_opening_that_nobody_may_refuse_is_in_no_table_and_closes_in_one_transaction(
    book, faulty, tmp_path
):
    before = faulty.writes
    await book.open(opening("r1", amount=10, log={"address": "::1"}))
    assert faulty.writes == before
    assert slips_in(tmp_path) == {"r1": 10}
    assert await rows_of(faulty, reservations) == []
    await book.close(closing("r1", charge=7))
    assert faulty.writes == before + 1
    assert slips_in(tmp_path) == {}
    (row,) = await rows_of(faulty, request_logs)
    assert (row["status"], row["charge"], row["address"]) == ("success", 7, "::1")
    (charge,) = await rows_of(faulty, ledger)
    assert (charge["request_id"], charge["amount"]) == ("r1", 7)
    assert (await spending(faulty))["k1", "total"] == (7, 0)


@pytest.mark.parametrize(
    "limits", [{"budgets": Budgets(total=100)}, {"prepaid": True, "user_id": "u"}]
)
async def test_an_opening_that_may_be_refused_is_there_for_everybody(
    limits, book, faulty, tmp_path
):
    await add_user(faulty, "u", 100)
    await book.open(opening("r1", amount=60, **limits))
    assert slips_in(tmp_path) == {}
    assert [row["request_id"] for row in await rows_of(faulty, reservations)] == ["r1"]
    with pytest.raises(BudgetExceeded):
        await book.open(opening("r2", amount=60, **limits))
    await book.close(closing("r1"))


async def test_what_is_open_for_a_while_gets_its_rows(book, faulty, clock, tmp_path):
    await book.open(opening("r1"))
    clock.advance(SLIP_SECONDS / 2)
    await book.open(opening("r2"))
    clock.advance(SLIP_SECONDS / 2)
    await until(lambda: not book.waiting and "r1" not in book._writer.easy.on_slips)
    assert await statuses(faulty) == {"r1": ("pending", None)}
    assert [row["request_id"] for row in await rows_of(faulty, reservations)] == ["r1"]
    assert (await spending(faulty))["k1", "total"] == (0, 10)
    await book.close(closing("r1"))
    await book.close(closing("r2"))
    assert await statuses(faulty) == {"r1": ("success", 7), "r2": ("success", 7)}
    assert await rows_of(faulty, reservations) == []
    assert slips_in(tmp_path) == {}


async def test_one_that_closes_while_its_rows_wait_is_settled(book, faulty, clock):
    await book.open(opening("r1"))
    faulty.gate.clear()
    others = [asyncio.ensure_future(book.close(closing(f"x{n}"))) for n in range(40)]
    await until(lambda: not book._writer._is_idle)
    clock.advance(SLIP_SECONDS)
    await until(lambda: "r1" not in book._writer.easy.on_slips)
    ending = asyncio.ensure_future(book.close(closing("r1")))
    faulty.gate.set()
    await asyncio.gather(ending, *others)
    assert await statuses(faulty) == {"r1": ("success", 7)}
    assert (await spending(faulty))["k1", "total"] == (7, 0)


async def test_nobody_waits_for_many_small_transactions_either(book, faulty):
    """A batch with something at fault is written entry by entry."""
    many = Budgets(total=1000)
    await asyncio.gather(*(book.open(opening(f"r{n}", 1, budgets=many)) for n in range(50)))
    twice = [book.open(opening("twice", 1, budgets=many)) for _ in range(2)]  # what is at fault
    ends = [asyncio.ensure_future(one) for one in twice]
    await asyncio.sleep(0)
    ends += [asyncio.ensure_future(book.close(closing(f"r{n}", 1))) for n in range(50)]
    before = faulty.writes
    await until(lambda: faulty.writes > before)  # the first of them
    await asyncio.wait_for(book.open(opening("free")), timeout=60)
    assert faulty.writes - before < 25
    await asyncio.gather(*ends, return_exceptions=True)
    assert faulty.writes - before > 50


async def test_nobody_who_needs_no_transaction_waits_for_one_that_is_slow(book, faulty, tmp_path):
    faulty.gate.clear()
    limited = opening("limited", budgets=Budgets(total=100))
    slow = asyncio.create_task(book.open(limited))
    await until(lambda: book._writer._under_way == 1)
    await asyncio.wait_for(
        asyncio.gather(*(book.open(opening(f"before{n}")) for n in range(3))), timeout=60
    )
    await asyncio.wait_for(book.open(opening("after")), timeout=60)
    other = asyncio.create_task(book.open(opening("limited too", budgets=Budgets(total=100))))
    await asyncio.sleep(0)
    ends = [asyncio.ensure_future(book.close(closing(n))) for n in ("before0", "after")]
    assert slips_in(tmp_path).keys() == {"before0", "before1", "before2", "after"}
    assert not any(task.done() for task in (slow, other, *ends))
    faulty.gate.set()
    await asyncio.gather(slow, other, *ends)
    assert not book._writer.easy.pass_at_once
    rows = await statuses(faulty)
    assert rows == {
        "limited": ("pending", None),
        "limited too": ("pending", None),
        "before0": ("success", 7),
        "after": ("success", 7),
    }


async def test_what_a_killed_process_had_on_slips_is_charged_as_reserved(
    book, faulty, clock, tmp_path, caplog
):
    await book.open(opening("r1", amount=10, log={"address": "::1"}))
    await book.open(opening("r2", amount=20))
    await book.close(closing("r2", charge=5))
    await killed(book)
    after = await begun(faulty, clock, "b")
    assert await statuses(faulty) == {"r1": ("interrupted", 10), "r2": ("success", 5)}
    row = next(row for row in await rows_of(faulty, request_logs) if row["request_id"] == "r1")
    assert (row["estimated"], row["error_code"], row["address"]) == (True, "interrupted", "::1")
    assert (await spending(faulty))["k1", "total"] == (15, 0)
    assert slips_in(tmp_path) == {}
    assert "settled 1 requests that dead processes had left open" in caplog.text
    await after.aclose()


async def test_those_of_a_process_that_lives_are_left_alone(book, faulty, clock):
    await book.open(opening("r1"))
    other = await begun(faulty, clock, "b")
    assert await other.recover() == 0
    await other.aclose()
    await book.close(closing("r1", charge=3))
    assert await statuses(faulty) == {"r1": ("success", 3)}


async def test_rows_and_slip_of_one_opening_settle_it_once(book, faulty, clock, tmp_path, caplog):
    """A piece is kept as long as anything in it is open."""
    await book.open(opening("r1"))
    clock.advance(SLIP_SECONDS / 2)
    await book.open(opening("r2"))
    clock.advance(SLIP_SECONDS / 2)
    await until(lambda: not book.waiting and "r1" not in book._writer.easy.on_slips)
    assert slips_in(tmp_path).keys() == {"r1", "r2"}
    await killed(book)
    after = await begun(faulty, clock, "b", is_running=lambda *_: False)
    assert await statuses(faulty) == {"r1": ("interrupted", 10), "r2": ("interrupted", 10)}
    assert (await spending(faulty))["k1", "total"] == (20, 0)
    assert await rows_of(faulty, reservations) == []
    assert "cannot be settled" not in caplog.text
    await after.aclose()


async def test_much_is_settled_in_steps(book, faulty, clock):
    for number in range(1_100):
        await book.open(opening(f"r{number}"))
    await killed(book)
    before = faulty.writes
    after = await begun(faulty, clock, "b")
    assert {status for status, _ in (await statuses(faulty)).values()} == {"interrupted"}
    assert len(await rows_of(faulty, ledger)) == 1_100
    assert faulty.writes - before >= 3
    await after.aclose()


async def test_one_that_cannot_be_settled_stops_neither_the_start_nor_the_others(
    book, faulty, clock, caplog, tmp_path
):
    await book.open(opening("good"))
    bad = entered(opening("bad", amount=2**63), NOON)  # more than fits into a column
    book._writer.easy.slips.put(slip_of(bad))
    await killed(book)
    after = await begun(faulty, clock, "b")
    assert (await statuses(faulty))["good"] == ("interrupted", 10)
    assert "request bad of a process that died cannot be settled" in caplog.text
    assert tmp_path.joinpath("store.db-slips-a.unread").exists(), "all there is to know of it"
    await after.aclose()


async def test_one_that_has_been_charged_is_settled_though_its_row_of_the_log_was_swept(
    book, faulty, clock, caplog, tmp_path
):
    await book.open(opening("open"))
    for name in ("r1", "r2"):
        await book.open(opening(name))
        await book.close(closing(name))
    await killed(book)
    await faulty.write(partial(Retention(keep_rows=1).sweep, now=clock.ms))
    after = await begun(faulty, clock, "b")
    assert await charges(faulty) == {"r1": 7, "r2": 7, "open": 10}
    assert "cannot be settled" not in caplog.text
    assert slips_in(tmp_path) == {}
    await after.aclose()


async def test_a_start_that_fails_leaves_no_file_and_no_lock(faulty, clock, tmp_path, monkeypatch):
    def away(work):
        raise DatabaseAway("the database is away")

    monkeypatch.setattr(faulty, "read", away)
    with pytest.raises(DatabaseAway):
        await begun(faulty, clock)
    assert list(tmp_path.iterdir()) == []


async def test_one_without_a_place_of_its_own_settles_those_of_others(
    book, faulty, clock, monkeypatch
):
    await book.open(opening("r1"))
    await killed(book)
    monkeypatch.setattr(faulty, "slips", lambda name: None)
    after = await begun(faulty, clock, "b")
    assert after._writer.easy.slips is None
    assert await statuses(faulty) == {"r1": ("interrupted", 10)}
    await after.aclose()


async def test_what_cannot_be_read_stops_nobody_is_kept_and_is_told_of_once(
    book, faulty, clock, tmp_path, caplog
):
    await book.open(opening("r1"))
    await killed(book)
    strange, pipe = tmp_path / "store.db-slips-c", tmp_path / "store.db-slips-d"
    strange.write_bytes(b"monoize slips 2\n" + b"?" * 5000)
    os.mkfifo(pipe)
    after = await begun(faulty, clock, "b")
    await after.recover()
    assert await statuses(faulty) == {"r1": ("interrupted", 10)}
    assert strange.exists()
    assert pipe.exists()
    assert caplog.text.count("is not settled") == 2
    await after.aclose()


async def test_a_folder_that_cannot_be_listed_stops_nobody(faulty, clock, monkeypatch, caplog):
    def refused(*, but):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(faulty, "slip_files", refused)
    book = await begun(faulty, clock)
    await book.recover()
    assert caplog.text.count("cannot be looked for: [Errno 13] Permission denied") == 1
    await book.aclose()


async def test_a_damaged_slip_is_set_aside_and_its_neighbours_are_settled(
    book, faulty, clock, tmp_path, caplog
):
    await book.open(opening("r1"))
    book._writer.easy.slips.put(b"not a slip")
    await killed(book)
    after = await begun(faulty, clock, "b")
    assert await statuses(faulty) == {"r1": ("interrupted", 10)}
    aside = tmp_path / "store.db-slips-a.unread"
    assert f"1 slips are not settled and kept in {aside}" in caplog.text
    assert aside.exists()
    assert not tmp_path.joinpath("store.db-slips-a").exists()
    await after.aclose()


@pytest.mark.parametrize("waits", [False, True])
async def test_rows_that_could_not_be_written_before_it_closes_are_written_then(
    waits, book, faulty, clock, tmp_path, caplog
):
    """`waits`: its closing waits already while its rows are refused."""
    await book.open(opening("r1"))
    refused, ending = 0, None

    def check():
        nonlocal refused, ending
        if refused < 2:
            refused += 1
            if waits and ending is None:
                ending = asyncio.ensure_future(book.close(closing("r1")))
            raise RuntimeError("some defect")

    faulty.check = check
    clock.advance(SLIP_SECONDS)
    await until(lambda: refused == 2 and not book.waiting)
    await (ending or book.close(closing("r1")))
    assert await statuses(faulty) == {"r1": ("success", 7)}
    assert await charges(faulty) == {"r1": 7}
    assert slips_in(tmp_path) == {}
    assert "settled before" not in caplog.text


# --- without the database ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_whether_the_commit_went_through_or_not_it_counts_once(fault, book, faulty, clock):
    await book.open(opening("r1"))
    faulty.faults.append(fault)
    await book.close(closing("r1"))
    clock.advance(1)
    await until(lambda: not book.is_away)
    assert await statuses(faulty) == {"r1": ("success", 7)}
    assert (await spending(faulty))["k1", "total"] == (7, 0)
    assert len(await rows_of(faulty, ledger)) == 1


async def test_what_was_on_slips_when_it_went_away_is_written_once_afterwards(
    book, faulty, clock, tmp_path
):
    for name in ("r1", "r2", "r3"):
        await book.open(opening(name))
    faulty.is_away = True
    await book.close(closing("r1"))
    clock.advance(SLIP_SECONDS)
    await book.close(closing("r2"))
    await book.open(opening("r4"))  # from memory
    faulty.is_away = False
    clock.advance(5)
    await until(lambda: not book.is_away and not book.waiting)
    await book.close(closing("r3"))
    await book.close(closing("r4"))
    assert {*(await statuses(faulty)).values()} == {("success", 7)}
    assert (await spending(faulty))["k1", "total"] == (28, 0)
    assert slips_in(tmp_path) == {}


async def test_counters_in_memory_are_right_while_it_is_away(book, faulty, clock):
    await book.open(opening("seen", budgets=Budgets(total=1_000)))
    await book.close(closing("seen", charge=0))
    await book.open(opening("r1", amount=60))
    await book.open(opening("r2", amount=60))
    faulty.is_away = True
    await book.close(closing("r1", charge=60))
    limited = Budgets(total=150)
    with pytest.raises(BudgetExceeded):  # 60 are spent and 60 reserved
        await book.open(opening("r3", amount=40, budgets=limited))
    await book.open(opening("r4", amount=30, budgets=limited))
    faulty.is_away = False
    clock.advance(5)
    await until(lambda: not book.is_away)


async def test_a_process_that_is_killed_while_it_is_away_still_has_its_slips(book, faulty, clock):
    await book.open(opening("r1", amount=10))
    await book.open(opening("r2", amount=20))
    faulty.is_away = True
    await book.close(closing("r1", charge=1))  # in memory only
    await killed(book)
    faulty.is_away = False
    after = await begun(faulty, clock, "b")
    assert await statuses(faulty) == {"r1": ("interrupted", 10), "r2": ("interrupted", 20)}
    await after.aclose()


async def test_an_end_without_the_database_leaves_them_to_the_next_process(book, faulty, clock):
    await book.open(opening("r1", amount=10))
    faulty.is_away = True
    await book.close(closing("r1", charge=1))
    ending = asyncio.create_task(book.aclose())
    while not ending.done():
        clock.advance(5)
        await asyncio.sleep(0.01)
        for task in (book._writing,):
            task.cancel()
    await ending
    book._writer.easy.slips = None
    faulty.is_away = False
    after = await begun(faulty, clock, "b")
    assert await statuses(faulty) == {"r1": ("interrupted", 10)}
    await after.aclose()


# --- words, callers, places ----------------------------------------------------------------------


async def test_words_that_the_database_refuses_do_not_stay_unpaid(
    book, faulty, monkeypatch, caplog
):
    await book.open(opening("r1", user_id="u" * 10))
    slip = book._writer.easy.on_slips["r1"]
    bad = type(slip.entry.log)(
        (*slip.entry.log.names, "no_such_column"), (*slip.entry.log.values, 1)
    )
    entry = type(slip.entry)(slip.entry.opening, slip.entry.reservation, bad, admitted=True)
    book._writer.easy.on_slips["r1"] = type(slip)(entry, slip.piece, slip.since)
    await book.close(closing("r1"))
    assert await statuses(faulty) == {"r1": ("success", 7)}
    assert "written without its details" in caplog.text


async def test_a_user_who_has_become_prepaid_meanwhile_pays(book, faulty):
    await add_user(faulty, "u", 5)
    await book.open(opening("r1", amount=10, user_id="u"))  # who was not when the key was read
    await book.close(closing("r1", charge=7))
    assert (await balances(faulty))["u"] == (-2, 0)
    assert await statuses(faulty) == {"r1": ("success", 7)}


async def test_a_caller_that_leaves_while_it_opens_pays_nothing(book, faulty, tmp_path):
    leaving = asyncio.create_task(book.open(opening("r1")))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await until(lambda: not book.waiting and not book._writer.open)
    assert {*(await statuses(faulty)).values()} <= {("cancelled", 0)}
    assert slips_in(tmp_path) == {}


async def test_what_cannot_be_written_down_is_refused_and_nobody_else(book, faulty):
    with pytest.raises(UnicodeEncodeError):
        await book.open(opening("r1", key="half a character: \ud800"))
    await book.open(opening("r2"))
    await book.close(closing("r2"))
    assert await statuses(faulty) == {"r2": ("success", 7)}


async def test_without_room_an_opening_takes_its_transaction(book, faulty, monkeypatch):
    monkeypatch.setattr(book._writer.easy.slips, "put", lambda _: None, raising=False)
    await book.open(opening("r1"))
    assert await statuses(faulty) == {"r1": ("pending", None)}
    await book.close(closing("r1"))


async def test_where_the_database_has_no_place_nothing_changes(clock):
    store = MemoryDatabase()
    book = await begun(store, clock)
    await book.open(opening("r1"))
    rows = await rows_of(store, request_logs)
    assert [row["status"] for row in rows] == ["pending"]
    await book.close(closing("r1"))
    await book.aclose()
    await store.aclose()
