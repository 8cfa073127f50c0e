"""Whatever happens to a voice session, in whatever order, its promises hold."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.realtime import Stage, sound, state
from monoize.realtime.config import SessionConfig, TurnDetection
from monoize.realtime.mistake import Trouble
from monoize.realtime.state import (
    ArgumentsCame,
    CallCame,
    FromCaller,
    Hush,
    Listened,
    NotTranscribed,
    Reply,
    SentenceEnded,
    SoundCame,
    Speak,
    SpeechStarted,
    SpeechStopped,
    TextCame,
    Think,
    ThinkingFailed,
    ThoughtEnded,
    Transcribe,
    Transcribed,
    Turn,
    TurnsFailed,
    Unreadable,
)

TROUBLE = Trouble(message="broken")

configs = st.builds(
    SessionConfig,
    model=st.just("m"),
    modality=st.sampled_from(["audio", "text"]),
    turn_detection=st.none()
    | st.builds(TurnDetection, create_response=st.booleans(), interrupt_response=st.booleans()),
)

# Each draws from what the session has made so far: its ids, and one that it has not.
numbers = st.integers(0, 3)
moments = st.integers(0, 8000)
words = st.sampled_from(
    ["Hi. ", "How are", " you? ", "\n\n", "", " ", "**", "Yes. No. ", "x" * 400]
)
_TEXT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
_SOUND = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_audio", "audio": sound(20)}],
}
_CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
_OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "o"}
_SESSIONS = [
    {"output_modalities": ["text"]},
    {"output_modalities": ["audio"]},
    {"audio": {"input": {"turn_detection": None}}},
    {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}},
    {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
    {"audio": {"input": {"format": {"type": "audio/pcm"}, "transcription": None}}},
    {"modalities": ["text"], "voice": "alloy", "turn_detection": {"type": "server_vad"}},
    {"model": "other"},
]


def _known(draw: Any, stage: Stage, kind: str) -> str:
    ids = [e["response"]["id"] for e in stage.said if e["type"] == "response.created"]
    if kind == "item":
        ids = [item.id for item in stage.state.items]
    if kind == "heard":
        ids = [e.item_id for e in stage.asked if isinstance(e, Transcribe)]
    return (
        draw(st.sampled_from([*ids, "nobody"]))
        if draw(st.integers(0, 4))
        else (ids[-1] if ids else "nobody")
    )


def _from_caller(draw: Any, stage: Stage) -> FromCaller:
    kind = draw(
        st.sampled_from(
            [
                "session.update",
                "input_audio_buffer.append",
                "input_audio_buffer.commit",
                "input_audio_buffer.clear",
                "conversation.item.create",
                "conversation.item.delete",
                "conversation.item.retrieve",
                "conversation.item.truncate",
                "response.create",
                "response.create",
                "response.cancel",
                "output_audio_buffer.clear",
                "nonsense",
            ]
        )
    )
    event: dict[str, Any] = {"type": kind, "event_id": "mine"}
    match kind:
        case "session.update":
            event["session"] = draw(st.sampled_from(_SESSIONS))
        case "input_audio_buffer.append":
            event["audio"] = draw(st.sampled_from([sound(500), sound(40), "AA==", "", "?"]))
        case "conversation.item.create":
            event["item"] = draw(st.sampled_from([_TEXT, _SOUND, _CALL, _OUTPUT, {}]))
            if draw(st.booleans()):
                event["previous_item_id"] = draw(st.sampled_from(["root", "nope"]))
        case "conversation.item.delete" | "conversation.item.retrieve":
            event["item_id"] = _known(draw, stage, "item")
        case "conversation.item.truncate":
            event |= {"item_id": _known(draw, stage, "item"), "content_index": 0}
            event["audio_end_ms"] = draw(moments)
        case "response.create":
            event["response"] = draw(
                st.sampled_from(
                    [
                        {},
                        {"conversation": "none"},
                        {"output_modalities": ["text"]},
                        {"input": [_TEXT]},
                        {"conversation": "elsewhere"},
                    ]
                )
            )
        case _:
            pass
    return FromCaller(event)


def _from_parts(draw: Any, stage: Stage) -> Any:
    response = _known(draw, stage, "response")
    heard = _known(draw, stage, "heard")
    makers = [
        lambda: TextCame(response, draw(words)),
        lambda: TextCame(response, draw(words)),
        lambda: CallCame(response, draw(numbers), draw(st.sampled_from(["", "c1"])), "f"),
        lambda: ArgumentsCame(response, draw(numbers), draw(st.sampled_from(["", "{}"]))),
        lambda: ThoughtEnded(response, draw(st.sampled_from(["stop", "length"]))),
        lambda: ThinkingFailed(response, TROUBLE),
        lambda: SoundCame(response, draw(numbers), bytes(480), 10, draw(st.none() | numbers)),
        lambda: SentenceEnded(response, draw(numbers)),
        lambda: SpeechStarted(draw(moments)),
        lambda: SpeechStopped(draw(moments)),
        lambda: Listened(draw(moments)),
        lambda: Transcribed(heard, draw(st.sampled_from(["", "hello"])), 0.5),
        lambda: NotTranscribed(heard, TROUBLE),
        lambda: Unreadable("no JSON"),
        lambda: TurnsFailed(TROUBLE),
    ]
    return makers[draw(st.integers(0, len(makers) - 1))]()


@given(st.data(), configs)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_promises_of_a_session_hold(data, config):
    stage = Stage(state(config=config))
    for _ in range(data.draw(st.integers(0, 40))):
        make = data.draw(st.sampled_from([_from_caller, _from_parts, _from_parts]))
        stage.happen(make(data.draw, stage))
        check_state(stage)
    check_history(stage)


def check_state(stage: Stage) -> None:
    state = stage.state
    assert (state.reply is Reply.IDLE) == (state.response is None)
    ids = [item.id for item in state.items]
    assert len(set(ids)) == len(ids)
    # Places in the sound never run backwards or out of it.
    assert 0 <= state.buffer.start <= state.buffer.end
    assert (state.turn is Turn.TALKING) <= (state.config.turn_detection is not None)


def check_history(stage: Stage) -> None:
    state, said = stage.state, stage.said
    begun = [e["response"]["id"] for e in said if e["type"] == "response.created"]
    ended = [e["response"]["id"] for e in said if e["type"] == "response.done"]
    # Every response ends once, in order, and there is never more than one.
    assert len(set(begun)) == len(begun)
    assert ended == begun[: len(ended)]
    assert (state.response is not None) == (len(begun) > len(ended))
    events = [e["event_id"] for e in said]
    assert len(set(events)) == len(events)
    _check_order(said)
    _check_effects(stage, begun, ended)
    assert state.unheard <= {e.item_id for e in stage.asked if isinstance(e, Transcribe)}


def _check_order(said: list[dict[str, Any]]) -> None:
    """What is said about a response or an item is said between its beginning and its end."""
    active = None
    opened: set[str] = set()
    heard: dict[str, str] = {}
    for event in said:
        kind = event["type"]
        if kind == "response.created":
            assert active is None
            active = event["response"]["id"]
        elif kind == "response.done":
            assert event["response"]["id"] == active
            assert not opened, "an item was left open"
            active = None
        elif kind.startswith("response."):
            assert event["response_id"] == active
            item = event.get("item_id") or event["item"]["id"]
            if kind == "response.output_item.added":
                opened.add(item)
            assert item in opened
            if kind == "response.output_item.done":
                opened.remove(item)
            if kind == "response.output_audio_transcript.delta":
                heard[item] = heard.get(item, "") + event["delta"]
            if kind == "response.output_audio_transcript.done":
                assert heard.get(item, "").startswith(event["transcript"])


def _check_effects(stage: Stage, begun: list[str], ended: list[str]) -> None:
    thought = [e.response_id for e in stage.asked if isinstance(e, Think)]
    assert len(set(thought)) == len(thought)
    assert set(thought) <= set(begun)
    assert [e.response_id for e in stage.asked if isinstance(e, Hush)] == ended
    over: set[str] = set()
    spoken: dict[str, int] = {}
    for effect in stage.asked:
        if isinstance(effect, Hush):
            over.add(effect.response_id)
        elif isinstance(effect, Speak):
            assert effect.response_id not in over
            assert effect.number == spoken.get(effect.response_id, 0)
            assert effect.text
            spoken[effect.response_id] = effect.number + 1
