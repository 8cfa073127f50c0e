"""One step of a session while it is being taken: the state so far, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, TypeVar

import msgspec

from monoize.realtime.config import Format, SessionConfig
from monoize.realtime.items import Item, item_wire
from monoize.realtime.mistake import Mistake
from monoize.realtime.state import Effect, Reply, Send, State, Transcribe, Turn

__all__ = ["REPLIES", "TURNS", "Scene", "diagrams"]

S = TypeVar("S", bound=Enum)

_MOST_UNHEARD = 16  # recordings

# Every way that the two machines of a session may go, and no other.
TURNS: Mapping[tuple[Turn, str], Turn] = {
    (Turn.QUIET, "speech started"): Turn.TALKING,
    (Turn.TALKING, "speech stopped"): Turn.QUIET,
    (Turn.TALKING, "buffer committed"): Turn.QUIET,
    (Turn.TALKING, "buffer cleared"): Turn.QUIET,
    (Turn.TALKING, "detection changed"): Turn.QUIET,
}
REPLIES: Mapping[tuple[Reply, str], Reply] = {
    (Reply.IDLE, "asked"): Reply.HEARING,
    (Reply.HEARING, "heard"): Reply.THINKING,
    (Reply.HEARING, "nothing heard"): Reply.IDLE,
    (Reply.HEARING, "cancelled"): Reply.IDLE,
    (Reply.HEARING, "failed"): Reply.IDLE,
    (Reply.THINKING, "thought"): Reply.SPEAKING,
    (Reply.THINKING, "cancelled"): Reply.IDLE,
    (Reply.THINKING, "failed"): Reply.IDLE,
    (Reply.SPEAKING, "spoken"): Reply.IDLE,
    (Reply.SPEAKING, "cancelled"): Reply.IDLE,
    (Reply.SPEAKING, "failed"): Reply.IDLE,
}


def diagrams() -> tuple[str, str]:
    """The tables as mermaid diagrams; docs/realtime.md holds exactly these."""
    return _diagram(TURNS, Turn.QUIET), _diagram(REPLIES, Reply.IDLE)


def _diagram(table: Mapping[tuple[S, str], S], first: S) -> str:
    arrows = (f"    {old.value} --> {new.value}: {signal}" for (old, signal), new in table.items())
    return "\n".join(("stateDiagram-v2", f"    [*] --> {first.value}", *arrows))


class Scene:
    """Lives as long as one step; whoever looks from outside sees values in and values out."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.effects: list[Effect] = []

    def put(self, **changes: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)

    def do(self, effect: Effect) -> None:
        self.effects.append(effect)

    def new_id(self, prefix: str) -> str:
        """Unique in this session, whatever ids the caller has made up; and in all others, by the seed."""
        taken = {item.id for item in self.state.items} if prefix == "item_" else set()
        while True:
            self.put(count=self.state.count + 1)
            made = f"{prefix}{self.state.seed}{self.state.count:05d}"
            if made not in taken:
                return made

    def tell(self, kind: str, **fields: Any) -> None:
        self.do(Send({"type": kind, "event_id": self.new_id("event_"), **fields}))

    def tell_mistake(self, mistake: Mistake, event_id: str | None) -> None:
        error = {
            "type": "invalid_request_error",
            "code": mistake.code,
            "message": mistake.message,
            "param": mistake.param,
            "event_id": event_id,
        }
        self.tell("error", error=error)

    def need(self, part: Literal["ears", "voice", "turns"], param: str) -> None:
        """Raises Mistake where a session here cannot do that."""
        why = self.state.lacks.get(part)
        if why is not None:
            raise Mistake(f"{param}: {why}", code="unsupported", param=param)

    def possible(self, config: SessionConfig, place: str) -> SessionConfig:
        """The settings as they can be had here. Raises Mistake for those that cannot."""
        if config.modality == "audio":
            self.need("voice", f"{place}.output_modalities")
        if config.turn_detection is not None:
            self.need("turns", f"{place}.audio.input.turn_detection")
        return msgspec.structs.replace(config, voice=self.state.voices.chosen(config.voice))

    # --- the two machines ---

    def turns(self, signal: str) -> None:
        self.put(turn=TURNS[self.state.turn, signal])

    def replies(self, signal: str) -> None:
        self.put(reply=REPLIES[self.state.reply, signal])

    # --- places in the caller's sound ---

    @property
    def input_format(self) -> Format:
        return self.state.config.input_format

    def ms_at(self, place: int) -> int:
        buffer = self.state.buffer
        return buffer.origin_ms + (place - buffer.origin) // self.input_format.bytes_per_ms

    def place_at(self, ms: int) -> int:
        """Within what is there."""
        buffer = self.state.buffer
        place = buffer.origin + (ms - buffer.origin_ms) * self.input_format.bytes_per_ms
        return min(max(place, buffer.start), self.last_sample)

    @property
    def last_sample(self) -> int:
        """The end of what is there; half a sample waits for its other half."""
        buffer = self.state.buffer
        half = (buffer.end - buffer.origin) % self.input_format.sample_bytes
        return max(buffer.start, buffer.end - half)

    @property
    def can_wait_for_ears(self) -> bool:
        """Recordings wait in memory: only so many."""
        return len(self.state.unheard) < _MOST_UNHEARD

    def hear_item(self, wanted: Transcribe) -> None:
        self.put(unheard=self.state.unheard | {wanted.item_id})
        self.do(wanted)

    # --- the conversation ---

    def item(self, item_id: str, param: str = "item_id") -> Item:
        for item in self.state.items:
            if item.id == item_id:
                return item
        raise Mistake(f"there is no item {item_id!r}", code="item_not_found", param=param)

    def add_item(self, item: Item, at: int | None = None) -> str | None:
        """The id of the item before it. Where the conversation is full, its oldest item goes."""
        items = self.state.items
        if len(items) >= self.state.most_items:
            self.put(items=items[1:])
            self.tell("conversation.item.deleted", item_id=items[0].id)
            items, at = items[1:], None if at is None else max(0, at - 1)
        at = len(items) if at is None else at
        self.put(items=(*items[:at], item, *items[at:]))
        return items[at - 1].id if at else None

    def change_item(self, item: Item) -> None:
        """One that was deleted meanwhile stays so."""
        self.put(items=tuple(item if old.id == item.id else old for old in self.state.items))

    def id_before(self, item_id: str) -> str | None:
        ids = [item.id for item in self.state.items]
        at = ids.index(item_id) if item_id in ids else 0
        return ids[at - 1] if at else None

    def tell_item(self, kind: str, item: Item, before: str | None) -> None:
        self.tell(kind, previous_item_id=before, item=item_wire(item))
