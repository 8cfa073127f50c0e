"""The database goes away and comes back: who may begin meanwhile, and that everything is written once, in order (D19)."""

from __future__ import annotations

import asyncio
import logging

import pytest
from sqlalchemy import text

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
    charges,
    closing,
    journal,
    opening,
    processes,
    reserved,
    rows_of,
    statuses,
    total,
    until,
)
from monoize.account import Budgets
from monoize.errors import BudgetExceeded, DatabaseAway
from monoize.store.journal import JournalLimits
from monoize.store.tables import ledger

pytestmark = pytest.mark.spec("D19")


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def faulty(database):
    return FaultyDatabase(database)


@pytest.fixture
async def book(faulty, clock):
    started = journal(faulty, clock)
    await started.start()
    yield started
    faulty.is_away = False
    await ends(started, clock)


async def ends(book, clock):
    ending = asyncio.create_task(book.aclose())
    async with asyncio.timeout(20):
        while not ending.done():
            clock.advance(5)
            await asyncio.sleep(0.001)
    await ending


async def goes_away(book, faulty, clock):
    """As the journal sees it: the next heartbeat or entry fails."""
    faulty.is_away = True
    book.note({"request_id": f"away{clock.ms}", "status": "error", "created_at": clock.ms, **LOG})
    await until(lambda: book.is_away)


async def comes_back(book, faulty, clock):
    faulty.is_away = False
    async with asyncio.timeout(20):
        while book.is_away or book.waiting:
            clock.advance(5)
            await asyncio.sleep(0.001)


async def test_requests_go_on_from_memory_and_are_written_once_afterwards(
    book, faulty, clock, database
):
    await add_user(database, "u", 1000)
    await book.open(opening("before", 10, user_id="u"))
    await goes_away(book, faulty, clock)
    await book.open(opening("a", 10, user_id="u"))
    await book.close(closing("before", 7))
    await book.close(closing("a", 3))
    await book.open(opening("b", 10, user_id="u"))
    assert await charges(database) == {}
    await comes_back(book, faulty, clock)
    assert await charges(database) == {"before": 7, "a": 3}
    assert await reserved(database) == {"b": 10}
    assert await balances(database) == {"u": (990, 10)}
    await book.close(closing("b", 1))
    assert await total(database) == (11, 0)
    assert [row["request_id"] for row in await rows_of(database, ledger)][1:] == [
        "before",
        "a",
        "b",
    ]


async def test_what_opened_and_closed_meanwhile_is_written_in_its_order(
    book, faulty, clock, database, caplog
):
    """Else many of both kinds are written in turn; a request that has not been opened yet cannot be closed."""
    names = [f"before{n}" for n in range(20)]
    await asyncio.gather(*(book.open(opening(name)) for name in names))
    await goes_away(book, faulty, clock)
    for n in range(40):
        await book.open(opening(f"r{n}"))
        await book.close(closing(f"r{n}", n))
    for name in names:
        await book.close(closing(name))
    await comes_back(book, faulty, clock)
    written = {f"r{n}": n for n in range(40)} | dict.fromkeys(names, 7)
    assert await charges(database) == written
    assert await reserved(database) == {}
    assert "settled before" not in caplog.text


async def test_those_who_wait_when_it_goes_away_are_answered_from_memory(
    book, faulty, clock, database
):
    await book.open(opening("old", 10))
    faulty.gate.clear()
    waiting = [
        asyncio.create_task(book.open(opening("a"))),
        asyncio.ensure_future(book.close(closing("old", 7))),
        asyncio.create_task(book.open(opening("b", budgets=Budgets(total=16)))),
        asyncio.create_task(book.open(opening("strange", key="k9", budgets=Budgets(total=100)))),
    ]
    await asyncio.sleep(0)
    faulty.is_away = True
    faulty.gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[:2] == [None, None]
    assert isinstance(results[2], BudgetExceeded)  # 7 spent and 10 reserved
    assert isinstance(results[3], DatabaseAway)
    await comes_back(book, faulty, clock)
    assert await charges(database) == {"old": 7}
    assert await reserved(database) == {"a": 10}
    await book.close(closing("a", 1))


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_whether_the_commit_went_through_or_not_it_counts_once(
    book, faulty, clock, database, fault
):
    """The worst moment: nobody can know, and everybody has been told that all is well."""
    await add_user(database, "u", 1000)
    await book.open(opening("old", 10, user_id="u"))
    faulty.gate.clear()
    tasks = [
        asyncio.create_task(book.open(opening("new", 10, user_id="u"))),
        asyncio.ensure_future(book.close(closing("old", 7))),
    ]
    await asyncio.sleep(0)
    book.note({"request_id": "n", "status": "error", "created_at": NOON, **LOG})
    faulty.faults.extend([fault, fault, fault])
    faulty.gate.set()
    await asyncio.gather(*tasks)
    await book.close(closing("new", 2))
    await comes_back(book, faulty, clock)
    assert await charges(database) == {"old": 7, "new": 2}
    assert await balances(database) == {"u": (991, 0)}
    assert await total(database) == (9, 0)
    assert await reserved(database) == {}
    assert (await statuses(database))["n"] == "error"


async def test_a_refused_opening_that_was_committed_after_all_is_closed_again(
    book, faulty, clock, database
):
    """In memory nothing is known of the key, so its caller is sent away; the lost commit had let it in."""
    faulty.faults.append("after")
    with pytest.raises(DatabaseAway):
        await book.open(opening("r", 10, budgets=Budgets(total=100)))
    await comes_back(book, faulty, clock)
    assert await charges(database) == {"r": 0}
    assert await reserved(database) == {}
    assert await total(database) == (0, 0)
    assert await statuses(database) == {"r": "cancelled"}


@pytest.mark.spec("T18")
async def test_a_caller_that_leaves_while_the_database_goes_away_pays_nothing(
    book, faulty, clock, database
):
    faulty.gate.clear()
    faulty.begun.clear()
    task = asyncio.create_task(book.open(opening("r")))
    await faulty.begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    faulty.is_away = True
    faulty.gate.set()
    await until(lambda: book.is_away)
    await comes_back(book, faulty, clock)
    assert await charges(database) == {"r": 0}
    assert await reserved(database) == {}


async def test_budgets_hold_by_the_last_known_counters(book, faulty, clock, database):
    limits = Budgets(total=30)
    await book.open(opening("known", 10, budgets=limits))
    await goes_away(book, faulty, clock)
    await book.open(opening("a", 10, budgets=limits))
    await book.open(opening("b", 10, budgets=limits))
    with pytest.raises(BudgetExceeded, match="0 USD are left"):
        await book.open(opening("c", 1, budgets=limits))
    await book.close(closing("a", 4))
    await book.open(opening("d", 6, budgets=limits))
    with pytest.raises(BudgetExceeded):
        await book.open(opening("e", 1, budgets=limits))
    await comes_back(book, faulty, clock)
    assert await total(database) == (4, 26)
    with pytest.raises(BudgetExceeded):
        await book.open(opening("f", 1, budgets=limits))
    for name in ("known", "b", "d"):
        await book.close(closing(name, 1))


async def test_a_balance_holds_by_what_was_last_known(book, faulty, clock, database):
    await add_user(database, "u", 30)
    await book.open(opening("known", 10, user_id="u", prepaid=True))
    await goes_away(book, faulty, clock)
    await book.open(opening("a", 20, user_id="u", prepaid=True))
    with pytest.raises(BudgetExceeded) as refused:
        await book.open(opening("b", 1, user_id="u", prepaid=True))
    assert refused.value.error_code == "insufficient_balance"
    with pytest.raises(DatabaseAway, match="balance is not known"):
        await book.open(opening("c", 1, user_id="other", prepaid=True))
    await book.close(closing("a", 5))
    await book.open(opening("d", 15, user_id="u", prepaid=True))
    await comes_back(book, faulty, clock)
    assert await balances(database) == {"u": (25, 25)}
    for name in ("known", "d"):
        await book.close(closing(name, 1))


async def test_keys_of_which_nothing_is_known_pass_only_without_a_budget(
    book, faulty, clock, database
):
    await goes_away(book, faulty, clock)
    await book.open(opening("free", 10, key="k2"))
    with pytest.raises(DatabaseAway, match="not known"):
        await book.open(opening("bound", 10, key="k3", budgets=Budgets(month=100)))
    await comes_back(book, faulty, clock)
    assert await reserved(database) == {"free": 10}
    await book.close(closing("free"))


@pytest.mark.spec("T38")
async def test_what_happens_meanwhile_is_no_knowledge_of_what_was_before(faulty, clock, database):
    """A long request ends whose key was forgotten since: that says nothing about the rest of its spending."""
    book = journal(faulty, clock, limits=JournalLimits(known=3))
    await book.start()
    limits = Budgets(total=100)
    await book.open(opening("spent", 95, budgets=limits))
    await book.close(closing("spent", 95))
    await book.open(opening("long", 5, budgets=limits))
    await book.open(opening("other", 1, key="k2"))  # three lines of another key
    await goes_away(book, faulty, clock)
    await book.close(closing("long", 5))
    with pytest.raises(DatabaseAway, match="not known"):
        await book.open(opening("too-much", 50, budgets=limits))
    await comes_back(book, faulty, clock)
    assert await total(database) == (100, 0)
    await ends(book, clock)


async def test_a_day_that_begins_without_the_database_begins_empty(book, faulty, clock):
    clock.ms = NOON + 11 * HOUR + 58 * 60_000
    limits = Budgets(day=10)
    await book.open(opening("a", 10, budgets=limits))
    await goes_away(book, faulty, clock)
    with pytest.raises(BudgetExceeded):
        await book.open(opening("b", 1, budgets=limits))
    clock.ms += 3 * 60_000
    await book.open(opening("c", 10, budgets=limits))
    with pytest.raises(BudgetExceeded):
        await book.open(opening("d", 1, budgets=limits))
    with pytest.raises(DatabaseAway):  # others may have spent in this month
        await book.open(opening("e", 1, key="k7", budgets=Budgets(month=10)))
    await comes_back(book, faulty, clock)
    await book.close(closing("a", 1))
    await book.close(closing("c", 1))


async def test_yesterdays_knowledge_says_nothing_about_today(book, faulty, clock):
    limits = Budgets(day=100)
    await book.open(opening("a", 10, budgets=limits))
    await book.close(closing("a", 1))
    clock.ms += DAY
    await goes_away(book, faulty, clock)
    with pytest.raises(DatabaseAway):
        await book.open(opening("b", 1, budgets=limits))


async def test_after_the_time_of_grace_nothing_begins_but_everything_ends(
    book, faulty, clock, database
):
    await book.open(opening("old", 10))
    await goes_away(book, faulty, clock)
    clock.ms += 300_000
    await book.open(opening("a", 10))
    clock.ms += 1_000
    with pytest.raises(DatabaseAway, match="more than 300 seconds") as refused:
        await book.open(opening("b", 10))
    assert refused.value.http_status == 503
    await book.close(closing("old", 1))
    await book.close(closing("a", 2))
    await comes_back(book, faulty, clock)
    assert await charges(database) == {"old": 1, "a": 2}
    await book.open(opening("c"))
    await book.close(closing("c", 0))


async def test_what_is_kept_in_memory_is_bounded_and_closings_are_never_refused(
    faulty, clock, database
):
    book = journal(faulty, clock, limits=JournalLimits(spool=5))
    await book.start()
    for number in range(8):
        await book.open(opening(f"old{number}"))
    await goes_away(book, faulty, clock)
    for number in range(4):  # one place is taken by the note
        await book.open(opening(f"r{number}"))
    with pytest.raises(DatabaseAway, match="too much waits"):
        await book.open(opening("too many"))
    for number in range(8):
        await book.close(closing(f"old{number}"))
    await comes_back(book, faulty, clock)
    assert len(await charges(database)) == 8
    for number in range(4):
        await book.close(closing(f"r{number}"))
    await book.aclose()


async def test_it_is_tried_again_after_growing_pauses(faulty, clock):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        await clock.sleep(seconds)

    book = journal(faulty, clock, sleep=sleep)
    await book.start()
    faulty.is_away = True
    await book.open(opening("r"))
    while len(pauses) < 20:
        clock.advance(5)
        await asyncio.sleep(0)
    tries = [pause for pause in pauses if pause != 5.0]  # between two heartbeats
    assert tries == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert max(pauses) == 5.0
    faulty.is_away = False
    await comes_back(book, faulty, clock)
    await book.close(closing("r"))
    await book.aclose()


async def test_it_may_go_away_again_while_the_rest_is_written(faulty, clock, database):
    book = journal(faulty, clock, limits=JournalLimits(batch=2))
    await book.start()
    limits = Budgets(total=60)
    await book.open(opening("known", 10, budgets=limits))
    await goes_away(book, faulty, clock)
    for number in range(5):
        await book.open(opening(f"r{number}", 10, budgets=limits))
    faulty.is_away = False
    faulty.faults.extend([None, "after", None, "before"])
    while faulty.faults:
        clock.advance(5)
        await asyncio.sleep(0.001)
    if book.is_away:  # what is not written yet counts, and counts once
        with pytest.raises(BudgetExceeded):
            await book.open(opening("x", 1, budgets=limits))
    await comes_back(book, faulty, clock)
    assert await total(database) == (0, 60)
    for name in ("known", *(f"r{n}" for n in range(5))):
        await book.close(closing(name, 2))
    await book.aclose()
    assert await total(database) == (12, 0)


async def test_entries_that_are_not_written_count_once_in_a_second_outage(clock):
    faulty = FaultyDatabase(MemoryDatabase())
    book = journal(faulty, clock, limits=JournalLimits(batch=1))
    await book.start()
    limits = Budgets(total=100)
    await book.open(opening("known", 10, budgets=limits))
    faulty.is_away = True
    await book.open(opening("r0", 10, budgets=limits))
    for number in range(1, 4):
        await book.open(opening(f"r{number}", 10, budgets=limits))
    faulty.faults.extend([None, "before"])
    faulty.is_away = False
    while faulty.faults:
        clock.advance(5)
        await asyncio.sleep(0)
    faulty.is_away = True
    await until(lambda: book.is_away)
    with pytest.raises(BudgetExceeded, match=r"0\.00000005 USD are left"):  # 100 - 5 * 10
        await book.open(opening("x", 51, budgets=limits))
    faulty.is_away = False
    await comes_back(book, faulty, clock)
    for name in ("known", "r0", "r1", "r2", "r3"):
        await book.close(closing(name, 2))
    await book.aclose()


async def test_a_bad_entry_found_after_the_outage_loses_nothing_else(book, faulty, clock, database):
    await book.open(opening("old"))
    await goes_away(book, faulty, clock)
    await book.open(opening("a", log={"operation": None}))  # which no row of the log goes without
    await book.close(closing("a", 3, detail={"x": object()}))
    await book.close(closing("old", 7))
    await comes_back(book, faulty, clock)
    assert await charges(database) == {"a": 3, "old": 7}
    assert await total(database) == (10, 0)


async def test_it_is_found_again_though_nothing_waits_for_it(clock):
    """Nobody may begin after the time of grace, so nobody would ever ask the database again."""
    faulty = FaultyDatabase(MemoryDatabase())
    book = journal(faulty, clock)
    await book.start()
    await book.open(opening("r"))
    faulty.is_away = True
    await goes_away(book, faulty, clock)
    book._writer.queue.clear()
    book._writer.open.clear()
    clock.ms += 400_000
    with pytest.raises(DatabaseAway):
        await book.open(opening("x"))
    await comes_back(book, faulty, clock)
    await book.open(opening("y"))
    await book.close(closing("y"))
    await book.aclose()


async def test_a_heartbeat_that_cannot_be_written_stops_nobody(clock, caplog):
    store = MemoryDatabase()
    faulty = FaultyDatabase(store)
    book = journal(faulty, clock)
    await book.start()
    await book.open(opening("r"))
    await store.write(lambda connection: connection.execute(text("DROP TABLE instances")))
    await goes_away(book, faulty, clock)
    book._writer.queue.clear()
    await comes_back(book, faulty, clock)
    assert "heartbeat of this process cannot be written" in caplog.text
    await book.close(closing("r", 7))
    assert await charges(store) == {"r": 7}
    book._writer.open["kept"] = None  # so that its row is left alone
    await book.aclose()


async def test_an_end_without_the_database_says_what_is_lost(faulty, clock, caplog):
    book = journal(faulty, clock, limits=JournalLimits(drain_seconds=0.05))
    await book.start()
    await book.open(opening("old"))
    await goes_away(book, faulty, clock)
    await book.close(closing("old"))
    with caplog.at_level(logging.ERROR, "monoize.ledger"):
        await book.aclose()
    assert "2 entries of the ledger are lost" in caplog.text


async def test_an_end_writes_what_waits_if_the_database_comes_back_in_time(faulty, clock, database):
    book = journal(faulty, clock)
    await book.start()
    await book.open(opening("old"))
    await goes_away(book, faulty, clock)
    await book.close(closing("old", 7))
    faulty.is_away = False
    await ends(book, clock)
    assert await charges(database) == {"old": 7}
    assert await processes(database) == {}


async def test_those_who_wait_for_a_place_are_answered_when_it_goes_away(faulty, clock, database):
    book = journal(faulty, clock, limits=JournalLimits(queue=2, batch=2))
    await book.start()
    faulty.gate.clear()
    tasks = [asyncio.create_task(book.open(opening(f"r{n}"))) for n in range(10)]
    for _ in range(5):
        await asyncio.sleep(0)
    faulty.is_away = True
    faulty.gate.set()
    assert await asyncio.gather(*tasks) == [None] * 10
    await comes_back(book, faulty, clock)
    assert len(await reserved(database)) == 10
    await asyncio.gather(*(book.close(closing(f"r{n}")) for n in range(10)))
    await book.aclose()


async def test_a_real_server_that_is_stopped_and_started_loses_nothing(
    own_postgresql, clock, tmp_path
):
    """PostgreSQL is killed in the middle; the journal goes on, and writes everything when it is there again."""
    from monoize.store.database import Database

    url = own_postgresql.url(own_postgresql.new_database())
    real = await Database.open(url, tmp_path)
    book = journal(real, clock)
    await book.start()
    await book.open(opening("old", 10))
    own_postgresql.stop()
    await book.open(opening("a", 10))
    assert book.is_away
    await book.close(closing("old", 7))
    await book.close(closing("a", 3))
    own_postgresql.start()
    async with asyncio.timeout(60):
        while book.is_away or book.waiting:
            clock.advance(5)
            await asyncio.sleep(0.02)
    assert await charges(real) == {"old": 7, "a": 3}
    assert await reserved(real) == {}
    await book.aclose()
    await real.aclose()


@pytest.mark.spec("T43")
async def test_a_server_that_takes_no_writes_for_a_while_loses_nothing(
    own_postgresql, clock, tmp_path
):
    """A fail-over leads to a standby, or a full disk makes the operator's service read-only."""
    from monoize.store.database import Database

    name = own_postgresql.new_database()
    real = await Database.open(own_postgresql.url(name), tmp_path)
    book = journal(real, clock)
    await book.start()
    await book.open(opening("old", 10))
    reconnected(own_postgresql, name, "SET default_transaction_read_only = on")
    await book.open(opening("a", 10))
    assert book.is_away
    await book.close(closing("old", 7))
    await book.close(closing("a", 3))
    reconnected(own_postgresql, name, "RESET default_transaction_read_only")
    async with asyncio.timeout(60):
        while book.is_away or book.waiting:
            clock.advance(5)
            await asyncio.sleep(0.02)
    assert await charges(real) == {"old": 7, "a": 3}
    assert await reserved(real) == {}
    await book.aclose()
    await real.aclose()


def reconnected(server, name, change):
    """For the connections that are made from now on: those that are there are cut off."""
    server.sql(f"ALTER DATABASE {name} {change}")
    server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
