"""Users: who owns keys, and what is left of a prepaid account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection, insert, select

from monoize.account import Role, User
from monoize.clock import IdSource
from monoize.errors import Conflict, InvalidRequest, NotFound
from monoize.store import audit, checks, media, settings, tables
from monoize.store.paging import bounded
from monoize.store.tables import users

__all__ = [
    "adjust",
    "any_password",
    "are_there",
    "create",
    "delete",
    "find",
    "get",
    "page",
    "set_password",
    "to_sign_in",
    "update",
    "who_have_passwords",
    "with_password",
]

_ROLES = ("admin", "user")
_RESERVED = "_monoize_"  # users that the program itself may need
_COLUMNS = [users.c[field.name] for field in msgspec.structs.fields(User)]


def create(  # noqa: PLR0913 - a user has that many properties
    connection: Connection,
    *,
    ids: IdSource,
    username: str,
    role: Role = "user",
    enabled: bool = True,
    balance: int | None = None,
    password_hash: str | None = None,
    actor: str,
    now: int,
) -> User:
    """`balance` in nano-USD makes a prepaid account, `password_hash` lets the user sign in."""
    user = User(
        id=ids.new("user_"),
        username=_username(username),
        role=_role(role),
        enabled=enabled,
        balance=None if balance is None else _balance(balance),
        created_at=now,
        updated_at=now,
    )
    with checks.unique(connection, f"there is already a user {username!r}", "username"):
        row = {**msgspec.structs.asdict(user), "password_hash": password_hash}
        connection.execute(insert(users).values(row))
    if user.balance is not None:
        _enter(connection, user.id, user.balance, user.balance, {"reason": "first balance"}, now)
    detail: dict[str, Any] = {
        "username": user.username,
        "role": role,
        "enabled": enabled,
        "balance": balance,
    }
    if password_hash is not None:
        detail["password"] = True
    audit.record(connection, "user.create", user.id, detail, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return user


def get(connection: Connection, user_id: str, *, lock: bool = False) -> User:
    """`lock`: on PostgreSQL nobody charges or changes this user until the transaction ends."""
    query = select(*_COLUMNS).where(users.c.id == user_id)
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise NotFound(f"there is no user {user_id!r}")
    return User(**row)


def find(connection: Connection, username: str) -> User | None:
    row = (
        connection.execute(select(*_COLUMNS).where(users.c.username == username)).mappings().first()
    )
    return None if row is None else User(**row)


def with_password(connection: Connection, user_id: str) -> tuple[User, str | None] | None:
    """A user and the hash of the password, if there is one; None: nobody has this id."""
    return _with_password(connection, users.c.id == user_id)


def to_sign_in(connection: Connection, username: str) -> tuple[User, str | None] | None:
    """The same by name."""
    return _with_password(connection, users.c.username == username)


def are_there(connection: Connection) -> bool:
    """Whether there is any user at all."""
    return connection.execute(select(users.c.id).limit(1)).first() is not None


def any_password(connection: Connection) -> bool:
    """Whether anybody can sign in with one."""
    query = select(users.c.id).where(users.c.password_hash.is_not(None)).limit(1)
    return connection.execute(query).first() is not None


def who_have_passwords(connection: Connection, ids: Sequence[str]) -> frozenset[str]:
    query = select(users.c.id).where(users.c.id.in_(ids), users.c.password_hash.is_not(None))
    return frozenset(connection.scalars(query))


def page(connection: Connection, *, after: str | None = None, limit: int = 50) -> tuple[User, ...]:
    """By id; the next page begins after the last id of this one."""
    query = select(*_COLUMNS).order_by(users.c.id).limit(bounded(limit))
    if after is not None:
        query = query.where(users.c.id > after)
    return tuple(User(**row) for row in connection.execute(query).mappings())


def update(  # noqa: PLR0913 - a user has that many properties
    connection: Connection,
    user_id: str,
    *,
    username: str | UnsetType = UNSET,
    role: Role | UnsetType = UNSET,
    enabled: bool | UnsetType = UNSET,
    balance: int | UnsetType | None = UNSET,
    actor: str,
    now: int,
) -> User:
    """Only what is given. A `balance` is set, not added; None ends prepayment."""
    before = get(connection, user_id, lock=True)
    given: dict[str, Any] = {}
    if username is not UNSET:
        given["username"] = _username(username) if username != before.username else username
    if role is not UNSET:
        given["role"] = _role(role)
    if enabled is not UNSET:
        given["enabled"] = enabled
    if balance is not UNSET:
        given["balance"] = None if balance is None else _balance(balance, before.reserved)
    after = msgspec.structs.replace(before, **given)
    changed = audit.changes(msgspec.structs.asdict(before), msgspec.structs.asdict(after))
    if not changed:
        return before
    with checks.unique(connection, f"there is already a user {after.username!r}", "username"):
        connection.execute(
            sa.update(users).where(users.c.id == user_id).values(**given, updated_at=now)
        )
    if after.balance != before.balance:
        delta = (after.balance or 0) - (before.balance or 0)
        _enter(connection, user_id, delta, after.balance, {"reason": "balance set"}, now)
    audit.record(connection, "user.update", user_id, changed, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return msgspec.structs.replace(after, updated_at=now)


def set_password(
    connection: Connection, user_id: str, password_hash: str | None, *, actor: str, now: int
) -> User:
    """None takes it away. Whoever is signed in with the old one, or by a proxy's word, is so no longer."""
    user = get(connection, user_id, lock=True)
    connection.execute(
        sa.update(users)
        .where(users.c.id == user_id)
        .values(password_hash=password_hash, updated_at=now)
    )
    connection.execute(sa.delete(tables.sessions).where(tables.sessions.c.holder == user_id))
    detail = {"password": password_hash is not None}
    audit.record(connection, "user.password", user_id, detail, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return msgspec.structs.replace(user, updated_at=now)


def adjust(
    connection: Connection, user_id: str, delta: int, actor: str, now: int, reason: str
) -> User:
    """Adds to (or takes from) a prepaid account; what requests under way hold reserved stays there."""
    checks.amount(delta, "delta")
    checks.text(reason, "reason", 1024)
    before = get(connection, user_id, lock=True)
    if before.balance is None:
        raise Conflict(f"{before.username} is not prepaid: set a balance first", code="not_prepaid")
    balance = _balance(before.balance + delta, before.reserved)
    connection.execute(
        sa.update(users).where(users.c.id == user_id).values(balance=balance, updated_at=now)
    )
    _enter(connection, user_id, delta, balance, {"reason": reason, "actor": actor}, now)
    detail = {"delta": delta, "balance": balance, "reason": reason}
    audit.record(connection, "user.adjust", user_id, detail, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return msgspec.structs.replace(before, balance=balance, updated_at=now)


def delete(connection: Connection, user_id: str, *, actor: str, now: int) -> None:
    """With all keys and media; the ledger and the log keep what was."""
    user = get(connection, user_id, lock=True)
    keys = tables.keys
    owned = connection.scalars(
        select(keys.c.id).where(keys.c.user_id == user_id).order_by(keys.c.id)
    )
    detail: dict[str, Any] = {
        "username": user.username,
        "balance": user.balance,
        "keys": list(owned),
    }
    connection.execute(sa.delete(keys).where(keys.c.user_id == user_id))
    held = [user_id, *detail["keys"]]
    connection.execute(sa.delete(tables.sessions).where(tables.sessions.c.holder.in_(held)))
    connection.execute(sa.delete(users).where(users.c.id == user_id))
    media.abandon(connection, f"user:{user_id}", now=now)
    audit.record(connection, "user.delete", user_id, detail, actor=actor, now=now)
    settings.raise_revision(connection, now)


def _with_password(
    connection: Connection, who: sa.ColumnElement[bool]
) -> tuple[User, str | None] | None:
    query = select(*_COLUMNS, users.c.password_hash).where(who)
    row = connection.execute(query).mappings().first()
    if row is None:
        return None
    columns = dict(row)
    hashed = columns.pop("password_hash")
    return User(**columns), hashed


def _username(username: str) -> str:
    if username.startswith(_RESERVED):
        raise InvalidRequest(
            f"usernames that begin with {_RESERVED} are reserved", param="username"
        )
    return checks.text(username, "username")


def _role(role: Role) -> Role:
    if role not in _ROLES:
        raise InvalidRequest(f"role must be one of {', '.join(_ROLES)}", param="role")
    return role


def _balance(balance: int, reserved: int = 0) -> int:
    checks.amount(balance, "balance")
    if balance < reserved:
        held = f"; {reserved} nano-USD are reserved by requests under way" if reserved else ""
        raise InvalidRequest(f"the balance cannot be {balance} nano-USD{held}", param="balance")
    return balance


def _enter(
    connection: Connection, user_id: str, amount: int, after: int | None, detail: Any, now: int
) -> None:
    row = {
        "kind": "adjustment",
        "user_id": user_id,
        "amount": amount,
        "balance_after": after,
        "estimated": False,
        "unpriced": False,
        "detail": detail,
        "created_at": now,
    }
    connection.execute(insert(tables.ledger).values(row))
