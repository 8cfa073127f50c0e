"""PostgreSQL by asyncpg: one pool for changes and one for questions, so that a slow report never stops a charge."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar, TypeVar

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
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
    database_place,
)
from monoize.store.journal_postgresql import PostgresqlStatements
from monoize.store.tables import METADATA

__all__ = ["PostgresqlDatabase"]

T = TypeVar("T")

_CONNECTIONS = 5  # of each pool
_CONNECT_SECONDS = 3.0
_POOL_SECONDS = 3.0  # until a connection of the pool is free
_WRITE_SECONDS = 5.0  # one statement
_READ_SECONDS = 15.0
_TRIES = 4  # of a transaction that met a deadlock
_RECYCLE_SECONDS = 1800

# "monoize": one process at a time makes or migrates the schema.
_LOCK = text("SELECT pg_advisory_xact_lock(30803205337545317)")
_LOCK_WAIT = text("SET LOCAL lock_timeout = '60s'")
# A process that vanished must not hold its locks for hours.
_SESSION = "SET idle_in_transaction_session_timeout = '30s'"
_RELAXED = "; SET synchronous_commit = off"

# SQLSTATEs and classes of them.
_AWAY = (
    "08",
    "25006",
    "25P03",
    "53",
    "57",
    "58",
    "55P03",
    "XX001",
    "XX002",
)  # connection, read-only or cut off, resources, operator, system
_AGAIN = ("40001", "40P01")  # serialization failure, deadlock
_MISCONFIGURED = (
    "28",
    "3D",
    "3F",
    "22023",
    "42501",
    "42704",
    "55P02",
)  # only the operator can mend it
_NOT_TEXT = "22021"
_UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)

for _index in [index for table in METADATA.tables.values() for index in table.indexes]:
    _index.dialect_options["postgresql"]["where"] = _index.dialect_options["sqlite"]["where"]


class PostgresqlDatabase(Database):
    dialect: ClassVar[Dialect] = "postgresql"

    def __init__(self, dsn: str, durability: Durability) -> None:
        session = _SESSION if durability == "full" else _SESSION + _RELAXED
        self._dsn = dsn
        # The ledger looks again at rows that it has locked, so it must see what others have just written there.
        self._writers = _engine(dsn, session, _WRITE_SECONDS).execution_options(
            isolation_level="READ COMMITTED"
        )
        self._readers = _engine(dsn, session, _READ_SECONDS).execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._closed = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    async def opened(cls, dsn: str, durability: Durability) -> PostgresqlDatabase:
        database = cls(dsn, durability)
        await database._prepare()
        return database

    async def _prepare(self) -> None:
        """Over a connection of its own: a migration may take longer than any call."""
        place = database_place(self._dsn)
        engine = _engine(self._dsn, _SESSION, None)
        try:
            async with engine.connect() as connection:
                current = await connection.run_sync(schema.is_current)
            if not current:
                async with engine.begin() as connection:
                    await connection.run_sync(_prepared)
        except ConfigError as error:
            raise ConfigError(f"{error.message} ({place})") from None
        except (DBAPIError, *_UNREACHABLE, ValueError) as error:
            if isinstance(_driver(error), ValueError) or _sqlstate(error).startswith(
                _MISCONFIGURED
            ):
                raise ConfigError(f"database: {place}: {_said(error)}") from None
            raise DatabaseAway(f"{place} is away: {_said(error)}") from None
        finally:
            await engine.dispose()

    @override
    async def read(self, work: Work[T]) -> T:
        return await self._done(self._readers, work)

    @override
    async def write(self, work: Work[T]) -> T:
        for _ in range(_TRIES - 1):
            try:
                return await self._done(self._writers, work)
            except DBAPIError as error:
                if _sqlstate(error) not in _AGAIN:
                    raise
        return await self._done(self._writers, work)

    @override
    async def book(self, booking: Booking[T], *, settles: bool = True) -> T:
        """All of it waits for the server's disk: the server may die without us, and we would go on with what it forgot."""
        del settles
        return await self.write(lambda connection: booking(PostgresqlStatements(connection)))

    async def _done(self, engine: AsyncEngine, work: Work[T]) -> T:
        if self._closed:
            raise DatabaseAway("the database is closed")
        self._under_way += 1
        self._idle.clear()
        try:
            return await self._tried(engine, work)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def _tried(self, engine: AsyncEngine, work: Work[T]) -> T:
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(work)
        except PoolTimeout:
            raise DatabaseAway("the database is away: every connection to it is busy") from None
        except DBAPIError as error:
            if error.connection_invalidated or _sqlstate(error).startswith(_AWAY):
                raise DatabaseAway(f"the database is away: {_said(error)}") from None
            # asyncpg itself refuses an argument that does not fit its column, the server half a character.
            if _sqlstate(error) == _NOT_TEXT or isinstance(_driver(error), asyncpg.DataError):
                raise InvalidRequest(UNSTORABLE) from None
            raise
        except _UNREACHABLE as error:
            raise DatabaseAway(f"the database is away: {_said(error)}") from None

    @override
    async def aclose(self) -> None:
        self._closed = True
        await self._idle.wait()
        await self._writers.dispose()
        await self._readers.dispose()


def _engine(dsn: str, session: str, statement_seconds: float | None) -> AsyncEngine:
    async def connected() -> Any:
        # asyncpg reads the URL itself: it knows sslmode, sockets and several hosts as libpq does.
        connection = await asyncpg.connect(
            dsn,
            timeout=_CONNECT_SECONDS,
            command_timeout=statement_seconds,
            server_settings={"application_name": "monoize"},
        )
        try:
            await connection.execute(session, timeout=_CONNECT_SECONDS)
        except BaseException:
            connection.terminate()
            raise
        return connection

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connected,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=_POOL_SECONDS,
        pool_pre_ping=True,  # after a restart of the server every connection of the pool is stale
        pool_recycle=_RECYCLE_SECONDS,
        pool_use_lifo=True,
        **ENGINE_OPTIONS,
    )


def _prepared(connection: Connection) -> None:
    connection.execute(_LOCK_WAIT)
    connection.execute(_LOCK)
    schema.prepare(connection)


def _driver(error: BaseException) -> BaseException:
    """Asyncpg's own error, out of the wrappers around it."""
    inner = getattr(error, "orig", None)
    return error if inner is None else _driver(inner)


def _sqlstate(error: BaseException) -> str:
    return getattr(_driver(error), "sqlstate", None) or ""


def _said(error: BaseException) -> str:
    """What went wrong, in words that hold no part of the URL but its host."""
    match _driver(error):
        case TimeoutError():
            return "it does not answer in time"
        case ConnectionRefusedError() | FileNotFoundError():
            return "nobody listens there"
        case socket.gaierror():
            return "its host is not known"
        case ValueError():  # its text may repeat pieces of the URL
            return "the URL cannot be read"
        case asyncpg.PostgresError() as said:
            return str(said).partition("\n")[0]
        case OSError() as failed if failed.strerror:
            return failed.strerror
        case _:
            return "the connection was lost"
