"""How long to think: effort, budget and the vendor's two kinds of thinking (D8, T33)."""

from __future__ import annotations

import msgspec

from monoize.protocol import Json
from monoize.protocols._effort import EFFORTS, budget_for, effort_for
from monoize.protocols.messages.dialect import DIALECT
from monoize.protocols.messages.models import ModelFacts
from monoize.urp import Losses, ReasoningSettings, UrpRequest
from monoize.urp.extra_body import flattened

__all__ = ["Thinking", "thinking_of"]

_LEAST_BUDGET = 1024
_DEFAULT_EFFORT = "medium"  # where a caller only says: think


class Thinking(msgspec.Struct, frozen=True):
    config: Json | None = None  # the field `thinking`
    effort: str | None = None  # output_config.effort

    @property
    def active(self) -> bool:
        return self.config is not None and self.config["type"] != "disabled"


def thinking_of(
    request: UrpRequest, facts: ModelFacts, max_tokens: int, losses: Losses
) -> Thinking:
    reasoning = request.reasoning
    if reasoning is None:
        return Thinking()
    if reasoning.source is not None and reasoning.source.protocol == DIALECT:
        wire = reasoning.source.wire  # as the caller asked for it: not ours to round
        return Thinking(wire["thinking"], wire["effort"])
    same = request.origin == DIALECT
    effort = _word(reasoning.effort, facts, losses, same=same)
    if reasoning.enabled is False or reasoning.effort == "none" or reasoning.budget == 0:
        return _switched_off(facts, effort, losses)
    if _only_effort(reasoning) and same and facts.efforts:
        return Thinking(effort=effort)  # this protocol's callers may set an effort without thinking
    if not _wanted(reasoning):
        if reasoning.summary is not None:
            losses.drop("reasoning.summary")
        return Thinking()
    if not facts.thinks:
        losses.drop("reasoning")
        return Thinking()
    if _by_budget(reasoning, facts):
        config = _budgeted(reasoning, max_tokens, losses)
    else:
        effort = effort or _effort_of_budget(reasoning, facts, losses)
        config = {"type": "adaptive"}
    if config is None:
        losses.drop("reasoning")
        return Thinking(effort=effort)
    return Thinking(_displayed(config, reasoning, same=same), effort)


def _wanted(reasoning: ReasoningSettings) -> bool:
    return bool(reasoning.enabled or reasoning.adaptive or reasoning.effort or reasoning.budget)


def _only_effort(reasoning: ReasoningSettings) -> bool:
    return bool(reasoning.effort) and not (
        reasoning.enabled or reasoning.adaptive or reasoning.budget
    )


def _switched_off(facts: ModelFacts, effort: str | None, losses: Losses) -> Thinking:
    if facts.always_thinks:
        losses.drop("reasoning.enabled")
        return Thinking(effort=effort)
    return Thinking({"type": "disabled"} if facts.thinks else None, effort)


def _word(
    effort: str | None, facts: ModelFacts, losses: Losses, *, same: bool = False
) -> str | None:
    """The vendor's word for an effort, the nearest below where the model lacks it.

    The vendor's list is closed: a strange word of another protocol is left out, one of its own callers
    survives (D8).
    """
    if effort is None or effort == "none" or not facts.efforts:
        return None
    if effort in facts.efforts or (same and effort not in EFFORTS):
        return effort
    losses.drop("reasoning.effort")
    if effort not in EFFORTS:
        return None
    ranks = list(EFFORTS)
    lower = [word for word in facts.efforts if ranks.index(word) < ranks.index(effort)]
    return lower[-1] if lower else facts.efforts[0]


def _by_budget(reasoning: ReasoningSettings, facts: ModelFacts) -> bool:
    if not facts.adaptive:
        return True
    return facts.budget and (reasoning.budget or 0) > 0 and not reasoning.adaptive


def _effort_of_budget(
    reasoning: ReasoningSettings, facts: ModelFacts, losses: Losses
) -> str | None:
    """A budget for a model that takes none becomes the effort of that size."""
    if reasoning.budget is None or reasoning.budget < 0:
        return None
    losses.drop("reasoning.budget")
    return _word(effort_for(reasoning.budget), facts, Losses())


def _budgeted(reasoning: ReasoningSettings, max_tokens: int, losses: Losses) -> Json | None:
    """At least 1024 tokens and fewer than max_tokens, or no thinking at all."""
    if max_tokens <= _LEAST_BUDGET:
        return None
    if reasoning.budget is not None and reasoning.budget > 0:
        budget = min(max(reasoning.budget, _LEAST_BUDGET), max_tokens - 1)
        if budget != reasoning.budget:
            losses.drop("reasoning.budget")
    else:
        known = budget_for(reasoning.effort or _DEFAULT_EFFORT)
        if known is None:
            losses.drop("reasoning.effort")
        # the answer itself needs room too
        most = max(_LEAST_BUDGET, max_tokens - max(_LEAST_BUDGET, max_tokens // 8))
        budget = min(known or EFFORTS[_DEFAULT_EFFORT], most)
    return {"type": "enabled", "budget_tokens": budget}


def _displayed(config: Json, reasoning: ReasoningSettings, *, same: bool) -> Json:
    if same:
        return flattened(config, reasoning.extra_body)
    if reasoning.summary == "none":
        config["display"] = "omitted"
    elif reasoning.summary is not None and config["type"] == "adaptive":
        config["display"] = "summarized"  # newer models hide their thoughts unless asked
    return config
