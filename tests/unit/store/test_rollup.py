"""The log is folded into sums, each row once, and whoever adds up sees every row at every moment."""

import asyncio
import os
import random
from bisect import bisect_right
from itertools import groupby

import pytest
from sqlalchemy import BigInteger, create_engine, delete, func, insert, literal, select, update

from monoize.errors import DatabaseAway
from monoize.store import rollup
from monoize.store.log_filter import LogFilter
from monoize.store.overview import pace
from monoize.store.retention import Retention
from monoize.store.rollup_facts import BOUNDS, DAY, HOUR, MINUTE, percentile, placed
from monoize.store.rollup_folding import keep_folded
from monoize.store.rollup_read import RAW, Span, spans
from monoize.store.tables import (
    LATENCY_BOUNDS,
    fold_groups,
    fold_later,
    fold_mark,
    overview_sums,
    request_logs,
    usage_sums,
)
from monoize.store.usage import sums

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
NOON = 1_794_744_000_000  # 2026-11-15T12:00:00Z
LATER = NOON + 10 * DAY  # everything is old enough to be folded
TOKENS = (
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
)
ENDS = ("success", "success", "success", "error", "interrupted", "cancelled")
BYS = ((), ("key",), ("user",), ("model",), ("day",), ("hour",), ("day", "key"), ("user", "model"),
       ("hour", "provider"), ("key", "model", "day"))  # fmt: skip


def opened(rng, number, **values):
    return {
        "request_id": f"r{number}",
        "status": "pending",
        "created_at": NOON + rng.randint(-3 * DAY, 3 * DAY),
        "operation": "chat",
        "is_stream": False,
        "key_id": rng.choice(("k1", "k2", None)),
        "key_name": rng.choice(("old name", "new name")),
        "user_id": rng.choice(("u1", "u2", None)),
        "username": rng.choice(("ann", "bob", None)),
        "requested_model": rng.choice(("a", "b", "", None)),
        **values,
    }


def near_a_bound(rng):
    return rng.choice(BOUNDS) + rng.choice((-1, 0, 1))


def ended(rng):
    return {
        "status": rng.choice(ENDS),
        "provider": rng.choice(("p", "q", None)),
        "charge": rng.randint(0, 10**10),
        "estimated": rng.random() < 0.3,
        "unpriced": rng.random() < 0.1,
        "duration_ms": rng.choice((None, rng.randint(0, 400_000), near_a_bound(rng))),
        "first_byte_ms": rng.choice((None, rng.randint(0, 3_000), near_a_bound(rng))),
        **{name: rng.choice((None, rng.randint(0, 5000))) for name in TOKENS},
    }


async def do(database, *statements):
    def work(connection):
        for statement in statements:
            connection.execute(statement)

    await database.write(work)


async def add(database, *rows):
    def work(connection):
        for _, alike in groupby(rows, key=tuple):  # each may have other columns
            connection.execute(insert(request_logs), list(alike))

    await database.write(work)


async def fold(database, now=LATER, step=rollup.STEP):
    return await database.write(lambda c: rollup.fold(c, now, step))


async def fold_all(database, now=LATER, step=rollup.STEP):
    while (await fold(database, now, step)).more:
        pass


async def count(database, table):
    return await database.read(lambda c: c.scalar(select(func.count()).select_from(table)))


async def calls(database, **wanted):
    return (await database.read(lambda c: sums(c, LogFilter(**wanted)))).total.calls


def filters(rng):
    """Times that begin and end anywhere, and what sums know or do not know of."""
    yield LogFilter()
    yield LogFilter(since=NOON, until=NOON + DAY)
    for _ in range(3):
        since = NOON + rng.randint(-3 * DAY, 2 * DAY)
        until = rng.choice((None, since + rng.randint(0, 2 * DAY)))
        yield LogFilter(since=since, until=until)
        yield LogFilter(
            since=rng.choice((None, since)),
            until=until,
            key_id=rng.choice((None, "k1")),
            user_id=rng.choice((None, "u2")),
            username=rng.choice((None, None, "ann")),
            models=rng.choice(((), ("a*",), ("a", "b"))),
            provider=rng.choice((None, "p")),
            status=rng.choice((None, None, "error")),
        )


class Answers:
    """What sums answer before and after something that must change no answer."""

    def __init__(self, database, seed):
        self._database = database
        rng = random.Random(seed)
        self._asked = [(wanted, rng.choice(BYS)) for wanted in filters(rng) for _ in range(2)]

    async def read(self):
        def work(connection):
            usage = [sums(connection, wanted, by) for wanted, by in self._asked]
            own = [LogFilter(), LogFilter(user_id="u1"), LogFilter(key_id="k2")]
            # A key without a user is its own owner; here other users hold it, too.
            paces = [pace(connection, who, span, NOON + 2 * DAY + 1234567)
                     for who in own[:2] for span in ("1h", "24h", "7d", "30d")]  # fmt: skip
            return usage, paces

        usage, paces = await self._database.read(work)
        return [(u.total, sorted(map(str, u.rows))) for u in usage], paces


@pytest.mark.spec("T44")
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40 if SOAK else 1))
async def test_no_answer_changes_by_folding(database, seed):
    rng = random.Random(seed)
    number, under_way = 0, []
    for _ in range(5):
        rows = [opened(rng, number + n) for n in range(rng.randint(0, 30))]
        number += len(rows)
        await add(database, *rows)
        under_way += [row["request_id"] for row in rows]
        rng.shuffle(under_way)
        ending, under_way = (
            under_way[: len(under_way) * 2 // 3],
            under_way[len(under_way) * 2 // 3 :],
        )
        log = request_logs.c.request_id
        await do(
            database,
            *(update(request_logs).where(log == name).values(ended(rng)) for name in ending),
        )
        answers = Answers(database, seed)
        before = await answers.read()
        for _ in range(rng.randint(1, 4)):
            await fold(database, step=rng.choice((3, 10, 500)))
            assert await answers.read() == before
    await fold_all(database)
    assert await count(database, fold_later) == len(under_way)
    assert await count(database, fold_groups) == 0


async def test_what_was_folded_while_under_way_is_counted_once_when_it_has_ended(database):
    rng = random.Random(1)
    await add(database, opened(rng, 1), opened(rng, 2, **ended(rng)))
    await fold_all(database)
    assert (await calls(database), await count(database, fold_later)) == (2, 1)
    end = {**ended(rng), "status": "success", "charge": 77}
    await do(database, update(request_logs).where(request_logs.c.request_id == "r1").values(end))
    for _ in range(3):
        await fold_all(database)
    found = (await database.read(lambda c: sums(c, LogFilter(), ("key",)))).total
    assert (found.calls, await count(database, fold_later)) == (2, 0)
    assert await database.read(lambda c: c.scalar(select(func.sum(usage_sums.c.calls)))) == 2 * 5


async def test_several_may_fold_at_once(database):
    rng = random.Random(2)
    await add(database, *(opened(rng, n, **ended(rng)) for n in range(60)))
    folded = await asyncio.gather(*(fold(database, step=7) for _ in range(20)))
    assert sum(each.rows for each in folded) <= 60
    await fold_all(database)
    assert await calls(database) == 60
    assert await database.read(lambda c: c.scalar(select(func.sum(usage_sums.c.calls)))) == 60 * 5


async def test_a_number_that_shows_late_is_not_lost(database):
    """PostgreSQL hands numbers out before it shows rows; SQLite has one writer, so none is ever late."""
    if database.dialect == "sqlite":
        pytest.skip("one writer at a time")
    rng = random.Random(3)
    await add(database, *(opened(rng, n, id=n, **ended(rng)) for n in (1, 2, 4, 7)))
    await fold_all(database)
    assert await count(database, fold_later) == 3
    await add(database, opened(rng, 3, id=3, **ended(rng)), opened(rng, 6, id=6))
    assert await calls(database) == 6
    await fold_all(database)
    assert (await calls(database), await count(database, fold_later)) == (6, 2)
    # The one that nobody ever used is forgotten; the one under way is not.
    await fold_all(database, now=LATER + 2 * HOUR)
    assert await count(database, fold_later) == 1
    assert await calls(database) == 6


async def test_young_rows_wait(database):
    rng = random.Random(4)
    await add(database, opened(rng, 1, created_at=NOON, **ended(rng)))
    await fold_all(database, now=NOON + 9_000)
    assert await database.read(lambda c: c.scalar(select(fold_mark.c.through))) == 0
    assert await database.read(lambda c: rollup.due(c, NOON + 9_000)) is None
    assert await database.read(lambda c: rollup.due(c, NOON + 10_000)) == 1
    await fold_all(database, now=NOON + 10_000)
    assert await database.read(lambda c: rollup.due(c, NOON + 10_000)) is None
    assert await calls(database) == 1


async def test_one_look_serves_many_steps(database):
    rng = random.Random(10)
    await add(database, *(opened(rng, n, **ended(rng)) for n in range(20)))
    upto = await database.read(lambda c: rollup.due(c, LATER))
    await add(database, *(opened(rng, 20 + n, **ended(rng)) for n in range(10)))
    while (await database.write(lambda c: rollup.fold(c, LATER, 7, upto=upto))).more:
        pass
    mark = select(fold_mark.c.through)
    assert await database.read(lambda c: c.scalar(mark)) == upto == 20
    # The last row may leave after the look; on SQLite the next one gets its number, and counts as well.
    await do(database, delete(request_logs).where(request_logs.c.id > 25))
    await database.write(lambda c: rollup.fold(c, LATER, upto=30))
    assert await database.read(lambda c: c.scalar(mark)) == 25
    await add(database, opened(rng, 40, **ended(rng)))
    await fold_all(database)
    assert await calls(database) == 26
    assert await database.read(lambda c: c.scalar(select(func.sum(usage_sums.c.calls)))) == 26 * 5


@pytest.mark.spec("T44")
async def test_what_leaves_the_log_stays_in_the_sums(database):
    rng = random.Random(5)
    await add(database, *(opened(rng, n, **ended(rng)) for n in range(30)))
    await fold(database, step=10)
    before = await database.read(lambda c: sums(c, LogFilter(), ("day", "user", "model")))
    swept = await database.write(lambda c: Retention(keep_days=1).sweep(c, LATER))
    assert swept.rows == 30
    assert await database.read(lambda c: sums(c, LogFilter(), ("day", "user", "model"))) == before
    # SQLite begins with the first number again; a new row is a new row all the same.
    await add(database, *(opened(rng, 100 + n, **ended(rng)) for n in range(5)))
    assert await calls(database) == 35
    await fold_all(database)
    assert await calls(database) == 35


async def test_one_that_ended_late_is_folded_before_it_leaves(database):
    rng = random.Random(6)
    await add(database, opened(rng, 1))
    await fold_all(database)
    await do(database, update(request_logs).values(ended(rng)))
    await database.write(lambda c: Retention(keep_days=1).sweep(c, LATER))
    assert (await count(database, request_logs), await calls(database)) == (0, 1)
    assert await count(database, fold_later) == 0


async def test_hours_are_forgotten_and_days_are_kept(database):
    rng = random.Random(7)
    await add(database, *(opened(rng, n, **ended(rng)) for n in range(20)))
    await fold_all(database)
    days = await database.read(lambda c: sums(c, LogFilter(), ("day", "key")))
    for _ in range(10):
        await database.write(lambda c: rollup.forget_hours(c, NOON + 30 * DAY))
    assert await count(database, overview_sums) == 0
    assert await database.read(lambda c: sums(c, LogFilter(), ("day", "key"))) == days
    assert not (await database.read(lambda c: sums(c, LogFilter(), ("hour",)))).rows


@pytest.mark.parametrize("is_folded", [False, True])
async def test_all_but_the_dearest_are_one(database, is_folded):
    rng = random.Random(10)
    rows = [opened(rng, n, **ended(rng)) for n in range(80)]
    await add(database, *rows)
    if is_folded:
        await fold_all(database)
    for thing, column in (("model", "requested_model"), ("key", "key_id"), ("user", None)):
        whole = await database.read(lambda c, thing=thing: sums(c, LogFilter(), (thing,)))
        found = await database.read(
            lambda c, thing=thing: sums(c, LogFilter(), ("day", thing), 1000, 2)
        )
        assert found.total == whole.total
        assert sum(row.charge for row in found.rows) == whole.total.charge
        rest = [row for row in found.rows if row.others]
        assert len(rest) == len({row.day for row in rest}) > 0
        assert {(row.key_name, row.username, row.model) for row in rest} == {(None, None, None)}
        if column is not None:
            name = {"model": "model", "key": "key_id"}[thing]
            told = {getattr(row, name) for row in found.rows if not row.others}
            assert told == {getattr(row, name) for row in whole.rows[:2]}
        assert sum(row.calls for row in rest) == sum(row.calls for row in whole.rows[2:])


async def test_a_long_report_by_the_day_begins_with_the_newest(database):
    rng = random.Random(11)
    await add(database, *(opened(rng, n, **ended(rng)) for n in range(120)))
    await fold_all(database)
    for by in (("day", "key", "user"), ("hour", "model"), ("day",)):
        everything = await database.read(lambda c, by=by: sums(c, LogFilter(), by))
        for limit in (1, 5, 30):
            some = await database.read(
                lambda c, by=by, limit=limit: sums(c, LogFilter(), by, limit)
            )
            assert some.total == everything.total
            periods = [row.hour or row.day for row in everything.rows][:limit]
            assert [row.hour or row.day for row in some.rows] == periods


async def test_numbers_beyond_reason_stop_nobody(database):
    rng = random.Random(8)
    absurd = {"input_tokens": 2**63 - 1, "duration_ms": 2**63 - 1, "status": "success"}
    await add(database, *(opened(rng, n, **{**ended(rng), **absurd}) for n in range(3)))
    await fold_all(database)
    assert (await database.read(lambda c: sums(c, LogFilter()))).total.input_tokens == 3 * 10**12


def test_a_time_is_made_of_the_largest_periods_that_fit():
    day = NOON - 12 * HOUR
    found = list(spans(day - 90_000, day + DAY + HOUR + 1, (DAY, HOUR, MINUTE)))
    assert found == [
        Span(DAY, day, day + DAY),
        Span(MINUTE, day - MINUTE, day),
        Span(RAW, day - 90_000, day - MINUTE),
        Span(HOUR, day + DAY, day + DAY + HOUR),
        Span(RAW, day + DAY + HOUR, day + DAY + HOUR + 1),
    ]
    assert list(spans(5, 5, (DAY,))) == []


def test_a_latency_is_placed_among_the_bounds():
    near = [bound + step for bound in BOUNDS for step in (-1, 0, 1)]
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        for latency in (None, 0, *near, 2**62):
            given = select(literal(latency, BigInteger).label("wait")).subquery()
            found = connection.scalar(select(placed("wait")).select_from(given))
            assert found == (None if latency is None else bisect_right(BOUNDS, latency))
    engine.dispose()


@pytest.mark.parametrize("size", [1, 7, 400])
def test_a_percentile_lies_between_the_right_bounds(size):
    rng = random.Random(size)
    values = sorted(int(rng.lognormvariate(6, 2)) for _ in range(size))
    below = [sum(value < bound for value in values) for bound in BOUNDS]
    for share in (0.5, 0.95):
        exact = values[max(0, -(-round(share * 100) * size // 100) - 1)]
        low = max((b for b in BOUNDS if b <= exact), default=0)
        high = min((b for b in BOUNDS if b > exact), default=BOUNDS[-1])
        assert low <= percentile(size, below, share) <= high
    assert percentile(0, [0] * LATENCY_BOUNDS, 0.5) is None
    assert len(BOUNDS) == LATENCY_BOUNDS


class Clock:
    def now(self):
        return LATER / 1000


async def test_the_task_folds_all_there_is_and_outlives_an_outage(database, caplog):
    rng = random.Random(9)
    await add(database, *(opened(rng, n, **ended(rng)) for n in range(1200)))
    looks = []

    async def sleep(seconds):
        looks.append(seconds)
        if looks.count(5.0) == 4:
            raise asyncio.CancelledError

    class Shaky:
        dialect, write = database.dialect, database.write

        async def read(self, work):
            if looks.count(5.0) == 1:
                raise DatabaseAway("gone")
            if looks.count(5.0) == 2:
                raise RuntimeError("a defect")
            return await database.read(work)

    with pytest.raises(asyncio.CancelledError):
        await keep_folded(Shaky(), Clock(), sleep)
    assert "could not be added up" in caplog.text
    assert await database.read(lambda c: rollup.due(c, LATER)) is None
    assert await calls(database) == 1200
