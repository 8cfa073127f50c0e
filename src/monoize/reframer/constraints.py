"""Constraints as downstream reads them: defaults filled in, duplicates gone, sums checked (spec 3, 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from monoize.reframer.codes import found
from monoize.reframer.content import note_ignored
from monoize.reframer.diagnostics import subject
from monoize.reframer.finding import Finding, Notes, Path, existing
from monoize.reframer.privacy import quoted, shown
from monoize.reframer.validate import is_acceptable

__all__ = [
    "DEFAULT_TTL",
    "Constraints",
    "ContentFilter",
    "Policies",
    "Retrieval",
    "RetrievalSource",
    "Safety",
    "ToolBudget",
    "ToolLimit",
    "in_filter_order",
    "normalised",
    "note_mistakes",
]

DEFAULT_TTL = 86_400  # seconds


class ContentFilter(StrEnum):
    """The filters that exist (D21)."""

    HATE = "hate"
    HARASSMENT = "harassment"
    SELF_HARM = "self_harm"
    SEXUAL = "sexual"
    VIOLENCE = "violence"
    ILLICIT = "illicit"
    PII = "pii"
    PROMPT_INJECTION = "prompt_injection"
    PROFANITY = "profanity"


class ToolLimit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    tool_name: str
    budget: int


class ToolBudget(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    total: int
    per_tool: tuple[ToolLimit, ...]


class RetrievalSource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    source_id: str
    allow: bool
    ttl_s: int


class Retrieval(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    precision_threshold: float
    sources: tuple[RetrievalSource, ...]


class Safety(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    content_filters: tuple[ContentFilter, ...]  # a set, in the order of the enum
    requires_human_review: bool


class Policies(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    allow_copy: bool
    allow_schema_mutation: bool


class Constraints(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    tool_budget: ToolBudget
    retrieval: Retrieval
    safety: Safety
    policies: Policies


def normalised(document: Any, original: Any, notes: Notes) -> Constraints | None:
    """Of a document that the schema accepts; None: unconstrained (D50).

    `original` is the document as it was sent: a repair may have added what a path would name.
    """
    raw = document.get("constraints")
    if raw is None:
        return None
    desk = _Desk(document, original, notes)
    return Constraints(
        tool_budget=_tool_budget(raw["routing"]["tool_budget"], desk),
        retrieval=_retrieval(raw["routing"]["retrieval"], desk),
        safety=_safety(raw.get("safety", {}), desk),
        policies=_policies(raw.get("policies", {})),
    )


def note_mistakes(document: Any, original: Any, notes: Notes) -> None:
    """Of a document that the schema refuses: whatever of it is well-formed is still looked at."""
    desk = _Desk(document, original, notes)
    for path, row in _ROWS:
        part = document
        for step in path:
            part = part.get(step) if isinstance(part, dict) else None
        if part is not None and is_acceptable(".".join(path), part):
            row(part, desk)


_BUDGET = ("constraints", "routing", "tool_budget")
_RETRIEVAL = ("constraints", "routing", "retrieval")
_FILTERS = ("constraints", "safety", "content_filters")
_PER_TOOL = (*_BUDGET, "per_tool")
_SOURCES = (*_RETRIEVAL, "sources")

# What is read; the schema lets other fields pass in these objects.
_BUDGETS = frozenset({"total", "per_tool"})
_TOOL = frozenset({"tool_name", "budget"})
_POLICY = frozenset({"precision_threshold", "sources"})
_SOURCE = frozenset({"source_id", "allow", "ttl_s"})


class _Desk:
    """Where the rows put what they find."""

    def __init__(self, document: Any, original: Any, notes: Notes) -> None:
        self.document = document
        self._original = original
        self._notes = notes

    def error(
        self, code: str, sentence: Callable[[], str], path: Path, *, limit: Any, value: Any
    ) -> None:
        self._notes.add(
            "error",
            lambda: found(
                code, sentence(), existing(path, self._original), limit=limit, value=shown(value)
            ),
        )

    def ignored(self, raw: dict[str, Any], known: frozenset[str], path: Path) -> None:
        note_ignored(raw, known, path, self.document, self._notes)

    def unique(
        self, items: list[dict[str, Any]], known: frozenset[str], key: str, path: Path, code: str
    ) -> Iterator[dict[str, Any]]:
        """The first of each name; the others are dropped, and a warning says which."""
        first: dict[str, int] = {}
        for number, item in enumerate(items):
            if not item.keys() <= known:
                self.ignored(item, known, (*path, number))
            earlier = first.setdefault(item[key], number)
            if earlier == number:
                yield item
            else:
                place = (*path, number)
                self._notes.add("warning", lambda: self._dropped(code, place, item, earlier))  # noqa: B023

    def _dropped(self, code: str, place: Path, item: dict[str, Any], earlier: int) -> Finding:
        sentence = f"{subject(place, self.document)} is listed again: number {earlier + 1} counts, this one is dropped"
        dropped = {name: shown(item[name]) for name in sorted(_TOOL | _SOURCE) if name in item}
        return found(code, sentence, place, dropped=dropped)


# --- the rows of the table -----------------------------------------------------------------------


def _tool_budget(raw: dict[str, Any], desk: _Desk) -> ToolBudget:
    desk.ignored(raw, _BUDGETS, _BUDGET)
    limits = tuple(
        ToolLimit(tool_name=item["tool_name"], budget=int(item["budget"]))
        for item in desk.unique(raw["per_tool"], _TOOL, "tool_name", _PER_TOOL, "DUPLICATE_TOOL")
    )
    total, together = int(raw["total"]), sum(limit.budget for limit in limits)
    if together > total:
        desk.error(
            "BUDGET_SUM_EXCEEDS_TOTAL",
            lambda: f"Sum of per-tool budgets ({together}) exceeds total ({total})",
            (*_BUDGET, "total"),
            limit=total,
            value=together,
        )
    return ToolBudget(total=total, per_tool=limits)


def _retrieval(raw: dict[str, Any], desk: _Desk) -> Retrieval:
    desk.ignored(raw, _POLICY, _RETRIEVAL)
    sources = tuple(
        RetrievalSource(
            source_id=item["source_id"],
            allow=item["allow"],
            ttl_s=int(item.get("ttl_s", DEFAULT_TTL)),
        )
        for item in desk.unique(raw["sources"], _SOURCE, "source_id", _SOURCES, "DUPLICATE_SOURCE")
    )
    return Retrieval(precision_threshold=float(raw["precision_threshold"]), sources=sources)


_FILTER_NAMES = {name.value: name for name in ContentFilter}
_FILTER_LIST = list(_FILTER_NAMES)
_FILTER_ORDER = {name: number for number, name in enumerate(ContentFilter)}


def _safety(raw: dict[str, Any], desk: _Desk) -> Safety:
    wanted = set()
    for number, name in enumerate(raw.get("content_filters", ())):
        known = _FILTER_NAMES.get(name)
        if known is not None:
            wanted.add(known)
            continue
        desk.error(
            "UNKNOWN_CONTENT_FILTER",
            lambda: f"Content filter {quoted(name)} is unknown (known: {', '.join(_FILTER_NAMES)})",  # noqa: B023
            (*_FILTERS, number),
            limit=_FILTER_LIST,
            value=name,
        )
    return Safety(
        content_filters=in_filter_order(wanted),
        requires_human_review=raw.get("requires_human_review", False),
    )


def in_filter_order(wanted: Iterable[ContentFilter]) -> tuple[ContentFilter, ...]:
    """Each of them once."""
    return tuple(sorted(set(wanted), key=_FILTER_ORDER.__getitem__))


def _policies(raw: dict[str, Any]) -> Policies:
    return Policies(
        allow_copy=raw.get("allow_copy", True),
        allow_schema_mutation=raw.get("allow_schema_mutation", False),
    )


_ROWS: tuple[tuple[tuple[str, ...], Callable[[dict[str, Any], _Desk], Any]], ...] = (
    (_BUDGET, _tool_budget),
    (_RETRIEVAL, _retrieval),
    (_FILTERS[:-1], _safety),
)
