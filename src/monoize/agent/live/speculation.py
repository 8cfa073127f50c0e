"""Calls begun while the model is still speaking: taken when the reply asks for that very call, thrown away otherwise (V2.1).

Only tools without side effects, and only within what the contract would allow anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from monoize.agent.boundary.local_syntax import LocalCall
from monoize.agent.machine.budgets import time_left_ms
from monoize.agent.machine.calls import judged
from monoize.agent.machine.run_state import RunState
from monoize.agent.message import ToolInvocation
from monoize.agent.ports import Toolbox

__all__ = ["Speculation"]

# A call has no id before the adapter gives it one: they meet by their place in the reply.
_Place: TypeAlias = tuple[int, str, str]


class Speculation:
    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._begun: dict[_Place, tuple[ToolInvocation, asyncio.Task[bytes]]] = {}

    @property
    def is_idle(self) -> bool:
        return not self._begun

    def begin(self, state: RunState, position: int, found: LocalCall) -> None:
        """Where the contract wants it and the call would be allowed after those begun before it."""
        contract, spec = state.terms.contract, state.terms.manifest.get(found.name)
        if not contract.speculative_exec or spec is None or not spec.pure:
            return
        if len(self._begun) < position:
            return  # one before it in the reply runs in its turn, and this one must see what that did
        call = ToolInvocation(
            id=f"ahead-{position}",
            name=found.name,
            arguments=found.arguments,
            source_model=contract.model,
            raw_arguments=found.raw_arguments,
        )
        earlier = tuple(begun for begun, _ in self._begun.values())
        place = _place(position, call)
        if place in self._begun or judged(state, (*earlier, call)) is not None:
            return
        work = self._toolbox.call(call, time_left_ms(state) / 1000)
        self._begun[place] = (call, asyncio.ensure_future(work))

    async def envelope(self, position: int, call: ToolInvocation, seconds: float) -> bytes:
        """Of the call that was begun ahead, made out to its true id; else of one that is begun now."""
        begun = self._begun.pop(_place(position, call), None)
        if begun is None:
            return await self._toolbox.call(call, seconds)
        ahead, task = begun
        return _renamed(await task, ahead.id, call.id)

    def keep_only(self, calls: Mapping[int, ToolInvocation]) -> list[asyncio.Task[bytes]]:
        """What nobody asks for any more is stopped; whoever calls waits for its end."""
        if self.is_idle:
            return []
        wanted = {_place(position, call) for position, call in calls.items()}
        dropped = [self._begun.pop(place)[1] for place in list(self._begun) if place not in wanted]
        for task in dropped:
            task.cancel()
        return dropped


def _place(position: int, call: ToolInvocation) -> _Place:
    return position, call.name, call.raw_arguments.strip()


def _renamed(envelope: bytes, before: str, after: str) -> bytes:
    try:
        fields = msgspec.json.decode(envelope)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return envelope  # no envelope at all, which is for others to say
    if not isinstance(fields, dict) or fields.get("tool_call_id") != before:
        return envelope
    return msgspec.json.encode({**fields, "tool_call_id": after})
