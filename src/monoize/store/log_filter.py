"""Which rows of the request log are wanted, and the conditions that say so in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import ColumnElement, func, literal_column, or_
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from monoize.errors import InvalidRequest

__all__ = [
    "FAILED",
    "LARGEST",
    "Columns",
    "LogFilter",
    "Status",
    "conditions",
    "is_prefix",
    "moments",
    "not_success",
    "within",
]

Status = Literal["pending", "success", "error", "cancelled", "interrupted"]
FAILED: Final[tuple[Status, ...]] = ("error", "interrupted")  # a caller that left is no error

LARGEST = 2**63 - 1  # that a column holds
_MOST_MODELS = 32
_LONGEST_NAME = 320
_LONGEST_TEXT = 200

Columns = ReadOnlyColumnCollection[str, Any] | Mapping[str, ColumnElement[Any]]


class LogFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every field that is set has to hold. Moments are milliseconds since the epoch."""

    status: Status | None = None
    errors_only: bool = False
    key_id: str | None = None
    user_id: str | None = None
    username: str | None = None
    models: tuple[str, ...] = ()  # any of them; `gpt-*` is every requested name that begins so
    provider: str | None = None
    channel: str | None = None
    protocol: str | None = None
    operation: str | None = None
    request_id: str | None = None
    text: str | None = None  # somewhere in the error or a model's name, in small or large letters
    since: int | None = None  # and later
    until: int | None = None  # and not this very moment any more

    def __post_init__(self) -> None:
        if len(self.models) > _MOST_MODELS:
            raise InvalidRequest(f"at most {_MOST_MODELS} models may be named", param="models")
        for model in self.models:
            if "*" in model[:-1]:
                raise InvalidRequest(
                    f"{model!r}: a * may only stand at the end of a model's name", param="models"
                )
        if self.text is not None and not 1 <= len(self.text) <= _LONGEST_TEXT:
            raise InvalidRequest(f"text must have 1 to {_LONGEST_TEXT} characters", param="text")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            for word in value if isinstance(value, tuple) else (value,):
                if isinstance(word, str) and not _is_storable(word):
                    raise InvalidRequest(f"{name} holds characters that no log has", param=name)

    @property
    def statuses(self) -> tuple[Status, ...] | None:
        """None: each of them."""
        if self.errors_only:
            return tuple(s for s in FAILED if self.status in (None, s))
        return None if self.status is None else (self.status,)


def is_prefix(model: str) -> bool:
    return model.endswith("*")


def conditions(wanted: LogFilter, columns: Columns) -> dict[str, ColumnElement[bool]]:
    """One for each field that is set, by its name; those about time are `moments`."""
    found = {
        name: columns[name] == value
        for name in (
            "key_id",
            "user_id",
            "username",
            "provider",
            "channel",
            "protocol",
            "operation",
            "request_id",
        )
        if (value := getattr(wanted, name)) is not None
    }
    if wanted.models:
        found["models"] = _any_model(wanted.models, columns["requested_model"])
    if wanted.statuses is not None:
        found["status"] = _any_status(wanted.statuses, columns["status"])
    if wanted.text is not None:
        names = ("error_message", "error_code", "requested_model", "upstream_model")
        found["text"] = or_(
            *(columns[name].icontains(wanted.text, autoescape=True) for name in names)
        )
    return found


def not_success(status: ColumnElement[Any]) -> ColumnElement[bool]:
    """What the index on the status asks for, as tables.py says it: a database compares the words."""
    return status != literal_column("'success'")


def _any_status(statuses: tuple[Status, ...], column: ColumnElement[Any]) -> ColumnElement[bool]:
    some = column.in_(statuses)
    return some if "success" in statuses else some & not_success(column)


def _any_model(models: tuple[str, ...], column: ColumnElement[Any]) -> ColumnElement[bool]:
    # LIKE would take an underscore for any letter, and on SQLite A for a.
    begins = [
        func.substr(column, 1, len(model) - 1) == model[:-1] for model in models if is_prefix(model)
    ]
    return or_(column.in_([model for model in models if not is_prefix(model)]), *begins)


def moments(wanted: LogFilter, columns: Columns) -> list[ColumnElement[bool]]:
    created = columns["created_at"]
    found = []
    if wanted.since is not None:
        found.append(created >= within(wanted.since))
    if wanted.until is not None:
        found.append(created < within(wanted.until))
    return found


def within(number: int) -> int:
    """A larger one could not be sent to the database at all."""
    return max(-LARGEST, min(LARGEST, number))


def _is_storable(word: str) -> bool:
    """PostgreSQL takes no NUL, and nobody takes half a surrogate pair."""
    if len(word) > _LONGEST_NAME or "\0" in word:
        return False
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
