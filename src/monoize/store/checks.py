"""What may be stored: texts that every database takes, amounts that fit, conflicts in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from monoize.errors import Conflict, InvalidRequest

__all__ = ["LARGEST_AMOUNT", "amount", "text", "unique"]

LARGEST_AMOUNT = 2**62  # sums of two still fit a column (T39)


def text(value: str, param: str, longest: int = 128) -> str:
    """A name for people: one line, no control characters (PostgreSQL refuses NUL), no blank ends."""
    if not value or value != value.strip() or len(value) > longest or not value.isprintable():
        raise InvalidRequest(
            f"{param} must be 1 to {longest} printable characters without blanks at its ends",
            param=param,
        )
    return value


def amount(value: int, param: str) -> int:
    if isinstance(value, bool) or abs(value) > LARGEST_AMOUNT:
        raise InvalidRequest(f"{param} is beyond {LARGEST_AMOUNT} nano-USD", param=param)
    return value


@contextmanager
def unique(connection: Connection, message: str, param: str | None = None) -> Iterator[None]:
    """The database decides what is there already, whoever else writes at this moment."""
    try:
        with connection.begin_nested():
            yield
    except IntegrityError:
        raise Conflict(message, param=param) from None
