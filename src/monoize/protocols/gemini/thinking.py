"""How hard to think: thinkingConfig <-> reasoning settings (D8, T33)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocols import _effort, _extras, _reading
from monoize.protocols.gemini.models import ALL_LEVELS, Thinking, thinking_of
from monoize.protocols.gemini.spelling import DIALECT, split
from monoize.urp import Losses, ReasoningSettings, Source
from monoize.urp.extra_body import flattened

__all__ = ["decode_thinking", "write_thinking"]

_FIELDS = frozenset({"thinkingBudget", "thinkingLevel", "includeThoughts"})
_DYNAMIC = -1  # the budget that leaves it to the model

_WORDS = {"MINIMAL": "minimum", "LOW": "low", "MEDIUM": "medium", "HIGH": "high"}
_LEVELS = {
    "minimum": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "HIGH",
    "max": "HIGH",
}


def decode_thinking(wire: Mapping[str, Any], path: str) -> ReasoningSettings:
    config, rest = split(wire, _FIELDS)
    level = config.get("thinkingLevel")
    if isinstance(level, int):  # the number of the word, as Google's JSON reader allows
        level = dict(enumerate(ALL_LEVELS, 1)).get(level)
    level = _reading.text({"thinkingLevel": level}, "thinkingLevel", path)
    budget = _reading.integer(config, "thinkingBudget", path)
    shown = _reading.boolean(config, "includeThoughts", path)
    effort = None
    if level is not None and level.upper() != "THINKING_LEVEL_UNSPECIFIED":
        effort = _WORDS.get(level.upper(), level.lower())
    off = budget == 0
    return ReasoningSettings(
        effort="none" if off else effort,
        budget=budget if budget is not None and budget >= 0 else None,
        adaptive=budget is not None and budget < 0,
        enabled=False if off else None,
        summary=None if shown is None else "auto" if shown else "none",
        extra_body=rest,
        source=Source(DIALECT, wire),
    )


def write_thinking(
    settings: ReasoningSettings, model: str, losses: Losses, *, same: bool
) -> dict[str, Any]:
    """The thinkingConfig for a model; what it cannot be told is reported."""
    if settings.source is not None and settings.source.protocol == DIALECT:
        return dict(settings.source.wire)  # as the caller asked for it: not ours to round
    extra = _extras.nested(settings.extra_body, "reasoning", losses, same=same)
    if settings.enabled is False and settings.effort not in (None, "none"):
        losses.drop("reasoning.effort")  # thinking is off: there is nothing left to put effort into
    row = thinking_of(model)
    if row.style == "none":
        if settings.effort not in (None, "none") or settings.budget or settings.adaptive:
            losses.drop("reasoning")
        return {}
    # A caller who speaks to Google in budgets is understood by newer models too: it is not our place to round.
    exact = same and settings.budget is not None
    if row.style == "level" and not exact:
        out = _as_level(settings, row, losses)
    else:
        out = _as_budget(settings, row, losses)
    if settings.summary is not None:
        out["includeThoughts"] = settings.summary != "none"
    return flattened(out, extra)


def _as_level(settings: ReasoningSettings, row: Thinking, losses: Losses) -> dict[str, Any]:
    word = settings.effort
    if settings.enabled is False or word == "none":
        # These models always think: the least is as near as it gets.
        losses.drop("reasoning.effort")
        return {"thinkingLevel": row.levels[0]}
    if word is None and settings.budget:
        word = _effort.effort_for(settings.budget)
        losses.drop("reasoning.budget")
    if word is None:
        return {}
    wanted = _LEVELS.get(word)
    if wanted is None:
        return {"thinkingLevel": word.upper()}  # a word of the provider's own survives (D8)
    level = next(
        (name for name in ALL_LEVELS[ALL_LEVELS.index(wanted) :] if name in row.levels),
        row.levels[-1],
    )
    if _WORDS[level] != word and settings.effort is not None:
        losses.drop("reasoning.effort")
    return {"thinkingLevel": level}


def _as_budget(settings: ReasoningSettings, row: Thinking, losses: Losses) -> dict[str, Any]:
    if settings.enabled is False or settings.effort == "none":
        if row.can_be_off:
            return {"thinkingBudget": 0}
        losses.drop("reasoning.effort")
        return {"thinkingBudget": row.least}
    field = "reasoning.budget"
    budget = settings.budget
    if budget is None and settings.effort is not None:
        field = "reasoning.effort"
        budget = _effort.budget_for(settings.effort)
        if budget is None:
            losses.drop(field)
    if budget is None:
        return {"thinkingBudget": _DYNAMIC} if settings.adaptive else {}
    allowed = max(budget, row.least) if row.most is None else min(max(budget, row.least), row.most)
    if allowed != budget:
        losses.drop(field)
    return {"thinkingBudget": allowed}
