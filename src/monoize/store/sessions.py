"""Sessions of people who signed in: kept under the hash of their token, found together with whom they stand for."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, insert, select

from monoize.account import User
from monoize.store import users
from monoize.store.tables import keys, sessions

__all__ = ["MOST", "Found", "How", "Session", "add", "end", "find", "stamp_of", "touch"]

How = Literal["local", "password", "key", "proxy"]
MOST = 100  # of one holder; who signs in once more ends the oldest


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """`holder` is a user's id, a key's id, or empty for whoever sits at the machine."""

    digest: str
    how: How
    holder: str
    stamp: str  # of what was shown at sign-in: when that changes, the session is over
    created_at: int  # milliseconds since the epoch
    used_at: int
    expires_at: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and what is known at this moment of whom it stands for."""

    session: Session
    user: User | None = None
    stamp: str = ""  # of the password or the key's secret as it is now
    has_users: bool = False


def add(connection: Connection, session: Session) -> None:
    """Those that are over go, and the oldest of one holder beyond the most."""
    connection.execute(sa.delete(sessions).where(sessions.c.expires_at <= session.created_at))
    connection.execute(insert(sessions).values(msgspec.structs.asdict(session)))
    own = sessions.c.holder == session.holder
    newest = sessions.c.created_at.desc(), sessions.c.digest
    surplus = select(sessions.c.digest).where(own).order_by(*newest).offset(MOST).limit(MOST)
    digests = list(connection.scalars(surplus))
    if digests:
        connection.execute(sa.delete(sessions).where(sessions.c.digest.in_(digests)))


def find(connection: Connection, digest: str) -> Found | None:
    row = connection.execute(select(sessions).where(sessions.c.digest == digest)).mappings().first()
    if row is None:
        return None
    session = Session(**row)
    match session.how:
        case "local":
            return Found(session=session, has_users=users.are_there(connection))
        case "password":
            found = users.with_password(connection, session.holder)
            user, hashed = found if found is not None else (None, None)
            return Found(session=session, user=user, stamp=stamp_of(hashed or ""))
        case "proxy":
            known = users.with_password(connection, session.holder)
            return Found(session=session, user=None if known is None else known[0])
        case "key":
            secret = connection.scalar(select(keys.c.digest).where(keys.c.id == session.holder))
            return Found(session=session, stamp=stamp_of(secret or b""))


def touch(connection: Connection, digest: str, now: int) -> None:
    connection.execute(sa.update(sessions).where(sessions.c.digest == digest).values(used_at=now))


def end(connection: Connection, digest: str) -> None:
    connection.execute(sa.delete(sessions).where(sessions.c.digest == digest))


def stamp_of(shown: str | bytes) -> str:
    """Tells one password's hash, or one secret's digest, from the next; empty for none."""
    raw = shown.encode() if isinstance(shown, str) else shown
    return hashlib.sha256(raw).hexdigest() if raw else ""
