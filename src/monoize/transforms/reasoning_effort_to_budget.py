"""Some models are told how long to think in tokens, not in words."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta
from typing_extensions import override

from monoize.transform import Config, Context, RequestTransform
from monoize.urp import UrpRequest, replace

__all__ = ["ReasoningEffortToBudget", "ReasoningEffortToBudgetConfig"]

_Tokens: TypeAlias = Annotated[int, Meta(ge=0)]


class ReasoningEffortToBudgetConfig(Config, frozen=True, kw_only=True):
    low: Annotated[_Tokens, Meta(description="Tokens for the effort low.", examples=[1024])]
    med: Annotated[_Tokens, Meta(description="Tokens for the effort medium.", examples=[4096])]
    high: Annotated[_Tokens, Meta(description="Tokens for the effort high.", examples=[16384])]
    xhigh: Annotated[
        _Tokens | None,
        Meta(
            description="Tokens for the effort xhigh; those of high when left out.",
            examples=[32768],
        ),
    ] = None
    max: Annotated[
        _Tokens | None,
        Meta(
            description="Tokens for the effort max; those of xhigh when left out.",
            examples=[65536],
        ),
    ] = None

    def budget_for(self, effort: str) -> int | None:
        """None: an effort that this table does not speak of."""
        xhigh = self.high if self.xhigh is None else self.xhigh
        table = {
            "low": self.low,
            "medium": self.med,
            "high": self.high,
            "xhigh": xhigh,
            "max": xhigh if self.max is None else self.max,
        }
        return table.get(effort)


class ReasoningEffortToBudget(RequestTransform[ReasoningEffortToBudgetConfig]):
    """Give the model a thinking budget in tokens for the reasoning effort that the caller asked for.

    The effort itself stays in the request. Efforts other than low, medium, high, xhigh and max are left alone.
    """

    id = "reasoning_effort_to_budget"
    config = ReasoningEffortToBudgetConfig

    @override
    def apply(
        self, value: UrpRequest, state: None, context: Context[ReasoningEffortToBudgetConfig]
    ) -> UrpRequest:
        reasoning = value.reasoning
        if reasoning is None or reasoning.effort is None:
            return value
        budget = context.config.budget_for(reasoning.effort)
        if budget is None or (reasoning.budget == budget and not reasoning.adaptive):
            return value
        # A model that decides by itself how long to think would not look at the budget (D6).
        return replace(value, reasoning=replace(reasoning, budget=budget, adaptive=False))
