"""The books of a gateway as somebody else reads them, the checker beside them, and accounts for callers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from fakes.counting_upstream import price_of
from fakes.mixed_load import Lived
from monoize.clock import RandomIds, SystemClock
from monoize.store import keys, tables, users
from monoize.store.database import Database
from monoize.store.vault import Vault

Row = dict[str, Any]
WHO = "tests"


@dataclass
class Books:
    """Everything that is written about money."""

    reservations: dict[str, Row]
    charges: dict[str, Row]  # by request
    users: dict[str, Row]
    logs: dict[str, Row]  # by request

    @classmethod
    async def read(cls, url: str, folder: Path) -> Books:
        database = await Database.open(url, folder)
        try:
            return await cls.of(database)
        finally:
            await database.aclose()

    @classmethod
    async def of(cls, database: Database) -> Books:
        found = await database.read(_everything)
        charged = [row for row in found["ledger"] if row["kind"] == "charge"]
        return cls(
            reservations={row["request_id"]: row for row in found["reservations"]},
            charges={row["request_id"]: row for row in charged},
            users={row["id"]: row for row in found["users"]},
            logs={row["request_id"]: row for row in found["request_logs"]},
        )

    @property
    def total(self) -> int:
        return sum(charge["amount"] for charge in self.charges.values())

    def statuses(self) -> Counter[str]:
        return Counter(row["status"] for row in self.logs.values())


CHECKER = Path(__file__).parents[1] / "failure" / "ledger_checker.py"
_SEEN = {"complete": "complete", "refused": "refused"}  # everybody else may be charged, or not


async def checked(url: str, folder: Path, everyone: Iterable[Lived] = (), **facts: Any) -> str:
    """The checker's own words, once the books are right; `everyone` has no call under way."""
    callers = [
        {
            "request_id": one.request_id,
            "saw": _SEEN.get(one.end, "broken"),
            "charge": price_of(one.number) if one.is_complete else None,
        }
        for one in everyone
    ]
    file = folder / "facts.json"
    file.write_text(json.dumps({"settled": True, "callers": callers, **facts}), "utf-8")
    checker = await asyncio.create_subprocess_exec(
        sys.executable, str(CHECKER), url, str(file), stdout=-1, stderr=-1
    )
    said, failed = await checker.communicate()
    assert checker.returncode == 0, (said.decode()[:4000], failed.decode()[-2000:])
    return said.decode()


_TABLES = ("reservations", "ledger", "users", "request_logs")


def _everything(connection: Connection) -> dict[str, list[Row]]:
    """In one snapshot."""
    return {
        name: [dict(row._mapping) for row in connection.execute(select(getattr(tables, name)))]
        for name in _TABLES
    }


async def open_account(
    url: str,
    folder: Path,
    name: str,
    *,
    balance: int | None = None,
    **policy: Any,
) -> str:
    """A user with a key, made before or while a gateway of this folder runs: the key's text."""
    vault = Vault.load(folder / "data", {})
    database = await Database.open(url, folder)
    try:
        now = round(SystemClock().now() * 1000)
        who = {"ids": RandomIds(), "actor": WHO, "now": now}
        user = await database.write(partial(users.create, username=name, balance=balance, **who))
        _, text = await database.write(
            partial(keys.create, vault=vault, user_id=user.id, name=name, policy=policy, **who)
        )
    finally:
        await database.aclose()
    return text


async def switch_off(url: str, folder: Path, key_text: str) -> None:
    """As another process does it."""
    key_id = key_text.split("-")[2]
    database = await Database.open(url, folder)
    try:
        now = round(SystemClock().now() * 1000)
        await database.write(partial(keys.update, key_id=key_id, enabled=False, actor=WHO, now=now))
    finally:
        await database.aclose()
