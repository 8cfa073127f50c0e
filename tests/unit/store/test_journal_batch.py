"""One transaction of the ledger: what it writes, what it refuses, and that it may be written twice."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from itertools import chain

import pytest
from sqlalchemy.exc import IntegrityError

from fakes.ledger import (
    DAY,
    HOUR,
    LOG,
    NOON,
    MemoryDatabase,
    add_user,
    balances,
    charges,
    closing,
    opening,
    reserved,
    rows_of,
    spending,
    statuses,
    total,
)
from monoize.account import Budgets
from monoize.store.database import Database
from monoize.store.journal_batch import Batch, closed, entered, write
from monoize.store.journal_layout import WHOLE
from monoize.store.tables import ledger, request_logs, reservations


def entry(*args, at=NOON, admitted=False, **more):
    return entered(opening(*args, **more), at, admitted=admitted)


async def written(database, openings=(), closings=(), notes=(), **more):
    batch = Batch(
        instance="a",
        **{"now": NOON + 5} | more,
        openings=list(openings),
        closings=[closed(one) for one in closings],
        notes=[WHOLE.row(note) for note in notes],
    )
    return await database.book(partial(write, batch=batch))


async def test_an_opening_reserves_in_three_windows_and_begins_a_row_of_the_log(database):
    await add_user(database, "u", 100)
    result = await written(database, [entry("r", 10, user_id="u", budgets=Budgets(day=10))])
    assert not result.refusals
    assert await spending(database) == {
        ("k1", "total"): (0, 10),
        ("k1", "day:2026-11-15"): (0, 10),
        ("k1", "month:2026-11"): (0, 10),
    }
    assert await balances(database) == {"u": (100, 10)}
    (held,) = await rows_of(database, reservations)
    assert held == {
        "request_id": "r",
        "instance": "a",
        "key_id": "k1",
        "user_id": "u",
        "amount": 10,
        "opened_at": NOON,
    }
    (row,) = await rows_of(database, request_logs)
    assert {**row, **LOG} == row
    assert (row["status"], row["created_at"], row["key_id"]) == ("pending", NOON, "k1")
    assert (row["user_id"], row["charge"]) == ("u", None)


async def test_a_closing_charges_once_and_completes_the_row(database):
    await add_user(database, "u", 100)
    await written(database, [entry("r", 10, user_id="u")])
    end = closing(
        "r", 7, estimated=True, unpriced=True, detail={"input": "3"}, log={"status": "error"}
    )
    result = await written(database, closings=[end])
    assert result.settled == {"r"}
    assert await total(database) == (7, 0)
    assert await balances(database) == {"u": (93, 0)}
    assert await reserved(database) == {}
    *_, row = await rows_of(database, ledger)
    del row["id"]
    assert row == {
        "request_id": "r",
        "kind": "charge",
        "user_id": "u",
        "key_id": "k1",
        "amount": 7,
        "balance_after": 93,
        "estimated": True,
        "unpriced": True,
        "detail": {"input": "3"},
        "created_at": NOON + 5,
    }
    (log,) = await rows_of(database, request_logs)
    assert (log["status"], log["charge"], log["estimated"]) == ("error", 7, True)
    assert log["unpriced"] is True


async def test_a_request_for_nothing_leaves_its_traces_too(database):
    await written(database, [entry("r", 0)])
    assert await reserved(database) == {"r": 0}
    await written(database, closings=[closing("r", 0)])
    assert await charges(database) == {"r": 0}
    assert await statuses(database) == {"r": "success"}


async def test_what_is_not_reserved_is_not_settled(database):
    await written(database, [entry("r")])
    await written(database, closings=[closing("r", 7)])
    result = await written(database, closings=[closing("r", 8), closing("unknown", 9)])
    assert result.settled == frozenset()
    assert await charges(database) == {"r": 7}
    assert await total(database) == (7, 0)


async def test_the_first_of_two_closings_in_a_batch_counts(database):
    await written(database, [entry("r")])
    await written(database, closings=[closing("r", 3), closing("r", 4)])
    assert await charges(database) == {"r": 3}
    assert await total(database) == (3, 0)


async def test_a_batch_that_is_written_again_changes_nothing(database):
    await add_user(database, "u", 100)
    await written(database, [entry("old", user_id="u")])
    note = {"request_id": "n", "status": "error", "created_at": NOON, **LOG}
    batch = {
        "openings": [
            entry("new", 5, user_id="u"),
            entry("both", 4, user_id="u", admitted=True),
        ],
        "closings": [closing("old", 7), closing("both", 2)],
        "notes": [note],
    }
    await written(database, **batch)
    tables = (ledger, request_logs, reservations)
    before = [await rows_of(database, table) for table in tables]
    sums = await spending(database), await balances(database)
    for _ in range(2):
        await written(database, **batch, again=True)
    assert [await rows_of(database, table) for table in tables] == before
    assert (await spending(database), await balances(database)) == sums
    assert await charges(database) == {"old": 7, "both": 2}
    assert await balances(database) == {"u": (91, 5)}


async def test_what_a_first_try_did_not_write_is_written_by_the_second(database):
    await written(database, [entry("a")], again=True)
    await written(database, [entry("a"), entry("b")], [closing("a", 1)], again=True)
    assert await reserved(database) == {"b": 10}
    assert await charges(database) == {"a": 1}


async def test_openings_of_a_batch_are_decided_one_after_another(database):
    limits = Budgets(total=25)
    some = [entry(f"r{n}", 10, budgets=limits) for n in range(4)]
    result = await written(database, some)
    assert list(result.refusals) == ["r2", "r3"]
    assert await reserved(database) == {"r0": 10, "r1": 10}
    assert await statuses(database) == {"r0": "pending", "r1": "pending"}


async def test_a_smaller_request_may_pass_where_a_larger_one_did_not(database):
    limits = Budgets(total=25)
    some = [entry("a", 20, budgets=limits), entry("b", 10, budgets=limits)]
    result = await written(database, [*some, entry("c", 5, budgets=limits)])
    assert list(result.refusals) == ["b"]


async def test_closings_make_room_for_openings_of_the_same_batch(database):
    limits = Budgets(total=10)
    await written(database, [entry("a", 10, budgets=limits)])
    assert (await written(database, [entry("b", 10, budgets=limits)])).refusals
    result = await written(database, [entry("c", 7, budgets=limits)], [closing("a", 3)])
    assert not result.refusals
    assert await total(database) == (3, 7)


@pytest.mark.parametrize(
    ("budgets", "window"),
    [
        (Budgets(day=9), "for the day is 0.000000009"),
        (Budgets(month=9), "for the month is 0.000000009"),
        (Budgets(total=9), "in total is 0.000000009"),
    ],
)
async def test_a_refusal_names_the_window_and_what_is_left(database, budgets, window):
    result = await written(
        database, [entry("a", 4, budgets=budgets), entry("b", 6, budgets=budgets)]
    )
    refusal = result.refusals["b"]
    assert refusal.error_code == "budget_exceeded"
    assert refusal.http_status == 402
    assert window in refusal.message
    assert "0.000000005 USD are left" in refusal.message
    assert "0.000000006 USD" in refusal.message


async def test_a_prepaid_balance_covers_reservations_and_is_charged(database):
    await add_user(database, "u", 15)
    result = await written(
        database, [entry("a", 10, user_id="u"), entry("b", 6, user_id="u", key="k2")]
    )
    refusal = result.refusals["b"]
    assert refusal.error_code == "insufficient_balance"
    assert "0.000000005 USD are left" in refusal.message
    await written(database, closings=[closing("a", 9)])
    assert not (await written(database, [entry("c", 6, user_id="u")])).refusals
    assert await balances(database) == {"u": (6, 6)}


async def test_an_account_that_is_not_prepaid_stays_so(database):
    await add_user(database, "u", None)
    await written(database, [entry("a", 10**12, user_id="u"), entry("b", 1, user_id="gone")])
    await written(database, closings=[closing("a", 10**12), closing("b", 1)])
    assert await balances(database) == {"u": (None, 0)}
    assert [row["balance_after"] for row in await rows_of(database, ledger)] == [None, None]


async def test_a_prepaid_user_who_is_gone_has_nothing(database):
    result = await written(database, [entry("a", 1, user_id="gone", prepaid=True)])
    assert result.refusals["a"].error_code == "insufficient_balance"


async def test_a_request_counts_in_the_day_and_month_in_which_it_opened(database):
    night = NOON + 15 * DAY + 11 * HOUR  # 30 November, 23:00 UTC
    limits = Budgets(day=10, month=12)
    await written(database, [entry("old", 10, budgets=limits, at=night)])
    assert (await written(database, [entry("x", 1, budgets=limits, at=night)])).refusals
    result = await written(
        database, [entry("new", 9, budgets=limits, at=night + 2 * HOUR)], [closing("old", 8)]
    )
    assert not result.refusals
    assert await spending(database) == {
        ("k1", "total"): (8, 9),
        ("k1", "day:2026-11-30"): (8, 0),
        ("k1", "month:2026-11"): (8, 0),
        ("k1", "day:2026-12-01"): (0, 9),
        ("k1", "month:2026-12"): (0, 9),
    }


async def test_what_was_admitted_without_the_database_is_written_whatever_the_budget_says(database):
    some = [entry(f"r{n}", 10, budgets=Budgets(total=10), admitted=True) for n in range(3)]
    result = await written(database, some, [closing("r0", 8), closing("r2", 9)])
    assert not result.refusals
    assert result.settled == {"r0", "r2"}
    assert await total(database) == (17, 10)
    assert await reserved(database) == {"r1": 10}
    assert await statuses(database) == {"r0": "success", "r1": "pending", "r2": "success"}


@pytest.mark.parametrize("again", [False, True])
async def test_a_request_cannot_be_opened_twice(database, again):
    with pytest.raises(ValueError, match="opened twice"):
        await written(database, [entry("r"), entry("r")], again=again)
    await written(database, [entry("r")])
    with pytest.raises(IntegrityError):
        await written(database, [entry("other"), entry("r", 20)])
    assert await reserved(database) == {"r": 10}
    assert await total(database) == (0, 10)


async def test_rows_with_different_columns_go_together(database):
    await written(
        database,
        [entry("a", log={"address": "10.0.0.1"}), entry("b"), entry("c", log={"effort": "high"})],
    )
    ends = [closing("a", log={"status": "error", "error_code": "x"}), closing("b"), closing("c")]
    await written(database, closings=ends)
    logs = {row["request_id"]: row for row in await rows_of(database, request_logs)}
    assert logs["a"]["address"] == "10.0.0.1"
    assert (logs["a"]["error_code"], logs["b"]["error_code"]) == ("x", None)
    assert logs["c"]["effort"] == "high"


def driver_of(database: MemoryDatabase) -> sqlite3.Connection:
    with database._engine.connect() as connection:
        return connection.connection.driver_connection


async def said_by_batches(database: MemoryDatabase, size: int) -> list[str]:
    """What a batch of so many openings and closings, each of a user's key, says to SQLite."""
    await add_user(database, f"u{size}", 10**6)
    of_user = {"user_id": f"u{size}", "key": f"k{size}"}
    await written(database, [entry(f"{size}/{n}", **of_user) for n in range(size)])
    said: list[str] = []
    driver_of(database).set_trace_callback(said.append)
    await written(
        database,
        [entry(f"{size}+{n}", **of_user) for n in range(size)],
        [closing(f"{size}/{n}") for n in range(size)],
        [{"request_id": f"{size}-", "status": "error", "created_at": NOON, **LOG}],
    )
    driver_of(database).set_trace_callback(None)
    return [text for text in said if text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))]


async def test_a_batch_of_a_hundred_times_as_many_takes_a_few_statements_more():
    database = MemoryDatabase()
    counts = {size: len(await said_by_batches(database, size)) for size in (2, 200)}
    assert counts[2] <= 14
    # Charges, both halves of the log, and reservations: found, removed and made.
    assert counts[200] <= counts[2] + 6 * (200 // 32 + 1)
    await database.aclose()


async def test_no_statement_of_a_batch_goes_through_a_table():
    """So the millionth row costs what the first one did."""
    database = MemoryDatabase()
    said = [await said_by_batches(database, 100), await said_by_batches(database, 3)]
    driver = driver_of(database)
    for text in chain.from_iterable(said):
        plan = [row[-1] for row in driver.execute(f"EXPLAIN QUERY PLAN {text}")]
        steps = [step for step in plan if step.startswith("SCAN")]
        given = ("CONSTANT ROW", "SCAN ended", "SCAN named", "SCAN line")
        assert all(any(own in step for own in given) for step in steps), (text, plan)
    await database.aclose()


@pytest.mark.spec("T38")
@pytest.mark.parametrize("by", ["a budget", "a budget of a known key", "a balance"])
async def test_two_processes_that_race_for_room_for_one_let_one_through(
    database, database_url, tmp_path, by
):
    other = await Database.open(database_url, tmp_path)
    try:
        for turn in range(5):
            key, user = f"key{turn}", f"user{turn}"
            await add_user(database, user, 10 if by == "a balance" else None)
            if by != "a budget":  # whose counters both find
                keys = [key, *(f"{key}/{n}" for n in range(10))]
                known = [entry(f"known {name}", 0, key=name) for name in keys]
                await written(database, known)
            limits = Budgets() if by == "a balance" else Budgets(total=10)
            results = await asyncio.gather(
                *(
                    written(
                        side,
                        [
                            entry(
                                f"{turn}/{n}",
                                10,
                                key=f"{key}/{n}" if by == "a balance" else key,
                                budgets=limits,
                                user_id=user if by == "a balance" else None,
                            )
                        ],
                    )
                    for n, side in enumerate((database, other) * 5)
                )
            )
            assert sum(not result.refusals for result in results) == 1
            held = [
                amount for name, amount in (await reserved(database)).items() if "kn" not in name
            ]
            assert held == [10] * (turn + 1)
            assert (await balances(database))[user][1] == (10 if by == "a balance" else 0)
    finally:
        await other.aclose()
