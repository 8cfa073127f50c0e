"""One row of the management API: what it takes, what it gives, and who may call it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, Literal, TypeVar

import msgspec
from sqlalchemy import Connection

from monoize.clock import IdSource
from monoize.errors import Conflict, DatabaseAway
from monoize.pipeline.call import Caller
from monoize.server.house import House
from monoize.server.http import HttpRequest
from monoize.server.state import State
from monoize.store.database import Database
from monoize.store.journal import Journal
from monoize.store.vault import Vault

__all__ = ["Act", "Context", "Endpoint", "Given", "endpoint"]

Q = TypeVar("Q")
B = TypeVar("B")
T = TypeVar("T")

_LONGEST_ACTOR = 256
_PARAMETER = re.compile(r"\{(\w+)\}")


class Given(msgspec.Struct, Generic[Q, B], frozen=True, kw_only=True):
    """What a caller sent, checked."""

    path: Mapping[str, str]
    query: Q
    body: B


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls, and what the answer is made from."""

    request: HttpRequest
    state: State
    house: House

    @property
    def caller(self) -> Caller:
        return self.request.caller

    @property
    def is_admin(self) -> bool:
        return self.caller.role == "admin"

    @property
    def actor(self) -> str:
        """For the audit: whose key, and which."""
        name = self.caller.username or self.caller.key_name or "nobody"
        key = f" ({self.caller.key})" if self.caller.key else ""
        return f"{name[: _LONGEST_ACTOR - len(key)]}{key}"

    @property
    def now(self) -> int:
        """Milliseconds since the epoch."""
        return round(self.state.kit.clock.now() * 1000)

    @property
    def ids(self) -> IdSource:
        return self.state.kit.ids

    @property
    def database(self) -> Database:
        return _there(self.state.lasting.database)

    @property
    def vault(self) -> Vault:
        return _there(self.state.lasting.vault)

    @property
    def journal(self) -> Journal:
        return _there(self.state.lasting.journal)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.database.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Stored, and in use by this process when it returns; others notice within a second."""
        done = await self.database.write(work)
        with suppress(DatabaseAway):  # the change is stored: the next look around takes it over
            await self.house.refresh()
        return done


Act = Callable[[Context, Any], Awaitable[Any]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`role`: whose keys may call it; "user": everybody's, for what is their own; None: no key is needed."""

    method: str
    path: str  # with {names}
    role: Literal["admin", "user"] | None
    act: Act
    answer: Any  # the type of what `act` returns
    query: Any = None
    body: Any = None
    body_required: bool = True
    status: int = 200
    content_type: str = "application/json"
    refusals: tuple[int, ...] = ()  # beside those that every endpoint has

    @property
    def group(self) -> str:
        return self.act.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        return self.act.__name__

    @property
    def about(self) -> str:
        return " ".join((self.act.__doc__ or "").split())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.path))

    def pattern(self) -> re.Pattern[str]:
        """A name is one segment of the path; a model's name may have slashes."""
        places = {
            name: f"(?P<{name}>.+)" if name == "model" else f"(?P<{name}>[^/]+)"
            for name in self.names
        }
        return re.compile(
            _PARAMETER.sub(lambda found: places[found[1]], self.path.replace(".", r"\.")), re.DOTALL
        )


def endpoint(method: str, path: str, **row: Any) -> Callable[[Act], Endpoint]:
    """Makes an endpoint of a function; its docstring is what the documentation says."""

    def made(act: Act) -> Endpoint:
        return Endpoint(method=method, path=path, act=act, **row)

    return made


def _there(part: T | None) -> T:
    if part is None:
        raise Conflict(
            "this gateway runs without a database, so it keeps no accounts, prices or logs; name one in the config",
            code="no_database",
        )
    return part
