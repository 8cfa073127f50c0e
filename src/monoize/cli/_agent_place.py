"""Where the commands about agent runs work: the runs of a config, opened without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from monoize.agent.runs.files import RunFiles
from monoize.agent.runs.service import RunService
from monoize.agent.tools import tool_file
from monoize.agent.tools.tool_file import ToolFile
from monoize.errors import ConfigError, NotFound
from monoize.server.house import House
from monoize.server.state import State
from monoize.server.worker import Place, configure_logs, settings_for
from monoize.settings import AgentCeilings, Settings, load

__all__ = ["FILE", "found_run", "open_service", "run_files", "tool_sources", "with_tools"]

FILE = "file"  # the name under which --tools and --workspace are configured
_DEFAULT = Path("monoize.yaml")
_NO_CEILING = 2**53 - 1  # whoever has the machine needs no permission


def _file(config: Path | None) -> Path | None:
    return config if config is not None or not _DEFAULT.exists() else _DEFAULT


def run_files(config: Path | None) -> RunFiles:
    """The folder of the runs; nothing else is opened."""
    file = _file(config)
    settings = Settings() if file is None else load(file)
    folder = Path.cwd() if file is None else file.resolve().parent
    return RunFiles(folder / settings.settings.agent.folder)


def found_run(files: RunFiles, run_id: str) -> str:
    """Its whole id: the first letters, or the last, are enough where only one run has them."""
    if files.summary(run_id) is not None:
        return run_id
    if run_id == "last":
        newest = next(files.newest_first(), None)
        if newest is None:
            raise NotFound("there are no runs yet")
        return newest.row.run_id
    named = [
        one.row.run_id
        for one in files.newest_first()
        if one.row.run_id.startswith(run_id) or one.row.run_id.endswith(run_id)
    ]
    if len(named) != 1:
        problem = "several runs are" if named else "no run is"
        raise NotFound(f"{problem} called {run_id!r}; see: monoize agent list")
    return named[0]


@asynccontextmanager
async def open_service(
    config: Path | None, sources: Mapping[str, Mapping[str, Any]]
) -> AsyncIterator[tuple[RunService, State]]:
    """The gateway of this config, without its server: models are called, charged and logged as there."""
    file = _file(config)
    settings = with_tools(settings_for(Place(config=file)), sources)
    configure_logs(settings)
    folder = Path.cwd() if file is None else file.resolve().parent
    house = House(lambda: settings, folder=folder, durable=False)
    await house.start()
    try:
        agents = house.state.lasting.agents
        if agents is None:
            raise ConfigError("this config runs no agents")
        yield await agents.service(), house.state
    finally:
        await house.aclose()


def with_tools(settings: Settings, sources: Mapping[str, Mapping[str, Any]]) -> Settings:
    tuning = settings.settings
    free = AgentCeilings(
        **dict.fromkeys(AgentCeilings.__struct_fields__, _NO_CEILING) | {"max_tokens_consumed": 0}
    )
    agent = msgspec.structs.replace(
        tuning.agent, tools={**tuning.agent.tools, **sources}, ceilings=free
    )
    return msgspec.structs.replace(settings, settings=msgspec.structs.replace(tuning, agent=agent))


def tool_sources(tools: Path | None, workspace: Path | None) -> dict[str, Mapping[str, Any]]:
    """What --tools and --workspace say, with paths that mean the same everywhere."""
    if tools is None and workspace is None:
        return {}
    made = ToolFile() if tools is None else tool_file.load(tools)
    plain: dict[str, Any] = msgspec.to_builtins(made)
    base = Path.cwd() if tools is None else tools.resolve().parent
    for section, name in (("python", "file"), ("commands", "cwd"), ("mcp", "cwd")):
        for one in plain[section]:
            if one.get(name) is not None:
                one[name] = str((base / one[name]).resolve())
    if plain["workspace"] is not None:
        plain["workspace"]["folder"] = str((base / plain["workspace"]["folder"]).resolve())
    if workspace is not None:
        settings = plain["workspace"] or {}
        plain["workspace"] = {**settings, "folder": str(workspace.resolve())}
    return {FILE: {name: value for name, value in plain.items() if value}}
