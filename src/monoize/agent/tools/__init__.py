"""Where a run's tools come from: functions, commands, MCP servers and a workspace, behind one manifest."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from monoize.agent.tools.mark import tool

if TYPE_CHECKING:
    from monoize.agent.tools.python_functions import PythonFunctions
    from monoize.agent.tools.source import Failed, Outcome, Returned, SourceAway, ToolSource
    from monoize.agent.tools.toolbox import Tools

__all__ = [
    "Failed",
    "Outcome",
    "PythonFunctions",
    "Returned",
    "SourceAway",
    "ToolSource",
    "Tools",
    "tool",
]

# Imported when they are asked for: a module of functions wants `tool` only, in a process that lives for one call.
_PLACES = {"PythonFunctions": "python_functions", "Tools": "toolbox"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    module = importlib.import_module(f"{__name__}.{_PLACES.get(name, 'source')}")
    return getattr(module, name)
