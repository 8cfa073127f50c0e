"""What a Claude model takes, by its name: data only, so that a new model is a new row (T33)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

import msgspec

__all__ = ["ModelFacts", "facts_of"]

_EVERY_EFFORT = ("low", "medium", "high", "xhigh", "max")


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    max_output: int  # sent as max_tokens when the caller gave none: the vendor insists on one
    adaptive: bool = False  # thinking: {type: adaptive}
    budget: bool = False  # thinking: {type: enabled, budget_tokens}
    efforts: tuple[str, ...] = ()  # words of output_config.effort, in rank order
    sampling: Literal["free", "either", "none"] = "free"  # either: temperature or top_p, not both
    schemas: bool = True  # output_config.format and strict tools
    always_thinks: bool = False  # thinking cannot be switched off

    @property
    def thinks(self) -> bool:
        return self.adaptive or self.budget


_OLD = ModelFacts(max_output=4096, schemas=False)
_NEWEST = ModelFacts(max_output=128_000, adaptive=True, efforts=_EVERY_EFFORT, sampling="none")

# The first glob that matches counts.
_TABLE: tuple[tuple[str, ModelFacts], ...] = (
    ("claude-instant*", _OLD),
    ("claude-2*", _OLD),
    ("claude-3-7-*", ModelFacts(max_output=64_000, budget=True, schemas=False)),
    ("claude-3-5-*", ModelFacts(max_output=8192, schemas=False)),
    ("claude-3-*", _OLD),
    ("claude-*-4-[789]*", _NEWEST),
    ("claude-haiku-4-5*", ModelFacts(max_output=64_000, budget=True, sampling="either")),
    ("claude-sonnet-4-5*", ModelFacts(max_output=64_000, budget=True, sampling="either")),
    (
        "claude-sonnet-4-6*",
        ModelFacts(
            max_output=64_000,
            adaptive=True,
            budget=True,
            efforts=("low", "medium", "high", "max"),
            sampling="either",
        ),
    ),
    ("claude-sonnet-4*", ModelFacts(max_output=64_000, budget=True, schemas=False)),
    ("claude-opus-4-1*", ModelFacts(max_output=32_000, budget=True, sampling="either")),
    (
        "claude-opus-4-5*",
        ModelFacts(
            max_output=64_000, budget=True, efforts=("low", "medium", "high"), sampling="either"
        ),
    ),
    (
        "claude-opus-4-6*",
        ModelFacts(
            max_output=128_000,
            adaptive=True,
            budget=True,
            efforts=("low", "medium", "high", "max"),
            sampling="either",
        ),
    ),
    ("claude-opus-4*", ModelFacts(max_output=32_000, budget=True, schemas=False)),
    ("claude-fable-*", msgspec.structs.replace(_NEWEST, always_thinks=True)),
    ("claude-mythos-*", msgspec.structs.replace(_NEWEST, always_thinks=True)),
    ("claude-haiku-5*", _NEWEST),
    ("claude-sonnet-5*", _NEWEST),
    ("claude-opus-5*", _NEWEST),
)

# A name that the table does not know gets what the vendor's description allows.
_UNKNOWN = ModelFacts(max_output=32_000, adaptive=True, budget=True, efforts=_EVERY_EFFORT)


@lru_cache(maxsize=1024)
def facts_of(model: str) -> ModelFacts:
    name = _bare_name(model)
    return next((facts for glob, facts in _TABLE if fnmatchcase(name, glob)), _UNKNOWN)


def _bare_name(model: str) -> str:
    """The vendor's own spelling of names that clouds and routers decorate: `us.anthropic.claude-…`, `anthropic/claude-haiku-4.5`."""
    name = model.lower().rpartition("/")[2].rpartition("anthropic.")[2]
    return name.replace(".", "-")
