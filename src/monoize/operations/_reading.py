"""Payloads as callers write them: the backbone is checked, everything else goes to `extra`, a mistake has a path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeVar

import msgspec

from monoize.errors import InvalidRequest
from monoize.media.ref import HttpUrl, InlineBase64, MediaRef, SmsFile
from monoize.operation import Json, Payload, Sent

__all__ = [
    "Sent",
    "VendorPayload",
    "converted",
    "read_payload",
    "references",
    "refuse",
    "split",
]

# Fields of a payload that only the gateway sets; a caller's field of that name is one of `extra`.
_OWN = frozenset({"extra", "sent", "one_by_one"})
_KINDS = ("inline_base64", "sms_file", "http_url")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_REFERENCES = (InlineBase64, SmsFile, HttpUrl)

P = TypeVar("P", bound=Payload)


class VendorPayload(Payload, frozen=True, kw_only=True):
    """A payload that vendors have endpoints for."""

    @classmethod
    def normalised(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields before they are checked, where one thing may be written in two ways."""
        return fields

    def refuse_in_envelope(self) -> None:
        """An envelope is answered with one object; raise InvalidRequest for a payload that asks for less."""
        if self.extra.get("stream"):
            refuse("payload.stream", "an envelope is answered whole; the vendor's endpoint streams")


def read_payload(cls: type[P], wire: Any) -> P:
    """The payload of an envelope. Raises InvalidRequest with the path of the mistake in `param`."""
    if not isinstance(wire, Mapping):
        refuse("payload", "must be an object")
    extra = wire.get("extra")
    if extra is not None and not isinstance(extra, Mapping):
        refuse("payload.extra", "must be an object")
    named, unknown = split(cls, wire)
    unknown.pop("extra", None)
    payload = converted(cls, named, {**unknown, **(extra or {})}, "payload.")
    if isinstance(payload, VendorPayload):
        payload.refuse_in_envelope()
    return payload


def split(cls: type[Payload], wire: Json) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the backbone, what else was written)."""
    names = frozenset(cls.__struct_fields__) - _OWN
    named = {name: value for name, value in wire.items() if name in names}
    return named, {name: value for name, value in wire.items() if name not in names}


def converted(cls: type[P], named: Json, extra: Json, prefix: str = "") -> P:
    """`prefix`: what stands before a field in the path of a mistake. null is the same as absent."""
    fields = {name: value for name, value in named.items() if value is not None}
    travels = dict(extra)
    if issubclass(cls, VendorPayload):
        fields = cls.normalised(fields)
        travels = {name: _referring(value, prefix + name) for name, value in extra.items()}
    try:
        payload = msgspec.convert(fields, cls)
    except msgspec.ValidationError as error:
        _refuse_found(str(error), prefix)
    except UnicodeError:
        raise InvalidRequest(
            f"a text of the {prefix.rstrip('.') or 'request'} is no Unicode text"
        ) from None
    return msgspec.structs.replace(payload, extra=travels)


def references(payload: Payload) -> dict[str, MediaRef]:
    """Every MediaRef of a payload by its path, those in `extra` included: a vendor's own file fields."""
    named = {name: getattr(payload, name) for name in payload.__struct_fields__ if name != "extra"}
    return dict(_found({**payload.extra, **named}))


def refuse(path: str, problem: str) -> NoReturn:
    raise InvalidRequest(f"{path}: {problem}", param=path)


def _found(fields: Json) -> Iterator[tuple[str, MediaRef]]:
    for name, value in fields.items():
        if isinstance(value, _REFERENCES):
            yield name, value
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, _REFERENCES):
                    yield f"{name}[{i}]", item


def _referring(value: Any, path: str) -> Any:
    """References that stand in `extra`, alone or in a list, are read as such: they are checked and resolved."""
    if isinstance(value, list):
        return [_reference(item, f"{path}[{i}]") for i, item in enumerate(value)]
    return _reference(value, path)


def _reference(value: Any, path: str) -> Any:
    if not isinstance(value, Mapping) or value.get("kind") not in _KINDS:
        return value
    try:
        return msgspec.convert(value, MediaRef)
    except msgspec.ValidationError as error:
        _refuse_found(str(error), path)
    except UnicodeError:
        refuse(path, "holds a text that is no Unicode text")


def _refuse_found(message: str, prefix: str) -> NoReturn:
    """From msgspec's `Expected `str`, got `int` - at `$.audio.mime``."""
    problem, _, place = message.partition(" - at `$")
    steps = place.rstrip("`")
    path = prefix + (steps if prefix and not prefix.endswith(".") else steps.removeprefix("."))
    missing = _MISSING.match(problem)
    if missing is None:
        refuse(path.rstrip("."), problem)
    dot = "." if path and not path.endswith(".") else ""
    refuse(f"{path}{dot}{missing['name']}", "is missing")
