"""Databases that are full: keys and log rows by the thousand, put there through the store's own modules."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, insert

from monoize.account import Key
from monoize.clock import RandomIds, SystemClock
from monoize.store import tables, users
from monoize.store.database import Database
from monoize.store.vault import Vault

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from fakes import log_rows

URL = "sqlite:///./data/monoize.db"
_STEP = 10_000  # rows of one transaction


def add_keys(folder: Path, count: int, name: str) -> list[str]:
    """So many keys of a new user: their texts."""
    vault = Vault.load(folder / "data", os.environ)
    now, ids = round(SystemClock().now() * 1000), RandomIds()

    async def add(database: Database) -> list[str]:
        owner = await database.write(
            partial(users.create, ids=ids, username=name, actor="bench", now=now)
        )
        texts: list[str] = []
        for first in range(0, count, _STEP):
            rows = []
            for number in range(first, min(first + _STEP, count)):
                fresh = vault.new_key(ids)
                key = Key(id=fresh.id, user_id=owner.id, name=f"key {number}", hint=fresh.hint)
                policy, digest = msgspec.to_builtins(key.policy), vault.digest(fresh.secret)
                rows.append({**msgspec.structs.asdict(key), "policy": policy, "digest": digest})
                texts.append(fresh.text)
            await database.write(partial(_insert_keys, rows=rows))
        return texts

    return _done(folder, add)


def add_log_rows(folder: Path, first: int, count: int) -> None:
    """The rows from number `first` on, until there are so many."""

    async def add(database: Database) -> None:
        for begin in range(first, count, _STEP):
            last = min(begin + _STEP, count) - 1
            await database.write(partial(log_rows.fill, first=begin, last=last, rows=count))

    _done(folder, add)


def _insert_keys(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(insert(tables.keys), rows)


def _done(folder: Path, work: Callable[[Database], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        (folder / "data").mkdir(exist_ok=True)
        database = await Database.open(URL, folder)
        try:
            return await work(database)
        finally:
            await database.aclose()

    return asyncio.run(run())
