"""At most four cache breakpoints in a request: the vendor refuses a fifth (T37)."""

from __future__ import annotations

import copy
from typing import Any

from monoize.protocol import Json
from monoize.urp import Losses

__all__ = ["within_limit"]

_LIMIT = 4
_FIELD = "cache_control"


def within_limit(body: Json, losses: Losses) -> Json:
    """The body with the oldest breakpoints of the conversation left out: the newest cover the longest prefix."""
    marks = len(_marked(body))
    if marks <= _LIMIT:
        return body
    losses.drop(_FIELD)
    body = copy.deepcopy(body)  # blocks may be the caller's own objects
    for holder in _marked(body)[: marks - _LIMIT]:
        del holder[_FIELD]
    return body


def _marked(body: Json) -> list[Json]:
    """Every holder of a breakpoint, the first to give up first: conversation, system, tools, the request itself."""
    found: list[Json] = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, list):
            _gather(content, found)
    _gather(body.get("system"), found)
    _gather(body.get("tools"), found)
    if body.get(_FIELD) is not None:
        found.append(body)
    return found


def _gather(items: Any, found: list[Json]) -> None:
    if not isinstance(items, list):
        return
    for item in items:
        if isinstance(item, dict):
            _gather(item.get("content"), found)
            if item.get(_FIELD) is not None:
                found.append(item)
