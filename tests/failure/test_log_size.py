"""A log of a million rows (50,000 in `make test`): no filter and no sweep looks at more of it than a page may cost.

Work is counted, not timed: SQLite tells the steps of its machine, PostgreSQL the rows that each scan met. The times are
printed: `MONOIZE_SOAK=1 pytest -s tests/failure/test_log_size.py`.
"""

from __future__ import annotations

import json
import os
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any

import pytest
from sqlalchemy import Connection, event

from fakes.databases import database, database_url
from fakes.log_rows import FIRST_MS, SECOND, fill_log
from monoize.store import log_walk
from monoize.store.database import Database
from monoize.store.logs import LogFilter, export, page
from monoize.store.retention import Retention

pytestmark = pytest.mark.soak
__all__ = ["database", "database_url"]

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
ROWS = 1_000_000 if SOAK else 50_000
SHORT, LONG = (log_walk._SHORT, log_walk._LONG) if SOAK else (50, 250)

# Entries that may be met for a page: each of seven leads is looked ahead, one of them is walked, short and long.
MOST_ENTRIES = 9 * SHORT + 2 * LONG + 2_000
STEPS_PER_ENTRY = 60  # of SQLite's machine, the longest test of a row

# A value that much of the log has, and one that only its ten oldest rows have.
VALUES: dict[str, tuple[Any, ...]] = {
    "status": ("success", "interrupted"),
    "errors_only": (True, True),
    "key_id": ("k-even", "k-rare"),
    "user_id": ("u-even", "u-rare"),
    "username": ("even", "rare", "gone"),
    "models": (("gpt-*", "claude-1"), ("rare-*",)),
    "provider": ("p-odd", "p-rare"),
    "channel": ("c-1", "c-rare"),
    "protocol": ("messages", "gemini"),
    "operation": ("chat", "embeddings"),
    "text": ("status", "needle"),
    "since": (FIRST_MS + 10, FIRST_MS + ROWS * SECOND - 5),
    "until": (FIRST_MS + ROWS * SECOND, FIRST_MS + 5 * SECOND),
}


def filters() -> Iterator[LogFilter]:
    """None, each, every pair, and many at once; crowded and rare values alike."""
    yield LogFilter()
    for name, values in VALUES.items():
        for value in values:
            yield LogFilter(**{name: value})
    pairs = [
        {first: one, second: two}
        for first, second in combinations(VALUES, 2)
        for one, two in product(VALUES[first], VALUES[second])
    ]
    rng = random.Random(4)
    for pair in pairs if SOAK else rng.sample(pairs, 60):
        yield LogFilter(**pair)
    for _ in range(100 if SOAK else 20):
        names = rng.sample(list(VALUES), rng.randint(3, 8))
        yield LogFilter(**{name: rng.choice(VALUES[name]) for name in names})
    yield LogFilter(**{name: crowded for name, (crowded, *_) in VALUES.items()})


class Work:
    """What a function of a connection made the database do."""

    def __init__(self, connection: Connection, function: Callable[[Connection], Any]) -> None:
        self._connection = connection
        self._statements: list[tuple[str, Any]] = []
        self.entries = 0
        self.result = self._counted(function)
        self.plans = [line for statement in self._statements for line in self._plan(*statement)]

    def _counted(self, function: Callable[[Connection], Any]) -> Any:
        def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
            self._statements.append((statement, parameters))

        steps = [0]
        if self._connection.dialect.name == "sqlite":
            driver = self._connection.connection.driver_connection
            assert driver is not None
            driver.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 100), 100)
        event.listen(self._connection, "before_cursor_execute", note)
        started = time.perf_counter()
        result = function(self._connection)
        self.milliseconds = (time.perf_counter() - started) * 1000
        event.remove(self._connection, "before_cursor_execute", note)
        if self._connection.dialect.name == "sqlite":
            driver.set_progress_handler(None, 0)
            self.entries = steps[0] // STEPS_PER_ENTRY
        return result

    def _plan(self, statement: str, parameters: Any) -> list[str]:
        """The ways that lead through the whole table."""
        if not statement.lstrip().startswith(("SELECT", "WITH")):
            return []
        if self._connection.dialect.name == "sqlite":
            rows = self._connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return [row[-1] for row in rows if row[-1].startswith("SCAN request_logs")]
        explained = self._connection.exec_driver_sql(
            f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}", parameters
        ).scalar_one()
        found = explained if isinstance(explained, list) else json.loads(explained)
        return list(self._scans(found[0]["Plan"]))

    def _scans(self, node: dict[str, Any]) -> Iterator[str]:
        if node.get("Relation Name") == "request_logs":
            met = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            self.entries += int(met * node["Actual Loops"])
            if node["Node Type"] == "Seq Scan":
                yield f"Seq Scan {node.get('Filter')}"
        for child in node.get("Plans", ()):
            yield from self._scans(child)


@pytest.mark.spec("T44")
async def test_a_page_costs_the_same_whatever_is_asked_for(database, monkeypatch):
    monkeypatch.setattr(log_walk, "_SHORT", SHORT)
    monkeypatch.setattr(log_walk, "_LONG", LONG)
    await fill_log(database, ROWS)
    times = []
    for wanted in filters():
        first = await database.read(lambda c, wanted=wanted: Work(c, lambda c: page(c, wanted)))
        assert not first.plans, wanted
        assert first.entries <= MOST_ENTRIES, (wanted, first.entries)
        if SOAK:  # they are printed only
            times.append((await _best_time(database, wanted), wanted))
        before = first.result.next
        if before is not None:
            second = await database.read(
                lambda c, wanted=wanted, before=before: Work(c, lambda c: page(c, wanted, before))
            )
            assert not second.plans, wanted
            assert second.entries <= MOST_ENTRIES, (wanted, second.entries)
    if SOAK:
        _print_times(database.dialect, times)
    rare = LogFilter(key_id="k-rare", status="interrupted", text="rare")
    assert len((await database.read(lambda c: page(c, rare))).rows) == 10


@pytest.mark.spec("T44")
async def test_a_sweep_looks_at_what_it_removes_only(database):
    await fill_log(database, ROWS)
    now = FIRST_MS + ROWS * SECOND
    for retention in (
        Retention(keep_rows=ROWS // 2),
        Retention(keep_days=1, keep_rows=ROWS // 2),
        Retention(keep_days=1000),
    ):
        swept = await database.write(
            lambda c, retention=retention: Work(c, lambda c: retention.sweep(c, now))
        )
        print(f"\n{database.dialect}: {retention}: {swept.milliseconds:.1f} ms")
        assert not swept.plans
        assert swept.entries <= 30 * retention.step
        assert swept.result.rows == (0 if retention.keep_days == 1000 else retention.step)


@pytest.mark.spec("T40", "T44")
async def test_an_export_needs_the_same_memory_whatever_its_length(database):
    rows = 20_000 if SOAK else 2_500
    await fill_log(database, rows)

    def exported(connection: Connection, wanted: LogFilter) -> tuple[int, int]:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        lines = sum(part.count("\r\n") for part in export(connection, wanted, 100))
        return lines, tracemalloc.get_traced_memory()[1] - before

    whole = LogFilter()
    fifth = LogFilter(until=FIRST_MS + rows // 5 * SECOND)
    await database.read(lambda c: sum(map(len, export(c, whole, 100))))  # statements are made once
    tracemalloc.start()
    try:
        few, little = await database.read(lambda c: exported(c, fifth))
        all_of_them, most = await database.read(lambda c: exported(c, whole))
    finally:
        tracemalloc.stop()
    assert few < all_of_them / 4
    assert all_of_them == rows + 1
    assert most < 2 * little


async def _best_time(database: Database, wanted: LogFilter) -> float:
    """Of three, because whoever else runs on the machine is none of our business."""

    def timed(connection: Connection) -> float:
        started = time.perf_counter()
        page(connection, wanted)
        return (time.perf_counter() - started) * 1000

    return min([await database.read(timed) for _ in range(3)])


def _print_times(dialect: str, times: list[tuple[float, LogFilter]]) -> None:
    times.sort(key=lambda pair: pair[0])
    print(f"\n{dialect}, {ROWS} rows, first page of {len(times)} filters:", end=" ")
    for share in (0.5, 0.9, 0.99, 1.0):
        print(f"{share:.0%} {times[round(share * (len(times) - 1))][0]:.1f} ms", end="  ")
    slow = {name: getattr(times[-1][1], name) for name in VALUES if getattr(times[-1][1], name)}
    print(f"\nthe slowest: {slow}")
