"""The tools that an operator has configured, by name: over HTTP nothing else can be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from monoize import wirejson
from monoize.agent.manifest import ToolManifest
from monoize.agent.message import ToolInvocation
from monoize.agent.ports import ToolAway, Toolbox
from monoize.agent.tools import tool_file
from monoize.agent.tools.tool_file import ToolFile
from monoize.errors import ConfigError, InvalidRequest
from monoize.settings import AgentSettings

__all__ = [
    "AwayTools",
    "check_tools",
    "chosen_tools",
    "opened_tools",
    "read_source",
    "tools_for",
]

_PLACE = "settings.agent.tools"


class AwayTools(Toolbox):
    """Tools that could not be had: the run is told why, and ends as the contract says."""

    def __init__(self, code: str, reason: str) -> None:
        self._code = code
        self._reason = reason

    @override
    async def manifest(self) -> ToolManifest:
        raise ToolAway(self._code, self._reason)

    @override
    async def call(self, call: ToolInvocation, timeout_seconds: float) -> bytes:
        raise ToolAway(self._code, self._reason)

    @override
    async def aclose(self) -> None:
        return


def check_tools(configured: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises ConfigError, with the place of the mistake; nothing is started."""
    for name in configured:
        read_source(name, configured)


def tools_for(settings: AgentSettings, role: str) -> Mapping[str, Mapping[str, Any]]:
    """The sources that such a caller may name."""
    if role == "admin":
        return settings.tools
    kept = frozenset(settings.admin_tools)
    return {name: source for name, source in settings.tools.items() if name not in kept}


def chosen_tools(
    names: Sequence[str], configured: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """Each once. Raises InvalidRequest for a name that nobody has configured."""
    unknown = next((name for name in names if name not in configured), None)
    if unknown is not None:
        known = ", ".join(sorted(configured)) or "none are configured"
        raise InvalidRequest(
            f"tools: {unknown!r} is not configured here ({known}); see {_PLACE}", param="tools"
        )
    return tuple(dict.fromkeys(names))


def opened_tools(
    names: Sequence[str], configured: Mapping[str, Mapping[str, Any]], folder: Path
) -> Toolbox:
    """A toolbox for one run. Tools that are gone from the configuration, or broken, are away; never another one instead."""
    try:
        made = _together([read_source(name, configured) for name in names])
        return tool_file.opened(made, folder, _PLACE)
    except (ConfigError, InvalidRequest) as error:
        return AwayTools("tools_unavailable", error.message)


def read_source(name: str, configured: Mapping[str, Mapping[str, Any]]) -> ToolFile:
    if name not in configured:
        raise ConfigError(f"{_PLACE}.{name} is not configured any more")
    # References to the environment were looked up when the config was read.
    return tool_file.parse(wirejson.dumps(configured[name]).decode(), {}, f"{_PLACE}.{name}")


def _together(files: Sequence[ToolFile]) -> ToolFile:
    workspaces = [file.workspace for file in files if file.workspace is not None]
    if len(workspaces) > 1:
        raise InvalidRequest("tools: a run has one workspace at most", param="tools")
    return ToolFile(
        python=tuple(one for file in files for one in file.python),
        commands=tuple(one for file in files for one in file.commands),
        mcp=tuple(one for file in files for one in file.mcp),
        workspace=workspaces[0] if workspaces else None,
    )
