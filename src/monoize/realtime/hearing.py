"""The caller's side of a session: sound that comes in, turns that are heard in it, what was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.realtime.items import InputAudio, Message, decoded_audio
from monoize.realtime.mistake import Mistake, Trouble
from monoize.realtime.replying import answer_turn, cancel, hear_again
from monoize.realtime.scene import Scene
from monoize.realtime.state import (
    Buffer,
    Drop,
    Hear,
    ListenAnew,
    Listened,
    NotTranscribed,
    Reply,
    SpeechStarted,
    SpeechStopped,
    Transcribe,
    Transcribed,
    Turn,
)

__all__ = [
    "append",
    "clear",
    "commit",
    "listen_anew",
    "listened",
    "not_transcribed",
    "speech_started",
    "speech_stopped",
    "transcribed",
]

_SHORTEST_MS = 100  # that may be committed
TOO_MANY = Trouble(message="too much speech waits to be transcribed", code="too_many_recordings")
_BACK_MS = 500  # kept beside the padding: speech is noticed a little after it began

Json = Mapping[str, Any]


# --- what the caller sends ---


def append(scene: Scene, event: Json) -> None:
    scene.need("ears", "audio")
    sound = decoded_audio(event.get("audio"), "audio")
    if not sound:
        return
    longest = scene.state.buffer_ms * scene.input_format.bytes_per_ms
    buffer = scene.state.buffer
    if buffer.end - buffer.start + len(sound) > longest and scene.state.turn is Turn.TALKING:
        # Somebody who never pauses is answered all the same.
        speech_stopped(scene, SpeechStopped(scene.ms_at(buffer.end)))
        listen_anew(scene)
        buffer = scene.state.buffer
    if buffer.end - buffer.start + len(sound) > longest:
        raise Mistake(
            f"more than {scene.state.buffer_ms} ms of sound wait to be committed",
            code="input_audio_buffer_full",
            param="audio",
        )
    scene.put(buffer=_changed(buffer, end=buffer.end + len(sound)))
    scene.do(Hear(sound))


def commit(scene: Scene, event: Json) -> None:
    del event
    buffer, end = scene.state.buffer, scene.last_sample
    if scene.ms_at(end) - scene.ms_at(buffer.start) < _SHORTEST_MS:
        raise Mistake(
            f"the buffer holds {scene.ms_at(end) - scene.ms_at(buffer.start)} ms of sound; {_SHORTEST_MS} are needed",
            code="input_audio_buffer_commit_empty",
        )
    item_id = buffer.item_id if scene.state.turn is Turn.TALKING else scene.new_id("item_")
    if scene.state.turn is Turn.TALKING:
        scene.turns("buffer committed")
    _commit(scene, item_id, buffer.start, end)
    listen_anew(scene)


def clear(scene: Scene, event: Json) -> None:
    del event
    if scene.state.turn is Turn.TALKING:
        scene.turns("buffer cleared")
    forget_sound(scene)
    listen_anew(scene)
    scene.tell("input_audio_buffer.cleared")


def forget_sound(scene: Scene) -> None:
    """All of it; the next sound begins with a whole sample."""
    end = scene.state.buffer.end
    now = scene.ms_at(end)
    scene.put(buffer=Buffer(start=end, end=end, origin=end, origin_ms=now))
    scene.do(Drop(end))


def listen_anew(scene: Scene) -> None:
    """From the sound that comes next: what waits already was listened to, or nobody wanted it to be."""
    place = scene.last_sample
    scene.do(ListenAnew(scene.state.config.turn_detection, place, scene.ms_at(place)))


# --- what is heard in it ---


def speech_started(scene: Scene, event: SpeechStarted) -> None:
    turns = scene.state.config.turn_detection
    if turns is None or scene.state.turn is Turn.TALKING:
        return
    start = scene.place_at(event.ms)
    item_id = scene.new_id("item_")
    scene.turns("speech started")
    scene.put(buffer=_changed(scene.state.buffer, speech=start, item_id=item_id))
    scene.tell(
        "input_audio_buffer.speech_started", audio_start_ms=scene.ms_at(start), item_id=item_id
    )
    response = scene.state.response
    if turns.interrupt_response and response is not None and response.wish.in_conversation:
        cancel(scene, "turn_detected")


def speech_stopped(scene: Scene, event: SpeechStopped) -> None:
    turns = scene.state.config.turn_detection
    if turns is None or scene.state.turn is Turn.QUIET:
        return
    buffer, end = scene.state.buffer, scene.place_at(event.ms)
    scene.turns("speech stopped")
    scene.tell(
        "input_audio_buffer.speech_stopped",
        audio_end_ms=scene.ms_at(end),
        item_id=buffer.item_id,
    )
    _commit(scene, buffer.item_id, buffer.speech, end)
    if turns.create_response and scene.state.reply is Reply.IDLE:
        answer_turn(scene)


def listened(scene: Scene, event: Listened) -> None:
    """In silence only so much is kept as the next speech may begin with."""
    turns = scene.state.config.turn_detection
    if turns is None or scene.state.turn is Turn.TALKING:
        return
    before = scene.place_at(event.ms - turns.prefix_padding_ms - _BACK_MS)
    if before > scene.state.buffer.start:
        scene.put(buffer=_changed(scene.state.buffer, start=before))
        scene.do(Drop(before))


def _commit(scene: Scene, item_id: str, start: int, end: int) -> None:
    item = Message(id=item_id, role="user", content=(InputAudio(),))
    before = scene.add_item(item)
    scene.put(buffer=_changed(scene.state.buffer, start=end, item_id="", speech=0))
    scene.tell("input_audio_buffer.committed", previous_item_id=before, item_id=item_id)
    scene.tell_item("conversation.item.added", item, before)
    scene.tell_item("conversation.item.done", item, before)
    if scene.can_wait_for_ears:
        scene.hear_item(Transcribe(item_id, start, end))
    else:
        _tell_failure(scene, item_id, 0, TOO_MANY)
    scene.do(Drop(end))


# --- what was said ---


def transcribed(scene: Scene, event: Transcribed) -> None:
    if event.item_id not in scene.state.unheard:
        return
    for item in scene.state.items:
        if item.id == event.item_id and isinstance(item, Message):
            content = tuple(
                InputAudio(event.text) if isinstance(part, InputAudio) else part
                for part in item.content
            )
            scene.change_item(msgspec.structs.replace(item, content=content))
            if scene.state.config.transcription is not None:
                _tell_transcript(scene, event, _place_of_sound(item))
    _heard(scene, event.item_id)
    hear_again(scene, event.item_id)


def not_transcribed(scene: Scene, event: NotTranscribed) -> None:
    if event.item_id not in scene.state.unheard:
        return
    at = next(
        (
            _place_of_sound(item)
            for item in scene.state.items
            if item.id == event.item_id and isinstance(item, Message)
        ),
        0,
    )
    _tell_failure(scene, event.item_id, at, event.trouble)
    _heard(scene, event.item_id)
    hear_again(scene, event.item_id, event.trouble)


def _tell_failure(scene: Scene, item_id: str, content_index: int, trouble: Trouble) -> None:
    scene.tell(
        "conversation.item.input_audio_transcription.failed",
        item_id=item_id,
        content_index=content_index,
        error=trouble.wire(),
    )


def _heard(scene: Scene, item_id: str) -> None:
    scene.put(unheard=scene.state.unheard - {item_id})


def _tell_transcript(scene: Scene, event: Transcribed, content_index: int) -> None:
    place = {"item_id": event.item_id, "content_index": content_index}
    kind = "conversation.item.input_audio_transcription"
    if event.text:
        scene.tell(f"{kind}.delta", **place, delta=event.text)
    usage = {"type": "duration", "seconds": round(event.seconds, 3)}
    scene.tell(f"{kind}.completed", **place, transcript=event.text, usage=usage)


def _place_of_sound(item: Message) -> int:
    places = (at for at, part in enumerate(item.content) if isinstance(part, InputAudio))
    return next(places, 0)


def _changed(buffer: Buffer, **changes: Any) -> Buffer:
    return msgspec.structs.replace(buffer, **changes)
