"""Cache breakpoints: where a request already has one, how many, and how another one is set (DEF-1 to DEF-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.urp import Message, Part, ProviderItem, UrpRequest, replace

__all__ = ["breakpoint_count", "has_breakpoint", "has_room", "marked"]

_LIMIT = 4  # DEF-3
_FIELD = "cache_control"


def breakpoint_count(request: UrpRequest) -> int:
    """DEF-2."""
    return sum(_is_breakpoint(part) for message in request.messages for part in message.parts)


def has_room(request: UrpRequest) -> bool:
    return breakpoint_count(request) < _LIMIT


def has_breakpoint(message: Message) -> bool:
    return any(_is_breakpoint(part) for part in message.parts)


def marked(request: UrpRequest, index: int) -> UrpRequest:
    """The request with a breakpoint on the last part of one message; without parts there is nothing to mark."""
    message = request.messages[index]
    if not message.parts:
        return request
    last = message.parts[-1]
    part = replace(last, extra_body={**last.extra_body, _FIELD: _ephemeral()})
    changed = replace(message, parts=(*message.parts[:-1], part))
    messages = (*request.messages[:index], changed, *request.messages[index + 1 :])
    return replace(request, messages=messages)


def _ephemeral() -> dict[str, Any]:
    """DEF-5; a fresh object each time, so that no two requests share one."""
    return {"type": "ephemeral"}


def _is_breakpoint(part: Part) -> bool:
    """DEF-1. A native item keeps all its fields in its body, so that is where its mark stands."""
    if _FIELD in part.extra_body:
        return True
    return isinstance(part, ProviderItem) and isinstance(part.body, Mapping) and _FIELD in part.body
