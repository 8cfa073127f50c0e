"""A voice session as a pure machine: `step(state, event)` gives the next state and what is to be done.

Nothing here waits, hears or speaks. Its two small machines, whether the caller is talking and how far the answer
is, may only go the ways that the tables in scene.py name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import msgspec

from monoize.realtime import conversation, hearing, replying
from monoize.realtime.config import updated
from monoize.realtime.mistake import Mistake
from monoize.realtime.scene import Scene
from monoize.realtime.state import (
    ArgumentsCame,
    CallCame,
    Effect,
    Event,
    FromCaller,
    Listened,
    NotTranscribed,
    SentenceEnded,
    SoundCame,
    SpeechStarted,
    SpeechStopped,
    State,
    TextCame,
    ThinkingFailed,
    ThoughtEnded,
    Transcribed,
    Turn,
    TurnsFailed,
    Unreadable,
)

__all__ = ["FROM_CALLER", "opened", "step"]


def opened(state: State) -> tuple[State, tuple[Effect, ...]]:
    """The first words to the caller."""
    scene = Scene(state)
    scene.tell("session.created", session=_shown(scene))
    hearing.listen_anew(scene)
    return scene.state, tuple(scene.effects)


def step(state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
    """A caller's mistake changes nothing, but for the error that it is told."""
    scene = Scene(state)
    try:
        _take(scene, event)
    except Mistake as mistake:
        scene = Scene(state)
        named = event.event.get("event_id") if isinstance(event, FromCaller) else None
        scene.tell_mistake(mistake, named if isinstance(named, str) else None)
    return scene.state, tuple(scene.effects)


def _take(scene: Scene, event: Event) -> None:  # noqa: C901, PLR0912 - one arm for each event there is
    match event:
        case FromCaller():
            _from_caller(scene, event.event)
        case Unreadable():
            raise Mistake(event.reason, code="invalid_event")
        case SpeechStarted():
            hearing.speech_started(scene, event)
        case SpeechStopped():
            hearing.speech_stopped(scene, event)
        case Listened():
            hearing.listened(scene, event)
        case TurnsFailed():
            _give_up_turns(scene, event)
        case Transcribed():
            hearing.transcribed(scene, event)
        case NotTranscribed():
            hearing.not_transcribed(scene, event)
        case TextCame():
            replying.text_came(scene, event)
        case CallCame():
            replying.call_came(scene, event)
        case ArgumentsCame():
            replying.arguments_came(scene, event)
        case ThoughtEnded():
            replying.thought_ended(scene, event)
        case ThinkingFailed():
            replying.thinking_failed(scene, event)
        case SoundCame():
            replying.sound_came(scene, event)
        case SentenceEnded():
            replying.sentence_ended(scene, event)
        case _:
            assert_never(event)


def _from_caller(scene: Scene, event: Mapping[str, Any]) -> None:
    kind = event.get("type")
    act = FROM_CALLER.get(kind) if isinstance(kind, str) else None
    if act is None:
        raise Mistake(f"type: there is no event {kind!r} here", param="type")
    act(scene, event)


def _update_session(scene: Scene, event: Mapping[str, Any]) -> None:
    before = scene.state.config
    config = scene.possible(updated(before, event.get("session")), "session")
    is_other_sound = config.input_format != before.input_format
    if config.turn_detection != before.turn_detection or is_other_sound:
        if scene.state.turn is Turn.TALKING:
            scene.turns("detection changed")
        if is_other_sound:
            hearing.forget_sound(scene)
        scene.put(config=config)
        hearing.listen_anew(scene)
    scene.put(config=config)
    scene.tell("session.updated", session=_shown(scene))


def _give_up_turns(scene: Scene, event: TurnsFailed) -> None:
    """The caller can still commit by hand."""
    if scene.state.turn is Turn.TALKING:
        scene.turns("detection changed")
    scene.put(
        config=msgspec.structs.replace(scene.state.config, turn_detection=None),
        lacks={**scene.state.lacks, "turns": event.trouble.message},
    )
    hearing.listen_anew(scene)
    scene.tell("error", error={**event.trouble.wire(), "event_id": None})
    scene.tell("session.updated", session=_shown(scene))


def _shown(scene: Scene) -> dict[str, Any]:
    return scene.state.config.wire(scene.state.session_id, scene.state.expires_at)


def _only_for_calls(scene: Scene, event: Mapping[str, Any]) -> None:
    del scene
    raise Mistake(f"{event['type']} is for WebRTC and SIP: stop playing on your side", param="type")


FROM_CALLER: Mapping[str, Callable[[Scene, Mapping[str, Any]], None]] = {
    "session.update": _update_session,
    "input_audio_buffer.append": hearing.append,
    "input_audio_buffer.commit": hearing.commit,
    "input_audio_buffer.clear": hearing.clear,
    "conversation.item.create": conversation.create_item,
    "conversation.item.delete": conversation.delete_item,
    "conversation.item.retrieve": conversation.retrieve_item,
    "conversation.item.truncate": conversation.truncate_item,
    "response.create": conversation.create_response,
    "response.cancel": conversation.cancel_response,
    "output_audio_buffer.clear": _only_for_calls,
}
