"""Form fields <-> values: brackets are lists and objects, texts are read as what a field wants to be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from monoize.media.blob import Blob
from monoize.operation import Json, Multipart
from monoize.operations._reading import Sent, refuse

__all__ = ["flattened", "form_of", "read_texts", "resent", "unformed"]

Kinds: TypeAlias = Mapping[str, type[int] | type[float] | type[bool]]

_BRACKETS = re.compile(r"^(?P<name>[^\[\]]+)\[(?P<key>[^\[\]]*)\]$")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def unformed(fields: Json) -> dict[str, Any]:
    """`a[]` is a list, `a[b]` a member of an object; every value stays the text that it was."""
    read: dict[str, Any] = {}
    for name, value in fields.items():
        match = _BRACKETS.match(name)
        if match is None:
            read[name] = value
        elif match["key"]:
            members = read.setdefault(match["name"], {})
            if not isinstance(members, dict):
                refuse(name, f"{match['name']} is given twice, in two shapes")
            members[match["key"]] = value
        else:
            read[match["name"]] = list(value) if isinstance(value, list | tuple) else [value]
    return read


def read_texts(fields: dict[str, Any], kinds: Kinds) -> dict[str, Any]:
    """With the fields that `kinds` names as numbers and truths; empty texts are absent ones."""
    read = dict(fields)
    for name, kind in kinds.items():
        value = read.get(name)
        if isinstance(value, str):
            text = value.strip()
            if text:
                read[name] = _read(name, text, kind)
            else:
                del read[name]
    return read


def _read(name: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text.lower() not in _TRUTH:
            refuse(name, f"must be true or false, not {text[:40]!r}")
        return _TRUTH[text.lower()]
    try:
        return kind(text)
    except ValueError:
        refuse(name, f"must be a number, not {text[:40]!r}")


def flattened(name: str, value: Any) -> Iterator[tuple[str, str | Blob]]:
    """One value as the form fields that OpenAI's own packages make of it; null is left out."""
    match value:
        case None:
            return
        case Blob() | str():
            yield name, value
        case bool():
            yield name, "true" if value else "false"
        case Mapping():
            for key, item in value.items():
                yield from flattened(f"{name}[{key}]", item)
        case list() | tuple():
            for item in value:
                yield from flattened(f"{name}[]", item)
        case _:
            yield name, str(value)


def form_of(values: Mapping[str, Any]) -> Multipart:
    pairs = (pair for name, value in values.items() for pair in flattened(name, value))
    return Multipart(fields=tuple((name, _writable(name, value)) for name, value in pairs))


def resent(sent: Sent, model: str, media: Mapping[str, Blob]) -> Multipart:
    """The caller's own form with the provider's name of the model."""
    fields: list[tuple[str, str | Blob]] = []
    for name, value in {**sent.fields, "model": model}.items():
        values = value if isinstance(value, list | tuple) else (value,)
        fields += [(name, _writable(name, item)) for item in values]
    fields += [(name, media[key]) for name, key in sent.files]
    return Multipart(fields=tuple(fields))


def _writable(name: str, value: str | Blob) -> str | Blob:
    """A form is UTF-8, and half an emoji has none."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            refuse(name, "holds half a character (a lone surrogate)")
    return value
