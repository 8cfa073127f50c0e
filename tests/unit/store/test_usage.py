"""Sums of the log, by whatever is asked for, and equal to the ledger's."""

import random

import pytest
from sqlalchemy import insert, update

from monoize.errors import InvalidRequest
from monoize.store.logs import LogFilter, usd
from monoize.store.tables import ledger, request_logs
from monoize.store.usage import Difference, agrees, sums

NOON = 1_794_744_000_000  # 2026-11-15T12:00:00Z
HOUR = 3_600_000
COLUMNS = {"key": "key_id", "user": "user_id", "model": "requested_model", "provider": "provider"}
TOKENS = (
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
)


def log_row(number, **values):
    return {
        "request_id": f"r{number}",
        "status": "success",
        "created_at": NOON,
        "operation": "chat",
        "is_stream": False,
        **values,
    }


def random_rows(count=200):
    rng = random.Random(4)
    for number in range(count):
        status = rng.choice(("success", "success", "error", "interrupted", "cancelled", "pending"))
        done = status != "pending"
        yield log_row(
            number,
            status=status,
            created_at=NOON + rng.randint(-40, 40) * HOUR + rng.randint(0, HOUR - 1),
            key_id=rng.choice(("k1", "k2", None)),
            user_id=rng.choice(("u1", "u2", None)),
            requested_model=rng.choice(("a", "b", None)),
            provider=rng.choice(("p", "q", None)),
            charge=rng.randint(0, 10**10) if done else None,
            estimated=rng.random() < 0.3 if done else None,
            unpriced=rng.random() < 0.1 if done else None,
            **{name: rng.randint(0, 5000) if done else None for name in TOKENS},
        )


async def add(database, table, rows):
    await database.write(lambda c: c.execute(insert(table), list(rows)) and None)


def moment_text(moment, dimension):
    from datetime import UTC, datetime

    shape = "%Y-%m-%d" if dimension == "day" else "%Y-%m-%dT%H:00:00Z"
    return datetime.fromtimestamp(moment / 1000, UTC).strftime(shape)


def group_of(row, by):
    return tuple(
        row[COLUMNS[each]] if each in COLUMNS else moment_text(row["created_at"], each)
        for each in by
    )


def naive(rows, by):
    groups = {}
    for row in rows:
        found = groups.setdefault(group_of(row, by), dict.fromkeys((*TOKENS, "charge", "calls"), 0))
        for name in (*TOKENS, "charge"):
            found[name] += row[name] or 0
        found["calls"] += 1
        for name, is_so in (
            ("errors", row["status"] in ("error", "interrupted")),
            ("estimated", row["estimated"]),
            ("unpriced", row["unpriced"]),
        ):
            found[name] = found.get(name, 0) + bool(is_so)
    return groups


NAMES = {"key": "key_id", "user": "user_id"}


def shown(row, by):
    group = tuple(getattr(row, NAMES.get(each, each)) for each in by)
    names = (*TOKENS, "charge", "calls", "errors", "estimated", "unpriced")
    assert row.charge_usd == usd(row.charge)
    return group, {name: getattr(row, name) for name in names}


async def test_sums_are_what_adding_up_row_by_row_gives(database):
    rows = list(random_rows())
    await add(database, request_logs, rows)
    for by in (
        (),
        ("key",),
        ("user",),
        ("model",),
        ("provider",),
        ("day",),
        ("hour",),
        ("key", "model"),
        ("day", "provider", "user"),
    ):
        found = await database.read(lambda c, by=by: sums(c, LogFilter(), by))
        assert dict(shown(row, by) for row in found.rows) == naive(rows, by)
        assert shown(found.total, ()) == ((), naive(rows, ())[()])
        assert not found.truncated


async def test_the_filters_of_the_log_hold(database):
    rows = list(random_rows())
    await add(database, request_logs, rows)
    wanted = LogFilter(key_id="k1", models=("a*",), since=NOON, until=NOON + 20 * HOUR)
    found = await database.read(lambda c: sums(c, wanted, ("provider",)))
    passing = [
        row
        for row in rows
        if (row["key_id"], row["requested_model"]) == ("k1", "a")
        and NOON <= row["created_at"] < NOON + 20 * HOUR
    ]
    assert dict(shown(row, ("provider",)) for row in found.rows) == naive(passing, ("provider",))


async def test_an_empty_log_adds_up_to_nothing(database):
    found = await database.read(lambda c: sums(c, LogFilter(), ("key",)))
    assert (list(found.rows), found.total.calls, found.total.charge_usd) == ([], 0, "0")


async def test_groups_are_bounded_and_the_total_is_not(database):
    await add(database, request_logs, [log_row(n, key_id=f"k{n}", charge=n) for n in range(30)])
    found = await database.read(lambda c: sums(c, LogFilter(), ("key",), 10))
    assert [row.charge for row in found.rows] == list(range(29, 19, -1))
    assert (found.truncated, found.total.charge, found.total.calls) == (True, sum(range(30)), 30)


async def test_days_come_newest_first(database):
    rows = [log_row(n, created_at=NOON - n * 24 * HOUR, charge=n) for n in range(3)]
    await add(database, request_logs, rows)
    found = await database.read(lambda c: sums(c, LogFilter(), ("day",), 2))
    assert [row.day for row in found.rows] == ["2026-11-15", "2026-11-14"]


async def test_groups_have_names_and_users_of_the_file_are_not_one(database):
    rows = [
        log_row(1, key_id="k", key_name="mine", user_id="u", username="ann"),
        log_row(2, key_id="k", key_name="mine", username="bob"),
        log_row(3, key_id="k", key_name="mine", username="cid"),
    ]
    for row in rows:
        await add(database, request_logs, [row])
    (key,) = (await database.read(lambda c: sums(c, LogFilter(), ("key",)))).rows
    assert (key.key_id, key.key_name, key.calls) == ("k", "mine", 3)
    users = (await database.read(lambda c: sums(c, LogFilter(), ("user",)))).rows
    assert {(row.user_id, row.username) for row in users} == {
        ("u", "ann"),
        (None, "bob"),
        (None, "cid"),
    }


@pytest.mark.spec("T39")
async def test_charges_beyond_64_bits_are_added_up(database):
    await add(database, request_logs, [log_row(n, charge=2**63 - 1) for n in range(3)])
    found = await database.read(lambda c: sums(c, LogFilter()))
    assert found.total.charge == 3 * (2**63 - 1)


async def test_a_report_is_bounded(database):
    for limit, by in (
        (0, ()),
        (1001, ()),
        (10, ("key", "key")),
        (10, ("key", "user", "day", "hour")),
    ):
        with pytest.raises(InvalidRequest):
            await database.read(lambda c, limit=limit, by=by: sums(c, LogFilter(), by, limit))


# --- log and ledger ------------------------------------------------------------------------------


def ledger_row(row, **values):
    return {
        "request_id": row["request_id"],
        "kind": "charge",
        "amount": row["charge"],
        "estimated": row["estimated"],
        "unpriced": row["unpriced"],
        "created_at": row["created_at"] + 1000,
        **values,
    }


async def both(database):
    rows = list(random_rows(60))
    await add(database, request_logs, rows)
    settled = [row for row in rows if row["status"] != "pending"]
    await add(database, ledger, [ledger_row(row) for row in settled])
    # Neither a refused call nor money that an admin gave is a charge.
    await add(database, request_logs, [log_row("refused", status="error")])
    paid = {"kind": "adjustment", "amount": 5, "estimated": False, "unpriced": False}
    await add(database, ledger, [{**paid, "created_at": NOON}])
    return settled


async def differences(database, since=0):
    return await database.read(lambda c: agrees(c, since))


async def test_a_log_and_its_ledger_agree_and_so_do_their_sums(database):
    settled = await both(database)
    assert await differences(database) == ()
    total = (await database.read(lambda c: sums(c, LogFilter()))).total
    assert total.charge == sum(row["charge"] for row in settled)


CHANGES = {
    "the amounts differ": update(ledger).values(amount=ledger.c.amount + 1),
    "they are marked differently": update(ledger).values(estimated=~ledger.c.estimated),
    "the log says that it is pending": update(request_logs).values(status="pending", charge=None),
    "the log has no row": update(request_logs).values(request_id="another", charge=0),
    "the ledger has no row": update(ledger).values(request_id="another", amount=0, kind="other"),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_difference_is_named(database, what):
    settled = await both(database)
    row = settled[7]
    change = CHANGES[what]
    table = change.table
    await database.write(
        lambda c: c.execute(change.where(table.c.request_id == row["request_id"])) and None
    )
    (found,) = await differences(database)
    assert (found.request_id, found.what) == (row["request_id"], what)
    later = row["created_at"] + 1001
    assert await differences(database, later) == ()


async def test_what_was_settled_late_counts_where_it_was_settled(database):
    await add(database, request_logs, [log_row(1, charge=5, estimated=False, unpriced=False)])
    row = log_row(1, charge=4, estimated=False, unpriced=False, created_at=NOON + HOUR)
    await add(database, ledger, [ledger_row(row)])
    expected = Difference(request_id="r1", what="the amounts differ", log=5, ledger=4)
    assert await differences(database, NOON + 1) == (expected,)
