"""Deployments of one name, and of those that stand in for it, as an ordered list of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import msgspec

from monoize.globs import is_glob
from monoize.litellm_import.deployments import Channel, Deployment
from monoize.litellm_import.report import Report, listed, section

__all__ = ["Step", "waterfalls"]

_PRECISION = 1000  # of weights
_LARGEST_WEIGHT = 10_000


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's part in the waterfall of a name."""

    vendor: str
    type: str
    upstream: str | None
    channels: tuple[tuple[Channel, int, str | None], ...]  # with weight and id
    timeout_ms: int | None
    idle_ms: int | None
    retries: int | None
    rules: tuple[tuple[str, str, Any], ...]

    def fits(self, other: Step) -> bool:
        """Whether one provider can be both, for two names."""
        return self._provider() == other._provider()

    def _provider(self) -> tuple[Any, ...]:
        """What belongs to the provider and not to the name."""
        channels = tuple((channel, weight) for channel, weight, _ in self.channels)
        return self.type, channels, self.timeout_ms, self.idle_ms, self.retries, self.rules


def waterfalls(
    deployments: Iterable[Deployment],
    router: Mapping[str, Any],
    tuning: Mapping[str, Any],
    report: Report,
) -> dict[str, list[Step]]:
    groups: dict[str, list[Deployment]] = {}
    for found in deployments:
        groups.setdefault(found.name, []).append(found)
    own = {name: _steps(name, group, report) for name, group in groups.items()}
    for alias, target, path in _aliases(router):
        if target in own:
            own[alias] = [_named(step, target) for step in own[target]]
            groups[alias] = []
        else:
            report.note(path, f"{target!r} is not among the models")
    whole = {name: list(steps) for name, steps in own.items()}
    for name, target, path in _fallbacks(router, tuning, own):
        if name not in whole or target not in own or is_glob(target):
            report.note(
                path, f"{name!r} or {target!r} is not among the models with a name of their own"
            )
        else:
            whole[name] += [_named(step, target) for step in own[target]]
    asked: dict[str, list[Step]] = {}
    for name, steps in whole.items():
        for each in groups[name][0].names if groups[name] else (name,):
            asked.setdefault(each, []).extend(steps)
    return asked


def _named(step: Step, name: str) -> Step:
    """The step, for another name: what was asked for as it is now needs saying."""
    return msgspec.structs.replace(step, upstream=step.upstream or name)


def _steps(name: str, group: list[Deployment], report: Report) -> list[Step]:
    """Deployments that differ only in address and key are channels of one provider."""
    found: dict[Any, list[Deployment]] = {}
    for one in sorted(group, key=lambda d: d.order):
        rules = repr(one.rules)  # they may hold whatever YAML can say, half a character too
        alike = (one.order, one.type, one.upstream, one.timeout_ms, one.idle_ms, one.retries, rules)
        found.setdefault(alike, []).append(one)
    if len(found) > 1 and len({one.order for one in group}) == 1:
        report.note(
            ", ".join(sorted({one.path for one in group})),
            f"{name}: calls were spread over these; here they are asked in this order, the next when one fails",
        )
    return [_step(alike) for alike in found.values()]


def _step(alike: list[Deployment]) -> Step:
    first = alike[0]
    return Step(
        vendor=first.vendor,
        type=first.type,
        upstream=first.upstream,
        channels=_channels(alike),
        timeout_ms=first.timeout_ms,
        idle_ms=first.idle_ms,
        retries=first.retries,
        rules=first.rules,
    )


def _channels(alike: list[Deployment]) -> tuple[tuple[Channel, int, str | None], ...]:
    """The same channel twice is one that is drawn twice as often."""
    told = [one.share for one in alike]
    shares = [1.0 if share is None else share for share in told] if any(told) else [1.0] * len(told)
    merged: dict[Channel, tuple[Fraction, str | None]] = {}
    for one, share in zip(alike, shares, strict=True):
        so_far, name = merged.get(one.channel, (Fraction(0), one.id))
        merged[one.channel] = (so_far + Fraction(share).limit_denominator(_PRECISION), name)
    weights = _whole([share for share, _ in merged.values()])
    return tuple(
        (channel, weight, name)
        for (channel, (_, name)), weight in zip(merged.items(), weights, strict=True)
    )


def _whole(shares: list[Fraction]) -> list[int]:
    """The smallest whole numbers of the same proportion."""
    if len(shares) == 1 or not any(shares):
        return [1] * len(shares)
    base = lcm(*(share.denominator for share in shares))
    numbers = [int(share * base) for share in shares]
    common = gcd(*numbers)
    largest = max(numbers) // common
    scale = Fraction(min(largest, _LARGEST_WEIGHT), largest)
    return [max(min(n, 1), round(n // common * scale)) for n in numbers]


def _aliases(router: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for alias, target in section(router, "model_group_alias").items():
        name = target.get("model") if isinstance(target, dict) else target
        yield str(alias), str(name), f"router_settings.model_group_alias.{alias}"


def _fallbacks(
    router: Mapping[str, Any], tuning: Mapping[str, Any], own: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Name, the name that stands in for it, and where that is said."""
    for place, told in (("router_settings", router), ("litellm_settings", tuning)):
        said: set[str] = set()
        for index, row in enumerate(listed(told, "fallbacks")):
            for name, targets in row.items() if isinstance(row, dict) else ():
                said.add(str(name))
                path = f"{place}.fallbacks[{index}].{name}"
                yield from ((str(name), target, path) for target in _targets(targets))
        for target in _targets(told.get("default_fallbacks")):
            for name in own:
                if name not in said and name != target and not is_glob(name):
                    yield name, target, f"{place}.default_fallbacks"


def _targets(value: Any) -> Iterator[str]:
    for target in value if isinstance(value, list) else ():
        yield str(target.get("model")) if isinstance(target, dict) else str(target)
