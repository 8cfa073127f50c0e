"""The whole Reframer as one function: a request in, its normalised form or every mistake out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.reframer.clean import clean_request
from monoize.reframer.codes import found
from monoize.reframer.constraints import note_mistakes
from monoize.reframer.finding import MAX_FINDINGS, Finding, Notes, in_document_order
from monoize.reframer.hints import TokenHint, token_hints
from monoize.reframer.normalized import (
    Drawn,
    Normalized,
    normalised_request,
    note_tag_mistakes,
)
from monoize.reframer.reader import Reading, read, read_value
from monoize.reframer.repair import repaired
from monoize.reframer.source import STRUCTURE, array_items
from monoize.reframer.tags import TagTable, tag_table
from monoize.reframer.validate import findings, is_valid
from monoize.tokenizer import TOKENIZER

__all__ = ["Counts", "Mode", "Reframed", "Refused", "batch_items", "reframe", "reframe_batch"]

Mode: TypeAlias = Literal["strict", "lenient"]
_Bytes: TypeAlias = bytes | bytearray | memoryview
_RULES = tag_table()
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MANY_COMMAS = 1_000_000  # more than any batch of requests has that people write


class Counts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What telemetry wants to know of one request."""

    messages: int
    tokens: int
    tags: dict[str, int]  # counter -> messages; unknown_protocol_tags -> tags
    tools: dict[str, int]  # tool -> messages that are tagged with it


class Reframed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    request_id: str
    normalized: Normalized
    mask_hints: tuple[TokenHint, ...]
    tokenizer: str
    warnings: tuple[Finding, ...]
    has_more_warnings: bool  # than are listed
    counts: Counts

    def reply(self) -> dict[str, Any]:
        """The API's ReframeResponse (spec 3, 6.2), ready for msgspec to write."""
        return {
            "request_id": self.request_id,
            "normalized": self.normalized,
            "mask_hints": self.mask_hints,
            "tokenizer": self.tokenizer,
            "warnings": [_warning(finding) for finding in self.warnings],
            "has_more_warnings": self.has_more_warnings,
            "counts": self.counts,
        }

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return msgspec.to_builtins(self.reply())  # type: ignore[no-any-return]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    findings: tuple[Finding, ...]  # errors, in the order of the document; there is at least one
    warnings: tuple[Finding, ...] = ()
    has_more: bool = False  # findings than are listed
    request_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The API's ValidationError: the first finding, the rest in its details (D22)."""
        first, *rest = self.findings
        body = first.as_json()
        body["details"]["diagnostics"] = [finding.as_json() for finding in rest]
        if self.warnings:
            body["details"]["warnings"] = [_warning(finding) for finding in self.warnings]
        if self.has_more:
            body["details"]["has_more"] = True
        return body


def _warning(finding: Finding) -> dict[str, Any]:
    body = finding.as_json()
    return {"code": body.pop("error_code"), **body}


def reframe(
    source: Any, *, mode: Mode = "strict", flags: TagTable = _RULES, room: int = MAX_FINDINGS
) -> Reframed | Refused:
    """Bytes are a text as it arrived, anything else is a value that was read already. `room`: for so many findings."""
    if isinstance(source, _Bytes):
        raw = bytes(source)
        drawn = clean_request(raw, flags)
        if drawn is not None:
            return _reframed(drawn)
        reading = read(raw)
    else:
        reading = read_value(source)
    return _looked_through(reading, mode, flags, Notes(room))


def _looked_through(
    reading: Reading, mode: Mode, flags: TagTable, notes: Notes
) -> Reframed | Refused:
    """The long way, on which every finding is noted."""
    if not reading.is_whole:
        return Refused(findings=reading.findings)
    notes.extend(reading.findings)
    original = reading.document
    document = repaired(original, notes) if mode == "lenient" else original
    if reading.findings or not is_valid(document):
        return _refusal(document, reading, flags, notes)
    drawn = normalised_request(document, original, flags, notes)
    if notes.errors:
        return _refused(notes, original)
    return _reframed(
        drawn, in_document_order(notes.warnings, original), has_more=notes.is_cut("warning")
    )


def _reframed(
    drawn: Drawn, warnings: tuple[Finding, ...] = (), *, has_more: bool = False
) -> Reframed:
    hints = token_hints(drawn.normalized.payload.messages, drawn.effects)
    return Reframed(
        request_id=drawn.normalized.request_id,
        normalized=drawn.normalized,
        mask_hints=hints,
        tokenizer=TOKENIZER,
        warnings=warnings,
        has_more_warnings=has_more,
        counts=Counts(
            messages=len(hints),
            tokens=hints[-1].token_range[1],
            tags=drawn.counts,
            tools=drawn.tools,
        ),
    )


def _refusal(document: Any, reading: Reading, flags: TagTable, notes: Notes) -> Refused:
    """All that can be said: what the schema refuses, and what is wrong with the parts that it accepts."""
    unread = {finding.path for finding in reading.findings if finding.code in _UNREAD}
    notes.extend(finding for finding in findings(document) if finding.path not in unread)
    note_mistakes(document, reading.document, notes)
    note_tag_mistakes(document, flags, notes)
    return _refused(notes, reading.document)


# Where these were found the document holds nothing that a schema could judge.
_UNREAD = ("JSON_NOT_A_NUMBER", "JSON_NUMBER_TOO_LARGE", "JSON_NOT_A_VALUE")


def _refused(notes: Notes, original: Any) -> Refused:
    request_id = original.get("request_id") if isinstance(original, dict) else None
    return Refused(
        findings=in_document_order(notes.errors, original),
        warnings=in_document_order(notes.warnings, original),
        has_more=notes.is_cut("error"),
        request_id=request_id if isinstance(request_id, str) and len(request_id) <= 64 else None,  # noqa: PLR2004
    )


def reframe_batch(
    source: _Bytes | Sequence[Any], *, mode: Mode = "strict", flags: TagTable = _RULES
) -> list[Reframed | Refused] | Refused:
    """Each item by itself, in order: one bad item never costs another (D25). Refused: it is no array."""
    items = batch_items(bytes(source)) if isinstance(source, _Bytes) else source
    if isinstance(items, Refused):
        return items
    return [reframe(item, mode=mode, flags=flags) for item in items]


def batch_items(raw: bytes, limit: int | None = None) -> Sequence[bytes] | Refused:
    """Cut without reading: what is wrong inside one item, its syntax even, is that item's own finding."""
    if limit is not None and raw.count(b",") > _MANY_COMMAS and _is_longer(raw, limit):
        return _too_long(limit)
    items = _cut(raw)
    if limit is not None and not isinstance(items, Refused) and len(items) > limit:
        return _too_long(limit)
    return items


def _cut(raw: bytes) -> Sequence[bytes] | Refused:
    try:
        return [bytes(item) for item in _ITEMS.decode(raw)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    items = array_items(raw.decode("utf-8", "surrogateescape"))  # an item's bytes stay its own
    if items is not None:
        return [item.encode("utf-8", "surrogateescape") for item in items]
    reading = read(raw)
    return Refused(
        findings=reading.findings
        or (found("BATCH_NOT_AN_ARRAY", "The body of a batch must be an array of requests"),)
    )


def _is_longer(raw: bytes, limit: int) -> bool:
    """Before anything is cut: ten million items of one letter would fill the memory first."""
    depth = commas = 0
    for match in STRUCTURE.finditer(raw.decode("utf-8", "surrogateescape")):
        letter = match[0]
        if letter in ("[", "{"):
            depth += 1
        elif letter in ("]", "}"):
            depth -= 1
        elif letter == "," and depth == 1:
            commas += 1
            if commas >= limit:
                return True
    return False


def _too_long(limit: int) -> Refused:
    sentence = f"The batch has more than {limit} requests"
    return Refused(findings=(found("BATCH_TOO_LONG", sentence, limit=limit),))
