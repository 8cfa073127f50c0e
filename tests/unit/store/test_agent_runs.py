"""The index of agent runs: in the database, and in the folder where there is none; both answer alike."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import insert

from monoize.agent.runs.book import DatabaseBook, FolderBook, RunBook
from monoize.agent.runs.files import RunFiles, Summary
from monoize.errors import InvalidRequest
from monoize.store.agent_runs import RunFilter, RunRow
from monoize.store.tables import agent_runs

MANY = 10_000


def row(number: int, **more) -> RunRow:
    ended = number % 3 != 0
    usual = {
        "run_id": f"run_{number:026}",
        "owner": f"user:{number % 4}",
        "model": f"m{number % 2}",
        "profile": "native_messages",
        "page": None,
        "policy": "optional",
        "state": "TERMINATE" if ended else "INFER",
        "outcome": "COMPLETED_CHAT_ONLY" if ended else None,
        "head": "0" * 64,
        "contract_hash": "1" * 64,
        "created_at": number,
        "ended_at": number + 1 if ended else None,
    }
    return RunRow(**{**usual, **more})


@pytest.fixture(params=["database", "folder"])
def book(request, database, tmp_path) -> RunBook:
    if request.param == "database":
        return DatabaseBook(database)
    files = RunFiles(tmp_path / "runs")
    files.root.mkdir()
    return FolderBook(files)


async def put(book: RunBook, *rows: RunRow) -> None:
    for one in rows:
        await book.put(one)
        if isinstance(book, FolderBook):
            folder = book._files.root / one.run_id
            folder.mkdir(exist_ok=True)
            book._files.save(Summary(row=one))


async def test_a_row_is_its_owners(book):
    await put(book, row(1))
    assert await book.find(row(1).run_id, "user:1") == row(1)
    assert await book.find(row(1).run_id, None) == row(1)
    assert await book.find(row(1).run_id, "user:2") is None
    assert await book.find("run_nothing", None) is None
    assert await book.find("../../etc/passwd", None) is None


async def test_a_later_row_of_a_run_replaces_the_earlier(book):
    later = msgspec.structs.replace(row(3), state="TERMINATE", outcome="INTERRUPTED", ended_at=9)
    await put(book, row(3), later)
    assert await book.find(later.run_id, None) == later


async def test_pages_go_back_in_time_without_a_gap(book):
    await put(book, *map(row, range(25)))
    seen: list[str] = []
    before = None
    while True:
        page = await book.page(RunFilter(), before, 10)
        seen += [one.run_id for one in page]
        if len(page) < 10:
            break
        before = page[-1].run_id
    assert seen == [row(number).run_id for number in reversed(range(25))]


async def test_a_page_holds_what_is_wanted(book):
    await put(book, *map(row, range(24)))
    for wanted, expected in (
        (RunFilter(owner="user:1"), lambda n: n % 4 == 1),
        (RunFilter(model="m1"), lambda n: n % 2 == 1),
        (RunFilter(outcome="COMPLETED_CHAT_ONLY"), lambda n: n % 3 != 0),
        (RunFilter(state="INFER"), lambda n: n % 3 == 0),
        (RunFilter(running=True), lambda n: n % 3 == 0),
        (RunFilter(running=False, owner="user:2"), lambda n: n % 3 != 0 and n % 4 == 2),
        (RunFilter(parent="run_x"), lambda n: False),
    ):
        found = [one.created_at for one in await book.page(wanted, None, 50)]
        assert found == [number for number in reversed(range(24)) if expected(number)], wanted


async def test_a_page_has_a_size(book):
    with pytest.raises(InvalidRequest):
        await book.page(RunFilter(), None, 0)


async def test_what_ended_long_ago_is_found_and_dropped(book):
    await put(book, *map(row, range(12)))
    old = await book.old(6, 100)
    assert sorted(old) == [row(number).run_id for number in (1, 2, 4)]
    assert len(await book.old(6, 2)) == 2
    assert {one.ended_at for one in await book.ended("user:1")} == {2, 6}


async def test_a_list_of_many_runs_is_fast(database):
    rows = [msgspec.structs.asdict(row(number)) for number in range(MANY)]
    await database.write(lambda connection: connection.execute(insert(agent_runs), rows) and None)
    book = DatabaseBook(database)
    began = time.process_time()
    for wanted in (
        RunFilter(),
        RunFilter(owner="user:1"),
        RunFilter(outcome="COMPLETED_CHAT_ONLY"),
        RunFilter(owner="user:3", model="m1", running=True),
    ):
        assert len(await book.page(wanted, f"run_{MANY // 2:026}", 50)) == 50
    assert time.process_time() - began < 1.0  # a few milliseconds each


async def test_a_list_of_many_folders_is_fast(tmp_path: Path):
    files = RunFiles(tmp_path)
    for number in range(MANY // 5):
        (tmp_path / row(number).run_id).mkdir()
        files.save(Summary(row=row(number)))
    began = time.process_time()
    assert len(await FolderBook(files).page(RunFilter(), None, 50)) == 50
    assert time.process_time() - began < 1.0


def test_only_runs_are_listed(tmp_path: Path):
    files = RunFiles(tmp_path)
    (tmp_path / ".open").mkdir()
    (tmp_path / "run_broken").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    assert list(files.newest_first()) == []
    assert files.unfinished() == []
