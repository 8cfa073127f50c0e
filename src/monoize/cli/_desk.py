"""What the commands about accounts share: the store of a config, opened without a server, and ways to say things."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sqlalchemy import Connection

from monoize.account import NANO, User
from monoize.clock import RandomIds, SystemClock
from monoize.errors import ConfigError, InvalidRequest, MonoizeError, NotFound
from monoize.money.rates import EXACT
from monoize.settings import Settings, load
from monoize.store import users, vault
from monoize.store.checks import LARGEST_AMOUNT
from monoize.store.database import Database
from monoize.store.vault import Vault

__all__ = [
    "ACTOR",
    "AsJson",
    "Config",
    "Desk",
    "moment",
    "moment_text",
    "nano",
    "run",
    "show",
    "show_json",
    "user_named",
]

ACTOR = "command line"

Config = Annotated[
    Path | None,
    Parameter(
        help="the YAML file whose store is meant; else monoize.yaml, else ./data as `serve` makes it"
    ),
]
AsJson = Annotated[
    bool, Parameter(name="--json", help="JSON instead of a table", negative="", show_default=False)
]

T = TypeVar("T")

_DEFAULT = Path("monoize.yaml")
_AGO = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_WIDE = 10_000
_DIGITS = 9  # of a dollar, after the point


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """A store, opened as the server opens it; a running one notices changes by their revision."""

    database: Database
    vault: Vault
    settings: Settings
    file: Path | None
    clock: SystemClock
    ids: RandomIds

    @property
    def now(self) -> int:
        return round(self.clock.now() * 1000)

    @property
    def change(self) -> dict[str, Any]:
        """Who changes something, and when."""
        return {"actor": ACTOR, "now": self.now}

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.database.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self.database.write(work)


def run(config: Path | None, work: Callable[[Desk], Awaitable[None]]) -> int:
    """The exit code of a command; what goes wrong is one sentence."""

    async def worked() -> None:
        async with _opened(config) as desk:
            await work(desk)

    try:
        asyncio.run(worked())
    except MonoizeError as error:
        print(f"monoize: {' '.join(error.message.split())}", file=sys.stderr)
        return 1
    return 0


def _place(config: Path | None) -> tuple[Settings, Path | None, Path]:
    """The settings, their file, and the folder that relative paths lie below."""
    file = config if config is not None or not _DEFAULT.exists() else _DEFAULT
    if file is None:
        return Settings(), None, Path.cwd()
    return load(file), file, file.resolve().parent


@asynccontextmanager
async def _opened(config: Path | None) -> AsyncIterator[Desk]:
    settings, file, folder = _place(config)
    if settings.database is None:
        raise ConfigError(f"{file} says `database: null`, so there are no accounts, prices or logs")
    clock, safe = SystemClock(), Vault.load(folder / "data", os.environ)
    database = await Database.open(settings.database, folder)
    try:
        now = round(clock.now() * 1000)
        await database.write(partial(vault.check, vault=safe, now=now))
        yield Desk(
            database=database,
            vault=safe,
            settings=settings,
            file=file,
            clock=clock,
            ids=RandomIds(),
        )
    finally:
        await database.aclose()


def user_named(connection: Connection, name: str) -> User:
    """By name, or by id."""
    found = users.find(connection, name)
    if found is not None:
        return found
    try:
        return users.get(connection, name)
    except NotFound:
        raise NotFound(
            f"there is no user {name!r}; make one with: monoize users create {name}"
        ) from None


# --- reading ---


def nano(dollars: str, what: str) -> int:
    """Nano-USD of an exact decimal such as 12.50."""
    try:
        amount = EXACT.multiply(Decimal(dollars), Decimal(NANO))
    except ArithmeticError:
        amount = Decimal("Infinity")  # what cannot be read is as good as what is too large
    if amount.is_nan() or abs(amount) > LARGEST_AMOUNT or amount != amount.to_integral_value():
        raise InvalidRequest(
            f"{what} must be a number of USD with at most {_DIGITS} digits after the point, not {dollars!r}"
        )
    return int(amount)


def moment(text: str, now: int, what: str, *, ahead: bool = False) -> int:
    """Milliseconds of `2026-11-15`, `2026-11-15T12:00:00Z`, or of `30d`: so long ago, or ahead."""
    span = _AGO.fullmatch(text.strip())
    if span is not None:
        distance = int(span[1]) * _SECONDS[span[2]] * 1000
        return now + distance if ahead else now - distance
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidRequest(
            f"{what} must be a date such as 2026-11-15, a time such as 2026-11-15T12:00:00Z or a span such as 30d, "
            f"not {text!r}"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


# --- saying ---


def moment_text(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def show(headings: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
    if not rows:
        print(empty)
        return
    table = Table(*headings, box=None, pad_edge=False, show_header=any(headings))
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    console = Console(highlight=False)
    if not console.is_terminal:  # a pipe has no width: nothing is cut there
        console.width = _WIDE
    console.print(table)


def show_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
