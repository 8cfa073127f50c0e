"""What every URP value has: unknown fields that travel, and the wire object it came from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

__all__ = ["EMPTY", "Source", "Value", "bare", "replace"]

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Source(msgspec.Struct, frozen=True, eq=False):
    """The wire object that a value was decoded from. An encoder of the same protocol writes it again."""

    protocol: str
    wire: Any
    span: int = 1  # how many neighbouring messages were made from this one envelope (D48)
    # Of a request or a reply: nothing in it but words and what every one has, so that nobody has to look for media,
    # calls or seals, nor for names of its own inside of it.
    words: bool = False


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything that travels inside; immutable, so untouched means: still the same object."""

    extra_body: Mapping[str, Any] = EMPTY
    source: Source | None = None


V = TypeVar("V", bound=Value)


def replace(value: V, **changes: Any) -> V:
    """A changed copy. It no longer has a source: what was changed is encoded anew, and nothing else is."""
    return msgspec.structs.replace(value, **{"source": None, **changes})


def bare(value: Any) -> Any:
    """The same value without any source, to compare by meaning."""
    if isinstance(value, Value):
        fields = {name: bare(getattr(value, name)) for name in value.__struct_fields__}
        fields["source"] = None
        fields["extra_body"] = dict(value.extra_body)
        return type(value)(**fields)
    if isinstance(value, tuple):
        return tuple(bare(item) for item in value)
    return value
