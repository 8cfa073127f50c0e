"""Sealed things on their way through a protocol that has no place for them.

A provider's seal must come back on the next turn, but the caller speaks another protocol and Monoize keeps
no state (URP-8). So the sealed part rides in whatever opaque field the caller's protocol hands back unread:
a thinking signature, an encrypted_content, a thoughtSignature, a reasoning_details entry. It is base64 with a
fixed beginning (Google's client insists on base64), complete in itself, and compressed.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any, TypeAlias

import msgspec

from monoize import wirejson
from monoize.urp.message import Reasoning, ReasoningEncrypted, Seal, Text, ToolCall

__all__ = [
    "Carried",
    "CarriedPart",
    "CarriedSeal",
    "is_carrier",
    "pack_part",
    "pack_seal",
    "unpack",
]

_MAGIC = b"monoize1:"  # nine bytes, so that every carrier begins with the same twelve letters
_PREFIX = base64.b64encode(_MAGIC).decode()
_PLAIN_ALPHABET = str.maketrans("-_", "+/")
_LIMIT = 16 * 1024**2  # what a carrier may grow to; a forged one must not fill the memory


class CarriedPart(msgspec.Struct, frozen=True):
    """A whole part: put it in place of the carrier. Plain reasoning shown beside it is its copy."""

    part: Reasoning | ReasoningEncrypted | Text


class CarriedSeal(msgspec.Struct, frozen=True):
    """A seal that belongs to a call (by its id), or to the text before the carrier (`call_id` is None)."""

    seal: Seal
    call_id: str | None = None


Carried: TypeAlias = CarriedPart | CarriedSeal


def pack_part(part: Reasoning | ReasoningEncrypted | Text) -> str:
    """A carrier that holds the part itself; a Text only when it is empty and exists for its seal."""
    match part:
        case Reasoning(seal=Seal() as seal):
            return _pack(["reasoning", seal.protocol, seal.data, part.content, part.kind])
        case Reasoning():
            return _pack(["reasoning", "", "", part.content, part.kind])
        case ReasoningEncrypted():
            return _pack(["encrypted", part.protocol, part.data])
        case Text(seal=Seal() as seal):
            return _pack(["text", seal.protocol, seal.data, part.content])
        case _:
            raise ValueError("a text without a seal needs no carrier")


def pack_seal(owner: ToolCall | Text) -> str:
    """A carrier for the seal of a part that travels visibly beside it."""
    if owner.seal is None:
        raise ValueError("no seal to carry")
    call_id = owner.call_id if isinstance(owner, ToolCall) else None
    return _pack(["seal", owner.seal.protocol, owner.seal.data, call_id])


def is_carrier(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_PREFIX)


def unpack(value: Any) -> Carried | None:
    """What a carrier holds, or None when the value is none (it is then the provider's own)."""
    if not is_carrier(value):
        return None
    try:
        # Google's client hands base64 back in the alphabet for URLs, sometimes without its padding.
        plain = value.rstrip("=").translate(_PLAIN_ALPHABET)
        packed = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)[len(_MAGIC) :]
        inflater = zlib.decompressobj()
        fields = wirejson.loads(inflater.decompress(packed, _LIMIT))
        return _carried(fields)
    except (binascii.Error, zlib.error, wirejson.JsonError, ValueError, TypeError, IndexError):
        return None


def _pack(fields: list[Any]) -> str:
    return base64.b64encode(_MAGIC + zlib.compress(wirejson.dumps(fields), 6)).decode()


def _carried(fields: list[Any]) -> Carried | None:
    match fields:
        case ["reasoning", "", "", str(content), "text" | "summary" as kind]:
            return CarriedPart(Reasoning(content=content, kind=kind))
        case ["reasoning", str(protocol), str(data), str(content), "text" | "summary" as kind]:
            seal = Seal(protocol=protocol, data=data)
            return CarriedPart(Reasoning(content=content, kind=kind, seal=seal))
        case ["encrypted", str(protocol), data]:
            return CarriedPart(ReasoningEncrypted(protocol=protocol, data=data))
        case ["text", str(protocol), str(data), str(content)]:
            return CarriedPart(Text(content=content, seal=Seal(protocol=protocol, data=data)))
        case ["seal", str(protocol), str(data), None | str() as call_id]:
            return CarriedSeal(Seal(protocol=protocol, data=data), call_id)
        case _:
            return None
