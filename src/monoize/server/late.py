"""Doors that are built when somebody first comes to them: what only some gateways need costs the others no time to start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from monoize.pipeline.call import Answer

__all__ = ["Door", "Late", "imported"]

Door = Callable[..., Awaitable[Answer]]


class Late:
    """A module of doors by its name: an attribute is the door of that name."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Door:
        async def door(*given: Any, **named: Any) -> Answer:
            found: Door = getattr(await imported(self._module), name)
            return await found(*given, **named)

        door.__module__, door.__qualname__ = self._module, name  # whose it is, for people and tests
        return door


# Not `sys.modules`: that has modules, too, that a thread is only half through with.
_imported: dict[str, ModuleType] = {}


async def imported(module: str) -> ModuleType:
    """On a thread: others are answered meanwhile."""
    if module not in _imported:
        _imported[module] = await asyncio.to_thread(import_module, module)
    return _imported[module]
