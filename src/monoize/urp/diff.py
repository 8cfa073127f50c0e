"""What changed between two URP values, as a list of paths with their JSON before and after."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from enum import Enum
from functools import cache
from itertools import zip_longest
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import UNSET

from monoize.urp.message import Media, Part
from monoize.urp.request import ResponseFormat
from monoize.urp.stream import PartDelta, UrpStreamEvent
from monoize.urp.value import Value

__all__ = ["Change", "changes", "view"]

# Values that stand where others of their kind might: these show which one they are.
_KINDS = {
    kind
    for union in (Part, Media, ResponseFormat, PartDelta, UrpStreamEvent)
    for kind in get_args(union)
}
_BOOKKEEPING = frozenset({"source", "inherited", "added"})  # how fields travel, not what they say
_HUMP = re.compile(r"(?<!^)(?=[A-Z])")
_PLAIN_KEY = re.compile(r"\w+")
# Pairs of elements that are worth a look at which of them fit; looking takes up to the third power of a list's length.
_MOST_PAIRS = 200 * 200

Pair: TypeAlias = tuple[Any, Any]  # of list elements; UNSET where one side has none


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. Without `before` it was added, without `after` it was removed.

    Indices in `path` count in the new value; those of something removed count in the old one.
    """

    path: str
    before: Any = UNSET
    after: Any = UNSET

    def as_json(self) -> dict[str, Any]:
        sides = {"before": self.before, "after": self.after}
        return {"path": self.path, **{k: v for k, v in sides.items() if v is not UNSET}}


def changes(before: Value | Sequence[Value], after: Value | Sequence[Value]) -> list[Change]:
    """The differences in order of appearance. Where values came from and how they travel is none of them."""
    return list(_differences("", before, after))


def view(value: Any) -> Any:
    """A value as JSON: no source, no defaults, and a `type` where several kinds may stand."""
    match value:
        case Value() | Mapping():
            return {key: view(item) for key, item in _entries(value).items()}
        case frozenset() | set():
            return sorted(value)
        case Enum():
            return value.value
        case list() | tuple():
            return [view(item) for item in value]
        case _:
            return value


def _entries(value: Value | Mapping[str, Any]) -> Mapping[str, Any]:
    """The first level of `view`: what is below stays as it is, so that shared values are compared by identity."""
    if isinstance(value, Mapping):
        return value
    kind = type(value)
    tag = {"type": _HUMP.sub("_", kind.__name__).lower()} if kind in _KINDS else {}
    fields = {}
    for field in _fields(kind):
        item = getattr(value, field.name)
        if field.name in _BOOKKEEPING or item == field.default:
            continue
        # `type` is taken where the kind is shown: an Error's own type is its `error_type`.
        fields["error_type" if tag and field.name == "type" else field.name] = item
    return {**tag, **fields}


@cache
def _fields(kind: type[Value]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Found by evaluating annotations, which takes long."""
    return msgspec.structs.fields(kind)


def _differences(path: str, before: Any, after: Any) -> Iterator[Change]:
    if before is after:
        return
    match before, after:
        case (Value() | Mapping(), Value() | Mapping()) if _kind(before) == _kind(after):
            yield from _entries_differ(path, _entries(before), _entries(after))
        case (list() | tuple(), list() | tuple()):
            yield from _items_differ(path, before, after)
        case _:
            old, new = view(before), view(after)
            if type(old) is not type(new) or old != new:
                yield Change(path=path, before=old, after=new)


def _entries_differ(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Change]:
    for key in {**before, **after}:
        yield from _differences(_below(path, key), before.get(key, UNSET), after.get(key, UNSET))


def _items_differ(path: str, before: Sequence[Any], after: Sequence[Any]) -> Iterator[Change]:
    first, old, new = _trimmed(before, after)
    olds, news = [_canonical(item) for item in old], [_canonical(item) for item in new]
    for tag, i1, i2, j1, j2 in _aligned(olds, news):
        if tag == "equal":
            continue
        was, now = first + i1, first + j1
        for one, other in _paired(old[i1:i2], new[j1:j2]):
            yield from _differences(f"{path}[{was if other is UNSET else now}]", one, other)
            was += one is not UNSET
            now += other is not UNSET


def _trimmed(
    before: Sequence[Any], after: Sequence[Any]
) -> tuple[int, Sequence[Any], Sequence[Any]]:
    """Both lists without the very same objects at their ends: a long history is not compared word by word."""
    short = min(len(before), len(after))
    start = 0
    while start < short and before[start] is after[start]:
        start += 1
    end = 0
    while end < short - start and before[-1 - end] is after[-1 - end]:
        end += 1
    return start, before[start : len(before) - end], after[start : len(after) - end]


def _aligned(old: Sequence[Any], new: Sequence[Any]) -> Sequence[tuple[str, int, int, int, int]]:
    """What is equal and what was replaced, as difflib tells it; of long lists all is, element by element."""
    if len(old) * len(new) > _MOST_PAIRS:
        return (("replace", 0, len(old), 0, len(new)),)
    return SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()


def _paired(old: Sequence[Any], new: Sequence[Any]) -> Iterator[Pair]:
    """Which element became which: those of one kind and role, in order; the others came or went."""
    kinds, other_kinds = [_kind(item) for item in old], [_kind(item) for item in new]
    for _, i1, i2, j1, j2 in _aligned(kinds, other_kinds):
        yield from zip_longest(old[i1:i2], new[j1:j2], fillvalue=UNSET)


def _kind(item: Any) -> tuple[Any, ...]:
    """What must agree for two elements to be versions of one thing."""
    match item:
        case Value():
            return (type(item), getattr(item, "role", None))
        case Mapping():
            return (Mapping, str(item.get("type")), str(item.get("role")))
        case _:
            return (type(item),)


def _canonical(item: Any) -> str:
    return json.dumps(view(item), sort_keys=True)


def _below(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key
