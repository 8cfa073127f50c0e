"""Checks a ledger from outside: reads the database with plain SQL and prints every invariant that does not hold.

    python tests/failure/ledger_checker.py sqlite:////path/to/monoize.db [facts.json]
    python tests/failure/ledger_checker.py postgresql://user@host/name  [facts.json]

It shares no code with the program. The facts are what others saw; every part may be left out:

    {
      "settled": true,                  the gateway has ended, or recovered and is idle: nothing may be open any more
      "callers": [                      what each caller saw
        {"request_id": "req_…",         or null if it never got a header
         "model": "m-17",               names the request if no other has the same model
         "saw": "complete",             its last byte | "refused": an error and no answer | "broken": neither
         "charge": 1200,                what it must have cost, if that is known
         "estimated": false}            whether an estimate is right for it
      ],
      "upstream": {"m-17": {"calls": 1, "charge": 1200}},    what the provider counted, by model
      "budgets": {"key": {"day": …, "month": …, "total": …}},   where no charge exceeds its reservation
      "totals": {"requests": 100, "charge": 120000}          rows of the log, sum of all charges
    }

Prints one violation a line and exits with 1, or prints a summary and exits with 0.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Facts = dict[str, Any]

TABLES = {
    "ledger": "id, request_id, kind, user_id, key_id, amount, balance_after, estimated, unpriced",
    "reservations": "request_id, instance, key_id, user_id, amount, opened_at",
    "spend": 'key_id, "window", spent, reserved',
    "users": "id, balance, reserved",
    "request_logs": "id, request_id, status, key_id, user_id, requested_model, charge, estimated, unpriced",
}
FINISHED = ("success", "error", "cancelled", "interrupted")


class Ledger:
    """The tables as they are."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        self.entries = sorted(tables["ledger"], key=lambda row: row["id"])
        self.reservations = tables["reservations"]
        self.spend = tables["spend"]
        self.users = tables["users"]
        self.logs = tables["request_logs"]
        self.charges = [row for row in self.entries if row["kind"] == "charge"]
        self.charge_of = {row["request_id"]: row for row in self.charges}
        self.log_of = {row["request_id"]: row for row in self.logs}


def read(url: str) -> Ledger:
    if url.startswith("sqlite:"):
        return Ledger(_read_sqlite(url.removeprefix("sqlite://").removeprefix("/")))
    return Ledger(asyncio.run(_read_postgresql(url)))


def _read_sqlite(path: str) -> dict[str, list[Row]]:
    if not Path(path).exists():
        raise FileNotFoundError(path)
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")  # one moment for all tables
        return {
            table: [dict(row) for row in connection.execute(f"SELECT {columns} FROM {table}")]
            for table, columns in TABLES.items()
        }


async def _read_postgresql(url: str) -> dict[str, list[Row]]:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return {
                table: [
                    dict(row) for row in await connection.fetch(f"SELECT {columns} FROM {table}")
                ]
                for table, columns in TABLES.items()
            }
    finally:
        await connection.close()


# --- what must hold inside -----------------------------------------------------------------------


def charged_once(book: Ledger, facts: Facts) -> Iterator[str]:
    for name, count in Counter(row["request_id"] for row in book.charges).items():
        if name is None:
            yield f"{count} charges name no request"
        elif count > 1:
            yield f"request {name} is charged {count} times"
    for row in book.charges:
        if row["amount"] < 0:
            yield f"request {row['request_id']} has a negative charge: {row['amount']}"


def open_or_settled(book: Ledger, facts: Facts) -> Iterator[str]:
    for row in book.reservations:
        name = row["request_id"]
        if name in book.charge_of:
            yield f"request {name} is charged and still reserved"
        status = book.log_of.get(name, {}).get("status")
        if status != "pending":
            yield f"request {name} is reserved but its log says {status}"
        if row["amount"] < 0:
            yield f"request {name} reserves a negative amount: {row['amount']}"
    held = {row["request_id"] for row in book.reservations}
    for row in book.logs:
        if row["status"] == "pending" and row["request_id"] not in held:
            yield f"request {row['request_id']} is pending without a reservation"
        elif row["status"] not in (*FINISHED, "pending"):
            yield f"request {row['request_id']} has the unknown status {row['status']!r}"


def nothing_left(book: Ledger, facts: Facts) -> Iterator[str]:
    if not facts.get("settled", False):
        return
    for row in book.reservations:
        yield f"a reservation of {row['amount']} is left for request {row['request_id']}"
    for row in book.logs:
        if row["status"] == "pending":
            yield f"request {row['request_id']} is still pending"


def keys_add_up(book: Ledger, facts: Facts) -> Iterator[str]:
    spent: Counter[str] = Counter()
    for row in book.charges:
        spent[row["key_id"]] += row["amount"]
    windows: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in book.spend:
        windows[row["key_id"]][row["window"]] = row
        if row["spent"] < 0 or row["reserved"] < 0:
            yield f"key {row['key_id']} has a negative line: {row}"
    for key in spent.keys() | windows.keys():
        lines = windows.get(key, {})
        total = lines.get("total", {"spent": 0})["spent"]
        if total != spent[key]:
            yield f"key {key}: the ledger says {spent[key]}, its total says {total}"
        months: Counter[str] = Counter()
        for window, row in lines.items():
            if window.startswith("day:"):
                months[window[4:11]] += row["spent"]
        if sum(months.values()) != total:
            yield f"key {key}: its days add up to {sum(months.values())}, its total is {total}"
        for month in months.keys() | {w[6:] for w in lines if w.startswith("month:")}:
            line = lines.get(f"month:{month}", {"spent": 0})
            if line["spent"] != months[month]:
                yield f"key {key}: the days of {month} are {months[month]}, the month is {line['spent']}"


def reservations_add_up(book: Ledger, facts: Facts) -> Iterator[str]:
    held: Counter[tuple[str, str]] = Counter()
    by_user: Counter[str] = Counter()
    for row in book.reservations:
        moment = datetime.fromtimestamp(row["opened_at"] // 1000, UTC)
        for window in ("total", f"day:{moment:%Y-%m-%d}", f"month:{moment:%Y-%m}"):
            held[row["key_id"], window] += row["amount"]
        by_user[row["user_id"]] += row["amount"]
    lines = {(row["key_id"], row["window"]): row["reserved"] for row in book.spend}
    for line in held.keys() | lines.keys():
        if lines.get(line, 0) != held[line]:
            yield f"key {line[0]}, {line[1]}: {lines.get(line, 0)} reserved, {held[line]} is open"
    for user in book.users:
        if user["reserved"] != by_user[user["id"]]:
            yield f"user {user['id']}: {user['reserved']} reserved, {by_user[user['id']]} is open"


def balances_add_up(book: Ledger, facts: Facts) -> Iterator[str]:
    """Only what was taken from a balance counts: before an account is prepaid, its charges are not."""
    left: Counter[str] = Counter()
    for row in book.entries:
        user = row["user_id"]
        if row["kind"] == "adjustment":
            left[user] += row["amount"]
        elif row["balance_after"] is not None:
            left[user] -= row["amount"]
        if row["balance_after"] is not None and row["balance_after"] != left[user]:
            yield f"user {user}: after entry {row['id']} {left[user]} is left, but it says {row['balance_after']}"
            left[user] = row["balance_after"]  # one mistake is told once
    for user in book.users:
        balance = user["balance"]
        if balance is None:
            continue
        if balance != left[user["id"]]:
            yield f"user {user['id']}: the entries leave {left[user['id']]}, the balance is {balance}"
        if balance < 0:
            yield f"user {user['id']}: the balance is negative: {balance}"


def log_agrees(book: Ledger, facts: Facts) -> Iterator[str]:
    for name, entry in book.charge_of.items():
        row = book.log_of.get(name)
        if row is None:
            yield f"request {name} is charged but has no row in the log"
            continue
        told = (row["charge"], bool(row["estimated"]), bool(row["unpriced"]), row["key_id"])
        paid = (entry["amount"], bool(entry["estimated"]), bool(entry["unpriced"]), entry["key_id"])
        if told != paid:
            yield f"request {name}: the log says {told}, the ledger {paid}"
        if row["status"] == "interrupted" and not entry["estimated"]:
            yield f"request {name} was interrupted, but its charge is not marked as estimated"
    for name, row in book.log_of.items():
        if row["charge"] is not None and name not in book.charge_of:
            yield f"request {name}: the log says {row['charge']}, the ledger has nothing"


# --- what others saw -----------------------------------------------------------------------------


def budgets_hold(book: Ledger, facts: Facts) -> Iterator[str]:
    for row in book.spend:
        kind = row["window"].partition(":")[0]
        limit = facts.get("budgets", {}).get(row["key_id"], {}).get(kind)
        used = row["spent"] + row["reserved"]
        if limit is not None and used > limit:
            yield f"key {row['key_id']}, {row['window']}: {used} of {limit} are used"


def callers_agree(book: Ledger, facts: Facts) -> Iterator[str]:
    named = _by_model(book)
    for caller in facts.get("callers", []):
        name = caller.get("request_id")
        if name is None:
            rows = named.get(caller.get("model"), [])
            name = rows[0]["request_id"] if len(rows) == 1 else None
        who = name or caller.get("model") or "without a name"
        entry, row = book.charge_of.get(name), book.log_of.get(name, {})
        if caller["saw"] == "complete":
            yield from _complete(who, caller, entry, row)
        elif caller["saw"] == "refused" and entry is not None and entry["amount"] != 0:
            yield f"request {who} was refused, but {entry['amount']} is charged"
        elif caller["saw"] not in ("complete", "refused", "broken"):
            yield f"facts: nobody knows what {caller['saw']!r} means"


def _complete(who: str, caller: Row, entry: Row | None, row: Row) -> Iterator[str]:
    if entry is None:
        yield f"request {who} was answered to its end, but is not in the ledger"
        return
    if row.get("status") != "success":
        yield f"request {who} was answered to its end, but its log says {row.get('status')}"
    if entry["estimated"] and not caller.get("estimated", False):
        yield f"request {who} was answered to its end, but its charge is an estimate"
    if caller.get("charge") is not None and entry["amount"] != caller["charge"]:
        yield f"request {who} cost {caller['charge']}, but {entry['amount']} is charged"


def upstream_agrees(book: Ledger, facts: Facts) -> Iterator[str]:
    if "upstream" not in facts:
        return
    counted = facts["upstream"]
    named = _by_model(book)
    for model, count in counted.items():
        if count["calls"] and not named.get(model):
            yield f"the provider was called for {model}, which nobody had reserved"
    for model, rows in named.items():
        count = counted.get(model, {"calls": 0})
        entries = [
            book.charge_of[r["request_id"]] for r in rows if r["request_id"] in book.charge_of
        ]
        exact = [entry for entry in entries if not entry["estimated"] and entry["amount"]]
        if exact and not count["calls"]:
            yield f"{model}: {len(exact)} exact charges, but the provider was never called"
        paid = sum(entry["amount"] for entry in exact)
        sure = exact and len(exact) == len(entries) == count["calls"]
        if sure and count.get("charge") is not None and paid != count["charge"]:
            yield f"{model}: the provider counts {count['charge']}, the ledger {paid}"


def totals_agree(book: Ledger, facts: Facts) -> Iterator[str]:
    totals = facts.get("totals", {})
    logged = sum(row["charge"] or 0 for row in book.logs)
    paid = sum(row["amount"] for row in book.charges)
    if logged != paid:
        yield f"the log adds up to {logged}, the ledger to {paid}"
    if totals.get("charge", paid) != paid:
        yield f"everything cost {totals['charge']}, the ledger adds up to {paid}"
    if totals.get("requests", len(book.logs)) != len(book.logs):
        yield f"there were {totals['requests']} requests, the log has {len(book.logs)} rows"


def _by_model(book: Ledger) -> dict[Any, list[Row]]:
    named: dict[Any, list[Row]] = defaultdict(list)
    for row in book.logs:
        named[row["requested_model"]].append(row)
    return named


CHECKS = (
    charged_once,
    open_or_settled,
    nothing_left,
    keys_add_up,
    reservations_add_up,
    balances_add_up,
    log_agrees,
    budgets_hold,
    callers_agree,
    upstream_agrees,
    totals_agree,
)


def violations(url: str, facts: Facts | None = None) -> list[str]:
    """Not inside a running event loop if the database is PostgreSQL: run it in a thread."""
    book = read(url)
    return [said for check in CHECKS for said in check(book, facts or {})]


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print(__doc__)
        return 2
    facts = json.loads(Path(arguments[1]).read_text("utf-8")) if len(arguments) == 2 else {}
    book = read(arguments[0])
    found = [said for check in CHECKS for said in check(book, facts)]
    for said in found:
        print(said)
    if not found:
        paid = sum(row["amount"] for row in book.charges)
        print(
            f"{len(book.logs)} requests, {len(book.charges)} charges of {paid} nano-USD: all is well"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
