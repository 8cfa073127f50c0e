"""Settings that may be changed while the program runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from monoize.errors import InvalidRequest, NotFound
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body, Deleted
from monoize.server.state import State
from monoize.store import settings

__all__ = ["ENDPOINTS"]

_LONGEST_MAP = 1000


class SettingView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: Any  # as it was set here; null: it was not
    effective: Any  # what holds, together with the config file


class SettingList(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[SettingView]


class NewSetting(Body, frozen=True, kw_only=True):
    value: Any


class _Known(msgspec.Struct, frozen=True):
    checked: Callable[[Any], Any]
    effective: Callable[[State], Any]


def _suffixes(value: Any) -> dict[str, str]:
    """Suffix of a model's name -> effort (MSUF-3)."""
    try:
        found = msgspec.convert(value, dict[str, str])
    except msgspec.ValidationError as error:
        raise InvalidRequest(
            f"value must map suffixes to efforts: {error}", param="value"
        ) from None
    if len(found) > _LONGEST_MAP:
        raise InvalidRequest("value is too long", param="value")
    if not all(suffix.strip() and effort.strip() for suffix, effort in found.items()):
        raise InvalidRequest("neither a suffix nor its effort may be empty", param="value")
    return found


_KNOWN: Mapping[str, _Known] = {
    "reasoning_suffix_map": _Known(_suffixes, lambda state: dict(state.kit.suffixes)),
}


@endpoint("GET", "/api/settings", role="admin", answer=SettingList)
async def list_settings(context: Context, given: Given[None, None]) -> SettingList:
    """Every setting that may be changed here, with what holds."""
    del given
    stored = await context.read(settings.everything)
    return SettingList(data=[_view(context.state, name, stored.get(name)) for name in _KNOWN])


@endpoint("PUT", "/api/settings/{name}", role="admin", body=NewSetting, answer=SettingView)
async def put_setting(context: Context, given: Given[None, NewSetting]) -> SettingView:
    """Set it; where the config file says otherwise, the file wins."""
    name = given.path["name"]
    value = _known(name).checked(given.body.value)
    await context.write(
        partial(settings.put, name=name, value=value, actor=context.actor, now=context.now)
    )
    return _view(context.house.state, name, value)


@endpoint("DELETE", "/api/settings/{name}", role="admin", answer=Deleted)
async def delete_setting(context: Context, given: Given[None, None]) -> Deleted:
    """Take it back; the config file's value or the default holds again."""
    name = given.path["name"]
    _known(name)
    await context.write(partial(settings.delete, name=name, actor=context.actor, now=context.now))
    return Deleted(id=name)


def _known(name: str) -> _Known:
    found = _KNOWN.get(name)
    if found is None:
        raise NotFound(f"there is no setting {name!r}; known are {', '.join(_KNOWN)}")
    return found


def _view(state: State, name: str, value: Any) -> SettingView:
    return SettingView(name=name, value=value, effective=_KNOWN[name].effective(state))


ENDPOINTS = (list_settings, put_setting, delete_setting)
