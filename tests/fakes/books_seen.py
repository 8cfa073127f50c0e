"""The books of a gateway as somebody else reads them, and what must be true of them whenever nobody is calling."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

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
    adjustments: list[Row]
    spend: list[Row]
    users: dict[str, Row]
    logs: dict[str, Row]  # by request
    double: list[str] = field(default_factory=list)  # requests charged twice

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
        count = Counter(row["request_id"] for row in charged)
        return cls(
            reservations={row["request_id"]: row for row in found["reservations"]},
            charges={row["request_id"]: row for row in charged},
            adjustments=[row for row in found["ledger"] if row["kind"] != "charge"],
            spend=found["spend"],
            users={row["id"]: row for row in found["users"]},
            logs={row["request_id"]: row for row in found["request_logs"]},
            double=[name for name, times in count.items() if times > 1],
        )

    def faults(self) -> list[str]:
        """Sentences, one for each thing that cannot be."""
        return [*self._left(), *self._unlike(), *self._unsummed(), *self._unpaid()]

    def _left(self) -> Iterator[str]:
        for name in self.reservations:
            yield f"{name} is still reserved"
        for name, row in self.logs.items():
            if row["status"] == "pending":
                yield f"{name} is still pending in the log"
        for name in self.double:
            yield f"{name} is charged twice"

    def _unlike(self) -> Iterator[str]:
        """Ledger and log, request by request."""
        for name, charge in self.charges.items():
            row = self.logs.get(name)
            if row is None:
                yield f"{name} is charged and not in the log"
                continue
            for column in ("key_id", "user_id", "estimated", "unpriced"):
                if row[column] != charge[column]:
                    yield f"{name}: {column} is {charge[column]} in the ledger, {row[column]} in the log"
            if row["charge"] != charge["amount"]:
                yield f"{name} is charged {charge['amount']} and logged with {row['charge']}"
        for name, row in self.logs.items():
            if row["charge"] is not None and name not in self.charges:
                yield f"{name} is logged with {row['charge']} and not in the ledger"

    def _unsummed(self) -> Iterator[str]:
        spent: dict[str, int] = defaultdict(int)
        for charge in self.charges.values():
            spent[charge["key_id"]] += charge["amount"]
        counted: dict[tuple[str, str], int] = defaultdict(int)
        for row in self.spend:
            kind = row["window"].partition(":")[0]
            counted[row["key_id"], kind] += row["spent"]
            if row["reserved"] != 0:
                yield f"key {row['key_id']} holds {row['reserved']} reserved in {row['window']}"
            if row["spent"] < 0:
                yield f"key {row['key_id']} has spent {row['spent']} in {row['window']}"
        for key in {*spent, *(name for name, _ in counted)}:
            for kind in ("total", "day", "month"):
                if counted[key, kind] != spent[key]:
                    yield f"key {key} has spent {spent[key]}, and its {kind} says {counted[key, kind]}"

    def _unpaid(self) -> Iterator[str]:
        for name, user in self.users.items():
            if user["reserved"] != 0:
                yield f"user {name} holds {user['reserved']} reserved"
            if user["balance"] is None:
                continue
            given = sum(row["amount"] for row in self.adjustments if row["user_id"] == name)
            taken = sum(c["amount"] for c in self.charges.values() if c["user_id"] == name)
            if user["balance"] != given - taken:
                yield f"user {name} has {user['balance']} of {given} left after charges of {taken}"
            if user["balance"] < 0:
                yield f"user {name} has a balance of {user['balance']}"

    @property
    def total(self) -> int:
        return sum(charge["amount"] for charge in self.charges.values())

    def statuses(self) -> Counter[str]:
        return Counter(row["status"] for row in self.logs.values())


_TABLES = ("reservations", "ledger", "spend", "users", "request_logs")


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
        user = await database.write(
            partial(users.create, username=name, balance=balance, **who)
        )
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
        await database.write(
            partial(keys.update, key_id=key_id, enabled=False, actor=WHO, now=now)
        )
    finally:
        await database.aclose()


