"""The system prompt is the same in every turn: let the provider remember it."""

from __future__ import annotations

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.transforms._cache_breakpoints import has_breakpoint, has_room, marked
from monoize.urp import Role, UrpRequest

__all__ = ["AutoCacheSystem"]

_INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)


class AutoCacheSystem(RequestTransform[NoConfig]):
    """Let Anthropic cache the prompt up to the last system or developer message, by marking its last part.

    Nothing happens when that message is marked already or the request has four marks. Put this rule before
    auto_cache_tool_use, so that the system prompt gets the last free mark.
    """

    id = "auto_cache_system"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        target = _last_instructions(value)
        if target is None or not has_room(value):  # ACS-4, ACS-5
            return value
        if has_breakpoint(value.messages[target]):  # ACS-6
            return value
        return marked(value, target)


def _last_instructions(request: UrpRequest) -> int | None:
    """ACS-7."""
    places = reversed(range(len(request.messages)))
    return next((n for n in places if request.messages[n].role in _INSTRUCTING), None)
