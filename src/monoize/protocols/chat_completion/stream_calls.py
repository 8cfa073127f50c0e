"""Tool calls of a chat stream, side by side: found again by index, by id, or because they are the last (T1, T3)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Literal

from monoize import wirejson
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
    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.kind: Literal["function", "custom"] = "function"
        self.seal: Seal | None = None
        self.arguments: list[str] = []
        self.part_index: int | None = None
        self.is_closed = False
        self.has_grown = False  # since somebody last looked whether it is complete

    def is_complete(self) -> bool:
        """Whether its arguments are one whole JSON value: nothing can follow them."""
        if self.kind == "custom" or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            wirejson.loads("".join(self.arguments))
        except wirejson.JsonError:
            return False
        return True


class CallReader:
    def __init__(self, begin: Callable[[Part], tuple[int, UrpStreamEvent]], ids: IdSource) -> None:
        self._begin = begin
        self._ids = ids
        self._forget()

    def _forget(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[Any, _Call] = {}  # the last one of each index
        self._by_id: dict[str, _Call] = {}  # the first one of each id
        self._grown: list[_Call] = []  # started, and not looked at since

    def take(self, wire: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        custom = wire.get("custom")
        is_custom = isinstance(custom, dict) and not wire.get("function")
        inner = custom if is_custom else wire.get("function")
        inner = inner if isinstance(inner, dict) else {}
        call = self._found(wire, spoken(inner.get("name")))
        if is_custom or wire.get("type") == "custom":
            call.kind = "custom"
        call.id = call.id or spoken(wire.get("id"))
        self._by_id.setdefault(call.id, call)
        call.name = call.name or spoken(inner.get("name"))
        arguments = argument_text(inner.get("input" if call.kind == "custom" else "arguments"))
        seal = call_seal(wire, from_caller=False)
        if call.part_index is not None:
            yield from self._more(call, arguments, seal)
            return
        call.seal = call.seal or seal
        call.arguments += [arguments] if arguments else []
        if call.name:
            yield from self._start(call)

    def close_complete(self) -> Iterator[UrpStreamEvent]:
        """Something else begins, which callers that read one part at a time need not wait for (T14).

        Calls may grow in turns, so only one whose arguments are whole is over.
        """
        grown, self._grown = self._grown, []
        for call in sorted(grown, key=lambda call: call.number):
            call.has_grown = False
            if call.part_index is not None and call.is_complete():
                yield from self._close(call, call.part_index)

    def close(self) -> Iterator[UrpStreamEvent]:
        """The end of the choice, also of calls that never said their name."""
        for call in self._calls:
            if call.part_index is None:
                yield from self._start(call)
            if call.part_index is not None and not call.is_closed:
                yield from self._close(call, call.part_index)
        self._forget()

    @staticmethod
    def _close(call: _Call, part_index: int) -> Iterator[UrpStreamEvent]:
        call.is_closed = True
        yield PartDone(part_index=part_index)

    def _found(self, wire: Mapping[str, Any], name: str) -> _Call:
        index, call_id = wire.get("index"), spoken(wire.get("id"))
        key = index if isinstance(index, Hashable) else str(index)
        known = self._known(key, call_id, name)
        if known is None:
            known = _Call(len(self._calls))
            self._calls.append(known)
            self._by_index[key] = known
        return known

    def _known(self, key: Any, call_id: str, name: str) -> _Call | None:
        if key is not None:
            same = self._by_index.get(key)
            # some number every call 0: another id with another name begins another call
            is_other = same is not None and call_id and name and same.id not in ("", call_id)
            return None if is_other else same
        if call_id:
            return self._by_id.get(call_id)
        return self._calls[-1] if self._calls and not name else None

    def _start(self, call: _Call) -> Iterator[UrpStreamEvent]:
        yield from self.close_complete()
        part = ToolCall(
            call_id=call.id or self._ids.new("call_"),
            name=call.name,
            arguments="",
            kind=call.kind,
            seal=call.seal,
        )
        call.part_index, start = self._begin(part)
        yield start
        if call.arguments:
            self._grow(call)
            arguments = ArgumentsDelta(arguments="".join(call.arguments))
            yield Delta(part_index=call.part_index, delta=arguments)

    def _more(self, call: _Call, arguments: str, seal: Seal | None) -> Iterator[UrpStreamEvent]:
        if call.part_index is None or call.is_closed:
            return
        if arguments:
            call.arguments.append(arguments)
            self._grow(call)
            delta = ArgumentsDelta(arguments=arguments)
            yield Delta(part_index=call.part_index, delta=delta)
        if seal is not None:
            yield Delta(part_index=call.part_index, delta=SealDelta(seal=seal))

    def _grow(self, call: _Call) -> None:
        if not call.has_grown:
            call.has_grown = True
            self._grown.append(call)
