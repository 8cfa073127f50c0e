"""The steps of all names, packed into as few providers as keep every name's list in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from monoize.globs import glob_matches, is_glob
from monoize.litellm_import.deployments import Channel
from monoize.litellm_import.waterfalls import Step

__all__ = ["providers"]

_PASSED_ON = [401, 403, 404]  # LiteLLM asks the next one on these, too


class _Slot(msgspec.Struct, kw_only=True):
    """A provider in the making."""

    step: Step
    models: dict[str, str | None]  # name -> the provider's own


def _packed(waterfalls: Mapping[str, list[Step]]) -> list[_Slot]:
    """Exact names before patterns, long patterns before short ones: who is asked first is the more precise."""
    slots: list[_Slot] = []
    order = sorted(waterfalls, key=lambda name: (is_glob(name), -len(name) if is_glob(name) else 0))
    for name in order:
        place = _behind(slots, name) if is_glob(name) else 0
        for step in waterfalls[name]:
            place = _placed(slots, name, step, place) + 1
    return slots


def _placed(slots: list[_Slot], name: str, step: Step, place: int) -> int:
    for index in range(place, len(slots)):
        if slots[index].step.fits(step) and name not in slots[index].models:
            slots[index].models[name] = step.upstream
            return index
    slots.append(_Slot(step=step, models={name: step.upstream}))
    return len(slots) - 1


def _behind(slots: list[_Slot], glob: str) -> int:
    """The last provider that has one of the glob's names more precisely; the glob may stand beside it."""
    found = [
        index
        for index, slot in enumerate(slots)
        if any(is_glob(name) or glob_matches(glob, name) for name in slot.models)
    ]
    return found[-1] if found else 0


def providers(waterfalls: Mapping[str, list[Step]], retries: int | None) -> list[dict[str, Any]]:
    slots = _packed(waterfalls)
    names: set[str] = set()
    followed = [
        any(name in later.models for later in slots[index + 1 :] for name in slot.models)
        for index, slot in enumerate(slots)
    ]
    return [
        _provider(
            slot,
            _unique(
                re.sub(r"[^A-Za-z0-9.]+", "-", slot.step.vendor).strip("-") or "provider", names
            ),
            retries,
            passes_on=on,
        )
        for slot, on in zip(slots, followed, strict=True)
    ]


def _provider(slot: _Slot, id: str, retries: int | None, *, passes_on: bool) -> dict[str, Any]:  # noqa: A002
    step = slot.step
    made: dict[str, Any] = {
        "id": id,
        "type": step.type,
        "models": {
            name: {} if upstream in (None, name) else {"redirect": upstream}
            for name, upstream in slot.models.items()
        },
        "channels": list(_written(step.channels)),
    }
    if passes_on or len(step.channels) > 1:
        made["fail_forward_on"] = list(_PASSED_ON)
    if step.timeout_ms is not None:
        made["request_timeout_ms"] = step.timeout_ms
    if step.idle_ms is not None:
        made["idle_timeout_ms"] = step.idle_ms
    made |= _repeats(step.retries if step.retries is not None else retries, len(step.channels))
    if step.rules:
        made["transforms"] = [_rule(*rule) for rule in step.rules]
    return made


def _written(channels: Iterable[tuple[Channel, int, str | None]]) -> Iterator[dict[str, Any]]:
    several = list(channels)
    names: set[str] = set()
    for channel, weight, told in several:
        made: dict[str, Any] = {
            "id": _unique(told or ("main" if len(several) == 1 else "channel"), names),
            "base_url": channel.base_url,
        }
        if channel.api_key:
            made["api_key"] = channel.api_key
        if weight != 1:
            made["weight"] = weight
        if channel.headers:
            made["headers"] = dict(channel.headers)
        yield made


def _repeats(retries: int | None, channels: int) -> dict[str, Any]:
    """LiteLLM's retries draw anew among all: first the others, then the same again."""
    if retries is None:
        return {}
    others = channels - 1
    return {
        **({"max_retries": retries} if retries < others else {}),
        **({"channel_retries": retries - others} if retries > others else {}),
    }


def _rule(transform: str, path: str, value: Any) -> dict[str, Any]:
    config = {"path": path, **({"value": value} if transform == "set_field" else {})}
    return {"transform": transform, "phase": "request", "config": config}


def _unique(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}-{count}"
    taken.add(name)
    return name
