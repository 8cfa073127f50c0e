"""Transactions, and what a database says when it cannot work."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from fakes.databases import PASSWORD, PostgresqlServer
from monoize.errors import ConfigError, DatabaseAway, InvalidRequest, MonoizeError
from monoize.store import postgresql as postgresql_module
from monoize.store import sqlite as sqlite_module
from monoize.store.database import Database, database_place
from monoize.store.tables import prices, settings

ROW = {"name": "a", "value": 1, "updated_at": 0}
COUNT = select(func.count()).select_from(settings)


def add(connection, **changes):
    connection.execute(insert(settings).values({**ROW, **changes}))


async def rows(database: Database) -> int:
    return await database.read(lambda connection: connection.scalar(COUNT))


class TestTransactions:
    async def test_what_is_written_can_be_read(self, database):
        assert await database.write(lambda c: add(c) or "done") == "done"
        assert await rows(database) == 1

    async def test_an_error_undoes_all_of_it_and_reaches_the_caller(self, database):
        def work(connection):
            add(connection)
            raise InvalidRequest("no")

        with pytest.raises(InvalidRequest):
            await database.write(work)
        assert await rows(database) == 0

    async def test_a_violated_constraint_passes(self, database):
        await database.write(add)
        with pytest.raises(IntegrityError):
            await database.write(add)

    async def test_reading_changes_nothing(self, database):
        with pytest.raises((DBAPIError, DatabaseAway)):
            await database.read(add)
        assert await rows(database) == 0

    async def test_a_mistaken_statement_is_no_absence(self, database):
        with pytest.raises(DBAPIError):
            await database.write(lambda c: c.execute(text("SELECT no_such_column FROM users")))

    @pytest.mark.spec("T38")
    async def test_changes_of_one_row_wait_for_one_another(self, database):
        await database.write(add)
        locked = select(settings.c.value).with_for_update()

        def raised(connection):
            value = connection.scalar(locked)
            connection.execute(update(settings).values(value=value + 1))

        await asyncio.gather(*(database.write(raised) for _ in range(100)))
        assert await database.read(lambda c: c.scalar(select(settings.c.value))) == 101

    async def test_readers_see_one_snapshot_while_others_write(self, database):
        """Two questions of one reader never contradict each other."""
        begun, written = threading.Event(), threading.Event()
        await database.write(add)

        def twice(connection):
            first = connection.scalar(COUNT)
            begun.set()
            deadline = time.monotonic() + 2
            while not written.is_set() and time.monotonic() < deadline:
                connection.scalar(text("SELECT 1"))  # gives way to the loop on PostgreSQL
            return first, connection.scalar(COUNT)

        reading = asyncio.create_task(database.read(twice))
        while not begun.is_set():  # noqa: ASYNC110 - it is set in a thread
            await asyncio.sleep(0)
        await database.write(lambda c: add(c, name="b"))
        written.set()
        assert await reading == (1, 1)
        assert await rows(database) == 2

    @pytest.mark.parametrize(
        "question",
        [
            select(settings).where(settings.c.name == "half a character: \ud83d"),
            select(settings).where(settings.c.updated_at > 10**30),
        ],
    )
    async def test_a_value_that_no_column_can_hold_is_a_mistake_of_the_caller(
        self, database, question
    ):
        with pytest.raises(InvalidRequest):
            await database.read(lambda c: c.execute(question))

    async def test_a_nul_is_not_found_or_refused(self, database):
        wanted = select(settings).where(settings.c.name == "a\0b")
        try:
            assert await database.read(lambda c: c.execute(wanted).all()) == []
        except InvalidRequest:
            assert database.dialect == "postgresql"

    async def test_json_comes_back_as_it_was(self, database):
        value = {
            "text": "ä\u2028😀",
            "none": None,
            "exact": "0.1",
            "large": 2**60,
            "list": [[]],
        }
        await database.write(lambda c: add(c, value=value))
        assert await database.read(lambda c: c.scalar(select(settings.c.value))) == value

    async def test_a_closed_database_is_away(self, database):
        await database.aclose()
        for attempt in (database.read, database.write):
            with pytest.raises(DatabaseAway, match="closed"):
                await attempt(add)

    async def test_closing_waits_for_what_was_begun(self, database):
        slow = "SELECT pg_sleep(0.2)" if database.dialect == "postgresql" else "SELECT 1"
        begun = threading.Event()

        def work(connection):
            begun.set()
            add(connection)
            connection.execute(text(slow))
            return connection.scalar(COUNT)

        task = asyncio.create_task(database.write(work))
        assert await asyncio.to_thread(begun.wait, 25)
        await database.aclose()
        assert task.done()
        assert await task == 1

    async def test_it_is_there_after_it_was_opened_again(self, database_url, tmp_path):
        for _ in range(2):
            database = await Database.open(database_url, tmp_path)
            await database.write(lambda c: add(c, name=f"n{c.scalar(COUNT)}"))
            count = await rows(database)
            await database.aclose()
        assert count == 2

    async def test_relaxed_durability_works_the_same(self, database_url, tmp_path):
        database = await Database.open(database_url, tmp_path, durability="relaxed")
        await database.write(add)
        assert await rows(database) == 1
        await database.aclose()


class TestSqliteFile:
    async def test_a_relative_path_lies_below_the_folder_and_is_the_owners_alone(self, tmp_path):
        database = await Database.open("sqlite:///./data/deep/monoize.db", tmp_path)
        await database.write(add)
        folder = tmp_path / "data" / "deep"
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        await database.aclose()
        assert modes == dict.fromkeys(modes, 0o600)
        assert modes.keys() == {"monoize.db", "monoize.db-wal", "monoize.db-shm"}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert [file.name for file in folder.iterdir()] == ["monoize.db"]  # folded at the end

    @pytest.mark.parametrize(("durability", "level"), [("full", 2), ("relaxed", 1)])
    async def test_commits_are_as_durable_as_configured(self, tmp_path, durability, level):
        database = await Database.open("sqlite:///x.db", tmp_path, durability=durability)
        assert await database.write(lambda c: c.scalar(text("PRAGMA synchronous"))) == level
        assert await database.write(lambda c: c.scalar(text("PRAGMA journal_mode"))) == "wal"
        await database.aclose()

    async def test_a_lock_that_is_held_for_long_is_an_absence(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sqlite_module, "_BUSY_SECONDS", 0.1)
        database = await Database.open("sqlite:///x.db", tmp_path)
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        with pytest.raises(DatabaseAway, match="lock"):
            await database.write(add)
        assert time.monotonic() - begun < 30
        assert await rows(database) == 0  # reading goes on
        other.close()
        await database.write(add)
        await database.aclose()

    async def test_work_that_waited_too_long_is_not_begun(self, tmp_path, monkeypatch):
        database = await Database.open("sqlite:///x.db", tmp_path)
        free = threading.Event()
        slow = asyncio.create_task(database.write(lambda c: free.wait(25) and add(c)))
        await asyncio.sleep(0)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_module, "_QUEUE_SECONDS", 0.0)
            late = [
                asyncio.create_task(database.write(lambda c: add(c, name="late"))) for _ in range(3)
            ]
            await asyncio.sleep(0)
        free.set()
        done = await asyncio.gather(slow, *late, return_exceptions=True)
        assert [type(result) for result in done] == [type(None), *[DatabaseAway] * 3]
        assert await rows(database) == 1
        await database.aclose()

    async def test_a_queue_without_end_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sqlite_module, "_QUEUE_LENGTH", 2)
        database = await Database.open("sqlite:///x.db", tmp_path)
        tasks = [asyncio.create_task(database.write(lambda c: time.sleep(0.05))) for _ in range(5)]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(result, DatabaseAway) for result in done) == 3
        await database.aclose()

    async def test_a_damaged_file_is_an_absence_while_running(self, tmp_path):
        database = await Database.open("sqlite:///x.db", tmp_path)
        await database.write(add)
        await database.aclose()
        file = tmp_path / "x.db"
        whole = file.read_bytes()
        # The head is sound, so that it opens; every page behind it is not.
        file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
        with pytest.raises(MonoizeError):
            database = await Database.open("sqlite:///x.db", tmp_path)
            try:
                await rows(database)
            finally:
                await database.aclose()


def _folder_that_is_a_file(tmp_path: Path) -> str:
    (tmp_path / "file").write_text("")
    return "sqlite:///file/x.db"


def _a_folder(tmp_path: Path) -> str:
    (tmp_path / "folder").mkdir()
    return "sqlite:///folder"


def _garbage(tmp_path: Path) -> str:
    (tmp_path / "x.db").write_bytes(b"this is a letter to my aunt, not a database" * 100)
    return "sqlite:///x.db"


def _half(tmp_path: Path) -> str:
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    return "sqlite:///x.db"


UNUSABLE = [
    (_folder_that_is_a_file, "Not a directory|File exists"),
    (_a_folder, "directory"),
    (_garbage, "not a database"),
    (_half, "not a database|damaged|cannot"),
    ("mysql://user:the-password@host/db", "'mysql' is not known"),
    ("the-password", "no scheme"),
    ("", "no scheme"),
    ("sqlite://", "names no file"),
    ("sqlite:///:memory:", "names no file"),
    ("sqlite:///data/", "names no file"),
    ("postgresql://user:the-password@host:the-password/db", "cannot be read"),
    ("postgresql://user:the-password@nowhere.invalid/db", "not known|not answer|is away"),
    ("postgresql://user:the-password@127.0.0.1:1/db", "nobody listens"),
    ("postgresql://user:the-password@/db?host=/nowhere", "nobody listens"),
    ("postgresql://user:the-password@127.0.0.1:1/db?sslmode=the-password", "cannot be read"),
]


@pytest.mark.parametrize(("url", "says"), UNUSABLE)
async def test_a_database_that_cannot_be_used_is_one_sentence_without_a_secret(url, says, tmp_path):
    url = url(tmp_path) if callable(url) else url
    with pytest.raises((ConfigError, DatabaseAway), match=says) as caught:
        await Database.open(url, tmp_path)
    assert "the-password" not in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("what", ["folder", "file", "unreadable"])
def test_no_permission_is_one_sentence(what):
    script = (
        "import asyncio, os, pathlib, sys\n"
        "from monoize.store import sqlite\n"
        "from monoize.store.database import Database\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: asyncio.run(Database.open('sqlite:///data/x.db', pathlib.Path(sys.argv[1])))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    with _folder_in_tmp() as place:
        data = place / "data"
        data.mkdir()
        if what != "folder":
            sqlite3.connect(data / "x.db").close()
            (data / "x.db").touch()
            (data / "x.db").chmod(0o444 if what == "file" else 0o000)
        done = subprocess.run(
            [sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=False
        )
    assert done.stdout.startswith("ConfigError database: "), done.stderr
    assert "Permission denied" in done.stdout


class _folder_in_tmp:  # noqa: N801 - pytest's own folders are closed to other users
    def __enter__(self) -> Path:
        import tempfile

        self._folder = tempfile.TemporaryDirectory()
        place = Path(self._folder.__enter__())
        place.chmod(0o755)
        return place

    def __exit__(self, *error: object) -> None:
        self._folder.__exit__(*error)


class TestPostgresqlStart:
    @pytest.mark.parametrize(
        ("password", "database", "options", "says"),
        [
            ("the-wrong-password", "postgres", "", "password authentication failed"),
            (PASSWORD, "nowhere", "", 'database "nowhere" does not exist'),
            (PASSWORD, "postgres", "?no_such_option=1", "no_such_option"),
            (PASSWORD, "postgres", "?search_path=nowhere", "no schema|nowhere"),
        ],
    )
    async def test_what_the_operator_must_mend(
        self, postgresql, tmp_path, password, database, options, says
    ):
        url = postgresql.tcp_url(database, password) + options
        with pytest.raises(ConfigError, match=says) as caught:
            await Database.open(url, tmp_path)
        assert password not in caught.value.message
        assert f"127.0.0.1:{postgresql.port}" in caught.value.message

    async def test_no_right_to_make_tables(self, postgresql, tmp_path):
        name = postgresql.new_database()
        postgresql.sql(f"CREATE ROLE {name}_guest LOGIN PASSWORD 'guest-password'")
        url = f"postgresql://{name}_guest:guest-password@127.0.0.1:{postgresql.port}/{name}"
        with pytest.raises(ConfigError, match="permission denied"):
            await Database.open(url, tmp_path)
        postgresql.drop(name)
        postgresql.sql(f"DROP ROLE {name}_guest")

    async def test_with_the_right_password(self, postgresql, tmp_path):
        name = postgresql.new_database()
        database = await Database.open(postgresql.tcp_url(name), tmp_path)
        await database.write(add)
        assert await rows(database) == 1
        await database.aclose()
        postgresql.drop(name)

    async def test_a_server_that_never_answers(self, tmp_path, monkeypatch):
        monkeypatch.setattr(postgresql_module, "_CONNECT_SECONDS", 0.3)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            begun = time.monotonic()
            with pytest.raises(DatabaseAway, match="not answer in time"):
                await Database.open(
                    f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/x", tmp_path
                )
            assert time.monotonic() - begun < 30


class Relay:
    """Between the program and its database; it can fall silent without hanging up."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._silent = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def fall_silent(self) -> None:
        self._silent.set()

    async def _serve(self, reader, writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(
                self._pipe(reader, upstream_writer), self._pipe(upstream_reader, writer)
            )
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            upstream_writer.close()

    async def _pipe(self, reader, writer) -> None:
        while data := await reader.read(65536):
            if self._silent.is_set():
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()
        writer.close()


class TestPostgresqlAway:
    @pytest.fixture
    def impatient(self, monkeypatch) -> None:
        for name in ("_CONNECT_SECONDS", "_POOL_SECONDS", "_WRITE_SECONDS", "_READ_SECONDS"):
            monkeypatch.setattr(postgresql_module, name, 0.5)

    @pytest.mark.spec("D19", "T43")
    async def test_a_stopped_server_is_away_and_comes_back(
        self, own_postgresql: PostgresqlServer, tmp_path
    ):
        database = await Database.open(own_postgresql.tcp_url("postgres"), tmp_path)
        await database.write(add)
        own_postgresql.stop()
        begun = time.monotonic()
        for attempt in (database.read, database.write, database.read):
            with pytest.raises(DatabaseAway, match="is away"):
                await attempt(lambda c: c.scalar(COUNT))
        assert time.monotonic() - begun < 30
        own_postgresql.start()
        assert await rows(database) == 1
        await database.write(lambda c: add(c, name="b"))
        # A restart that nobody noticed costs nobody a call.
        own_postgresql.stop()
        own_postgresql.start()
        await database.write(lambda c: add(c, name="c"))
        assert await rows(database) == 3
        await database.aclose()

    async def test_a_transaction_that_is_cut_off_is_away_and_undone(self, postgresql, tmp_path):
        name = postgresql.new_database()
        database = await Database.open(postgresql.url(name), tmp_path)

        def killed(connection):
            add(connection)
            pid = connection.scalar(text("SELECT pg_backend_pid()"))
            postgresql.sql(f"SELECT pg_terminate_backend({pid})")
            connection.execute(text("SELECT 1"))

        with pytest.raises(DatabaseAway):
            await database.write(killed)
        assert await rows(database) == 0
        await database.aclose()
        postgresql.drop(name)

    @pytest.mark.spec("T43")
    async def test_silence_is_bounded_and_nothing_piles_up(self, postgresql, tmp_path, impatient):
        name = postgresql.new_database()
        async with Relay(postgresql.port) as relay:
            database = await Database.open(postgresql.tcp_url(name, port=relay.port), tmp_path)
            await database.write(add)
            relay.fall_silent()
            begun = time.monotonic()
            calls = [database.read(lambda c: c.scalar(COUNT)) for _ in range(50)]
            calls += [database.write(lambda c: c.scalar(COUNT)) for _ in range(50)]
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert time.monotonic() - begun < 30
            assert {type(result) for result in done} == {DatabaseAway}
            await database.aclose()
        postgresql.drop(name)

    async def test_when_all_connections_are_busy_it_is_away(
        self, postgresql, tmp_path, monkeypatch
    ):
        # Nothing else is: a machine that stands still for half a second does not make the readers go away.
        monkeypatch.setattr(postgresql_module, "_POOL_SECONDS", 0.5)
        name = postgresql.new_database()
        database = await Database.open(postgresql.url(name), tmp_path)
        calls = [
            database.write(lambda c: c.execute(text("SELECT pg_sleep(0.4)"))) for _ in range(25)
        ]
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(result) for result in done if isinstance(result, Exception)} == {DatabaseAway}
        assert await rows(database) == 0
        await database.aclose()
        postgresql.drop(name)

    async def test_the_loser_of_a_deadlock_is_run_again(self, postgresql, tmp_path):
        name = postgresql.new_database()
        database = await Database.open(postgresql.url(name), tmp_path)
        await database.write(lambda c: (add(c, name="a"), add(c, name="b")))
        tries, held = [], set()

        def both(first, second):
            def work(connection):
                tries.append(first)
                for wanted in (first, second):
                    row = settings.c.name == wanted
                    value = connection.scalar(select(settings.c.value).where(row).with_for_update())
                    held.add(wanted)
                    while held != {"a", "b"}:  # until the other one has its first
                        connection.execute(text("SELECT pg_sleep(0.01)"))
                    connection.execute(update(settings).where(row).values(value=value + 1))

            return work

        try:
            await asyncio.gather(database.write(both("a", "b")), database.write(both("b", "a")))
            values = await database.read(lambda c: set(c.scalars(select(settings.c.value))))
        finally:
            await database.aclose()
            postgresql.drop(name)
        assert values == {3}
        # More than three: run again, it may have its first row before the other is woken.
        assert len(tries) >= 3

    async def test_what_others_wrote_meanwhile_is_seen_whatever_the_server_is_set_to(
        self, postgresql, tmp_path
    ):
        """Under a stricter level the ledgers of two replicas would throw one another out."""
        name = postgresql.new_database()
        postgresql.sql(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
        database = await Database.open(postgresql.url(name), tmp_path)
        level = await database.write(lambda c: c.scalar(text("SHOW transaction_isolation")))
        await database.aclose()
        postgresql.drop(name)
        assert level == "read committed"

    async def test_a_client_that_gives_up_leaves_nothing_behind(self, database):
        task = asyncio.create_task(database.write(add))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await database.write(
            lambda c: c.execute(insert(prices).values(model="m", rates={}, updated_at=0))
        )
        assert await rows(database) in {0, 1}


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite:///./data/x.db", "SQLite at ./data/x.db"),
        ("postgresql://u:secret@db.example:5433/mz?sslmode=require", "PostgreSQL database 'mz' at db.example:5433"),
        ("postgres://u:secret@/mz?host=/run/pg&password=secret", "PostgreSQL database 'mz' at /run/pg"),
    ],
)  # fmt: skip
def test_people_are_shown_where_a_database_is_and_no_password(url, place):
    assert database_place(url) == place


def test_the_documented_times_are_the_real_ones():
    page = (Path(__file__).parents[3] / "docs" / "store.md").read_text("utf-8")
    lite, server = sqlite_module, postgresql_module
    assert server._CONNECT_SECONDS == server._POOL_SECONDS
    for line in (
        f"| to connect, or to get a connection of the pool | | {server._CONNECT_SECONDS:g} s |",
        f"| for the lock of another process | {lite._BUSY_SECONDS:g} s | {server._WRITE_SECONDS:g} s |",
        f"| in the queue before the one writer | {lite._QUEUE_SECONDS:g} s | |",
        f"| one statement that writes | | {server._WRITE_SECONDS:g} s |",
        f"| one statement that reads | | {server._READ_SECONDS:g} s |",
        f"two pools of {server._CONNECTIONS} connections",
    ):
        assert line in page


@pytest.mark.spec("T38")
async def test_only_what_settles_waits_for_the_disk_and_everything_else_as_before(tmp_path):
    """A reservation that the power takes away takes its request along; a charge, and any other change, must stay."""
    database = await Database.open("sqlite:///./a.db", tmp_path)

    def waits(connection):
        return connection.exec_driver_sql("PRAGMA synchronous").scalar()

    seen = []
    try:
        for settles in (True, False, True, False):
            await database.book(lambda _: None, settles=settles)
            seen.append(database._writer._line.info.get("waits for the disk", True))
        assert await database.write(waits) == 2
    finally:
        await database.aclose()
    assert seen == [True, False, True, False]
