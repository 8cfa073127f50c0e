"""Reasoning of chat messages: plain fields, native details, and the carriers that hold other providers' seals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from monoize import wirejson
from monoize.protocol import Json
from monoize.protocols.chat_completion.content import native_item
from monoize.protocols.chat_completion.fields import DIALECT, own_wire, source, spoken
from monoize.urp import Part, Reasoning, ReasoningEncrypted, Seal, Text
from monoize.urp.carrier import CarriedPart, CarriedSeal, unpack
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "PLAIN_KEYS",
    "TEXT_FIELDS",
    "Thoughts",
    "carrier_detail",
    "detail_of",
    "detail_part",
    "is_native_detail",
    "plain_key",
    "read_thoughts",
    "seal_fields",
    "sealed",
]

PLAIN_KEYS = ("reasoning_content", "reasoning")
TEXT_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
_CARRIER_FORMAT = "monoize-v1"
_MARKS = ("format", "id", "index")  # what makes a detail a detail, beside its text


class Thoughts(msgspec.Struct, frozen=True):
    """The reasoning of one message, and what its carriers held for other parts."""

    parts: tuple[Part, ...] = ()
    texts: tuple[Text, ...] = ()  # empty texts that exist for their seal
    seals: tuple[CarriedSeal, ...] = ()
    has_carriers: bool = False


def plain_key(message: Mapping[str, Any]) -> str | None:
    """The field that shows the reasoning as plain text; dialects differ, and some write it twice."""
    return next((key for key in PLAIN_KEYS if spoken(message.get(key))), None)


def read_thoughts(message: Mapping[str, Any], *, carriers: bool) -> Thoughts:
    """`carriers`: the message comes from a caller, whose details may be ones that we wrote."""
    parts: list[Part] = []
    texts: list[Text] = []
    seals: list[CarriedSeal] = []
    shown_already = has_carriers = False
    for detail in _details(message):
        carried = unpack(detail.get("data")) if carriers else None
        has_carriers |= carried is not None
        match carried:
            case CarriedSeal() as seal:
                seals.append(seal)
            case CarriedPart(part=Text() as text):
                texts.append(text)
            case CarriedPart(part=part):
                parts.append(part)
                shown_already = True  # the plain reasoning beside a carrier is its copy
            case None:
                native = detail_part(detail)
                parts.append(native)
                # the plain field mirrors the details (D47)
                shown_already |= isinstance(native, Reasoning) and bool(native.content)
    key = plain_key(message)
    if key is not None and not shown_already:
        shown = message[key]
        fields = {field: shown for field in PLAIN_KEYS if message.get(field) == shown}
        parts.insert(0, Reasoning(content=shown, source=source(fields)))
    return Thoughts(tuple(parts), tuple(texts), tuple(seals), has_carriers)


def _details(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    details = message.get("reasoning_details")
    if isinstance(details, list):
        yield from (detail for detail in details if isinstance(detail, dict))


def detail_part(detail: Mapping[str, Any]) -> Part:
    """One entry of `reasoning_details`."""
    kind = spoken(detail.get("type"))
    if kind == "reasoning.encrypted":
        return ReasoningEncrypted(protocol=DIALECT, data=dict(detail), source=source(detail))
    if kind not in TEXT_FIELDS:
        return native_item(detail)
    field = TEXT_FIELDS[kind]
    return Reasoning(
        content=spoken(detail.get(field)),
        kind="summary" if kind == "reasoning.summary" else "text",
        seal=sealed(detail) if spoken(detail.get("signature")) else None,
        extra_body=rest(detail, {"type", field, "signature"}),
        source=source(detail),
    )


def sealed(detail: Mapping[str, Any]) -> Seal:
    """The whole detail but its text: through a foreign caller only the seal comes back, so it must say all."""
    fields = {key: detail[key] for key in sorted(detail) if key not in TEXT_FIELDS.values()}
    return Seal(protocol=DIALECT, data=wirejson.dumps(fields).decode())


def seal_fields(seal: Seal) -> Json:
    try:
        fields = wirejson.loads(seal.data)
    except wirejson.JsonError:
        fields = None
    return fields if isinstance(fields, dict) else {"signature": seal.data}


def is_native_detail(part: Reasoning) -> bool:
    return any(mark in part.extra_body for mark in _MARKS)


def detail_of(part: Reasoning | ReasoningEncrypted) -> Json | None:
    """The native detail that a part is; None for plain reasoning and for what others sealed."""
    wire = own_wire(part)
    if isinstance(wire, dict) and spoken(wire.get("type")).startswith("reasoning."):
        return wire
    if isinstance(part, ReasoningEncrypted):
        return part.data if part.protocol == DIALECT and isinstance(part.data, dict) else None
    field = "summary" if part.kind == "summary" else "text"
    shown = {"type": f"reasoning.{field}", field: part.content}
    if part.seal is not None:
        fields = seal_fields(part.seal)
        return flattened({**shown, **fields}, part.extra_body) if _is_ours(part.seal) else None
    return flattened({**shown}, part.extra_body) if is_native_detail(part) else None


def _is_ours(seal: Seal) -> bool:
    return seal.protocol == DIALECT


def carrier_detail(carrier: str, index: int) -> Json:
    """An opaque detail: callers hand it back unread."""
    return {
        "type": "reasoning.encrypted",
        "data": carrier,
        "format": _CARRIER_FORMAT,
        "index": index,
    }
