"""The growing output of a reply: items with their place, and the events that announce them (T5, T6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

from typing_extensions import override

from monoize.protocol import Reply
from monoize.protocols.responses.vocabulary import MINTED_REASONING
from monoize.urp import EMPTY, Message

__all__ = ["GrowingMessage", "GrowingReasoning", "Output", "Owner"]

Owner: TypeAlias = int  # the URP message that a part belongs to


class Output:
    """Numbers the events of one reply and keeps its items in the order of their beginning."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.native = False  # whether a Responses provider made this reply
        self.items: list[Mapping[str, Any]] = []
        self.headers: dict[Owner, Message] = {}
        self._events: list[dict[str, Any]] = []
        self._next_number = 0
        self._growing: list[_Growing] = []
        self._used_ids: set[str] = set()

    # --- events ---

    def emit(self, kind: str, **fields: Any) -> None:
        self._events.append({"type": kind, "sequence_number": self._next_number, **fields})
        self._next_number += 1

    def skip(self) -> None:
        """One event was written by somebody else, in place of those that wait here."""
        self._next_number += 1 - len(self._events)
        self._events = []

    def drain(self) -> list[dict[str, Any]]:
        events, self._events = self._events, []
        return events

    # --- items ---

    def add(self, item: Mapping[str, Any]) -> int:
        index = len(self.items)
        self.items.append(item)
        self.emit("response.output_item.added", output_index=index, item=item)
        return index

    def finish(self, index: int, item: Mapping[str, Any]) -> None:
        self.items[index] = item
        self.emit("response.output_item.done", output_index=index, item=item)

    def whole(self, item: Mapping[str, Any], announced: Mapping[str, Any] | None = None) -> None:
        """An item that is complete from its beginning."""
        self.retire()
        self.finish(self.add(item if announced is None else announced), item)

    def carrier(self, data: str) -> None:
        """Something sealed by another protocol's provider, in the field that callers send back unread."""
        item = {"id": self.reply.ids.new(MINTED_REASONING), "type": "reasoning", "summary": []}
        self.whole({**item, "encrypted_content": data}, announced=item)

    def item_id(self, owner: Owner, prefix: str) -> str:
        """The provider's own id where this item is the provider's, else a new one."""
        header = self.headers.get(owner)
        if self.native and header is not None and header.id and header.id not in self._used_ids:
            self._used_ids.add(header.id)
            return header.id
        return self.reply.ids.new(prefix)

    def extras(self, owner: Owner) -> Mapping[str, Any]:
        header = self.headers.get(owner)
        return header.extra_body if self.native and header is not None else EMPTY

    # --- items that may take another part ---

    def message(self, owner: Owner) -> GrowingMessage:
        last = self._growing[-1] if self._growing else None
        if isinstance(last, GrowingMessage) and last.takes(owner, self):
            return last
        self.retire()
        fresh = GrowingMessage(self, owner)
        self._growing.append(fresh)
        return fresh

    def reasoning(self, owner: Owner) -> GrowingReasoning:
        """Thoughts of one native item stay together; of other protocols each is an item, with its own seal."""
        if (last := self.open_reasoning(owner)) is not None:
            return last
        self.retire()
        fresh = GrowingReasoning(self, owner)
        self._growing.append(fresh)
        return fresh

    def open_reasoning(self, owner: Owner) -> GrowingReasoning | None:
        last = self._growing[-1] if self._growing else None
        joins = self.native and isinstance(last, GrowingReasoning) and last.takes(owner, self)
        return last if joins and isinstance(last, GrowingReasoning) else None

    def retire(self) -> None:
        """Something else begins: items without an open part are complete, others take no new part."""
        for item in self._growing:
            item.retire()
        self._growing = [item for item in self._growing if not item.finished]


class _Growing(ABC):
    """An item made of parts."""

    def __init__(self, output: Output, owner: Owner, prefix: str) -> None:
        self.output = output
        self.owner = owner
        self.id = output.item_id(owner, prefix)
        self.index = -1
        self.open_parts = 0
        self.retired = False
        self.finished = False

    def takes(self, owner: Owner, output: Output) -> bool:
        """Whether a further part of the same message may join: nothing else has begun since."""
        newest = self.index == len(output.items) - 1
        return self.owner == owner and newest and not self.retired

    def retire(self) -> None:
        self.retired = True
        if not self.open_parts and not self.finished:
            self.finish()

    def part_closed(self) -> None:
        self.open_parts -= 1
        if self.retired and not self.open_parts:
            self.finish()

    def finish(self) -> None:
        self.finished = True
        self.output.finish(self.index, self.fields())

    @abstractmethod
    def fields(self) -> dict[str, Any]: ...

    def place(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index}


class GrowingMessage(_Growing):
    def __init__(self, output: Output, owner: Owner) -> None:
        super().__init__(output, owner, "msg_")
        self._content: list[Mapping[str, Any]] = []
        self.index = output.add(self._fields("in_progress"))

    def open_part(self, part: Mapping[str, Any]) -> int:
        index = len(self._content)
        self._content.append(part)
        self.open_parts += 1
        self.output.emit(
            "response.content_part.added", **self.place(), content_index=index, part=part
        )
        return index

    def close_part(self, index: int, part: Mapping[str, Any]) -> None:
        self._content[index] = part
        self.output.emit(
            "response.content_part.done", **self.place(), content_index=index, part=part
        )
        self.part_closed()

    @override
    def fields(self) -> dict[str, Any]:
        return self._fields("completed")

    def _fields(self, status: str) -> dict[str, Any]:
        return {
            **self.output.extras(self.owner),
            "id": self.id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": list(self._content),
        }


class GrowingReasoning(_Growing):
    def __init__(self, output: Output, owner: Owner) -> None:
        super().__init__(output, owner, MINTED_REASONING)
        self.parts: dict[str, list[Mapping[str, Any]]] = {"summary": [], "content": []}
        self.sealed: Mapping[str, Any] = EMPTY  # what the provider or a carrier adds at the end
        self.index = output.add(self.fields())

    def open_part(self, field: str, part: Mapping[str, Any]) -> int:
        self.parts[field].append(part)
        self.open_parts += 1
        return len(self.parts[field]) - 1

    def close_part(self, field: str, index: int, part: Mapping[str, Any]) -> None:
        self.parts[field][index] = part
        self.part_closed()

    @override
    def fields(self) -> dict[str, Any]:
        item = {
            **self.output.extras(self.owner),
            **self.sealed,
            "id": self.id,
            "type": "reasoning",
            "summary": list(self.parts["summary"]),
        }
        if self.parts["content"]:
            item["content"] = list(self.parts["content"])
        elif "content" in item:
            item["content"] = []
        return item
