"""Items and parts of a stream while they arrive, and how each begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.protocols.responses.content import decode_part
from monoize.urp import Part, Reasoning, Refusal, Text, ToolCall

__all__ = ["OpenItem", "OpenPart", "blank_part", "emptied", "whole_text"]


class OpenPart:
    """A part under way, with what was already said of it."""

    def __init__(self, index: int, part: Part) -> None:
        self.index = index
        self.part = part
        self.pieces: list[str] = []
        self.citations = 0
        self.has_logprobs = False
        self.closed = False

    def missing(self, whole: str) -> str:
        """What a final text has beyond the pieces; nothing where the two disagree."""
        said = "".join(self.pieces)
        return whole[len(said) :] if whole.startswith(said) else ""


class OpenItem:
    def __init__(self, wire: Mapping[str, Any], message_index: int) -> None:
        self.wire = wire
        self.message_index = message_index
        self.parts: dict[tuple[str, int], OpenPart] = {}
        self.held: list[str] = []  # arguments of a call whose name is still unknown
        self.announced = False
        self.done = False

    @property
    def kind(self) -> str:
        kind = self.wire.get("type")
        return kind if isinstance(kind, str) else "message"


def blank_part(wire: Mapping[str, Any], *, in_summary: bool) -> Part | None:
    """The beginning of a part; None for a kind that has no deltas of its own."""
    if in_summary:
        return Reasoning(content="", kind="summary")
    match wire.get("type"):
        case "output_text" | "text":
            return emptied(
                decode_part({**wire, "text": "", "annotations": [], "logprobs": []}, "part")
            )
        case "refusal":
            return Refusal(content="")
        case "reasoning_text":
            return Reasoning(content="")
        case _:
            return None


def whole_text(wire: Any) -> str:
    found = wire.get("text", wire.get("refusal")) if isinstance(wire, dict) else None
    return found if isinstance(found, str) else ""


def emptied(part: Part) -> Part:
    """The part as its PartStart shows it: without what its deltas bring."""
    match part:
        case Text():
            blank: Part = msgspec.structs.replace(
                part, content="", citations=(), logprobs=None, source=None
            )
            return blank
        case Reasoning() | Refusal():
            return msgspec.structs.replace(part, content="")
        case ToolCall():
            return msgspec.structs.replace(part, arguments="")
        case _:
            return part
