"""Tool calls of a chat stream, side by side: found again by index, by id, or because they are the last (T1, T3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from monoize.clock import IdSource
from monoize.protocols.chat_completion.fields import spoken
from monoize.protocols.chat_completion.tools import argument_text, call_seal
from monoize.urp import (
    ArgumentsDelta,
    Delta,
    Part,
    PartDone,
    Seal,
    SealDelta,
    ToolCall,
    UrpStreamEvent,
)

__all__ = ["CallReader"]


class _Call:
    def __init__(self, key: Any) -> None:
        self.key = key
        self.id = ""
        self.name = ""
        self.kind: Literal["function", "custom"] = "function"
        self.seal: Seal | None = None
        self.waiting: list[str] = []  # arguments that came before the name
        self.part_index: int | None = None


class CallReader:
    def __init__(self, begin: Callable[[Part], tuple[int, UrpStreamEvent]], ids: IdSource) -> None:
        self._begin = begin
        self._ids = ids
        self._calls: list[_Call] = []

    def take(self, wire: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        custom = wire.get("custom")
        is_custom = isinstance(custom, dict) and not wire.get("function")
        inner = custom if is_custom else wire.get("function")
        inner = inner if isinstance(inner, dict) else {}
        call = self._found(wire, spoken(inner.get("name")))
        if is_custom or wire.get("type") == "custom":
            call.kind = "custom"
        call.id = call.id or spoken(wire.get("id"))
        call.name = call.name or spoken(inner.get("name"))
        arguments = argument_text(inner.get("input" if call.kind == "custom" else "arguments"))
        seal = call_seal(wire, from_caller=False)
        if call.part_index is not None:
            yield from self._more(call, arguments, seal)
            return
        call.seal = call.seal or seal
        call.waiting += [arguments] if arguments else []
        if call.name:
            yield from self._start(call)

    def close(self) -> Iterator[UrpStreamEvent]:
        """The end of the choice, also of calls that never said their name."""
        for call in self._calls:
            if call.part_index is None:
                yield from self._start(call)
            if call.part_index is not None:
                yield PartDone(part_index=call.part_index)
        self._calls = []

    def _found(self, wire: Mapping[str, Any], name: str) -> _Call:
        index, call_id = wire.get("index"), spoken(wire.get("id"))
        known = self._known(index, call_id, name)
        if known is None:
            known = _Call(index)
            self._calls.append(known)
        return known

    def _known(self, index: Any, call_id: str, name: str) -> _Call | None:
        if index is not None:
            same = [call for call in self._calls if call.key == index]
            # some number every call 0: another id with another name begins another call
            is_other = bool(same and call_id and name and same[-1].id not in ("", call_id))
            return None if is_other or not same else same[-1]
        if call_id:
            return next((call for call in self._calls if call.id == call_id), None)
        return self._calls[-1] if self._calls and not name else None

    def _start(self, call: _Call) -> Iterator[UrpStreamEvent]:
        part = ToolCall(
            call_id=call.id or self._ids.new("call_"),
            name=call.name,
            arguments="",
            kind=call.kind,
            seal=call.seal,
        )
        call.part_index, start = self._begin(part)
        yield start
        if call.waiting:
            arguments = ArgumentsDelta(arguments="".join(call.waiting))
            yield Delta(part_index=call.part_index, delta=arguments)

    def _more(self, call: _Call, arguments: str, seal: Seal | None) -> Iterator[UrpStreamEvent]:
        if call.part_index is None:
            return
        if arguments:
            delta = ArgumentsDelta(arguments=arguments)
            yield Delta(part_index=call.part_index, delta=delta)
        if seal is not None:
            yield Delta(part_index=call.part_index, delta=SealDelta(seal=seal))
