"""What an overview draws: every step of time, compared with the time before, for everybody or for one."""

import random

import pytest
from sqlalchemy import insert

from monoize.account import Budgets
from monoize.store import rollup
from monoize.store.books import windows
from monoize.store.log_filter import LogFilter
from monoize.store.overview import STEPS, last_hour, pace
from monoize.store.overview_attention import Balance, Spent, balances, endings, spent
from monoize.store.rollup_facts import BOUNDS, DAY, HOUR, MINUTE
from monoize.store.tables import keys, request_logs, spend, users

NOW = 1_794_744_000_000 + 34 * MINUTE + 56_789  # 2026-11-15T12:34:56.789Z


def log_row(number, **values):
    return {
        "request_id": f"r{number}",
        "status": "success",
        "created_at": NOW,
        "operation": "chat",
        "is_stream": False,
        **values,
    }


def random_rows(count=400):
    rng = random.Random(7)
    reach = (2 * HOUR, 2 * DAY, 14 * DAY, 60 * DAY)
    for number in range(count):
        yield log_row(
            number,
            status=rng.choice(("success", "success", "error", "cancelled")),
            created_at=NOW - rng.randint(0, rng.choice(reach)),
            user_id=rng.choice(("u1", "u2", None)),
            key_id=rng.choice(("k1", "k2")),
            charge=rng.randint(0, 10**10),
            unpriced=rng.random() < 0.1,
            input_tokens=rng.randint(0, 5000),
            output_tokens=rng.randint(0, 500),
            duration_ms=int(rng.lognormvariate(7, 1)),
            first_byte_ms=int(rng.lognormvariate(5, 1)),
        )


async def add(database, table, *rows):
    await database.write(lambda c: c.execute(insert(table), list(rows)) and None)


async def folded(database):
    while (await database.write(lambda c: rollup.fold(c, NOW + HOUR))).more:
        pass


def counts(rows):
    return {
        "calls": len(rows),
        "errors": sum(row["status"] == "error" for row in rows),
        "unpriced": sum(row["unpriced"] for row in rows),
        "input_tokens": sum(row["input_tokens"] for row in rows),
        "output_tokens": sum(row["output_tokens"] for row in rows),
        "charge": sum(row["charge"] for row in rows),
    }


def of(figures):
    return {name: getattr(figures, name) for name in counts([])}


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("span", STEPS)
async def test_every_step_is_there_and_adds_up(database, span, is_folded):
    rows = list(random_rows())
    await add(database, request_logs, *rows)
    if is_folded:
        await folded(database)
    size, count = STEPS[span]
    for wanted, own in (
        (LogFilter(), lambda row: True),
        (LogFilter(user_id="u1"), lambda row: row["user_id"] == "u1"),
    ):
        mine = [row for row in rows if own(row)]
        found = await database.read(lambda c, wanted=wanted: pace(c, wanted, span, NOW))
        assert [bucket.at for bucket in found.buckets] == [
            found.since + n * size for n in range(count)
        ]
        assert found.buckets[-1].at <= NOW < found.buckets[-1].at + size
        for bucket in found.buckets:
            inside = [row for row in mine if bucket.at <= row["created_at"] < bucket.at + size]
            assert of(bucket) == counts(inside)
        assert of(found.total) == counts([row for row in mine if row["created_at"] >= found.since])
        earlier = range(found.since - count * size, NOW - count * size)
        assert of(found.before) == counts([row for row in mine if row["created_at"] in earlier])


@pytest.mark.parametrize("is_folded", [False, True])
async def test_percentiles_are_those_of_successes_to_a_step_of_the_scale(database, is_folded):
    rows = list(random_rows())
    await add(database, request_logs, *rows)
    if is_folded:
        await folded(database)
    total = (await database.read(lambda c: pace(c, LogFilter(), "30d", NOW))).total
    recent = [r for r in rows if r["created_at"] >= NOW // DAY * DAY - 29 * DAY]
    for name, column in (("latency", "duration_ms"), ("first_byte", "first_byte_ms")):
        values = sorted(row[column] for row in recent if row["status"] == "success")
        for share in (50, 95):
            exact = values[-(-share * len(values) // 100) - 1]
            shown = getattr(total, f"{name}_p{share}_ms")
            assert max(b for b in BOUNDS if b <= exact) <= shown
            assert shown <= min(b for b in BOUNDS if b > exact)


async def test_a_key_without_a_user_has_figures_of_its_own(database):
    await add(
        database,
        request_logs,
        log_row(1, key_id="file:app", user_id=None, created_at=NOW - MINUTE),
        log_row(2, key_id="file:other", user_id=None, created_at=NOW - MINUTE),
    )
    await folded(database)
    found = await database.read(lambda c: pace(c, LogFilter(key_id="file:app"), "24h", NOW))
    assert found.total.calls == 1
    hour = await database.read(lambda c: last_hour(c, LogFilter(key_id="file:app"), NOW))
    assert (hour.calls, hour.errors) == (1, 0)


async def test_nothing_is_all_zeros(database):
    found = await database.read(lambda c: pace(c, LogFilter(), "7d", NOW))
    assert {bucket.calls for bucket in found.buckets} == {0}
    assert (found.total.charge_usd, found.total.latency_p50_ms) == ("0", None)


# --- accounts ------------------------------------------------------------------------------------


def key_row(name, **values):
    return {
        "id": f"k-{name}",
        "user_id": "u",
        "name": name,
        "hint": "",
        "digest": b"",
        "enabled": True,
        "policy": {},
        "created_at": 1,
        "updated_at": 1,
        "expires_at": None,
        **values,
    }


def spend_row(key, window, amount, reserved=0):
    return {"key_id": key, "window": window, "spent": amount, "reserved": reserved}


async def test_keys_that_spent_most_of_a_budget_are_found(database):
    total, day, month = windows(NOW)
    large = 2**62
    budgets = {"near": {"day": 100}, "free": {"day": 100}, "none": {}, "all": {"total": large}}
    await add(
        database,
        keys,
        *(key_row(name, policy={"budgets": limits}) for name, limits in budgets.items()),
        key_row("off", policy={"budgets": {"day": 100}}, enabled=False),
        key_row("bare"),
        key_row("theirs", policy={"budgets": {"month": 10}}, user_id="other"),
    )
    await add(
        database,
        spend,
        spend_row("k-near", day, 80, 10),
        spend_row("k-free", day, 89),
        spend_row("k-free", total, 5000),
        spend_row("k-none", day, 5000),
        spend_row("k-all", total, large),
        spend_row("k-off", day, 100),
        spend_row("k-bare", day, 100),
        spend_row("k-theirs", month, 10),
        spend_row("file:app", month, 95),
        spend_row("file:app", day, 95),
    )
    of_file = {"file:app": Budgets(month=100)}
    found = await database.read(lambda c: spent(c, NOW, None, of_file))
    assert [(row.name, row.window, row.spent, row.budget) for row in found] == [
        ("all", "total", large, large),
        ("near", "day", 90, 100),
        ("theirs", "month", 10, 10),
        ("app", "month", 95, 100),
    ]
    mine = await database.read(lambda c: spent(c, NOW, "other", {}))
    assert mine == [Spent(key_id="k-theirs", name="theirs", window="month", spent=10, budget=10)]


async def test_keys_that_end_within_a_week_are_found(database):
    ends = {"past": -8, "over": -1, "soon": 6, "far": 8}
    await add(
        database,
        keys,
        *(key_row(name, expires_at=NOW + days * DAY) for name, days in ends.items()),
        key_row("off", expires_at=NOW, enabled=False),
        key_row("never"),
    )
    found = await database.read(lambda c: endings(c, NOW, None))
    assert [row.name for row in found] == ["over", "soon"]
    assert await database.read(lambda c: endings(c, NOW, "other")) == []


async def test_prepaid_users_with_next_to_nothing_are_found(database):
    left = {"empty": (5, 5), "low": (10**9, 1), "rich": (10**9, 0), "postpaid": (None, 0)}
    await add(
        database,
        users,
        *(
            {
                "id": name,
                "username": name,
                "role": "user",
                "enabled": True,
                "balance": balance,
                "reserved": reserved,
                "created_at": 1,
                "updated_at": 1,
            }
            for name, (balance, reserved) in left.items()
        ),
    )
    found = await database.read(lambda c: balances(c, None))
    assert [(row.username, row.left) for row in found] == [("empty", 0), ("low", 10**9 - 1)]
    only = await database.read(lambda c: balances(c, "low"))
    assert only == [Balance(user_id="low", username="low", left=10**9 - 1)]
