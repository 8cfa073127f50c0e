"""JSON as providers really write it: fast where it is clean, tolerant of lone surrogates, exact where untouched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import orjson
from typing_extensions import override

__all__ = ["MAX_DEPTH", "JsonError", "Unread", "depth_exceeds", "dumps", "loads", "spliced"]

MAX_DEPTH = 254  # what the fast writer takes; deeper than any real request

_TOP_LEVEL = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANYTHING = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()


class JsonError(ValueError):
    """Bytes that are not JSON; the message says where."""


def loads(data: bytes | str) -> Any:
    """Msgspec reads as fast as orjson and, unlike it, keeps integers beyond 64 bits exact."""
    try:
        return _ANYTHING.decode(data)
    except RecursionError:
        raise JsonError("nested too deep") from None
    except msgspec.ValidationError as error:  # a number that no float can hold
        raise JsonError(str(error)) from None
    except (msgspec.DecodeError, UnicodeError) as strict:
        return _loads_tolerantly(data, strict)


def _loads_tolerantly(data: bytes | str, strict: Exception) -> Any:
    """Take lone surrogates (an emoji cut in two), refuse NaN and the rest."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        if not depth_exceeds(text, MAX_DEPTH):
            return json.loads(text, parse_constant=_no_constant)
    except JsonError:
        raise
    except (ValueError, RecursionError):
        raise JsonError(str(strict)) from None
    raise JsonError(f"nested deeper than {MAX_DEPTH} levels")


class Unread(Mapping[str, Any]):
    """The object that these bytes are, for whoever asks: few do, where it was read by its shape already."""

    __slots__ = ("_object", "_raw")

    def __init__(self, raw: bytes) -> None:
        """`raw`: known to be an object."""
        self._raw = raw
        self._object: dict[str, Any] | None = None

    def _read(self) -> dict[str, Any]:
        if self._object is None:
            self._object = loads(self._raw)
        return self._object

    @override
    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    @override
    def __len__(self) -> int:
        return len(self._read())


def _no_constant(name: str) -> Any:
    raise JsonError(f"{name} is not JSON")


def dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError as error:  # lone surrogates, integers beyond 64 bits
        if "ecursion" in str(error):
            raise JsonError(f"nested deeper than {MAX_DEPTH} levels") from None
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def depth_exceeds(text: str, limit: int) -> bool:
    """Whether brackets nest deeper than `limit`, without recursion and without parsing."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth, in_string, escaped = 0, False, False
    for letter in text:
        if in_string:
            if escaped:
                escaped = False
            elif letter == "\\":
                escaped = True
            elif letter == '"':
                in_string = False
        elif letter == '"':
            in_string = True
        elif letter in "[{":
            depth += 1
            if depth > limit:
                return True
        elif letter in "]}":
            depth -= 1
    return False


def spliced(raw: bytes | str, changes: Mapping[str, Any]) -> bytes:
    """The same object with some top-level fields replaced: every other value keeps its bytes."""
    fields = _TOP_LEVEL.decode(raw)
    for name, value in changes.items():
        fields[name] = msgspec.Raw(value if isinstance(value, bytes) else dumps(value))
    return _ENCODER.encode(fields)
