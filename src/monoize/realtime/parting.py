"""How a session ends: the code that closes the line, and the error that the caller is told before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from monoize import wirejson
from monoize.errors import MonoizeError
from monoize.realtime.mistake import Trouble, trouble_of

__all__ = [
    "ABNORMAL",
    "AWAY",
    "INTERNAL",
    "NORMAL",
    "POLICY",
    "TOO_BIG",
    "Parting",
    "error_event",
    "first_of",
    "sendable",
]

NORMAL = 1000
AWAY = 1001
POLICY = 1008
TOO_BIG = 1009
INTERNAL = 1011
ABNORMAL = 1006

_NO_CODE = 1005
# What may stand in a closing frame (RFC 6455, 7.4, and the registry it names).
_SENDABLE = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})
_OWN_CODES = range(3000, 5000)


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    code: int = NORMAL
    reason: str = ""
    trouble: Trouble | None = None  # None: the caller knows

    @classmethod
    def of(cls, error: MonoizeError, code: int) -> Parting:
        return cls(code=code, reason=error.error_code, trouble=trouble_of(error))


def sendable(code: int) -> int:
    """The same code where a closing frame may carry it; a line that died is an error of this side."""
    if code == _NO_CODE:
        return NORMAL
    return code if code in _SENDABLE or code in _OWN_CODES else INTERNAL


def error_event(trouble: Trouble, event_id: str) -> str:
    wire = {"type": "error", "event_id": event_id, "error": {**trouble.wire(), "event_id": None}}
    return wirejson.dumps(wire).decode()


async def first_of(
    works: dict[str, Coroutine[Any, Any, Parting]],
    failed: Callable[[str, BaseException], Parting],
) -> Parting:
    """What the first of them that ends has to say; the others are stopped, and waited for."""
    tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = next(task for task in tasks if task.done())
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            return failed(ended.get_name(), error)
        return ended.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
