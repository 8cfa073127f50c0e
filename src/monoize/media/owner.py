"""Whose media: a user's, or a key's where no user is known; a gateway without keys has one owner."""

from __future__ import annotations

import hashlib
from typing import Protocol

__all__ = ["Identified", "owner_of"]

_LONGEST = 200


class Identified(Protocol):
    """Who calls, as far as anybody knows."""

    @property
    def user(self) -> str | None: ...

    @property
    def key(self) -> str | None: ...


def owner_of(caller: Identified) -> str:
    """All keys of a user see the same media."""
    if caller.user is not None:
        return _fitted("user:", caller.user)
    return "nobody" if caller.key is None else _fitted("key:", caller.key)


def _fitted(kind: str, name: str) -> str:
    """No two owners become one by being cut."""
    if len(name) <= _LONGEST and name.isprintable():
        return kind + name
    return f"{kind}sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
