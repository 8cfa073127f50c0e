"""The checker of the ledger finds what it is there to find."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing as closing_of
from pathlib import Path

import pytest

from fakes.ledger import VirtualClock, add_user, closing, journal, opening
from monoize.store.database import Database

CHECKER = Path(__file__).parents[2] / "failure" / "ledger_checker.py"
_spec = importlib.util.spec_from_file_location("ledger_checker", CHECKER)
checker = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(checker)


async def written(database):
    """A ledger in good order: two that ended, one under way."""
    clock = VirtualClock()
    await add_user(database, "u", 1000)
    await add_user(database, "free", None)
    book = journal(database, clock)
    await book.start()
    await book.open(opening("a", 10, user_id="u", log={"requested_model": "m-a"}))
    await book.open(opening("b", 20, user_id="free", key="k2", log={"requested_model": "m-b"}))
    await book.open(opening("c", 30, user_id="u", log={"requested_model": "m-c"}))
    await book.close(closing("a", 7))
    await book.close(closing("b", 20, estimated=True, log={"status": "cancelled"}))
    await book.aclose()


@pytest.fixture
async def url(database, database_url):
    await written(database)
    return database_url


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")

    async def make():
        database = await Database.open("sqlite:///book.db", folder)
        await written(database)
        await database.aclose()

    asyncio.run(make())
    return folder / "book.db"


@pytest.fixture
def copy(model, tmp_path):
    return Path(shutil.copy(model, tmp_path))


FACTS = {
    "callers": [
        {"request_id": "a", "model": "m-a", "saw": "complete", "charge": 7},
        {"request_id": None, "model": "m-b", "saw": "broken"},
        {"request_id": None, "model": "m-x", "saw": "refused"},
    ],
    "upstream": {
        "m-a": {"calls": 1, "charge": 7},
        "m-b": {"calls": 1, "charge": 15},
        "m-c": {"calls": 1},
    },
    "budgets": {"k1": {"total": 37, "day": 37, "month": 40}},
    "totals": {"requests": 3, "charge": 27},
}


def said(url, facts=None):
    return asyncio.to_thread(checker.violations, url, facts)


async def test_a_ledger_in_good_order_passes(url):
    assert await said(url) == []
    assert await said(url, FACTS) == []


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (
            "UPDATE ledger SET amount = 8 WHERE request_id = 'a'",
            "the ledger says 8, its total says 7",
        ),
        ("UPDATE ledger SET amount = 8 WHERE request_id = 'a'", "after entry"),
        ("UPDATE ledger SET amount = -7 WHERE request_id = 'a'", "negative charge"),
        ("UPDATE ledger SET request_id = NULL WHERE request_id = 'a'", "name no request"),
        ("UPDATE ledger SET balance_after = 5 WHERE request_id = 'a'", "but it says 5"),
        ("UPDATE ledger SET estimated = false WHERE request_id = 'b'", "request b: the log says"),
        ("DELETE FROM ledger WHERE request_id = 'b'", "the ledger has nothing"),
        ("DELETE FROM request_logs WHERE request_id = 'a'", "has no row in the log"),
        ("UPDATE request_logs SET charge = 6 WHERE request_id = 'a'", "the log adds up to 26"),
        ("UPDATE request_logs SET status = 'pending' WHERE request_id = 'a'", "pending without"),
        ("UPDATE request_logs SET status = 'odd' WHERE request_id = 'a'", "unknown status 'odd'"),
        (
            "UPDATE request_logs SET status = 'success' WHERE request_id = 'c'",
            "its log says success",
        ),
        ("UPDATE request_logs SET status = 'interrupted' WHERE request_id = 'a'", "not marked"),
        ("UPDATE reservations SET amount = 29 WHERE request_id = 'c'", "30 reserved, 29 is open"),
        ("UPDATE reservations SET amount = -1 WHERE request_id = 'c'", "negative amount"),
        ("UPDATE reservations SET opened_at = opened_at + 86400000", "day:2026-11-16: 0 reserved"),
        ("UPDATE reservations SET request_id = 'a' WHERE request_id = 'c'", "charged and still"),
        ("UPDATE spend SET spent = spent - 8 WHERE key_id = 'k1'", "negative line"),
        (
            """UPDATE spend SET spent = 8 WHERE key_id = 'k1' AND "window" LIKE 'day%'""",
            "its days add",
        ),
        (
            """UPDATE spend SET spent = 8 WHERE key_id = 'k1' AND "window" LIKE 'mon%'""",
            "the month is",
        ),
        ("UPDATE spend SET reserved = 0", "total: 0 reserved, 30 is open"),
        ("UPDATE users SET reserved = 31 WHERE id = 'u'", "user u: 31 reserved, 30 is open"),
        ("UPDATE users SET balance = 992 WHERE id = 'u'", "the balance is 992"),
        ("UPDATE users SET balance = -1 WHERE id = 'u'", "negative: -1"),
    ],
)
def test_damage_is_found(copy, damage, complaint):
    with closing_of(sqlite3.connect(copy)) as connection, connection:
        connection.execute(damage)
    found = checker.violations(f"sqlite:///{copy}")
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"settled": True}, "a reservation of 30 is left for request c"),
        ({"settled": True}, "request c is still pending"),
        ({"callers": [{"request_id": "a", "saw": "complete", "charge": 8}]}, "cost 8, but 7"),
        ({"callers": [{"model": "m-a", "saw": "complete", "charge": 8}]}, "cost 8, but 7"),
        ({"callers": [{"request_id": "b", "saw": "complete"}]}, "an estimate"),
        ({"callers": [{"request_id": "b", "saw": "complete"}]}, "its log says cancelled"),
        ({"callers": [{"request_id": "c", "saw": "complete"}]}, "not in the ledger"),
        ({"callers": [{"model": "m-zzz", "saw": "complete"}]}, "not in the ledger"),
        ({"callers": [{"request_id": "a", "saw": "refused"}]}, "refused, but 7 is charged"),
        ({"callers": [{"request_id": "a", "saw": "stars"}]}, "'stars'"),
        ({"upstream": {"m-zzz": {"calls": 1}}}, "which nobody had reserved"),
        ({"upstream": {}}, "m-a: 1 exact charges, but the provider was never called"),
        ({"upstream": {"m-a": {"calls": 1, "charge": 8}}}, "the provider counts 8, the ledger 7"),
        ({"budgets": {"k1": {"total": 36}}}, "k1, total: 37 of 36"),
        ({"budgets": {"k1": {"day": 36}}}, "k1, day:2026-11-15: 37 of 36"),
        ({"totals": {"requests": 4}}, "4 requests, the log has 3"),
        ({"totals": {"charge": 28}}, "cost 28"),
    ],
)
def test_what_others_saw_is_compared(model, facts, complaint):
    found = checker.violations(f"sqlite:///{model}", facts)
    assert any(complaint in line for line in found), found


async def test_it_is_a_program_of_its_own(url, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(FACTS))
    bad.write_text(json.dumps({"settled": True}))

    def run(*arguments):
        return subprocess.run(
            [sys.executable, CHECKER, *arguments], capture_output=True, text=True, check=False
        )

    done = await asyncio.to_thread(run, url, good)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 requests, 2 charges of 27 nano-USD" in done.stdout
    done = await asyncio.to_thread(run, url, bad)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert (await asyncio.to_thread(run)).returncode == 2


def test_it_shares_no_code_with_the_program():
    source = CHECKER.read_text("utf-8")
    assert "monoize" not in source.partition('"""\n\nfrom')[2]
    assert "sqlalchemy" not in source
