"""What a caller does to the conversation itself: items put in, taken out, looked at, cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from monoize.realtime.config import Common, converted, modern, with_common
from monoize.realtime.items import (
    Item,
    Message,
    OutputAudio,
    audio_of,
    item_wire,
    read_item,
    weight,
)
from monoize.realtime.mistake import Mistake
from monoize.realtime.replying import begin, cancel
from monoize.realtime.scene import Scene
from monoize.realtime.state import Reply, Transcribe, Wish

__all__ = [
    "cancel_response",
    "create_item",
    "create_response",
    "delete_item",
    "retrieve_item",
    "truncate_item",
]

Json = Mapping[str, Any]

_ROOT = "root"


class _ById(msgspec.Struct, frozen=True):
    item_id: str


class _Truncation(msgspec.Struct, frozen=True):
    item_id: str
    audio_end_ms: Annotated[int, Meta(ge=0)]
    content_index: int = 0


class _Params(Common, frozen=True):
    conversation: str | None = None
    input: tuple[dict[str, Any], ...] | None = None
    metadata: dict[str, Any] | None = None


# --- items ---


def create_item(scene: Scene, event: Json) -> None:
    wire = event.get("item")
    item = read_item(wire, scene.new_id("item_"))
    if any(old.id == item.id for old in scene.state.items):
        raise Mistake(f"there is an item {item.id!r} already", param="item.id")
    sound = audio_of(wire) if isinstance(wire, Mapping) else None
    if sound is not None:
        scene.need("ears", "item.content")
        if not scene.can_wait_for_ears:
            raise Mistake("too many recordings wait to be transcribed", param="item.content")
    if sum(map(weight, scene.state.items)) + weight(item) > scene.state.most_bytes:
        raise Mistake(
            f"the conversation would hold more than {scene.state.most_bytes} letters: delete items first",
            code="conversation_full",
            param="item",
        )
    before = scene.add_item(item, _place(scene, event.get("previous_item_id")))
    scene.tell_item("conversation.item.added", item, before)
    scene.tell_item("conversation.item.done", item, before)
    if sound is not None:
        scene.hear_item(Transcribe(item.id, given=sound))


def _place(scene: Scene, after: Any) -> int | None:
    if after is None:
        return None
    if after == _ROOT:
        return 0
    ids = [item.id for item in scene.state.items]
    if after not in ids:
        raise Mistake(
            f"there is no item {after!r}", code="item_not_found", param="previous_item_id"
        )
    return ids.index(after) + 1


def delete_item(scene: Scene, event: Json) -> None:
    item = _finished_item(scene, converted(event, _ById, "").item_id)
    scene.put(
        items=tuple(old for old in scene.state.items if old.id != item.id),
        unheard=scene.state.unheard - {item.id},
    )
    scene.tell("conversation.item.deleted", item_id=item.id)


def retrieve_item(scene: Scene, event: Json) -> None:
    item = scene.item(converted(event, _ById, "").item_id)
    scene.tell("conversation.item.retrieved", item=item_wire(item))


def truncate_item(scene: Scene, event: Json) -> None:
    wanted: _Truncation = converted(event, _Truncation, "")
    item = _finished_item(scene, wanted.item_id)
    content = item.content if isinstance(item, Message) else ()
    spoken = content[0] if content and wanted.content_index == 0 else None
    if not isinstance(spoken, OutputAudio) or not isinstance(item, Message):
        raise Mistake(
            "only the sound of an assistant's message can be cut, at content_index 0",
            param="item_id",
        )
    if wanted.audio_end_ms > spoken.ms:
        raise Mistake(
            f"audio_end_ms: the sound has {spoken.ms} ms, not {wanted.audio_end_ms}",
            param="audio_end_ms",
        )
    heard = spoken.until(wanted.audio_end_ms)
    scene.change_item(msgspec.structs.replace(item, content=(heard,)))
    scene.tell(
        "conversation.item.truncated",
        item_id=item.id,
        content_index=0,
        audio_end_ms=wanted.audio_end_ms,
    )


def _finished_item(scene: Scene, item_id: str) -> Item:
    item = scene.item(item_id)
    if item.status == "in_progress":
        raise Mistake(
            f"the item {item_id!r} is still being made: cancel its response first", param="item_id"
        )
    return item


# --- responses ---


def create_response(scene: Scene, event: Json) -> None:
    if scene.state.reply is not Reply.IDLE:
        raise Mistake(
            "a response is under way: wait for response.done, or cancel it",
            code="conversation_already_has_active_response",
        )
    params: _Params = converted(modern(event.get("response") or {}), _Params, "response")
    if params.conversation not in (None, "auto", "none"):
        raise Mistake("response.conversation: auto or none", param="response.conversation")
    config = with_common(scene.state.config, params, "response")
    config = scene.possible(config, "response")
    wish = Wish(
        config=config,
        in_conversation=params.conversation != "none",
        input=None if params.input is None else _given(scene, params.input),
        metadata=params.metadata,
    )
    begin(scene, wish)


def _given(scene: Scene, wires: tuple[dict[str, Any], ...]) -> tuple[Item, ...]:
    """Items that stand only in this response, and references to those of the conversation."""
    items = []
    for index, wire in enumerate(wires):
        place = f"response.input[{index}]"
        if wire.get("type") == "item_reference":
            items.append(scene.item(str(wire.get("id")), f"{place}.id"))
            continue
        item = read_item(wire, scene.new_id("item_"), place)
        if audio_of(wire) is not None:
            raise Mistake(
                f"{place}: sound must be put into the conversation first, then referred to",
                param=place,
            )
        items.append(item)
    return tuple(items)


def cancel_response(scene: Scene, event: Json) -> None:
    response, named = scene.state.response, event.get("response_id")
    if response is None or named not in (None, response.id):
        raise Mistake("no such response is under way", code="response_cancel_not_active")
    cancel(scene, "client_cancelled")
