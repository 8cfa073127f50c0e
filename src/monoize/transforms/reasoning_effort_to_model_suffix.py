"""Some providers sell each reasoning effort as a model of its own."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from monoize.globs import glob_matches
from monoize.transform import Config, Context, RequestTransform
from monoize.urp import UrpRequest, renamed

__all__ = ["ReasoningEffortToModelSuffix", "ReasoningEffortToModelSuffixConfig", "SuffixRule"]

_EFFORTS = ("low", "medium", "high")
_PLACE = "{effort}"


class SuffixRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models get which suffix."""

    pattern: Annotated[
        str,
        Meta(
            description="Model glob: * is any run of characters, ? exactly one.", examples=["o3*"]
        ),
    ]
    suffix: Annotated[
        str,
        Meta(
            description="Appended to the model name; {effort} becomes low, medium or high.",
            examples=["-{effort}"],
        ),
    ]


class ReasoningEffortToModelSuffixConfig(Config, frozen=True, kw_only=True):
    rules: Annotated[
        tuple[SuffixRule, ...],
        Meta(
            min_length=1,
            description="Tried in order; the first rule whose pattern matches the model counts.",
            examples=[[{"pattern": "o3*", "suffix": "-{effort}"}]],
        ),
    ]


class ReasoningEffortToModelSuffix(RequestTransform[ReasoningEffortToModelSuffixConfig]):
    """Append a suffix to the model name that says the reasoning effort: low, medium or high.

    The effort itself stays in the request.
    """

    id = "reasoning_effort_to_model_suffix"
    config = ReasoningEffortToModelSuffixConfig

    @override
    def apply(
        self, value: UrpRequest, state: None, context: Context[ReasoningEffortToModelSuffixConfig]
    ) -> UrpRequest:
        effort = None if value.reasoning is None else value.reasoning.effort
        if effort not in _EFFORTS:
            return value
        for rule in context.config.rules:  # the first match wins (REMS-3)
            if glob_matches(rule.pattern, value.model):
                suffix = rule.suffix.replace(_PLACE, effort)
                return renamed(value, value.model + suffix) if suffix else value
        return value
