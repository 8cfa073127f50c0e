"""`--tools FILE`: which tools a run gets, as one YAML or JSON file with `${ENV}` references, read without running anything."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from monoize.agent.manifest import TOOL_NAME, ToolSpec
from monoize.agent.tools._child import Limits, Program
from monoize.agent.tools.mcp_tool import McpTool
from monoize.agent.tools.python_functions import PythonFunctions
from monoize.agent.tools.source import ToolSource
from monoize.agent.tools.subprocess_tools import Command, Commands
from monoize.agent.tools.toolbox import Tools
from monoize.agent.tools.workspace import Workspace, WorkspaceSettings
from monoize.errors import ConfigError
from monoize.settings.section import Section
from monoize.settings.written import text_of, too_deep, values_of

__all__ = ["ToolFile", "load", "opened", "parse", "schema"]

_Name = Annotated[str, Meta(pattern=f"^{TOOL_NAME.pattern}$")]
_Argv = Annotated[tuple[str, ...], Meta(min_length=1)]
_Scope = Literal["read", "write", "execute"]
_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_HELLO = (
    "Hello. Whoever runs a task in this workspace can read and change the files in this folder.\n"
)
_BESIDE = "__monoize_tools_file__"


class PythonSection(Section, frozen=True, kw_only=True):
    """Functions of a module, by its name or its file. The module is imported when the run begins."""

    module: str | None = None
    file: str | None = None
    functions: Annotated[tuple[str, ...], Meta(min_length=1)]
    env: Mapping[str, str] = {}
    inherit: tuple[str, ...] = ()
    limits: Limits = Limits()


class CommandSection(Section, frozen=True, kw_only=True):
    name: _Name
    description: str = ""
    argv: _Argv
    parameters: Mapping[str, Any] = msgspec.field(default_factory=lambda: _NOTHING)
    result_schema: Mapping[str, Any] | None = None
    output: Literal["json", "text"] = "json"
    pure: bool = False
    scope: _Scope = "execute"
    cwd: str = "."
    env: Mapping[str, str] = {}
    inherit: tuple[str, ...] = ()
    limits: Limits = Limits()


class McpSection(Section, frozen=True, kw_only=True):
    """A server that is started (`argv`) or asked (`url`)."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,32}$")]
    argv: _Argv | None = None
    cwd: str = "."
    env: Mapping[str, str] = {}
    inherit: tuple[str, ...] = ()
    limits: Limits = Limits()
    url: Annotated[str, Meta(pattern="^https?://")] | None = None
    headers: Mapping[str, str] = {}
    private: bool = False  # it may be on this machine, or behind an address that is not public
    only: tuple[str, ...] | None = None  # these of its tools
    tools: Mapping[str, McpTool] = {}


class WorkspaceSection(WorkspaceSettings, frozen=True, kw_only=True):
    folder: str
    create: bool = False  # the folder is made when it is first needed, with a file to try things on


class ToolFile(Section, frozen=True, kw_only=True):
    python: tuple[PythonSection, ...] = ()
    commands: tuple[CommandSection, ...] = ()
    mcp: tuple[McpSection, ...] = ()
    workspace: WorkspaceSection | None = None


def schema() -> dict[str, Any]:
    return msgspec.json.schema(ToolFile)


# --- reading -------------------------------------------------------------------------------------


def load(file: Path, environment: Mapping[str, str] | None = None) -> ToolFile:
    """Raises ConfigError, which names the place of the mistake."""
    return parse(text_of(file), os.environ if environment is None else environment, str(file))


def parse(text: str, environment: Mapping[str, str], name: str = "tools") -> ToolFile:
    raw = values_of(text, environment, name)
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}: must be a mapping: python, commands, mcp, workspace")
    try:
        made = msgspec.convert(raw, ToolFile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}") from None
    except RecursionError:
        raise too_deep(name) from None
    _check(made, name)
    return made


def _check(made: ToolFile, name: str) -> None:
    for index, functions in enumerate(made.python):
        if (functions.module is None) == (functions.file is None):
            raise ConfigError(f"{name}: $.python[{index}]: give either `module` or `file`")
    for index, server in enumerate(made.mcp):
        place = f"{name}: $.mcp[{index}] ({server.name})"
        if (server.argv is None) == (server.url is None):
            raise ConfigError(f"{place}: give either `argv` or `url`")
        missing = sorted(server.tools.keys() - set(server.only or server.tools))
        if missing:
            raise ConfigError(f"{place}.tools: {missing[0]} is not among `only`")
    names = [server.name for server in made.mcp]
    if len(set(names)) != len(names):
        raise ConfigError(f"{name}: $.mcp: two servers have the same name")


# --- opening -------------------------------------------------------------------------------------


def opened(made: ToolFile, folder: Path, name: str = "tools") -> Tools:
    """The toolbox; paths are relative to `folder`, that of the file. Raises ConfigError."""
    sources: list[ToolSource] = []
    for index, functions in enumerate(made.python):
        sources.append(_functions(functions, folder, f"{name}: $.python[{index}]"))
    if made.commands:
        sources.append(Commands([_command(command, folder) for command in made.commands]))
    sources += [_server(server, folder) for server in made.mcp]
    if made.workspace is not None:
        place = folder / made.workspace.folder
        try:
            if made.workspace.create:
                _make_workspace(place)
            sources.append(Workspace(place, made.workspace))
        except OSError as error:
            raise ConfigError(f"{name}: $.workspace.folder: {error.strerror or error}") from None
    return Tools(sources)


def _make_workspace(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        return  # somebody's own, or made before
    (place / "hello.txt").write_text(_HELLO, "utf-8")


def _functions(made: PythonSection, folder: Path, place: str) -> PythonFunctions:
    try:
        module = _imported(made, folder)
        found: list[Callable[..., Any]] = [getattr(module, each) for each in made.functions]
        return PythonFunctions(
            found,
            name=f"python {made.module or made.file}",
            env=made.env,
            inherit=made.inherit,
            limits=made.limits,
        )
    except (Exception, SystemExit) as error:
        # The module is the operator's own, and may do anything while it is imported.
        raise ConfigError(f"{place}: {type(error).__name__}: {error}") from error


def _imported(made: PythonSection, folder: Path) -> ModuleType:
    if made.module is not None:
        return importlib.import_module(made.module)
    file = (folder / (made.file or "")).resolve()
    name = f"{_BESIDE}{abs(hash(file))}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    vars(module)["__monoize_file__"] = str(file)  # its name means nothing to another process
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _command(made: CommandSection, folder: Path) -> Command:
    spec = ToolSpec(
        name=made.name,
        description=made.description,
        parameters=made.parameters,
        result_schema=made.result_schema,
        pure=made.pure,
        scope=made.scope,
    )
    return Command(spec=spec, program=_program(made.argv, made, folder), output=made.output)


def _program(argv: tuple[str, ...], made: CommandSection | McpSection, folder: Path) -> Program:
    return Program(
        argv=argv,
        cwd=(folder / made.cwd).resolve(),
        env=made.env,
        inherit=made.inherit,
        limits=made.limits,
    )


def _server(made: McpSection, folder: Path) -> ToolSource:
    # Heavy, and only where a server is configured.
    from monoize.agent.tools.mcp_server import http_server, stdio_server  # noqa: PLC0415

    if made.url is not None:
        return http_server(
            made.name,
            made.url,
            headers=made.headers,
            private=made.private,
            only=made.only,
            tools=made.tools,
        )
    program = _program(made.argv or (), made, folder)
    return stdio_server(made.name, program, only=made.only, tools=made.tools)
