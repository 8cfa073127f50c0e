"""What a caller may name as tools, told from the configuration alone: nothing is started or imported for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from monoize.agent.runs.configured_tools import read_source
from monoize.agent.tools.tool_file import McpSection, ToolFile
from monoize.agent.tools.workspace import workspace_specs

__all__ = ["OfferedSource", "OfferedTool", "offered_tools"]


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """None: only the tool itself knows, and it is asked when a run begins."""

    name: str
    description: str | None = None
    scope: str | None = None
    pure: bool | None = None


class OfferedSource(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # to be named in `tools` of a run
    kinds: tuple[str, ...]  # python, commands, mcp, workspace
    folder: str | None = None  # of its workspace, as the operator wrote it; for admins
    complete: bool = True  # False: its servers say when a run begins what else they have
    tools: tuple[OfferedTool, ...]


def offered_tools(
    configured: Mapping[str, Mapping[str, Any]], *, folders: bool
) -> tuple[OfferedSource, ...]:
    return tuple(_source(name, read_source(name, configured), folders) for name in configured)


def _source(name: str, file: ToolFile, folders: bool) -> OfferedSource:
    workspace = file.workspace
    return OfferedSource(
        name=name,
        kinds=tuple(kind for kind in ToolFile.__struct_fields__ if getattr(file, kind)),
        folder=workspace.folder if folders and workspace is not None else None,
        complete=all(server.only is not None for server in file.mcp),
        tools=tuple(_tools(file)),
    )


def _tools(file: ToolFile) -> Iterator[OfferedTool]:
    for module in file.python:
        for function in module.functions:
            yield OfferedTool(name=function)
    for one in file.commands:
        yield OfferedTool(
            name=one.name, description=one.description, scope=one.scope, pure=one.pure
        )
    for server in file.mcp:
        yield from _of_server(server)
    for spec in () if file.workspace is None else workspace_specs(file.workspace):
        yield OfferedTool(
            name=spec.name, description=spec.description, scope=spec.scope, pure=spec.pure
        )


def _of_server(server: McpSection) -> Iterator[OfferedTool]:
    for name in server.only if server.only is not None else server.tools:
        said = server.tools.get(name)
        yield OfferedTool(
            name=f"{server.name}__{(said and said.rename) or name}",
            scope="execute" if said is None else said.scope,
            pure=said is not None and said.pure,
        )
