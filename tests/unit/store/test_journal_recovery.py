"""Processes that died: what they left open settles once, at what was reserved, and is marked."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from functools import partial

import pytest
from sqlalchemy import delete

from fakes.ledger import (
    NOON,
    FaultyDatabase,
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
    statuses,
    total,
)
from monoize.account import Budgets
from monoize.errors import BudgetExceeded, DatabaseAway
from monoize.store import recovery
from monoize.store.database import Database
from monoize.store.recovery import Process, Watch, is_running, this_host
from monoize.store.tables import instances, ledger, request_logs


@pytest.fixture
def clock():
    return VirtualClock()


def gone(*_):
    return False


async def dies(book):
    """As by SIGKILL: nothing is written any more."""
    for task in (book._writing, book._tending):
        task.cancel()
    await asyncio.wait({book._writing, book._tending})


async def left_by(database, clock, *names, instance="dead", **more):
    book = journal(database, clock, instance, **{"pid": 4711} | more)
    await book.start()
    for name in names:
        await book.open(opening(name, 10, user_id="u"))
    await dies(book)
    return book


async def test_what_a_dead_process_left_open_is_charged_as_reserved_and_marked(database, clock):
    await add_user(database, "u", 100)
    await left_by(database, clock, "a", "b")
    book = journal(database, clock, is_running=gone)
    assert await book.start() == 2
    assert await charges(database) == {"a": 10, "b": 10}
    assert await reserved(database) == {}
    assert await total(database) == (20, 0)
    assert await balances(database) == {"u": (80, 0)}
    assert await statuses(database) == {"a": "interrupted", "b": "interrupted"}
    assert all(row["estimated"] for row in (await rows_of(database, ledger))[1:])
    for row in await rows_of(database, request_logs):
        assert (row["charge"], row["estimated"], row["error_code"]) == (10, True, "interrupted")
    assert list(await processes(database)) == ["a"]
    assert await book.recover() == 0
    await book.aclose()


async def test_what_ended_before_the_crash_is_left_alone(database, clock):
    book = await left_by(database, clock, "a")
    second = journal(database, clock, "dead", pid=4711)
    await second.start()
    await second.open(opening("b"))
    await second.close(closing("b", 3))
    await dies(second)
    del book
    third = journal(database, clock, is_running=gone)
    assert await third.start() == 1
    assert await charges(database) == {"a": 10, "b": 3}
    await third.aclose()


async def test_a_process_that_lives_keeps_its_requests(database, clock):
    living = journal(database, clock, "b", pid=2)
    await living.start()
    await living.open(opening("a"))
    book = journal(database, clock)
    assert await book.start() == 0
    assert await reserved(database) == {"a": 10}
    await living.close(closing("a", 4))
    await living.aclose()
    await book.aclose()
    assert await charges(database) == {"a": 4}


async def test_a_replica_elsewhere_counts_as_dead_after_a_minute_of_watched_silence(
    database, clock
):
    await left_by(database, clock, "a", host="elsewhere")
    book = journal(database, clock, is_running=gone)  # its process number says nothing here
    assert await book.start() == 0
    clock.ms += 59_000
    assert await book.recover() == 0
    clock.ms += 1_000
    assert await book.recover() == 1
    assert await statuses(database) == {"a": "interrupted"}
    await book.aclose()


async def test_a_replica_that_beats_is_not_dead_however_long_it_takes(database, clock):
    living = journal(database, clock, "b", pid=2, host="elsewhere")
    await living.start()
    await living.open(opening("a"))
    book = journal(database, clock)
    await book.start()
    for _ in range(15):  # of five seconds or more
        seen = (await processes(database))["b"]
        while (await processes(database))["b"] == seen:
            clock.advance(1)
        assert await book.recover() == 0
    await living.close(closing("a", 4))
    await living.aclose()
    await book.aclose()


async def test_silence_while_the_database_was_away_proves_nothing(database, clock):
    living = journal(database, clock, "b", pid=2, host="elsewhere")
    await living.start()
    await living.open(opening("a"))
    faulty = FaultyDatabase(database)
    book = journal(faulty, clock)
    await book.start()
    faulty.is_away = True
    clock.ms += 120_000
    with pytest.raises(DatabaseAway):
        await book.recover()
    faulty.is_away = False
    assert await book.recover() == 0
    clock.ms += 59_000
    assert await book.recover() == 0
    await living.close(closing("a", 4))
    assert await charges(database) == {"a": 4}
    await living.aclose()
    await book.aclose()


async def test_it_is_looked_for_every_minute(database, clock):
    await left_by(database, clock, "a", host="elsewhere")
    book = journal(database, clock)
    await book.start()
    async with asyncio.timeout(20):
        while await reserved(database):
            clock.advance(5)
    assert clock.ms >= NOON + 60_000
    assert await statuses(database) == {"a": "interrupted"}
    await book.aclose()


async def test_one_that_was_only_slow_goes_on_but_is_not_charged_twice(database, clock, caplog):
    """It was silent for too long, its request was settled for it, and then it answers after all."""
    await add_user(database, "u", 100)
    slow = journal(database, clock, "b", pid=2, host="elsewhere")
    await slow.start()
    await slow.open(opening("a", 10, user_id="u"))
    book = journal(database, clock)
    await book.start()
    clock.ms += 60_000
    assert await book.recover() == 1
    await slow.close(closing("a", 3))
    assert "had been settled before" in caplog.text
    assert await charges(database) == {"a": 10}
    assert await balances(database) == {"u": (90, 0)}
    assert await statuses(database) == {"a": "interrupted"}
    await slow.open(opening("next"))
    assert set(await processes(database)) == {"a", "b"}  # it is back
    await slow.close(closing("next", 1))
    await slow.aclose()
    await book.aclose()


async def test_reservations_of_a_process_without_a_row_are_found(database, clock):
    await left_by(database, clock, "a", host="elsewhere")
    await database.write(lambda connection: connection.execute(delete(instances)))
    book = journal(database, clock)
    assert await book.start() == 0
    clock.ms += 60_000
    assert await book.recover() == 1
    await book.aclose()


async def test_one_that_says_something_at_the_last_moment_keeps_its_requests(database, clock):
    living = journal(database, clock, "b", pid=2, host="elsewhere")
    await living.start()
    await living.open(opening("a"))
    seen = await database.read(partial(recovery.processes, but="a"))
    clock.ms += 70_000
    await living.open(opening("next"))  # and with it a heartbeat
    assert await database.write(partial(recovery.settle_left, dead=seen, now=clock.ms)) == 0
    assert await reserved(database) == {"a": 10, "next": 10}
    assert list(await processes(database)) == ["b"]
    for name in ("a", "next"):
        await living.close(closing(name, 1))
    await living.aclose()


async def test_two_that_clean_up_at_once_settle_everything_once(
    database, database_url, clock, tmp_path
):
    await add_user(database, "u", 10**9)
    for number in range(3):
        names = [f"{number}/{n}" for n in range(30)]
        await left_by(database, clock, *names, instance=f"dead{number}", pid=100 + number)
    other = await Database.open(database_url, tmp_path)
    sides = [
        journal(side, clock, name, is_running=lambda pid, _: pid < 100)
        for name, side in zip("abcd", (database, other) * 2, strict=True)
    ]
    settled = await asyncio.gather(*(side.start() for side in sides))
    assert sum(settled) == 90
    assert len(await charges(database)) == 90
    assert await total(database) == (900, 0)
    assert await balances(database) == {"u": (10**9 - 900, 0)}
    for side in sides:
        await side.aclose()
    await other.aclose()


async def test_much_is_settled_in_steps(database, clock):
    book = journal(database, clock, "dead")
    await book.start()
    await asyncio.gather(*(book.open(opening(f"r{n}")) for n in range(1_100)))
    await dies(book)
    after = journal(FaultyDatabase(database), clock, is_running=gone)
    assert await after.start() == 1_100
    assert after._database.writes >= 4
    assert await total(database) == (11_000, 0)
    await after.aclose()


async def test_a_dead_process_frees_the_budget_that_it_held(database, clock):
    book = journal(database, clock, "dead")
    await book.start()
    await book.open(opening("a", 10, budgets=Budgets(total=25)))
    await dies(book)
    after = journal(database, clock, is_running=gone)
    await after.start()
    await after.open(opening("b", 15, budgets=Budgets(total=25)))
    with pytest.raises(BudgetExceeded):
        await after.open(opening("c", 1, budgets=Budgets(total=25)))
    await after.close(closing("b", 0))
    await after.aclose()


# --- this machine --------------------------------------------------------------------------------


def now_ms() -> int:
    return int(time.time() * 1000)


def test_this_process_runs():
    assert is_running(os.getpid(), now_ms())


def test_a_process_that_ended_does_not_run():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert not is_running(child.pid, now_ms())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the state of a process")
def test_a_process_that_ended_and_was_not_asked_for_its_result_does_not_run():
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        child.stdout.read()  # its end closes the pipe
    deadline = time.monotonic() + 20
    while is_running(child.pid, now_ms()) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not is_running(child.pid, now_ms())
    child.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process began")
def test_a_number_that_another_process_has_now_is_not_the_one_that_was_seen():
    assert not is_running(os.getpid(), now_ms() - 10 * 24 * 3_600_000)


def test_a_number_that_no_process_can_have_does_not_run():
    assert not is_running(2**22 + 12345, now_ms())


def test_hosts_are_named_alike_each_time():
    assert this_host() == this_host()
    assert this_host()


def test_watching_begins_anew_when_a_process_says_something():
    watch = Watch(60.0)

    def process(seen_at):
        return Process(instance="b", host="elsewhere", pid=1, seen_at=seen_at)

    def dead(seen_at, now):
        return watch.dead([process(seen_at)], "here", now, gone)

    assert dead(NOON, 0.0) == []
    assert dead(NOON, 59.9) == []
    assert dead(NOON + 1, 60.0) == []
    assert dead(NOON + 1, 119.9) == []
    assert dead(NOON + 1, 120.0) == [process(NOON + 1)]
    watch.forget()
    assert dead(NOON + 1, 121.0) == []
