"""Where sessions are kept: in the database, for every process of the gateway, or in memory where there is none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

import msgspec
from sqlalchemy import Connection
from typing_extensions import override

from monoize.store import audit, sessions
from monoize.store.database import Database
from monoize.store.sessions import MOST, Found, Session

__all__ = ["MemoryBook", "SessionBook", "StoredBook"]

KEPT = 10_000  # in memory


class SessionBook(ABC):
    @abstractmethod
    async def add(self, session: Session, *, ends: str | None, actor: str | None) -> None:
        """`ends`: the digest of the session that it follows. `actor`: who signed in, for the audit."""

    @abstractmethod
    async def find(self, digest: str) -> Found | None:
        """With what is known now of whom it stands for."""

    @abstractmethod
    async def touch(self, digest: str, now: int) -> None:
        """It was used."""

    @abstractmethod
    async def end(self, digest: str) -> None:
        """One that is not there has ended already."""


class StoredBook(SessionBook):
    def __init__(self, database: Database) -> None:
        self._database = database

    @override
    async def add(self, session: Session, *, ends: str | None, actor: str | None) -> None:
        def work(connection: Connection) -> None:
            if ends is not None:
                sessions.end(connection, ends)
            sessions.add(connection, session)
            if actor is not None:
                detail = {"how": session.how}
                now = session.created_at
                audit.record(
                    connection, "session.create", session.holder, detail, actor=actor, now=now
                )

        await self._database.write(work)

    @override
    async def find(self, digest: str) -> Found | None:
        return await self._database.read(partial(sessions.find, digest=digest))

    @override
    async def touch(self, digest: str, now: int) -> None:
        await self._database.write(partial(sessions.touch, digest=digest, now=now))

    @override
    async def end(self, digest: str) -> None:
        await self._database.write(partial(sessions.end, digest=digest))


class MemoryBook(SessionBook):
    """Of this process alone; the oldest go when there are too many."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    @override
    async def add(self, session: Session, *, ends: str | None, actor: str | None) -> None:
        kept = {
            digest: one
            for digest, one in self._sessions.items()
            if one.expires_at > session.created_at and digest != ends
        }
        own = [digest for digest, one in kept.items() if one.holder == session.holder]
        for digest in [*own[: 1 - MOST], *list(kept)[: 1 - KEPT]]:
            kept.pop(digest, None)
        self._sessions = {**kept, session.digest: session}

    @override
    async def find(self, digest: str) -> Found | None:
        """A key of the config file is all that there is to sign in with; it is not looked up here."""
        session = self._sessions.get(digest)
        return None if session is None else Found(session=session)

    @override
    async def touch(self, digest: str, now: int) -> None:
        known = self._sessions.get(digest)
        if known is not None:
            self._sessions[digest] = msgspec.structs.replace(known, used_at=now)

    @override
    async def end(self, digest: str) -> None:
        self._sessions.pop(digest, None)
