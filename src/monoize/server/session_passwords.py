"""Passwords: hashed with Argon2id, beside the loop, and two at a time, for each takes 64 MB and a tenth of a second."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from monoize.errors import InvalidRequest, RateLimited

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = ["Passwords", "checked"]

SHORTEST = 10  # characters
LONGEST = 1024  # bytes
_LONGEST_SENT = (
    4 * LONGEST
)  # characters that are looked at: putting marks in order takes their number squared
_AT_A_TIME = 2
_WAITING = 16
# Of a password that nobody knows: a name without one takes as long to refuse as any other.
_NOBODYS = "$argon2id$v=19$m=65536,t=3,p=4$hiZbVG+7N2O+bS/37cKJhg$sO6KQgB3XJfGwm7LK2ezkQKID2Zw1I4TkFOsoHYRm5A"

T = TypeVar("T")


def checked(password: str, param: str = "password") -> str:
    """A password that somebody may have."""
    plain = _normal(password)
    if len(plain) < SHORTEST or len(_bytes(plain)) > LONGEST:
        raise InvalidRequest(
            f"{param}: at least {SHORTEST} characters and at most {LONGEST} bytes", param=param
        )
    return plain


class Passwords:
    """`hasher` with cheaper parameters is for tests."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._given = hasher
        self._under_way = 0

    def hashed_now(self, password: str) -> str:
        """Without a loop, for commands."""
        return self._hasher.hash(_bytes(checked(password)))

    async def hashed(self, password: str) -> str:
        return await self._beside(lambda: self.hashed_now(password))

    async def match(self, hashed: str | None, password: str) -> bool:
        """None: there is no password, which takes as long to find out."""
        return await self._beside(lambda: self._matches(hashed, password))

    def _matches(self, hashed: str | None, password: str) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415

        plain = _bytes(_normal(password))[: LONGEST + 1]
        try:
            self._hasher.verify(hashed or _NOBODYS, plain)
        except (VerificationError, InvalidHashError):
            return False
        return hashed is not None and len(plain) <= LONGEST

    async def _beside(self, work: Callable[[], T]) -> T:
        if self._under_way >= _WAITING:
            busy = RateLimited("too many people sign in at this moment", code="too_many_attempts")
            busy.headers["retry-after"] = "2"
            raise busy
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="passwords")

    @cached_property
    def _hasher(self) -> PasswordHasher:
        from argon2 import PasswordHasher  # noqa: PLC0415 - only where somebody signs in

        return self._given or PasswordHasher()


def _normal(password: str) -> str:
    """The same letters are the same password, however they are put together. What is far too long stays too long."""
    if len(password) > _LONGEST_SENT:
        return password[:_LONGEST_SENT]
    return unicodedata.normalize("NFC", password)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
