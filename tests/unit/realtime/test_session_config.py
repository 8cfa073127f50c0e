"""What a session is set to: OpenAI's objects in both of their shapes, and what is really in force."""

from __future__ import annotations

import pytest

from fakes.realtime import Stage, state
from monoize.realtime.config import SessionConfig, Transcription, Voices, updated
from monoize.realtime.items import chat_messages, cut, read_item
from monoize.realtime.wording import finished, speakable

CONFIG = SessionConfig(model="m")


def test_both_shapes_say_the_same():
    modern = {
        "type": "realtime",
        "instructions": "be kind",
        "output_modalities": ["audio"],
        "max_output_tokens": 50,
        "audio": {
            "input": {
                "format": {"type": "audio/pcmu"},
                "transcription": {"model": "whisper-1", "language": "en"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
            },
            "output": {"format": {"type": "audio/pcma"}, "voice": "alloy", "speed": 1.2},
        },
    }
    old = {
        "instructions": "be kind",
        "modalities": ["text", "audio"],
        "max_response_output_tokens": 50,
        "input_audio_format": "g711_ulaw",
        "input_audio_transcription": {"model": "whisper-1", "language": "en"},
        "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
        "output_audio_format": "g711_alaw",
        "voice": "alloy",
        "speed": 1.2,
        "temperature": 0.8,
    }
    found = updated(CONFIG, modern)
    assert found == updated(CONFIG, old)
    assert found.transcription == Transcription(model="whisper-1", language="en")
    assert found.input_format.type == "audio/pcmu"
    assert found.output_format.type == "audio/pcma"
    assert found.turn_detection.silence_duration_ms == 700
    assert found.turn_detection.threshold == 0.5


@pytest.mark.parametrize(
    ("wire", "field", "value"),
    [
        ({"max_output_tokens": "inf"}, "max_output_tokens", None),
        ({"instructions": None}, "instructions", ""),
        ({"tools": None}, "tools", ()),
        ({"tool_choice": None}, "tool_choice", "auto"),
        ({"audio": {"output": {"voice": {"id": "voice_1"}}}}, "voice", "voice_1"),
        ({"audio": {"input": {"turn_detection": None}}}, "turn_detection", None),
        ({"turn_detection": None}, "turn_detection", None),
        ({"audio": {"input": {"transcription": None}}}, "transcription", None),
        ({"modalities": ["text"]}, "modality", "text"),
        ({"model": "m"}, "model", "m"),
    ],
)
def test_each_setting_is_taken(wire, field, value):
    before = updated(CONFIG, {"instructions": "x", "max_output_tokens": 9, "tool_choice": "none"})
    assert getattr(updated(before, wire), field) == value


def test_what_is_not_named_stays():
    before = updated(CONFIG, {"instructions": "x", "voice": "alloy"})
    assert updated(before, {}) == before


def test_semantic_turns_are_silence_here_and_the_session_says_so():
    stage = Stage()
    wanted = {"type": "semantic_vad", "eagerness": "low", "interrupt_response": False}
    session = {"type": "realtime", "audio": {"input": {"turn_detection": wanted}}}
    (told,) = stage.caller("session.update", session=session)
    shown = told["session"]["audio"]["input"]["turn_detection"]
    assert shown["type"] == "server_vad"
    assert shown["interrupt_response"] is False
    assert shown["silence_duration_ms"] == 500


@pytest.mark.parametrize(
    ("asked", "used"),
    [(None, "heart"), ("heart", "heart"), ("alloy", "sky"), ("marin", "heart")],
)
def test_a_voice_that_nobody_has_is_the_usual_one_and_the_session_says_so(asked, used):
    voices = Voices(usual="heart", known=("heart", "sky"), names={"alloy": "sky"})
    stage = Stage(state(voices=voices))
    session = {"type": "realtime", "audio": {"output": {"voice": asked}}}
    (told,) = stage.caller("session.update", session=session)
    assert told["session"]["audio"]["output"]["voice"] == used


def test_a_provider_elsewhere_knows_its_own_voices():
    assert Voices().chosen("marin") == "marin"
    assert Voices(usual="alloy").chosen(None) == "alloy"


# --- items as a chat model is told them ---


def _items(*wires):
    return [read_item(wire, f"i{number}") for number, wire in enumerate(wires)]


def _call(call_id):
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def _result(call_id):
    return {"type": "function_call_output", "call_id": call_id, "output": call_id.upper()}


def _said(role, *content):
    return {"type": "message", "role": role, "content": list(content)}


def test_calls_have_their_answers_right_behind_them_and_orphans_are_left_out():
    items = _items(
        _said("user", {"type": "input_text", "text": "go"}),
        _said("assistant", {"type": "output_text", "text": "Well."}),
        _call("a"),
        _call("lost"),
        _call("b"),
        _said("user", {"type": "input_text", "text": "and?"}),
        _result("b"),
        _result("a"),
        _result("nobody"),
    )
    messages = chat_messages(items, "be kind")
    assert [message["role"] for message in messages] == [
        "system", "user", "assistant", "tool", "tool", "user",
    ]  # fmt: skip
    assert [call["id"] for call in messages[2]["tool_calls"]] == ["a", "b"]
    assert messages[2]["content"] == "Well."
    assert [message["content"] for message in messages[3:5]] == ["A", "B"]


def test_pictures_are_shown_and_silence_is_not_mentioned():
    items = _items(
        _said(
            "user",
            {"type": "input_text", "text": "what is it?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
        ),
        _said("user", {"type": "input_audio", "audio": "AAAA"}),
        _said("assistant", {"type": "output_audio", "transcript": "a cat"}),
    )
    assert chat_messages(items, "") == (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is it?"},
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,AA", "detail": "low"},
                },
            ],
        },
        {"role": "assistant", "content": "a cat"},
    )


# --- words ---


@pytest.mark.parametrize(
    ("share", "left"),
    [
        (-1, ""),
        (0, ""),
        (0.3, "one"),
        (0.5, "one"),
        (0.54, "one two"),
        (0.9, "one two"),
        (1, "one two three"),
    ],
)
def test_texts_are_cut_between_words(share, left):
    assert cut("one two three", share) == left


def test_sentences_are_the_text_however_it_comes():
    text = "Hi!  How are you?\n\n--- \n\n**Fine**, Dr. Who. And 3.14 is pi. So"
    whole, rest = finished(text)
    left, found = "", []
    for letter in text:
        new, left = finished(left + letter)
        found += new
    assert (found, left) == (whole, rest)
    assert "".join(whole) + rest == text
    assert all(speakable(sentence) for sentence in whole)
