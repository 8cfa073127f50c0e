"""Tools for work on a folder of files: list, read, search, write, patch and run a command, none of them outside of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta
from typing_extensions import override

from monoize.agent.manifest import ToolSpec
from monoize.agent.tools._capture import Capture
from monoize.agent.tools._child import Child, Limits, environment, run
from monoize.agent.tools._files import Files, Stop
from monoize.agent.tools._patch import Edit
from monoize.agent.tools._search import PatternError, matcher
from monoize.agent.tools._signature import inlined
from monoize.agent.tools.jail import Jail, JailError
from monoize.agent.tools.source import Failed, Outcome, Returned, SourceAway, ToolSource
from monoize.settings.section import PositiveInt, Section

__all__ = ["Workspace", "WorkspaceSettings", "workspace_specs"]

_Path = Annotated[str, Meta(description="relative to the workspace")]
_Count = Annotated[int, Meta(ge=1)]


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class _ListFiles(_Arguments, frozen=True, kw_only=True):
    path: _Path = "."
    depth: Annotated[_Count, Meta(description="1: this folder only")] = 1


class _ReadFile(_Arguments, frozen=True, kw_only=True):
    path: _Path
    first_line: _Count = 1
    lines: _Count = 2000


class _SearchFiles(_Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(min_length=1)]
    path: _Path = "."
    regex: Annotated[bool, Meta(description="otherwise the pattern is plain text")] = False
    ignore_case: bool = False
    glob: Annotated[str | None, Meta(description="of names or paths, such as *.py")] = None


class _WriteFile(_Arguments, frozen=True, kw_only=True):
    path: _Path
    content: str


class _PatchFile(_Arguments, frozen=True, kw_only=True):
    path: _Path
    edits: Annotated[tuple[Edit, ...], Meta(min_length=1)]


class _RunCommand(_Arguments, frozen=True, kw_only=True):
    argv: Annotated[
        tuple[str, ...], Meta(min_length=1, description="the program and its arguments; no shell")
    ]
    cwd: _Path = "."
    stdin: str = ""


WorkspaceToolName: TypeAlias = Literal[
    "list_files", "read_file", "search_files", "write_file", "patch_file", "run_command"
]


class WorkspaceSettings(Section, frozen=True, kw_only=True):
    tools: tuple[WorkspaceToolName, ...] | None = None  # null: all of them
    file_bytes: PositiveInt = 8 * 1024**2  # of a file that is read or written
    # of what is read of a file, and of each of a command's two outputs
    output_bytes: PositiveInt = 256 * 1024
    entries: PositiveInt = 1000  # of a list or a search
    protected: tuple[str, ...] = (".git",)  # folders that are not written to and not searched
    env: Mapping[str, str] = {}  # of commands
    inherit: tuple[str, ...] = ()
    limits: Limits = Limits()


class _Tool(msgspec.Struct, frozen=True, kw_only=True):
    arguments: type[_Arguments]
    description: str
    scope: str

    def spec(self, name: str) -> ToolSpec:
        return ToolSpec(
            name=name,
            description=self.description,
            parameters=inlined(msgspec.json.schema(self.arguments)),
            pure=self.scope == "read",
            scope=self.scope,
        )


_TOOLS: Mapping[WorkspaceToolName, _Tool] = {
    "list_files": _Tool(
        arguments=_ListFiles, scope="read", description="Names and sizes of what a folder holds."
    ),
    "read_file": _Tool(
        arguments=_ReadFile, scope="read", description="A text file, or some of its lines."
    ),
    "search_files": _Tool(
        arguments=_SearchFiles,
        scope="read",
        description="Lines that hold a text or match a regular expression, in a file or below a folder.",
    ),
    "write_file": _Tool(
        arguments=_WriteFile,
        scope="write",
        description="Makes a file, or puts other content in place of all that it held.",
    ),
    "patch_file": _Tool(
        arguments=_PatchFile,
        scope="write",
        description="Puts new text in place of old in a file. Each old text must stand there exactly once.",
    ),
    "run_command": _Tool(
        arguments=_RunCommand,
        scope="execute",
        description="Runs a program in the workspace; gives its exit code and what it wrote.",
    ),
}
_ARGUMENTS: Mapping[str, type[_Arguments]] = {name: made.arguments for name, made in _TOOLS.items()}


def workspace_specs(settings: WorkspaceSettings) -> tuple[ToolSpec, ...]:
    """Whatever the folder."""
    offered = settings.tools
    return tuple(
        made.spec(name) for name, made in _TOOLS.items() if offered is None or name in offered
    )


class _NotWanted(Exception):
    """Raised in a thread whose caller is gone."""


class Workspace(ToolSource):
    """Commands get a home and a temporary folder of their own, which go when the source is closed."""

    def __init__(self, folder: Path, settings: WorkspaceSettings | None = None) -> None:
        """Raises OSError when there is no such folder."""
        settings = settings or WorkspaceSettings()
        self.name = f"workspace {folder.name or folder}"
        self._settings = settings
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._jail = Jail(folder)
        self._files = Files(
            self._jail,
            most_bytes=settings.file_bytes,
            most_entries=settings.entries,
            protected=settings.protected,
        )
        self._closed = False

    @override
    async def specs(self) -> tuple[ToolSpec, ...]:
        if self._closed:
            raise SourceAway("it is closed")
        return workspace_specs(self._settings)

    @override
    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        try:
            asked = msgspec.convert(dict(arguments), _ARGUMENTS[name])
        except msgspec.ValidationError as error:
            return Failed(code="protocol_error", message=f"its arguments do not fit: {error}")
        try:
            if isinstance(asked, _RunCommand):
                return Returned(value=await self._run(asked))
            return Returned(value=await _in_thread(self._work(asked)))
        except (JailError, PatternError) as error:
            return Failed(code="tool_error", message=str(error))

    @override
    async def aclose(self) -> None:
        self._closed = True
        self._jail.close()
        home, self._home = self._home, None
        if home is not None:
            await asyncio.to_thread(home.cleanup)

    def _work(self, asked: _Arguments) -> Callable[[Stop], dict[str, Any]]:
        files = self._files
        match asked:
            case _ListFiles():
                return lambda stop: files.listed(asked.path, asked.depth, stop)
            case _ReadFile():
                return lambda _: files.read(
                    asked.path, asked.first_line, asked.lines, self._settings.output_bytes
                )
            case _SearchFiles():
                matches = matcher(asked.pattern, regex=asked.regex, ignore_case=asked.ignore_case)
                return lambda stop: files.searched(asked.path, matches, asked.glob, stop)
            case _WriteFile():
                return lambda _: files.written(asked.path, asked.content)
            case _PatchFile():
                return lambda _: files.patched(asked.path, asked.edits)
            case _:
                raise AssertionError(type(asked))

    async def _run(self, asked: _RunCommand) -> dict[str, Any]:
        stdout, stderr = Capture(self._settings.output_bytes), Capture(self._settings.output_bytes)
        with self._jail.spot(asked.cwd) as spot:
            folder = spot.open_folder()
        try:
            child = self._child(asked.argv, folder)
        finally:
            os.close(folder)
        ending = await run(child, asked.stdin.encode("utf-8", "replace"), stdout, stderr)
        if ending.problem is not None:
            raise JailError(f"{asked.argv[0]} {ending.sentence()}")
        told: dict[str, Any] = {"exit_code": ending.exit_code}
        if ending.signal is not None:
            told["signal"] = ending.signal
        for what, capture in (("stdout", stdout), ("stderr", stderr)):
            captured = capture.captured()
            told[what] = captured.text
            if captured.cut or captured.replaced:
                told[f"{what}_bytes"] = captured.total_bytes
        return told

    def _child(self, argv: Sequence[str], folder: int) -> Child:
        if self._home is None:
            self._home = tempfile.TemporaryDirectory(prefix="monoize-home-")
        own = {"HOME": self._home.name, "TMPDIR": self._home.name, **self._settings.env}
        try:
            return Child(
                argv,
                env=environment(own, self._settings.inherit),
                cwd=folder,
                limits=self._settings.limits,
            )
        except (OSError, ValueError) as error:
            raise JailError(f"{argv[0]} could not be run: {error}") from None


async def _in_thread(work: Callable[[Stop], dict[str, Any]]) -> dict[str, Any]:
    """Cancelled: the thread ends at its next step, and this waits for it, so that nothing is changed afterwards."""
    unwanted = threading.Event()

    def stop() -> None:
        if unwanted.is_set():
            raise _NotWanted

    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        unwanted.set()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        task.exception()  # looked at: nobody else will
        raise
