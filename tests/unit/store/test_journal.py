"""The journal: who waits together is written together, exactly once, whoever leaves or fails meanwhile."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from fakes.ledger import (
    DAY,
    LOG,
    NOON,
    FaultyDatabase,
    MemoryDatabase,
    VirtualClock,
    add_user,
    balances,
    charges,
    closing,
    journal,
    opening,
    processes,
    reserved,
    rows_of,
    spending,
    statuses,
    total,
    until,
)
from monoize.account import Budgets
from monoize.errors import BudgetExceeded, DatabaseAway
from monoize.store.database import Database
from monoize.store.journal import JournalLimits
from monoize.store.tables import ledger, request_logs, spend


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def faulty(database):
    return FaultyDatabase(database)


@pytest.fixture
async def book(faulty, clock):
    """A journal on a real database that can be held up."""
    started = journal(faulty, clock)
    await started.start()
    yield started
    await started.aclose()


def note(name: str, **more):
    return {"request_id": name, "status": "error", "created_at": NOON, **LOG, **more}


# --- the plain way -------------------------------------------------------------------------------


async def test_a_request_is_durable_when_open_and_when_close_return(book, database):
    await book.open(opening("r", 10))
    assert await reserved(database) == {"r": 10}
    assert await statuses(database) == {"r": "pending"}
    await book.close(closing("r", 7))
    assert await charges(database) == {"r": 7}
    assert await statuses(database) == {"r": "success"}
    assert await total(database) == (7, 0)


async def test_those_who_wait_together_share_a_transaction(book, faulty, database):
    faulty.gate.clear()
    faulty.begun.clear()
    opened = [asyncio.create_task(book.open(opening(f"r{n}"))) for n in range(100)]
    await faulty.begun.wait()
    await asyncio.sleep(0)
    before = faulty.writes
    faulty.gate.set()
    await asyncio.gather(*opened)
    assert faulty.writes - before <= 2  # one may have begun with the first alone
    await asyncio.gather(*(book.close(closing(f"r{n}")) for n in range(100)))
    assert faulty.writes - before <= 4
    assert await total(database) == (700, 0)


class Kinds(FaultyDatabase):
    """Tells of each transaction whether it has closings."""

    def __init__(self, real):
        super().__init__(real)
        self.settling = []

    async def book(self, booking, *, settles=True):
        self.settling.append(settles)
        return await super().book(booking, settles=settles)


@pytest.mark.parametrize(
    ("many", "expected"), [(3, [False, True]), (20, [False, True, False, True])]
)
async def test_many_of_both_kinds_are_written_in_turn(database, clock, many, expected):
    kinds = Kinds(database)
    book = journal(kinds, clock)
    await book.start()
    await asyncio.gather(*(book.open(opening(f"old{n}")) for n in range(many)))
    kinds.gate.clear()
    kinds.begun.clear()
    kinds.settling.clear()
    first = asyncio.create_task(book.open(opening("first")))
    await kinds.begun.wait()  # while it is written, the others come
    waiting = [asyncio.create_task(book.open(opening(f"new{n}"))) for n in range(many)]
    waiting += [asyncio.ensure_future(book.close(closing(f"old{n}"))) for n in range(many)]
    await asyncio.sleep(0)
    kinds.gate.set()
    await asyncio.gather(first, *waiting)
    await asyncio.gather(*(book.close(closing(f"new{n}")) for n in range(many)))
    await book.close(closing("first"))
    await book.aclose()
    # Few share one transaction; of many one kind waits, and is not forgotten.
    assert kinds.settling[: len(expected)] == expected
    assert len(await charges(database)) == 2 * many + 1
    assert await total(database) == (7 * (2 * many + 1), 0)
    assert await reserved(database) == {}


@pytest.mark.parametrize("durability", ["full", "relaxed"])
@pytest.mark.parametrize("limit", ["budget", "balance"])
async def test_an_opening_that_may_be_refused_waits_for_closings_that_make_room(
    faulty, clock, database, durability, limit
):
    """Of many that wait openings may go first, but not past what was closed before them."""
    await add_user(database, "u", 100)
    more = (
        {"budgets": Budgets(total=100)} if limit == "budget" else {"user_id": "u", "prepaid": True}
    )
    book = journal(faulty, clock, durability=durability)
    await book.start()
    await asyncio.gather(*(book.open(opening(f"old{n}", key="k2")) for n in range(20)))
    await book.open(opening("first", 60, **more))
    faulty.gate.clear()
    faulty.begun.clear()
    # Closings are under way, so openings have the next turn.
    waiting = [asyncio.ensure_future(book.close(closing(f"old{n}"))) for n in range(20)]
    await faulty.begun.wait()
    waiting += [asyncio.create_task(book.open(opening(f"new{n}", key="k2"))) for n in range(20)]
    waiting.append(asyncio.ensure_future(book.close(closing("first", 1))))
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(book.open(opening("second", 60, **more))))
    await asyncio.sleep(0)
    faulty.gate.set()
    await asyncio.gather(*waiting)
    await until(lambda: not book.waiting)
    assert (await reserved(database))["second"] == 60
    await book.aclose()


async def test_a_loop_with_other_work_gathers_and_a_quiet_one_does_not_wait(database):
    """What makes a turn of the loop busy is the time that it takes; here that is told, not spent."""

    class Ticking(VirtualClock):
        tick = 0.0  # seconds, from one look to the next
        looks = 0

        def monotonic(self):
            self.looks += 1
            return super().monotonic() + self.tick * self.looks

    clock = Ticking()
    faulty = FaultyDatabase(database)
    book = journal(faulty, clock)
    await book.start()
    before = faulty.writes

    async def one_after_the_other(name):
        waiting = []
        for n in range(8):
            waiting.append(asyncio.create_task(book.open(opening(f"{name}{n}"))))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)

    await one_after_the_other("quiet")
    quiet, before = faulty.writes - before, faulty.writes
    clock.tick = 0.000_050
    await one_after_the_other("busy")
    assert faulty.writes - before == 1 < quiet
    # However busy it is, nobody waits for long.
    clock.tick, looks = 0.000_500, clock.looks
    await book.open(opening("last"))
    assert clock.looks - looks < 12
    await book.aclose()


async def test_a_batch_is_no_larger_than_allowed(faulty, clock, database):
    book = journal(faulty, clock, limits=JournalLimits(batch=10))
    await book.start()
    before = faulty.writes
    await asyncio.gather(*(book.open(opening(f"r{n}")) for n in range(95)))
    assert faulty.writes - before >= 10
    await asyncio.gather(*(book.close(closing(f"r{n}")) for n in range(95)))
    await book.aclose()
    assert len(await charges(database)) == 95


async def test_a_refusal_reaches_the_one_who_asked(book, database):
    limits = Budgets(total=25)
    results = await asyncio.gather(
        *(book.open(opening(f"r{n}", 10, budgets=limits)) for n in range(4)),
        return_exceptions=True,
    )
    assert [type(result) for result in results[2:]] == [BudgetExceeded] * 2
    assert results[:2] == [None, None]
    assert list(await reserved(database)) == ["r0", "r1"]
    await book.close(closing("r0"))
    await book.close(closing("r1"))


@pytest.mark.spec("T38")
async def test_fifty_calls_of_two_processes_on_a_budget_for_one_pass_exactly_one(
    book, clock, database, database_url, tmp_path
):
    second = await Database.open(database_url, tmp_path)
    other = journal(second, clock, "b", pid=2)
    await other.start()
    await add_user(database, "u", 10)
    for turn, more in enumerate(
        ({"budgets": Budgets(day=10)}, {"budgets": Budgets(total=10)}, {"user_id": "u"})
    ):
        results = await asyncio.gather(
            *(
                side.open(opening(f"{turn}/{n}", 10, key=f"k{turn}", **more))
                for n, side in enumerate((book, other) * 25)
            ),
            return_exceptions=True,
        )
        assert results.count(None) == 1
        assert sum(isinstance(result, BudgetExceeded) for result in results) == 49
        assert await total(database, f"k{turn}") == (0, 10)
        winner = f"{turn}/{results.index(None)}"
        await (book, other)[results.index(None) % 2].close(closing(winner, 10))
        assert await total(database, f"k{turn}") == (10, 0)
    await other.aclose()
    await second.aclose()


async def test_two_processes_never_lock_each_other_out(
    book, clock, database, database_url, tmp_path
):
    """Keys and users in every order, on both sides, at once."""
    second = await Database.open(database_url, tmp_path)
    other = journal(second, clock, "b", pid=2)
    await other.start()
    for name in "xyz":
        await add_user(database, name, 10**6)

    async def request(side, number):
        name = f"{side.instance}{number}"
        await side.open(opening(name, 5, key=f"k{number % 7}", user_id="xyz"[number % 3]))
        await side.close(closing(name, 3))

    await asyncio.gather(*(request(side, n) for n in range(60) for side in (book, other)))
    assert len(await charges(database)) == 120
    assert await balances(database) == dict.fromkeys("xyz", (10**6 - 120, 0))
    await other.aclose()
    await second.aclose()


async def test_the_day_turns_at_midnight_utc(book, clock, database):
    limits = Budgets(day=10, month=15)
    await book.open(opening("a", 10, budgets=limits))
    with pytest.raises(BudgetExceeded, match="for the day"):
        await book.open(opening("b", 1, budgets=limits))
    clock.ms += DAY
    await book.close(closing("a", 10))
    await book.open(opening("c", 5, budgets=limits))
    with pytest.raises(BudgetExceeded, match="for the month"):
        await book.open(opening("d", 1, budgets=limits))
    clock.ms += 15 * DAY
    await book.open(opening("e", 10, budgets=limits))
    for name in "ce":
        await book.close(closing(name, 1))
    windows = await spending(database)
    assert windows["k1", "day:2026-11-15"] == (10, 0)
    assert windows["k1", "day:2026-11-16"] == (1, 0)
    assert windows["k1", "month:2026-11"] == (11, 0)
    assert windows["k1", "month:2026-12"] == (1, 0)


async def test_notes_are_written_soon_and_not_waited_for(book, database):
    book.note(note("n", error_code="model_not_found"))
    await until(lambda: book.waiting == 0)
    await book.open(opening("r"))
    await book.close(closing("r"))
    (first, _) = await rows_of(database, request_logs)
    assert (first["request_id"], first["error_code"]) == ("n", "model_not_found")


async def test_notes_beyond_their_limit_are_dropped_and_counted(faulty, clock, database):
    book = journal(faulty, clock, limits=JournalLimits(notes=3))
    await book.start()
    for number in range(5):
        book.note(note(f"n{number}"))
    assert book.dropped_notes == 2
    await until(lambda: book.waiting == 0)
    book.note(note("later"))
    await book.aclose()
    assert list(await statuses(database)) == ["n0", "n1", "n2", "later"]
    book.note(note("too late"))
    assert book.dropped_notes == 3


@pytest.mark.parametrize("sum_", [-1, 10**15 + 1, 1.5, True, None])
async def test_a_sum_that_is_none_is_a_defect_and_changes_nothing(book, database, sum_):
    with pytest.raises(ValueError, match="no sum"):
        await book.open(opening("r", sum_))
    await book.open(opening("r"))
    with pytest.raises(ValueError, match="no sum"):
        await book.close(closing("r", sum_))
    assert await reserved(database) == {"r": 10}
    await book.close(closing("r"))


@pytest.mark.spec("T39")
async def test_a_counter_that_is_full_stays_full(book, database):
    """A provider whose counter is broken may fill it, a million dollars at a time; the ledger goes on."""
    almost = 2**63 - 10
    await book.open(opening("r", 10))
    await database.write(lambda c: c.execute(update(spend).values(spent=almost)) and None)
    await book.close(closing("r", 10**15))
    assert await charges(database) == {"r": 10**15}
    await book.open(opening("next", 10))
    await book.close(closing("next", 7))
    assert await total(database) == (2**63 - 1, 0)
    assert await reserved(database) == {}


async def test_a_column_that_does_not_exist_is_a_defect_and_changes_nothing(book, database):
    with pytest.raises(KeyError):
        await book.open(opening("r", log={"no_such_column": 1}))
    with pytest.raises(KeyError):
        book.note(note("n", no_such_column=1))
    assert await statuses(database) == {}


# --- what leaves, fails or comes too fast --------------------------------------------------------


async def test_one_bad_entry_does_not_spoil_the_others(book, faulty, database):
    await book.open(opening("taken"))
    faulty.gate.clear()
    ids = ["a", "taken", "b", "c", "c"]
    opened = [asyncio.create_task(book.open(opening(name))) for name in ids]
    await asyncio.sleep(0)
    book.note(note("taken"))
    faulty.gate.set()
    results = await asyncio.gather(*opened, return_exceptions=True)
    assert [isinstance(result, IntegrityError) for result in results] == [0, 1, 0, 0, 1]
    await until(lambda: book.waiting == 0)
    assert book.dropped_notes == 1
    assert await reserved(database) == {"a": 10, "b": 10, "c": 10, "taken": 10}
    assert await total(database) == (0, 40)
    for name in ("a", "b", "c", "taken"):
        await book.close(closing(name))


async def test_money_is_settled_even_if_the_words_around_it_cannot_be_written(
    book, faulty, database, caplog
):
    await book.open(opening("a"))
    await book.open(opening("b"))
    odd = closing("a", 6, log={"status": "error", "usage": {"x": object()}}, detail={"y": object()})
    with caplog.at_level(logging.ERROR, "monoize.ledger"):
        await asyncio.gather(book.close(odd), book.close(closing("b", 5)))
    assert await charges(database) == {"a": 6, "b": 5}
    assert await statuses(database) == {"a": "error", "b": "success"}
    assert "without its details" in caplog.text


@pytest.mark.spec("T18")
@pytest.mark.parametrize("steps", range(8))
async def test_an_opening_whose_caller_left_is_closed_for_nothing(book, faulty, database, steps):
    await add_user(database, "u", 100)
    task = asyncio.create_task(book.open(opening("r", user_id="u")))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    (left,) = await asyncio.gather(task, return_exceptions=True)
    await until(lambda: book.waiting == 0)
    if left is None:  # it was faster
        await book.close(closing("r", 0, log={"status": "cancelled"}))
    await book.aclose()
    assert await reserved(database) == {}
    assert await total(database) == (0, 0)
    assert await balances(database) == {"u": (100, 0)}
    assert set((await charges(database)).values()) <= {0}
    assert set((await statuses(database)).values()) <= {"cancelled"}


@pytest.mark.spec("T18")
async def test_a_caller_that_leaves_while_its_opening_is_being_written_pays_nothing(
    book, faulty, database
):
    faulty.gate.clear()
    faulty.begun.clear()
    task = asyncio.create_task(book.open(opening("r")))
    await faulty.begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    faulty.gate.set()
    await book.aclose()
    assert await charges(database) == {"r": 0}
    assert await statuses(database) == {"r": "cancelled"}


@pytest.mark.spec("T18")
async def test_a_caller_that_leaves_as_the_answer_comes_pays_nothing(book, database):
    """The reservation is made, and the task is cancelled before it could go on."""
    task = asyncio.create_task(book.open(opening("r")))
    await asyncio.sleep(0)
    (operation,) = book._writer.queue
    while not operation.done.done():  # noqa: ASYNC110 - seen before the one who waits for it
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await book.aclose()
    assert await charges(database) == {"r": 0}


@pytest.mark.spec("T18")
async def test_a_refusal_that_nobody_hears_leaves_nothing(book, faulty, database):
    faulty.gate.clear()
    faulty.begun.clear()
    task = asyncio.create_task(book.open(opening("r", budgets=Budgets(total=1))))
    await faulty.begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    faulty.gate.set()
    await book.aclose()
    assert await charges(database) == {}


@pytest.mark.spec("T18")
@pytest.mark.parametrize("steps", range(1, 6))
async def test_a_closing_is_carried_out_though_its_caller_left(book, database, steps):
    await book.open(opening("r"))
    task = asyncio.ensure_future(book.close(closing("r", 7)))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await book.aclose()
    assert await charges(database) == {"r": 7}


async def test_openings_wait_for_a_place_and_closings_always_have_one(faulty, clock, database):
    book = journal(faulty, clock, limits=JournalLimits(queue=5, batch=5))
    await book.start()
    for number in range(3):
        await book.open(opening(f"early{number}"))
    faulty.gate.clear()
    faulty.begun.clear()
    opened = [asyncio.create_task(book.open(opening(f"r{n}"))) for n in range(40)]
    await faulty.begun.wait()
    closed = [asyncio.ensure_future(book.close(closing(f"early{n}"))) for n in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert book.waiting <= 5 + 3
    leaving = opened[-1]
    leaving.cancel()  # it has not been queued: nothing is left of it
    faulty.gate.set()
    await asyncio.gather(*closed, *opened[:-1])
    assert len(await charges(database)) == 3
    assert len(await reserved(database)) == 39
    await asyncio.gather(*(book.close(closing(f"r{n}")) for n in range(39)))
    await book.aclose()
    assert len(await charges(database)) == 42


async def test_relaxed_durability_closes_before_the_commit(faulty, clock, database):
    book = journal(faulty, clock, durability="relaxed")
    await book.start()
    await book.open(opening("r"))
    faulty.gate.clear()
    await book.close(closing("r", 7))
    assert await charges(database) == {}
    faulty.gate.set()
    await book.aclose()
    assert await charges(database) == {"r": 7}


# --- the end, the heartbeat, the live view -------------------------------------------------------


async def test_the_end_writes_what_waits_and_removes_the_process(faulty, clock, database):
    book = journal(faulty, clock)
    await book.start()
    assert await processes(database) == {"a": NOON}
    await book.open(opening("r"))
    end = asyncio.ensure_future(book.close(closing("r", 7)))
    await asyncio.sleep(0)
    await book.aclose()
    await end
    assert await charges(database) == {"r": 7}
    assert await processes(database) == {}
    with pytest.raises(DatabaseAway):
        await book.open(opening("late"))
    with pytest.raises(DatabaseAway):
        await book.close(closing("late"))
    await book.aclose()  # twice does no harm


async def test_a_journal_that_never_started_takes_nothing(faulty, clock):
    book = journal(faulty, clock)
    with pytest.raises(DatabaseAway):
        await book.open(opening("r"))
    await book.aclose()


async def test_a_process_that_ends_with_open_requests_stays_known(book, database):
    await book.open(opening("r"))
    await book.aclose()
    assert await processes(database) == {"a": NOON}
    assert await reserved(database) == {"r": 10}


async def test_a_process_beats_while_it_has_something_open(book, clock, database):
    async def beat_after(seconds):
        clock.advance(seconds)
        for _ in range(50):
            await asyncio.sleep(0.001)
        return (await processes(database))["a"]

    assert await beat_after(5) == NOON  # nothing is open: nobody has to know
    await book.open(opening("r"))  # which says it along the way
    assert await processes(database) == {"a": NOON + 5_000}
    assert await beat_after(3) == NOON + 5_000
    assert await beat_after(2) == NOON + 10_000
    assert await beat_after(5) == NOON + 15_000
    await book.close(closing("r"))


async def test_a_watcher_sees_finished_rows(book):
    watching = book.subscribe()
    await book.open(opening("r", 10, log={"address": "10.0.0.1"}))
    await book.close(closing("r", 7, log={"status": "error", "error_code": "x"}))
    book.note(note("n"))
    first, second = await anext(watching), await anext(watching)
    assert (first["request_id"], first["status"], first["charge"]) == ("r", "error", 7)
    assert (first["address"], first["error_code"]) == ("10.0.0.1", "x")
    assert second["request_id"] == "n"
    await watching.aclose()
    assert [row async for row in watching] == []


async def test_a_slow_watcher_misses_the_oldest_rows_and_holds_nobody_up(clock):
    book = journal(MemoryDatabase(), clock, limits=JournalLimits(watched=2))
    await book.start()
    watching = book.subscribe()
    for number in range(5):
        book.note(note(f"n{number}"))
    await until(lambda: book.waiting == 0)
    await book.aclose()
    assert [row["request_id"] async for row in watching] == ["n3", "n4"]
    assert watching.missed == 3


async def test_what_callers_and_providers_wrote_is_cleaned_and_cut(book, database):
    nasty = "a\0b\ud800" + "x" * 10_000
    await book.open(opening("r", log={"requested_model": nasty}))
    await book.close(
        closing(
            "r",
            log={
                "status": "error",
                "error_message": nasty,
                "input_tokens": 10**40,
                "http_status": 10**12,
                "duration_ms": 1.5,
                "usage": {nasty: [nasty, float("nan")]},
                "attempts": [{"error": "\0"}],
            },
            detail={"said": "\0\udfff"},
        )
    )
    (row,) = await rows_of(database, request_logs)
    assert row["requested_model"].startswith("ab?xxx")
    assert len(row["requested_model"]) <= 256
    assert len(row["error_message"]) <= 4000
    assert row["input_tokens"] == 2**63 - 1
    assert (row["http_status"], row["duration_ms"]) == (2**31 - 1, 1)
    assert row["attempts"] == [{"error": ""}]
    assert next(iter(row["usage"].values()))[1] is None
    (paid,) = await rows_of(database, ledger)
    assert paid["detail"] == {"said": "?"}


def test_every_limit_is_documented_with_its_default():
    page = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text("utf-8")
    for name in JournalLimits.__struct_fields__:
        assert f"| `{name}` | {getattr(JournalLimits(), name):,g} |" in page
