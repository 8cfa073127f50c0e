"""Messages between caller and provider: names exchanged, secrets kept, the rest untouched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.account import KeyPolicy
from monoize.realtime.mistake import Mistake
from monoize.realtime.parting import sendable
from monoize.realtime.passing import Passing

PASSING = Passing("mine", "theirs", KeyPolicy(models=("mine", "whisper-*")), ["sk-very-secret-key"])


def test_the_session_has_the_callers_name_of_the_model():
    text = '{"type":"session.created","session":{"model":"theirs-2025","x":1.0}}'
    assert (
        PASSING.to_caller(text) == '{"type":"session.created","session":{"model":"mine","x":1.0}}'
    )


def test_whatever_model_a_caller_names_it_is_the_one_that_was_asked_for():
    text = '{"type":"session.update","session":{"model":"gpt-dear","big":12345678901234567890}}'
    assert json.loads(PASSING.to_provider(text)) == {
        "type": "session.update",
        "session": {"model": "theirs", "big": 12345678901234567890},
    }


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "nul",
        '{"type": "x", "model": "m"}',
        '{"session": null}',
        '{"session": []}',
        '{"type":"input_audio_buffer.append","audio":"session"}',
    ],
)
def test_everything_else_is_passed_letter_by_letter(text):
    assert PASSING.to_provider(text) == text
    assert PASSING.to_caller(text) == text


@given(st.text(max_size=60))
def test_nothing_that_a_caller_writes_breaks_the_passing(text):
    PASSING.seen(text).whole_response()
    PASSING.to_provider(text)
    PASSING.to_caller(text)


@pytest.mark.parametrize("escaped", ["sk-very-secret-key", "sk-very-secret-key/x"])
def test_our_key_is_not_passed_on(escaped):
    told = PASSING.to_caller(json.dumps({"type": "error", "error": {"message": escaped}}))
    assert "secret" not in told


@pytest.mark.parametrize(
    "session",
    [
        {"audio": {"input": {"transcription": {"model": "dear"}}}},
        {"input_audio_transcription": {"model": "dear"}},
    ],
)
def test_a_transcription_model_that_the_key_may_not_use_is_refused(session):
    with pytest.raises(Mistake) as refused:
        PASSING.to_provider(json.dumps({"type": "session.update", "session": session}))
    assert refused.value.code == "model_not_allowed"
    allowed = json.dumps({"session": session}).replace("dear", "whisper-1")
    assert PASSING.to_provider(allowed) == allowed


def test_only_what_has_to_be_known_is_read():
    seen = PASSING.seen('{"type":"response.done","response":{"id":"r","usage":{}},"more":[1]}')
    assert (seen.type, seen.whole_response()["id"], seen.size) == ("response.done", "r", 0)
    delta = PASSING.seen('{"type":"response.output_audio.delta","response_id":"r","delta":"AAAA"}')
    assert (delta.response_id, delta.size) == ("r", 6)
    assert PASSING.seen('{"type":7}').type == ""


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (1000, 1000), (1001, 1001), (1005, 1000), (1006, 1011), (1015, 1011), (1009, 1009),
        (1011, 1011), (999, 1011), (2000, 1011), (3000, 3000), (4999, 4999), (5000, 1011),
    ],
)  # fmt: skip
def test_a_closing_code_is_one_that_may_be_sent(code, sent):
    assert sendable(code) == sent
