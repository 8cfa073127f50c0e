"""The items that a response makes: opened, changed, closed, and told to the caller."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from monoize.realtime.items import FunctionCall, Item, Message, OutputAudio, Text, cut, item_wire
from monoize.realtime.response_wire import part_wire
from monoize.realtime.scene import Scene
from monoize.realtime.state import Output, Response, Sentence

__all__ = [
    "Ended",
    "active",
    "call_of",
    "change",
    "change_output",
    "change_sentence",
    "close",
    "message_of",
    "open_item",
    "open_message",
    "tell_about",
]

Ended: TypeAlias = Literal["completed", "incomplete"]


def open_message(scene: Scene, response: Response) -> Output:
    item = Message(id=scene.new_id("item_"), role="assistant", status="in_progress")
    output = open_item(scene, item)
    part = part_wire(response.wish.config.modality, "")
    tell_about(scene, "response.content_part.added", output, content_index=0, part=part)
    return output


def open_item(scene: Scene, item: Item, call: int = -1) -> Output:
    response = active(scene)
    output = Output(item=item, index=len(response.outputs), call=call)
    change(scene, outputs=(*response.outputs, output))
    scene.tell(
        "response.output_item.added",
        response_id=response.id,
        output_index=output.index,
        item=item_wire(item),
    )
    if response.wish.in_conversation:
        before = scene.add_item(item)
        scene.tell_item("conversation.item.added", item, before)
    return output


def close(scene: Scene, output: Output, status: Ended) -> None:
    match output.item:
        case Message():
            item: Item = _close_message(scene, output, output.item, status)
        case FunctionCall() as call:
            item = msgspec.structs.replace(call, arguments=output.text, status=status)
            tell_about(
                scene,
                "response.function_call_arguments.done",
                output,
                call_id=call.call_id,
                name=call.name,
                arguments=output.text,
            )
        case _:
            return
    change_output(scene, output, item=item)
    response = active(scene)
    scene.tell(
        "response.output_item.done",
        response_id=response.id,
        output_index=output.index,
        item=item_wire(item),
    )
    if response.wish.in_conversation:
        scene.change_item(item)
        scene.tell_item("conversation.item.done", item, scene.id_before(item.id))


def _close_message(scene: Scene, output: Output, item: Message, status: Ended) -> Message:
    response = active(scene)
    content: Text | OutputAudio
    if response.wish.config.modality == "text":
        content, text = Text(output.text), output.text
        tell_about(scene, "response.output_text.done", output, content_index=0, text=text)
    else:
        content = OutputAudio(tuple(_spoken(s) for s in response.sentences if s.begun))
        text = content.transcript
        tell_about(scene, "response.output_audio.done", output, content_index=0)
        kind = "response.output_audio_transcript.done"
        tell_about(scene, kind, output, content_index=0, transcript=text)
    part = part_wire(response.wish.config.modality, text)
    tell_about(scene, "response.content_part.done", output, content_index=0, part=part)
    return msgspec.structs.replace(item, content=(content,), status=status)


def _spoken(sentence: Sentence) -> tuple[str, int]:
    """Of a sentence that was broken off, the words that went out."""
    if sentence.ended or not sentence.rest_ms:
        return sentence.text, sentence.ms
    return cut(sentence.text, sentence.ms / (sentence.ms + sentence.rest_ms)), sentence.ms


def active(scene: Scene) -> Response:
    response = scene.state.response
    if response is None:
        raise LookupError("there is no response")
    return response


def message_of(response: Response) -> Output | None:
    return next((o for o in response.outputs if isinstance(o.item, Message)), None)


def call_of(response: Response, index: int) -> Output | None:
    return next((o for o in response.outputs if o.call == index), None)


def change(scene: Scene, **changes: Any) -> None:
    scene.put(response=msgspec.structs.replace(active(scene), **changes))


def change_output(scene: Scene, output: Output, **changes: Any) -> None:
    outputs = active(scene).outputs
    changed = msgspec.structs.replace(output, **changes)
    at = output.index
    change(scene, outputs=(*outputs[:at], changed, *outputs[at + 1 :]))


def change_sentence(scene: Scene, number: int, **changes: Any) -> None:
    sentences = active(scene).sentences
    changed = msgspec.structs.replace(sentences[number], **changes)
    change(scene, sentences=(*sentences[:number], changed, *sentences[number + 1 :]))


def tell_about(scene: Scene, kind: str, output: Output, **fields: Any) -> None:
    scene.tell(
        kind,
        response_id=active(scene).id,
        item_id=output.item.id,
        output_index=output.index,
        **fields,
    )
