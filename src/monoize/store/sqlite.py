"""SQLite: one thread writes, a few read; WAL lets them work at the same time."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection, QueuePool
from typing_extensions import override

from monoize.errors import ConfigError, DatabaseAway, InvalidRequest
from monoize.store import schema
from monoize.store.database import (
    ENGINE_OPTIONS,
    UNSTORABLE,
    Booking,
    Database,
    Dialect,
    Durability,
    Work,
)
from monoize.store.journal_sqlite import SqliteStatements
from monoize.store.slips import Slips, files_beside
from monoize.store.threads import Threads

__all__ = ["SqliteDatabase"]

T = TypeVar("T")
V = TypeVar("V")

_OLDEST = (3, 33)  # UPDATE … FROM
_READERS = 4
_STATEMENTS_KEPT = 512  # prepared: the ledger has some ten, each for six numbers of rows
_BUSY_SECONDS = 5.0  # how long another process may hold the write lock
_QUEUE_SECONDS = 5.0  # work that waited longer for its thread is not begun
_QUEUE_LENGTH = 10_000
_START_TRIES = 12  # of _BUSY_SECONDS each, while another process migrates

# What says that the database is away; other codes are mistakes in a statement and pass.
_AWAY = {
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_BUSY: "another process holds its lock",
    sqlite3.SQLITE_LOCKED: "a table is locked",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_READONLY: "it cannot be written to",
    sqlite3.SQLITE_IOERR: "its disk failed",
    sqlite3.SQLITE_CORRUPT: "its file is damaged",
    sqlite3.SQLITE_FULL: "its disk is full",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_PROTOCOL: "its lock cannot be had",
    sqlite3.SQLITE_NOTADB: "its file is not a database",
}
_TRANSIENT = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}


class SqliteDatabase(Database):
    dialect: ClassVar[Dialect] = "sqlite"

    def __init__(self, file: Path, durability: Durability) -> None:
        self._file = file
        self._writer = _Lane(file, durability, 1, begin="BEGIN IMMEDIATE")
        self._readers = _Lane(file, durability, _READERS, begin="BEGIN")

    @classmethod
    async def opened(cls, file: Path, durability: Durability) -> SqliteDatabase:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise ConfigError(
                f"database: SQLite {'.'.join(map(str, _OLDEST))} or newer is needed;"
                f" this Python has {sqlite3.sqlite_version}"
            )
        await asyncio.to_thread(_make_file, file)
        database = cls(file, durability)
        try:
            await database._prepare()
        except BaseException as error:
            await database.aclose()
            match error:
                case _Away():
                    raise ConfigError(f"database: {file}: {error.message}") from None
                case ConfigError():
                    raise ConfigError(f"{error.message} ({file})") from None
                case _:
                    raise
        return database

    async def _prepare(self) -> None:
        # A database at head is not locked: a full disk or a running backup does not stop a start.
        if await self._readers.run(schema.is_current):
            return
        for attempt in range(1, _START_TRIES + 1):
            try:
                await self._writer.run(schema.prepare)
            except _Away as error:
                if error.kind not in _TRANSIENT or attempt == _START_TRIES:
                    raise
            else:
                return

    @override
    async def read(self, work: Work[T]) -> T:
        return await self._readers.run(work)

    @override
    async def write(self, work: Work[T]) -> T:
        return await self._writer.run(work)

    @override
    async def book(self, booking: Booking[T], *, settles: bool = True) -> T:
        return await self._writer.book(booking, settles=settles)

    @override
    def slips(self, name: str) -> Slips | None:
        return Slips.beside(self._file, name)

    @override
    def slip_files(self, *, but: str) -> Sequence[Path]:
        return files_beside(self._file, but=but)

    @override
    async def aclose(self) -> None:
        await self._readers.aclose()
        await self._writer.aclose()  # the last one folds the write-ahead log into the file


class _Away(DatabaseAway):
    def __init__(self, kind: int) -> None:
        super().__init__(f"the database is away: {_AWAY[kind]}")
        self.kind = kind


class _Lane:
    """An engine and the threads that use it; only with a single thread does it `book`."""

    def __init__(self, file: Path, durability: Durability, threads: int, *, begin: str) -> None:
        self._engine = _engine(file, durability, threads, begin)
        self._begin = begin
        self._syncs = durability == "full"
        self._threads = Threads(threads, "monoize-store")
        # Of the ledger's transactions, kept from one to the next: asking the pool each time is dear beside a small one.
        self._line: PoolProxiedConnection | None = None
        self._closed = False

    async def run(self, work: Work[T]) -> T:
        return await self._in_thread(self._worked, work)

    async def book(self, booking: Booking[T], *, settles: bool) -> T:
        return await self._in_thread(partial(self._booked, settles=settles), booking)

    async def _in_thread(self, done: Callable[[V], T], what: V) -> T:
        if self._closed:
            raise DatabaseAway("the database is closed")
        if self._threads.under_way >= _QUEUE_LENGTH:
            raise DatabaseAway("the database is away: too much waits for it")
        deadline = time.monotonic() + _QUEUE_SECONDS
        return await self._threads.run(lambda: self._done(done, what, deadline))

    def _done(self, done: Callable[[V], T], what: V, deadline: float) -> T:
        if time.monotonic() > deadline:
            raise DatabaseAway("the database is away: it does not keep up")
        try:
            return done(what)
        except DBAPIError as error:
            raise _named(error, error.orig) from None
        except sqlite3.Error as error:  # while a connection is made, or of the ledger's transaction
            raise _named(error, error) from None
        except (UnicodeEncodeError, OverflowError):
            raise InvalidRequest(UNSTORABLE) from None

    def _worked(self, work: Work[T]) -> T:
        self._let_go()
        with self._engine.begin() as connection:
            return work(connection)

    def _booked(self, booking: Booking[T], *, settles: bool) -> T:
        """Without SQLAlchemy's own transaction, which costs more than the ledger's statements (journal_sqlite.py)."""
        if self._line is None:
            self._line = self._engine.raw_connection()
        try:
            driver = cast("sqlite3.Connection", self._line.driver_connection)
            if self._syncs:
                _sync(driver, self._line.info, settles=settles)
            driver.execute(self._begin)
            result = booking(SqliteStatements(driver))
            driver.execute("COMMIT")
        except BaseException:
            self._let_go()  # which undoes what was begun
            raise
        return result

    def _let_go(self) -> None:
        """Back to the pool, for other work."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._ended)

    def _ended(self) -> None:
        self._threads.join()
        self._let_go()
        self._engine.dispose()


def _sync(driver: sqlite3.Connection, info: dict[str, Any], *, settles: bool) -> None:
    """Whether the next commit waits for the disk; one that does takes those before it along."""
    if info.get("waits for the disk", True) is not settles:
        driver.execute(f"PRAGMA synchronous = {'FULL' if settles else 'NORMAL'}")
        info["waits for the disk"] = settles


def _named(error: Exception, origin: BaseException | None) -> Exception:
    kind = getattr(origin, "sqlite_errorcode", 0) & 0xFF  # the rest says more than we tell
    return _Away(kind) if kind in _AWAY else error


def _engine(file: Path, durability: Durability, connections: int, begin: str) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(file)),
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        connect_args={
            "timeout": _BUSY_SECONDS,
            "check_same_thread": False,
            "cached_statements": _STATEMENTS_KEPT,
        },
        **ENGINE_OPTIONS,
    )
    syncs = durability == "full" and "IMMEDIATE" in begin
    pragmas = [
        "PRAGMA auto_vacuum = INCREMENTAL",  # of a new file only, and only before WAL
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}",
        "PRAGMA journal_size_limit = 67108864",
        "PRAGMA temp_store = MEMORY",
        f"PRAGMA query_only = {'OFF' if 'IMMEDIATE' in begin else 'ON'}",
    ]

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: Any) -> None:
        del record
        connection.isolation_level = None  # the driver begins nothing by itself
        for pragma in pragmas:
            connection.execute(pragma).close()

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        if syncs:
            line = connection.connection
            _sync(cast("sqlite3.Connection", line.driver_connection), line.info, settles=True)
        connection.exec_driver_sql(begin)

    return engine


def _make_file(file: Path) -> None:
    """An empty file that only its owner may read; the write-ahead log gets the same mode."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One that is there is not opened: closing it would drop SQLite's locks, should this process have any.
        if not file.exists():
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        elif file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        elif not os.access(file, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ConfigError(f"database: {file}: {error.strerror or error}") from None
