"""Lenient mode: what section 4 can mend is mended before the schema judges, each time with a warning (D20).

Mended are budgets, the threshold and the list of sources where they are missing, and numbers out of range.
"""

from __future__ import annotations

from typing import Any

from monoize.reframer.codes import found
from monoize.reframer.diagnostics import subject
from monoize.reframer.finding import Notes, Path
from monoize.reframer.privacy import quoted, shown

__all__ = ["DEFAULT_THRESHOLD", "MAX_PER_TOOL", "MAX_TOTAL", "repaired"]

MAX_TOTAL = 16
MAX_PER_TOOL = 8
DEFAULT_THRESHOLD = 0.8

_CONSTRAINTS: Path = ("constraints",)
_ROUTING: Path = (*_CONSTRAINTS, "routing")
_BUDGET: Path = (*_ROUTING, "tool_budget")
_RETRIEVAL: Path = (*_ROUTING, "retrieval")


def repaired(document: Any, notes: Notes) -> Any:
    """The same document when there is nothing to mend; what has the wrong type is left as it is."""
    constraints = document.get("constraints") if isinstance(document, dict) else None
    if not isinstance(constraints, dict):
        return document
    return {**document, "constraints": _Repair(document, notes).constraints(constraints)}


class _Repair:
    def __init__(self, document: Any, notes: Notes) -> None:
        self._document = document
        self._notes = notes

    def constraints(self, raw: dict[str, Any]) -> dict[str, Any]:
        routing = raw.get("routing")
        if "routing" not in raw:
            default = {"tool_budget": _no_tools(), "retrieval": _no_sources()}
            words = f"no tools, threshold {DEFAULT_THRESHOLD}"
            routing = self._defaulted("ROUTING_DEFAULTED", _CONSTRAINTS, "routing", default, words)
        elif isinstance(routing, dict):
            routing = self._routing(routing)
        return {**raw, "routing": routing}

    def _routing(self, raw: dict[str, Any]) -> dict[str, Any]:
        out = dict(raw)
        if "tool_budget" not in raw:
            out["tool_budget"] = self._defaulted(
                "BUDGET_DEFAULTED", _ROUTING, "tool_budget", _no_tools(), "no tools"
            )
        elif isinstance(raw["tool_budget"], dict):
            out["tool_budget"] = self._tool_budget(raw["tool_budget"])
        if "retrieval" not in raw:
            words = f"threshold {DEFAULT_THRESHOLD}, no sources"
            out["retrieval"] = self._defaulted(
                "RETRIEVAL_DEFAULTED", _ROUTING, "retrieval", _no_sources(), words
            )
        elif isinstance(raw["retrieval"], dict):
            out["retrieval"] = self._retrieval(raw["retrieval"])
        return out

    def _tool_budget(self, raw: dict[str, Any]) -> dict[str, Any]:
        out = dict(raw)
        if "total" in raw:
            out["total"] = self._budget(raw["total"], (*_BUDGET, "total"), MAX_TOTAL)
        else:
            out["total"] = self._defaulted("BUDGET_DEFAULTED", _BUDGET, "total", 0, "0")
        if "per_tool" not in raw:
            out["per_tool"] = self._defaulted("BUDGET_DEFAULTED", _BUDGET, "per_tool", [], "none")
        elif isinstance(raw["per_tool"], list):
            out["per_tool"] = [self._tool(*item) for item in enumerate(raw["per_tool"])]
        return out

    def _tool(self, number: int, raw: Any) -> Any:
        path = (*_BUDGET, "per_tool", number)
        if not isinstance(raw, dict):
            return raw
        if "budget" not in raw:
            return {**raw, "budget": self._defaulted("BUDGET_DEFAULTED", path, "budget", 0, "0")}
        budget = self._budget(raw["budget"], (*path, "budget"), MAX_PER_TOOL)
        return raw if budget is raw["budget"] else {**raw, "budget": budget}

    def _budget(self, value: Any, path: Path, most: int) -> Any:
        is_integer = _is_number(value) and value == int(value)
        return self._clamped("BUDGET_CLAMPED", value, path, most) if is_integer else value

    def _retrieval(self, raw: dict[str, Any]) -> dict[str, Any]:
        out = dict(raw)
        if "precision_threshold" not in raw:
            out["precision_threshold"] = self._defaulted(
                "RETRIEVAL_DEFAULTED",
                _RETRIEVAL,
                "precision_threshold",
                DEFAULT_THRESHOLD,
                str(DEFAULT_THRESHOLD),
            )
        elif _is_number(raw["precision_threshold"]):
            path = (*_RETRIEVAL, "precision_threshold")
            value = raw["precision_threshold"]
            out["precision_threshold"] = self._clamped("THRESHOLD_CLAMPED", value, path, 1)
        if "sources" not in raw:
            code = "RETRIEVAL_DEFAULTED"
            out["sources"] = self._defaulted(code, _RETRIEVAL, "sources", [], "none")
        return out

    def _clamped(self, code: str, value: float, path: Path, most: int) -> float:
        """`value` itself when it is in range."""
        nearest = min(max(value, 0), most)
        if nearest != value:
            bound = f"exceeds limit (max={most})" if value > most else "is below limit (min=0)"
            self._notes.add(
                "warning",
                lambda: found(
                    code,
                    f"{subject(path, self._document)} {bound}: {quoted(value)} is set to {nearest}",
                    path,
                    limit=nearest,
                    value=shown(value),
                    repaired_to=nearest,
                ),
            )
            return nearest
        return value

    def _defaulted(self, code: str, path: Path, name: str, default: Any, words: str) -> Any:
        """The default itself, after a warning that says so in `words`."""
        self._notes.add(
            "warning",
            lambda: found(
                code,
                f"{subject(path, self._document)} lacks {quoted(name)}: set to {words}",
                path,
                missing=name,
                repaired_to=default,
            ),
        )
        return default


def _no_tools() -> dict[str, Any]:
    return {"total": 0, "per_tool": []}


def _no_sources() -> dict[str, Any]:
    return {"precision_threshold": DEFAULT_THRESHOLD, "sources": []}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
