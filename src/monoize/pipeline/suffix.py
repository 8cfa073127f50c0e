"""Step 3: a model name that nobody has may be a known one with its effort behind it (MSUF-1 to MSUF-6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from monoize.routing.catalog import Catalog
from monoize.urp import ReasoningSettings, UrpRequest, replace

__all__ = ["BUILT_IN_SUFFIXES", "resolved"]

# In this order; only as a suffix does `max` mean xhigh (MSUF-3, D8).
BUILT_IN_SUFFIXES: Mapping[str, str] = {
    "-none": "none",
    "-minimum": "minimum",
    "-low": "low",
    "-medium": "medium",
    "-high": "high",
    "-xhigh": "xhigh",
    "-max": "xhigh",
}
_ENDINGS = tuple(BUILT_IN_SUFFIXES)


def resolved(request: UrpRequest, catalog: Catalog, configured: Mapping[str, str]) -> UrpRequest:
    """Exact names first, then suffixes, then globs on the full name (D49)."""
    if catalog.exists(request.model):
        return request  # MSUF-2
    if not configured and not request.model.endswith(_ENDINGS):
        return request  # MSUF-6, without a look at each of them
    for suffix, effort in _suffixes(configured):
        base = request.model.removesuffix(suffix)
        if base and base != request.model and catalog.covers(base):
            return _with_effort(request, base, effort)
    return request  # MSUF-6


def _suffixes(configured: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The operator's own first, the longer before the shorter (MSUF-4)."""
    yield from sorted(configured.items(), key=lambda item: -len(item[0]))
    yield from BUILT_IN_SUFFIXES.items()


def _with_effort(request: UrpRequest, model: str, effort: str) -> UrpRequest:
    """The suffix wins over an effort, a budget or a switch that the request carried (MSUF-5, D8)."""
    before = request.reasoning or ReasoningSettings()
    # Some protocols know an effort without thinking; whoever names one in the model wants it to think.
    enabled = None if effort == "none" else True
    reasoning = replace(before, effort=effort, budget=None, adaptive=False, enabled=enabled)
    return replace(request, model=model, reasoning=reasoning)
