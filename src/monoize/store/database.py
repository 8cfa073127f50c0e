"""Where the program remembers: one door to SQLite and PostgreSQL, transactions in and values out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from monoize.errors import ConfigError
from monoize.store.journal_statements import Statements
from monoize.store.slips import Slips

__all__ = [
    "ENGINE_OPTIONS",
    "UNSTORABLE",
    "Booking",
    "Database",
    "Dialect",
    "Durability",
    "Work",
    "database_place",
]

Dialect = Literal["sqlite", "postgresql"]
Durability = Literal["full", "relaxed"]

T = TypeVar("T")
Work = Callable[[Connection], T]
Booking = Callable[[Statements], T]

# A text with NUL or half a character, a number beyond 64 bits: callers write them into paths and filters.
UNSTORABLE = "a value is too large or holds characters that cannot be stored"

_FORMS = (
    "sqlite:///./data/monoize.db (a file below the config's folder), sqlite:////absolute/file.db or "
    "postgresql://user:password@host:5432/name"
)
# Parameters never get into messages: they may be digests or sealed secrets.
ENGINE_OPTIONS: Mapping[str, Any] = {"hide_parameters": True}
_POSTGRESQL = ("postgresql", "postgres", "postgresql+asyncpg")


class Database(ABC):
    """Runs plain functions of a connection, each in one transaction.

    `work` gets a synchronous SQLAlchemy connection and must not keep it. It may be run more than once (PostgreSQL may
    ask for another try after a deadlock), so it changes nothing but the database. What it raises undoes the transaction
    and reaches the caller; a database that cannot do its work within a few seconds raises DatabaseAway, and a value
    that no column can hold InvalidRequest.
    """

    dialect: ClassVar[Dialect]

    @classmethod
    async def open(cls, url: str, folder: Path, *, durability: Durability = "full") -> Database:
        """The database behind `url`, at the newest schema; a relative SQLite path lies below `folder`.

        ConfigError: the operator has to mend something. DatabaseAway: the server cannot be reached now.
        """
        # Only one of the two is ever needed, and the second costs a tenth of a second at start.
        if _scheme(url) == "sqlite":
            from monoize.store.sqlite import SqliteDatabase  # noqa: PLC0415

            return await SqliteDatabase.opened(_sqlite_file(url, folder), durability)
        try:
            from monoize.store.postgresql import PostgresqlDatabase  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                f"database: PostgreSQL needs a package that is missing ({error.name or 'greenlet'}): "
                "pip install asyncpg 'sqlalchemy[asyncio]'"
            ) from None
        return await PostgresqlDatabase.opened(_postgresql_dsn(url), durability)

    @abstractmethod
    async def read(self, work: Work[T]) -> T:
        """One snapshot, nothing can be changed."""

    @abstractmethod
    async def write(self, work: Work[T]) -> T:
        """Committed, and durable as configured, when it returns."""

    @abstractmethod
    async def book(self, booking: Booking[T], *, settles: bool = True) -> T:
        """As `write`, for the ledger: by the statements that this database takes fastest.

        `settles`: somebody will be told that he has been charged, so it must outlast a power cut. What only says that a
        request has begun need not where the power ends the request, too, and its caller gets nothing.
        """

    def slips(self, name: str) -> Slips | None:
        """A place for openings that only the process `name` has to see; None: they stand in their tables.

        Whoever uses the database has to be on this machine, or nobody would find what a dead process left.
        """
        del name
        return None

    def slip_files(self, *, but: str) -> Sequence[Path]:
        """Those of other processes, living or not, whether this one has a place or not."""
        del but
        return ()

    @abstractmethod
    async def aclose(self) -> None:
        """Finishes what was begun; later calls raise DatabaseAway."""


def database_place(url: str) -> str:
    """The database for people: never a user, a password or an option."""
    scheme = _scheme(url)
    parsed = make_url(url)
    if scheme == "sqlite":
        return f"SQLite at {parsed.database}"
    host = parsed.host or parsed.query.get("host") or "its socket"
    port = f":{parsed.port}" if parsed.port else ""
    return f"PostgreSQL database {parsed.database or ''!r} at {host}{port}"


def _scheme(url: str) -> Dialect:
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return "sqlite"
    if scheme in _POSTGRESQL:
        try:
            make_url(url)
        except (ArgumentError, ValueError):
            # The text of the error repeats the URL, and with it the password.
            raise ConfigError(
                f"database: this PostgreSQL URL cannot be read; use {_FORMS}"
            ) from None
        return "postgresql"
    shown = repr(scheme) if "://" in url and len(scheme) <= 32 else "no scheme"  # noqa: PLR2004
    raise ConfigError(f"database: {shown} is not known; use {_FORMS}")


def _sqlite_file(url: str, folder: Path) -> Path:
    path = url.removeprefix("sqlite://").removeprefix("/")
    if "?" in path or not path or ":memory:" in path or path.endswith("/"):
        raise ConfigError(f"database: {url} names no file; use {_FORMS}")
    return (folder / path).absolute()  # an absolute path stays as it is


def _postgresql_dsn(url: str) -> str:
    return "postgresql://" + url.partition("://")[2]
