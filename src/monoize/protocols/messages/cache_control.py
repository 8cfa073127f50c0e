"""At most four cache breakpoints in a request: the vendor refuses a fifth (T37)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from monoize.protocol import Json
from monoize.urp import Losses

__all__ = ["within_limit"]

_LIMIT = 4
_FIELD = "cache_control"


def within_limit(body: Json, losses: Losses) -> Json:
    """The body with the oldest breakpoints of the conversation left out: the newest cover the longest prefix."""
    marks = sum(1 for _ in _marked(body))
    if marks <= _LIMIT:
        return body
    losses.drop(_FIELD)
    body = copy.deepcopy(body)  # blocks may be the caller's own objects
    for holder in list(_marked(body))[: marks - _LIMIT]:
        del holder[_FIELD]
    return body


def _marked(body: Json) -> Iterator[Json]:
    """Every holder of a breakpoint, the first to give up first: conversation, system, tools, the request itself."""
    for message in body["messages"]:
        yield from _holders(message.get("content"))
    yield from _holders(body.get("system"))
    yield from _holders(body.get("tools"))
    if body.get(_FIELD) is not None:
        yield body


def _holders(items: Any) -> Iterator[Json]:
    if not isinstance(items, list):
        return
    for item in items:
        if isinstance(item, dict):
            yield from _holders(item.get("content"))
            if item.get(_FIELD) is not None:
                yield item
