"""Python functions as tools: asynchronous ones run here and are cancelled, the others in a process that can be killed."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.agent.manifest import ToolSpec
from monoize.agent.ports import ToolAway
from monoize.agent.tools import _worker
from monoize.agent.tools._capture import Capture
from monoize.agent.tools._child import Child, Limits, environment, run
from monoize.agent.tools._signature import Signature, signature
from monoize.agent.tools.mark import MARK, Marked
from monoize.agent.tools.source import MOST_BYTES, Failed, Outcome, Returned, ToolSource

__all__ = ["PythonFunctions"]

_log = logging.getLogger(__name__)
_GRACE = 0.2  # seconds in which a cancelled function has to end
_STDERR_BYTES = 16384


class _Tool(msgspec.Struct, frozen=True, kw_only=True):
    spec: ToolSpec
    function: Callable[..., Any]
    signature: Signature
    place: Mapping[str, str] | None  # where a worker finds it; None: it runs here


class PythonFunctions(ToolSource):
    """A plain function has to lie at the top of a module, where another process can find it.

    That process gets the environment that is given here, and the import path of this one.
    """

    def __init__(
        self,
        functions: Sequence[Callable[..., Any]],
        *,
        name: str = "python",
        env: Mapping[str, str] | None = None,
        inherit: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        """Raises TypeError for a function that cannot be a tool."""
        self.name = name
        self._env = environment(env or {}, inherit)
        self._limits = limits or Limits()
        self._tools = {made.spec.name: made for made in map(_made, functions)}
        if len(self._tools) != len(functions):
            raise TypeError(f"{name}: two functions have the same name")

    @override
    async def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(made.spec for made in self._tools.values())

    @override
    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        made = self._tools[name]
        if made.place is None:
            return await _called_here(made, arguments)
        return await self._called_elsewhere(made.place, arguments)

    @override
    async def aclose(self) -> None:
        return

    async def _called_elsewhere(
        self, place: Mapping[str, str], arguments: Mapping[str, Any]
    ) -> Outcome:
        order = wirejson.dumps({"path": sys.path, "place": place, "arguments": arguments})
        stdout, stderr = Capture(MOST_BYTES), Capture(_STDERR_BYTES)
        argv = [sys.executable, "-I", _worker.__file__]
        child = Child(argv, env=self._env, cwd=Path.cwd(), limits=self._limits)
        ending = await run(child, order, stdout, stderr)
        answer = stdout.whole()
        if answer is None:
            return Failed(
                code="protocol_error",
                message=f"its result has {stdout.total_bytes} bytes, at most {MOST_BYTES} are taken",
            )
        try:
            return msgspec.json.decode(answer, type=_Answer, strict=True).outcome()
        except msgspec.DecodeError:
            said = stderr.captured().marked()[-2000:]
            return Failed(
                code="transport_error", message=f"its process {ending.sentence()}\n{said}"
            )


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the worker writes."""

    value: Any = None
    code: str | None = None
    message: str = ""

    def outcome(self) -> Outcome:
        if self.code is None:
            return Returned(value=self.value)
        is_tools = self.code == "tool_error"
        return Failed(code="tool_error" if is_tools else "protocol_error", message=self.message)


def _made(function: Callable[..., Any]) -> _Tool:
    marked: Marked = getattr(function, MARK, Marked())
    written = signature(function)
    spec = ToolSpec(
        name=marked.name or function.__name__,
        description=inspect.getdoc(function) or "",
        parameters=written.parameters,
        result_schema=written.result_schema,
        pure=marked.pure,
        scope=marked.scope,
    )
    place = None if inspect.iscoroutinefunction(function) else _place(function)
    return _Tool(spec=spec, function=function, signature=written, place=place)


def _place(function: Callable[..., Any]) -> dict[str, str]:
    """How another process finds it: a module's name, or its file where the name means nothing there."""
    module = sys.modules.get(function.__module__)
    name = function.__qualname__
    if module is None or getattr(module, name, None) is not function:
        raise TypeError(
            f"{name} cannot be a tool: it has to lie at the top of its module, "
            "so that a process of its own can import it; or make it async"
        )
    file = getattr(module, "__file__", None)
    if function.__module__ != "__main__" and getattr(module, "__monoize_file__", None) is None:
        return {"module": function.__module__, "name": name}
    if file is None:
        raise TypeError(f"{name} cannot be a tool: its module has no file to import it from")
    return {"file": str(Path(file).resolve()), "name": name}


# --- in this process -----------------------------------------------------------------------------


async def _called_here(made: _Tool, arguments: Mapping[str, Any]) -> Outcome:
    try:
        values = made.signature.converted(arguments)
    except msgspec.ValidationError as error:
        return Failed(code="protocol_error", message=f"its arguments do not fit: {error}")
    try:
        value = await _cancelled_for_sure(made.function(**values), made.spec.name)
    except ToolAway:
        raise
    except Exception as error:  # noqa: BLE001 - a tool may raise whatever it likes; it is told to the model
        return Failed(code="tool_error", message=f"{type(error).__name__}: {error}")
    try:
        return Returned(value=msgspec.to_builtins(value, str_keys=True))
    except (TypeError, ValueError, RecursionError) as error:
        return Failed(code="protocol_error", message=f"its result is no JSON: {error}")


async def _cancelled_for_sure(work: Awaitable[Any], name: str) -> Any:
    """Cancelled with us, and asked again when it does not listen; what then still runs is left behind and told."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _GRACE
        while not task.done() and loop.time() < give_up:
            task.cancel()
            await asyncio.wait((task,), timeout=_GRACE / 10)
        if not task.done():
            _log.error("the tool %s does not end when it is cancelled; it still runs", name)
        elif not task.cancelled():
            task.exception()  # looked at: nobody else will
        raise
