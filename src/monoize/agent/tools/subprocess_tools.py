"""Commands as tools: arguments as JSON on their input, the result as JSON or text on their output, no shell between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.agent.manifest import ToolSpec
from monoize.agent.tools._capture import Capture
from monoize.agent.tools._child import Program, run
from monoize.agent.tools.source import MOST_BYTES, Failed, Outcome, Returned, ToolSource

__all__ = ["Command", "Commands"]

_STDERR_BYTES = 16384


class Command(msgspec.Struct, frozen=True, kw_only=True):
    spec: ToolSpec
    program: Program
    output: Literal["json", "text"] = "json"


class Commands(ToolSource):
    def __init__(self, commands: Sequence[Command], *, name: str = "commands") -> None:
        self.name = name
        self._commands = tuple(commands)

    @override
    async def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(command.spec for command in self._commands)

    @override
    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        command = next(each for each in self._commands if each.spec.name == name)
        stdout, stderr = Capture(MOST_BYTES), Capture(_STDERR_BYTES)
        try:
            child = command.program.started()
        except OSError as error:
            return Failed(code="transport_error", message=f"it could not be run: {error}")
        ending = await run(child, wirejson.dumps(arguments), stdout, stderr)
        if ending.exit_code is None:  # it fell over, or never stood
            return Failed(code="transport_error", message=f"the command {ending.sentence()}")
        if ending.exit_code != 0:
            said = stderr.captured().marked().strip() or stdout.captured().marked()[-2000:]
            return Failed(code="tool_error", message=f"the command {ending.sentence()}\n{said}")
        return _text(stdout) if command.output == "text" else _json(stdout)

    @override
    async def aclose(self) -> None:
        return


def _text(stdout: Capture) -> Outcome:
    return Returned(value=stdout.captured().marked())


def _json(stdout: Capture) -> Outcome:
    answer = stdout.whole()
    if answer is None:
        return Failed(
            code="protocol_error",
            message=f"the command wrote {stdout.total_bytes} bytes, at most {MOST_BYTES} are taken as JSON",
        )
    try:
        return Returned(value=wirejson.loads(answer))
    except wirejson.JsonError as error:
        return Failed(code="protocol_error", message=f"what the command wrote is no JSON: {error}")
