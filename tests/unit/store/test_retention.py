"""What is too old leaves the log in small steps; what is under way, and the ledger, stay."""

import asyncio

import pytest
from sqlalchemy import create_engine, event, func, insert, select

from monoize.store.captures import save
from monoize.store.retention import Retention, Swept
from monoize.store.tables import METADATA, captures, ledger, request_logs
from monoize.telemetry.redact import redacted

NOW = 1_794_744_000_000
DAY = 86_400_000


def log_row(number, **values):
    """One a day, the first a hundred days ago."""
    return {
        "request_id": f"r{number}",
        "status": "success",
        "created_at": NOW - (100 - number) * DAY,
        "operation": "chat",
        "is_stream": False,
        **values,
    }


async def add(database, *rows):
    await database.write(lambda c: c.execute(insert(request_logs), list(rows)) and None)


async def sweep(database, retention, now=NOW):
    return await database.write(lambda c: retention.sweep(c, now))


async def sweep_all(database, retention):
    steps = []
    while not steps or steps[-1].more:
        steps.append(await sweep(database, retention))
        assert len(steps) < 200
    return steps


async def left(database, table=request_logs):
    query = select(table.c.request_id).order_by(table.c.created_at, table.c.request_id)
    return await database.read(lambda c: list(c.execute(query).scalars()))


async def test_without_limits_everything_stays(database):
    await add(database, *(log_row(n) for n in range(5)))
    assert await sweep(database, Retention()) == Swept()
    assert len(await left(database)) == 5


@pytest.mark.spec("T39")
async def test_limits_beyond_every_log_keep_everything(database):
    await add(database, *(log_row(n) for n in range(5)))
    assert await sweep(database, Retention(keep_days=10**30, keep_rows=10**30)) == Swept()
    assert len(await left(database)) == 5


@pytest.mark.spec("T44")
async def test_rows_leave_by_age_oldest_first_and_a_few_at_a_time(database):
    await add(database, *(log_row(n) for n in range(100)))
    retention = Retention(keep_days=30, step=25)
    assert await sweep(database, retention) == Swept(rows=25, more=True)
    assert await left(database) == [f"r{n}" for n in range(25, 100)]
    steps = await sweep_all(database, retention)
    assert [step.rows for step in steps] == [25, 20]
    assert await left(database) == [f"r{n}" for n in range(70, 100)]


@pytest.mark.spec("T44")
async def test_rows_leave_by_number_oldest_first_and_a_few_at_a_time(database):
    await add(database, *(log_row(n) for n in range(50)))
    steps = await sweep_all(database, Retention(keep_rows=10, step=15))
    assert [step.rows for step in steps] == [15, 15, 10]
    assert await left(database) == [f"r{n}" for n in range(40, 50)]


async def test_both_limits_hold(database):
    await add(database, *(log_row(n) for n in range(100)))
    await sweep_all(database, Retention(keep_days=30, keep_rows=60, step=7))
    assert await left(database) == [f"r{n}" for n in range(70, 100)]
    await sweep_all(database, Retention(keep_days=30, keep_rows=20, step=7))
    assert await left(database) == [f"r{n}" for n in range(80, 100)]


async def test_a_row_that_came_late_leaves_by_its_moment(database):
    await add(database, log_row(99), log_row(1), log_row(98))
    await sweep_all(database, Retention(keep_days=30))
    assert await left(database) == ["r98", "r99"]


async def test_what_is_under_way_stays_until_it_has_ended(database):
    await add(database, *(log_row(n, status="pending" if n % 2 else "success") for n in range(20)))
    for retention in (Retention(keep_days=1, step=3), Retention(keep_rows=1, step=3)):
        steps = await sweep_all(database, retention)
        assert all(step.rows <= 3 for step in steps)
    assert await left(database) == [f"r{n}" for n in range(1, 20, 2)]


async def test_the_ledger_is_never_touched(database):
    row = {"kind": "charge", "amount": 1, "estimated": False, "unpriced": False, "created_at": 1}
    await database.write(
        lambda c: c.execute(insert(ledger).values(request_id="r1", **row)) and None
    )
    await add(database, log_row(1))
    await sweep_all(database, Retention(keep_days=1, keep_rows=1))
    assert await left(database) == []
    assert await left(database, ledger) == ["r1"]


async def test_bodies_leave_with_their_rows_and_before_them(database):
    await add(database, *(log_row(n) for n in range(100)))
    body = redacted({"said": "hi"}, longest=100)

    def capture(connection):
        for number in range(100):
            # Each ended a day after it began, so the last one before the limit is not old enough by itself.
            save(connection, f"r{number}", body, NOW - (99 - number) * DAY)
        save(connection, "without a row", body, NOW - 80 * DAY)

    await database.write(capture)
    steps = await sweep_all(database, Retention(keep_days=30, step=50, body_step=20))
    assert [(step.captures, step.rows) for step in steps] == [(20, 0)] * 3 + [(10, 50), (1, 20)]
    assert (
        await left(database, captures) == await left(database) == [f"r{n}" for n in range(70, 100)]
    )


async def test_bodies_without_a_row_leave_by_number_too(database):
    body = redacted("x", longest=100)
    await add(database, *(log_row(n) for n in range(10)))
    await database.write(lambda c: save(c, "without a row", body, NOW - 98 * DAY))
    await database.write(lambda c: save(c, "young", body, NOW))
    await sweep_all(database, Retention(keep_rows=5))
    assert await left(database, captures) == ["young"]


async def test_several_may_sweep_while_requests_come(database):
    await add(database, *(log_row(n) for n in range(100)))
    retention = Retention(keep_days=30, step=5)

    async def sweeper():
        removed = 0
        while (swept := await sweep(database, retention)).more:
            removed += swept.rows
        return removed + swept.rows

    async def caller(number):
        for turn in range(20):
            await add(database, log_row(1000 * number + turn, created_at=NOW))

    removed = await asyncio.gather(sweeper(), sweeper(), sweeper(), caller(1), caller(2))
    assert sum(removed[:3]) == 70  # none twice
    assert len(await left(database)) == 30 + 40


def test_sqlite_gives_free_pages_back_where_it_may(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/log.db")

    @event.listens_for(engine, "connect")
    def configure(connection, record):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")

    def size(connection):
        return connection.exec_driver_sql("PRAGMA page_count").scalar()

    with engine.begin() as connection:
        METADATA.create_all(connection)
        rows = [log_row(n, error_message="x" * 12_000) for n in range(90)]
        connection.execute(insert(request_logs), rows)
    with engine.begin() as connection:
        before = size(connection)
        swept = Retention(keep_days=1).sweep(connection, NOW)
        assert (swept.rows, swept.more) == (90, True)
        assert size(connection) < before / 2
    with engine.begin() as connection:
        assert Retention(keep_days=1).sweep(connection, NOW) == Swept()
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        assert connection.execute(select(func.count()).select_from(request_logs)).scalar() == 0
    engine.dispose()
