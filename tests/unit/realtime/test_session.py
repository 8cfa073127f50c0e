"""The pure machine of a voice session: what it says and asks for, event by event."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import msgspec
import pytest

from fakes.realtime import LOUD, Stage, kinds, sound, state
from monoize.realtime.config import SessionConfig, TurnDetection
from monoize.realtime.mistake import Trouble
from monoize.realtime.scene import REPLIES, TURNS, diagrams
from monoize.realtime.state import (
    ArgumentsCame,
    CallCame,
    Drop,
    Hear,
    Hush,
    ListenAnew,
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
from monoize.settings import parse
from monoize.settings.realtime import RealtimeSettings
from monoize.urp import Usage

BY_HAND = SessionConfig(model="a-model", turn_detection=None)
BY_TEXT = SessionConfig(model="a-model", turn_detection=None, modality="text")
TROUBLE = Trouble(message="it broke", code="broken")


def by_hand() -> Stage:
    return Stage(state(config=BY_HAND))


def by_text() -> Stage:
    return Stage(state(config=BY_TEXT))


def ask(stage: Stage, text: str = "hi", **params) -> str:
    """A question, and the id of the response that has begun."""
    stage.write(text)
    return stage.caller("response.create", response=params)[0]["response"]["id"]


# --- the beginning ---


@pytest.mark.spec("S4-2.1")
def test_a_session_begins_with_what_it_is_set_to_and_somebody_listens():
    stage = Stage()

    (created,) = stage.said
    assert created["type"] == "session.created"
    assert created["session"]["model"] == "a-model"
    assert created["session"]["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert stage.last(ListenAnew).turns == TurnDetection()


# --- a response in text ---


def test_a_text_response_comes_in_the_order_of_openai():
    stage = by_text()
    stage.write("What is the capital of France?")
    begun = stage.caller("response.create")
    response_id = begun[0]["response"]["id"]
    assert stage.last(Think).prompt.messages == (
        {"role": "user", "content": "What is the capital of France?"},
    )

    said = stage.happen(TextCame(response_id, "Par"))
    said += stage.happen(TextCame(response_id, "is."))
    said += stage.happen(ThoughtEnded(response_id, "stop", Usage(input_tokens=7, output_tokens=2)))

    assert kinds(begun + said) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    done = said[-1]["response"]
    assert done["status"] == "completed"
    assert done["usage"]["total_tokens"] == 9
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "Paris."}]
    assert stage.state.reply is Reply.IDLE
    assert stage.count(Speak) == 0


def test_the_next_question_brings_the_answer_before_it_along():
    stage = by_text()
    first = ask(stage, "one")
    stage.happen(TextCame(first, "two"))
    stage.happen(ThoughtEnded(first))
    ask(stage, "three", instructions="count")

    assert stage.last(Think).prompt.messages == (
        {"role": "system", "content": "count"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    )


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_why_a_response_ended_is_told(finish, status, reason):
    stage = by_text()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "words"))
    done = stage.happen(ThoughtEnded(response_id, finish))[-1]["response"]

    assert done["status"] == status
    assert done["output"][0]["status"] == ("completed" if reason is None else "incomplete")
    assert (done["status_details"] or {}).get("reason") == reason


def test_a_model_that_breaks_off_fails_the_response_and_not_the_session():
    stage = by_text()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "half"))
    done = stage.happen(ThinkingFailed(response_id, TROUBLE))[-1]["response"]

    assert done["status"] == "failed"
    assert done["status_details"]["error"]["message"] == "it broke"
    assert done["output"][0]["status"] == "incomplete"
    assert stage.last(Hush).response_id == response_id
    assert ask(stage) != response_id


def test_words_that_come_too_late_are_not_heard():
    stage = by_text()
    response_id = ask(stage)
    stage.caller("response.cancel")
    for event in (
        TextCame(response_id, "late"),
        CallCame(response_id, 0, "c", "f"),
        ArgumentsCame(response_id, 0, "{}"),
        ThoughtEnded(response_id),
        ThinkingFailed(response_id, TROUBLE),
        SoundCame(response_id, 0, b"\x00\x00", 1),
        SentenceEnded(response_id, 0),
    ):
        assert stage.happen(event) == []


# --- a response in sound ---


def test_a_spoken_response_says_each_sentence_with_its_first_sound():
    stage = by_hand()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "Hello there. How are "))
    assert stage.last(Speak) == Speak(response_id, 0, "Hello there.")
    stage.happen(TextCame(response_id, "you?"))
    stage.happen(ThoughtEnded(response_id))
    assert stage.last(Speak) == Speak(response_id, 1, "How are you?")
    assert stage.state.reply is Reply.SPEAKING

    said = stage.happen(SoundCame(response_id, 0, LOUD * 24, 1))
    assert kinds(said) == [
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
    ]
    assert said[0]["delta"] == "Hello there. "
    assert base64.b64decode(said[1]["delta"]) == LOUD * 24
    assert kinds(stage.happen(SoundCame(response_id, 0, LOUD, 0))) == [
        "response.output_audio.delta"
    ]
    assert stage.happen(SentenceEnded(response_id, 0)) == []
    stage.happen(SoundCame(response_id, 1, LOUD * 24, 1))
    ended = stage.happen(SentenceEnded(response_id, 1))

    assert kinds(ended) == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    assert ended[1]["transcript"] == "Hello there. How are you?"
    assert ended[-1]["response"]["status"] == "completed"


def test_the_voice_is_given_words_and_no_markup():
    stage = by_hand()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "---\n\nIt is **very** [good](http://x). And `so` on"))
    stage.happen(ThoughtEnded(response_id))

    spoken = [effect.text for effect in stage.asked if isinstance(effect, Speak)]
    assert spoken == ["--- It is very good.", "And so on"]


def test_a_spoken_response_without_words_ends_by_itself():
    stage = by_hand()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, " \n"))
    done = stage.happen(ThoughtEnded(response_id))

    assert kinds(done) == ["response.done"]
    assert done[0]["response"]["output"] == []


def test_a_voice_that_says_nothing_still_leaves_the_words():
    stage = by_hand()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "Hm"))
    stage.happen(ThoughtEnded(response_id))
    ended = stage.happen(SentenceEnded(response_id, 0))

    assert ended[0]["delta"] == "Hm"
    assert ended[-1]["response"]["output"][0]["content"][0]["transcript"] == "Hm"


# --- functions ---


def test_functions_are_passed_on_and_their_calls_come_back_as_items():
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    stage = by_text()
    stage.caller("session.update", session={"type": "realtime", "tools": [tool]})
    response_id = ask(stage, "weather in Rome?")
    assert stage.last(Think).prompt.tools == (tool,)

    said = stage.happen(CallCame(response_id, 0, "call_7", "weather"))
    said += stage.happen(ArgumentsCame(response_id, 0, '{"city":'))
    said += stage.happen(ArgumentsCame(response_id, 0, '"Rome"}'))
    said += stage.happen(ThoughtEnded(response_id))
    assert kinds(said) == [
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    assert said[4]["arguments"] == '{"city":"Rome"}'

    output = {"type": "function_call_output", "call_id": "call_7", "output": "sunny"}
    stage.caller("conversation.item.create", item=output)
    stage.caller("response.create")
    assert stage.last(Think).prompt.messages[1:] == (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_7",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_7", "content": "sunny"},
    )


# --- the caller's sound, committed by hand ---


def test_committed_sound_becomes_an_item_and_is_transcribed():
    stage = by_hand()
    assert stage.caller("input_audio_buffer.append", audio=sound(150)) == []
    assert stage.last(Hear).sound == b"\x00\x00" * 3600
    said = stage.caller("input_audio_buffer.commit")

    assert kinds(said) == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    item_id = said[0]["item_id"]
    assert stage.last(Transcribe) == Transcribe(item_id, 0, 7200)
    assert stage.last(Drop) == Drop(7200)

    heard = stage.happen(Transcribed(item_id, "good morning", 0.15))
    assert kinds(heard) == [
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
    ]
    assert heard[1]["transcript"] == "good morning"
    assert heard[1]["usage"] == {"type": "duration", "seconds": 0.15}


def test_a_response_waits_for_what_it_answers():
    stage = by_hand()
    stage.caller("input_audio_buffer.append", audio=sound(200))
    item_id = stage.caller("input_audio_buffer.commit")[0]["item_id"]
    assert kinds(stage.caller("response.create")) == ["response.created"]
    assert stage.state.reply is Reply.HEARING
    assert stage.count(Think) == 0

    stage.happen(Transcribed(item_id, "good morning", 0.2))
    assert stage.last(Think).prompt.messages[-1]["content"] == "good morning"


def test_what_could_not_be_heard_is_told_and_fails_the_response_that_waits_for_it():
    stage = by_hand()
    stage.caller("input_audio_buffer.append", audio=sound(200))
    item_id = stage.caller("input_audio_buffer.commit")[0]["item_id"]
    stage.caller("response.create")
    said = stage.happen(NotTranscribed(item_id, TROUBLE))

    assert kinds(said) == [
        "conversation.item.input_audio_transcription.failed",
        "response.done",
    ]
    assert said[1]["response"]["status"] == "failed"
    assert stage.happen(Transcribed(item_id, "too late", 1.0)) == []


def test_transcripts_are_not_told_to_a_caller_who_does_not_want_them():
    stage = by_hand()
    session = {"type": "realtime", "audio": {"input": {"transcription": None}}}
    stage.caller("session.update", session=session)
    stage.caller("input_audio_buffer.append", audio=sound(200))
    item_id = stage.caller("input_audio_buffer.commit")[0]["item_id"]

    assert stage.happen(Transcribed(item_id, "hello", 0.2)) == []
    stage.caller("response.create")
    assert stage.last(Think).prompt.messages[-1]["content"] == "hello"


def test_half_a_sample_waits_for_its_other_half():
    stage = by_hand()
    stage.caller("input_audio_buffer.append", audio=base64.b64encode(b"\x01" * 9601).decode())
    stage.caller("input_audio_buffer.commit")
    assert stage.last(Transcribe).end == 9600
    assert (stage.state.buffer.start, stage.state.buffer.end) == (9600, 9601)


def test_clearing_forgets_the_sound():
    stage = by_hand()
    stage.caller("input_audio_buffer.append", audio=sound(300))
    assert kinds(stage.caller("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    assert stage.last(Drop).before == 14_400
    assert stage.caller("input_audio_buffer.commit")[0]["error"]["code"] == (
        "input_audio_buffer_commit_empty"
    )


def test_a_recording_in_an_item_is_transcribed_too():
    stage = by_hand()
    content = [{"type": "input_text", "text": "what is this?"}, {"type": "input_audio"}]
    content[1]["audio"] = sound(100)
    item = {"type": "message", "role": "user", "content": content}
    said = stage.caller("conversation.item.create", item=item)
    item_id = said[0]["item"]["id"]
    assert len(stage.last(Transcribe).given) == 4800

    (_, completed) = stage.happen(Transcribed(item_id, "a bell", 0.1))
    assert completed["content_index"] == 1
    stage.caller("response.create")
    assert stage.last(Think).prompt.messages[-1]["content"] == "what is this?\na bell"


def test_only_so_many_recordings_wait():
    stage = by_hand()
    content = [{"type": "input_audio", "audio": sound(10)}]
    item = {"type": "message", "role": "user", "content": content}
    for _ in range(16):
        stage.caller("conversation.item.create", item=item)
    assert stage.count(Transcribe) == 16
    (refused,) = stage.caller("conversation.item.create", item=item)
    assert refused["type"] == "error"
    stage.caller("input_audio_buffer.append", audio=sound(200))
    said = stage.caller("input_audio_buffer.commit")
    assert said[-1]["error"]["code"] == "too_many_recordings"
    assert stage.count(Transcribe) == 16


def test_listening_begins_with_the_sound_that_comes_next():
    stage = by_hand()
    stage.caller("input_audio_buffer.append", audio=base64.b64encode(bytes(48_001)).decode())
    wanted = {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
    stage.caller("session.update", session=wanted)
    assert (stage.last(ListenAnew).place, stage.last(ListenAnew).ms) == (48_000, 1000)


# --- turns that are heard ---


def test_a_turn_that_is_heard_is_committed_and_answered():
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(2000))
    started = stage.happen(SpeechStarted(400))
    assert kinds(started) == ["input_audio_buffer.speech_started"]
    assert started[0]["audio_start_ms"] == 400
    assert stage.state.turn is Turn.TALKING

    stopped = stage.happen(SpeechStopped(1500))
    assert kinds(stopped) == [
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    item_id = started[0]["item_id"]
    assert {stopped[0]["item_id"], stopped[1]["item_id"], stopped[2]["item"]["id"]} == {item_id}
    assert stopped[0]["audio_end_ms"] == 1500
    assert stage.last(Transcribe) == Transcribe(item_id, 400 * 48, 1500 * 48)

    stage.happen(Transcribed(item_id, "hello", 1.1))
    assert stage.state.reply is Reply.THINKING


def test_nothing_is_answered_where_nothing_was_said():
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(2000))
    item_id = stage.happen(SpeechStarted(0))[0]["item_id"]
    stage.happen(SpeechStopped(1500))
    said = stage.happen(Transcribed(item_id, " ", 1.5))

    assert said[-1]["type"] == "response.done"
    assert said[-1]["response"]["status"] == "completed"
    assert said[-1]["response"]["output"] == []
    assert stage.count(Think) == 0


def test_a_question_before_a_cough_is_still_answered():
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(4000))
    first = stage.happen(SpeechStarted(0))[0]["item_id"]
    stage.happen(SpeechStopped(1500))
    cough, cancelled = stage.happen(SpeechStarted(2000))
    assert cancelled["response"]["status"] == "cancelled"
    stage.happen(SpeechStopped(2600))
    stage.happen(Transcribed(first, "how are you?", 1.5))
    stage.happen(Transcribed(cough["item_id"], "", 0.6))

    assert stage.last(Think).prompt.messages[-1]["content"] == "how are you?"


def test_turns_are_not_answered_where_the_caller_wants_to_ask_itself():
    stage = Stage(
        state(config=SessionConfig(model="m", turn_detection=TurnDetection(create_response=False)))
    )
    stage.caller("input_audio_buffer.append", audio=sound(2000))
    stage.happen(SpeechStarted(0))
    assert "response.created" not in kinds(stage.happen(SpeechStopped(1500)))


def spoken_half() -> tuple[Stage, str]:
    """A response of two sentences, of which one and a half were sent; the caller's sound goes on."""
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(6000))
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "It is noon. The sun is high now. And"))
    stage.happen(SoundCame(response_id, 0, LOUD * 24_000, 1000, 0))
    stage.happen(SentenceEnded(response_id, 0))
    stage.happen(SoundCame(response_id, 1, LOUD * 24_000, 1000, 1000))
    return stage, response_id


@pytest.mark.spec("T47")
def test_a_caller_who_speaks_stops_the_reply():
    stage, response_id = spoken_half()
    said = stage.happen(SpeechStarted(3000))

    assert kinds(said) == [
        "input_audio_buffer.speech_started",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    assert stage.last(Hush) == Hush(response_id)
    done = said[-1]["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"]["reason"] == "turn_detected"
    # Half of the second sentence went out, and nothing of the third was ever said.
    assert done["output"][0]["content"][0]["transcript"] == "It is noon. The sun is"
    assert stage.happen(SoundCame(response_id, 1, LOUD, 1)) == []


def test_a_reply_goes_on_where_interruption_is_off():
    config = SessionConfig(model="m", turn_detection=TurnDetection(interrupt_response=False))
    stage = Stage(state(config=config))
    stage.caller("input_audio_buffer.append", audio=sound(3000))
    response_id = ask(stage)
    assert kinds(stage.happen(SpeechStarted(100))) == ["input_audio_buffer.speech_started"]
    assert "response.created" not in kinds(stage.happen(SpeechStopped(1500)))
    assert stage.state.response.id == response_id


def test_silence_is_not_kept():
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(5000))
    stage.happen(Listened(5000))
    assert stage.last(Drop) == Drop((5000 - 300 - 500) * 48)
    stage.happen(SpeechStarted(4500))
    before = stage.count(Drop)
    stage.happen(Listened(5000))
    assert stage.count(Drop) == before


def test_somebody_who_never_pauses_is_answered_all_the_same():
    stage = Stage(state())
    stage.caller("input_audio_buffer.append", audio=sound(50_000))
    stage.happen(SpeechStarted(0))
    said = stage.caller("input_audio_buffer.append", audio=sound(20_000))
    assert "input_audio_buffer.committed" in kinds(said)
    assert stage.state.reply is Reply.HEARING
    assert stage.state.turn is Turn.QUIET


def test_committing_in_the_middle_of_speech_ends_the_turn():
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(1000))
    item_id = stage.happen(SpeechStarted(100))[0]["item_id"]
    said = stage.caller("input_audio_buffer.commit")
    assert said[0]["item_id"] == item_id
    assert stage.state.turn is Turn.QUIET
    assert stage.happen(SpeechStopped(1000)) == []
    assert isinstance(stage.asked[-1], ListenAnew)


def test_a_caller_is_told_when_nobody_can_listen_any_more():
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(1000))
    stage.happen(SpeechStarted(100))
    error, updated = stage.happen(TurnsFailed(TROUBLE))
    assert error["error"]["message"] == "it broke"
    assert updated["session"]["audio"]["input"]["turn_detection"] is None
    wanted = {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
    refused = stage.caller("session.update", session=wanted)[0]["error"]
    assert refused["code"] == "unsupported"


# --- cancelling ---


def test_a_caller_cancels():
    stage = by_text()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "half an ans"))
    said = stage.caller("response.cancel", response_id=response_id)
    assert said[-1]["response"]["status_details"] == {
        "type": "cancelled",
        "reason": "client_cancelled",
    }
    assert stage.state.items[-1].status == "incomplete"


# --- the conversation ---


def test_items_are_put_where_they_are_wanted():
    stage = by_text()
    for text, place in (("b", None), ("a", "root"), ("c", None)):
        more = {} if place is None else {"previous_item_id": place}
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
        stage.caller("conversation.item.create", item={**item, "id": text}, **more)
    item = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "x"}]}
    (added, _) = stage.caller(
        "conversation.item.create", item={**item, "id": "x"}, previous_item_id="a"
    )
    assert added["previous_item_id"] == "a"
    assert [i.id for i in stage.state.items] == ["a", "x", "b", "c"]


def test_items_are_looked_at_and_deleted():
    stage = by_text()
    item_id = stage.write("hello")[0]["item"]["id"]
    (found,) = stage.caller("conversation.item.retrieve", item_id=item_id)
    assert found["item"]["content"] == [{"type": "input_text", "text": "hello"}]
    assert kinds(stage.caller("conversation.item.delete", item_id=item_id)) == [
        "conversation.item.deleted"
    ]
    assert stage.state.items == ()


def test_a_full_conversation_forgets_its_oldest_item():
    stage = Stage(state(config=BY_TEXT))
    first = stage.write("first")[0]["item"]["id"]
    for number in range(99):
        stage.write(str(number))
    said = stage.write("one too many")
    assert said[0] == {**said[0], "type": "conversation.item.deleted", "item_id": first}
    assert len(stage.state.items) == 100


@pytest.mark.parametrize(
    ("ms", "left"),
    [
        (0, ""),
        (500, "Hello "),
        (1000, "Hello there. "),
        (1500, "Hello there. How"),
        (2000, "Hello there. How are you?"),
    ],
)
def test_what_was_not_heard_is_cut_off(ms, left):
    stage = by_hand()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "Hello there. How are you?"))
    stage.happen(ThoughtEnded(response_id))
    for number in (0, 1):
        stage.happen(SoundCame(response_id, number, LOUD * 24_000, 1000))
        ended = stage.happen(SentenceEnded(response_id, number))
    item_id = ended[-1]["response"]["output"][0]["id"]
    (cut,) = stage.caller(
        "conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=ms
    )
    assert cut["type"] == "conversation.item.truncated"
    assert stage.state.items[-1].content[0].transcript.strip() == left.strip()


def test_a_response_beside_the_conversation_leaves_no_items():
    stage = by_text()
    kept = stage.write("remember me")[0]["item"]["id"]
    given = [
        {"type": "item_reference", "id": kept},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "so?"}]},
    ]
    (created,) = stage.caller(
        "response.create",
        response={"conversation": "none", "input": given, "metadata": {"topic": "x"}},
    )
    response_id = created["response"]["id"]
    assert created["response"]["conversation_id"] is None
    assert created["response"]["metadata"] == {"topic": "x"}
    assert [m["content"] for m in stage.last(Think).prompt.messages] == ["remember me", "so?"]

    said = stage.happen(TextCame(response_id, "yes"))
    said += stage.happen(ThoughtEnded(response_id))
    assert not any(kind.startswith("conversation.") for kind in kinds(said))
    assert [item.id for item in stage.state.items] == [kept]


def test_a_response_may_have_settings_of_its_own():
    stage = by_hand()
    response_id = ask(stage, output_modalities=["text"], max_output_tokens=5, tool_choice="none")
    assert stage.last(Think).prompt.max_output_tokens == 5
    assert stage.last(Think).prompt.tool_choice == "none"
    stage.happen(TextCame(response_id, "Text only."))
    assert stage.count(Speak) == 0
    assert stage.state.config.modality == "audio"


# --- mistakes ---

_TEXT = [{"type": "input_text", "text": "x"}]
_MISTAKES = {
    "no type": ({}, "invalid_value", "type"),
    "unknown type": ({"type": "session.destroy"}, "invalid_value", "type"),
    "bad base64": ({"type": "input_audio_buffer.append", "audio": "%%%"}, "invalid_value", "audio"),
    "no audio": ({"type": "input_audio_buffer.append"}, "invalid_value", "audio"),
    "too much audio": (
        {"type": "input_audio_buffer.append", "audio": sound(61_000)},
        "input_audio_buffer_full",
        "audio",
    ),
    "empty commit": (
        {"type": "input_audio_buffer.commit"},
        "input_audio_buffer_commit_empty",
        None,
    ),
    "nothing to cancel": ({"type": "response.cancel"}, "response_cancel_not_active", None),
    "unknown item": (
        {"type": "conversation.item.retrieve", "item_id": "nope"},
        "item_not_found",
        "item_id",
    ),
    "no item id": ({"type": "conversation.item.delete"}, "invalid_value", None),
    "cutting a user": (
        {
            "type": "conversation.item.truncate",
            "item_id": "there",
            "content_index": 0,
            "audio_end_ms": 0,
        },
        "invalid_value",
        "item_id",
    ),
    "item twice": (
        {
            "type": "conversation.item.create",
            "item": {"type": "message", "role": "user", "id": "there", "content": _TEXT},
        },
        "invalid_value",
        "item.id",
    ),
    "no such place": (
        {
            "type": "conversation.item.create",
            "previous_item_id": "nope",
            "item": {"type": "message", "role": "user", "content": _TEXT},
        },
        "item_not_found",
        "previous_item_id",
    ),
    "no role": (
        {"type": "conversation.item.create", "item": {"type": "message", "content": _TEXT}},
        "missing_required_parameter",
        "item.role",
    ),
    "sound of the assistant": (
        {
            "type": "conversation.item.create",
            "item": {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "input_audio", "audio": ""}],
            },
        },
        "invalid_value",
        "item.content[0].type",
    ),
    "other model": (
        {"type": "session.update", "session": {"type": "realtime", "model": "gpt-dear"}},
        "invalid_value",
        "session.model",
    ),
    "odd threshold": (
        {
            "type": "session.update",
            "session": {
                "type": "realtime",
                "audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 3}}},
            },
        },
        "invalid_value",
        "session.audio.input.turn_detection.threshold",
    ),
    "odd rate": (
        {
            "type": "session.update",
            "session": {
                "type": "realtime",
                "audio": {"output": {"format": {"type": "audio/pcm", "rate": 8000}}},
            },
        },
        "invalid_value",
        "session.audio.output.format.rate",
    ),
    "no modality": (
        {"type": "session.update", "session": {"type": "realtime", "output_modalities": []}},
        "invalid_value",
        "session.output_modalities",
    ),
    "mcp tool": (
        {
            "type": "session.update",
            "session": {"type": "realtime", "tools": [{"type": "mcp", "name": "x"}]},
        },
        "invalid_value",
        "session.tools[0].type",
    ),
    "transcription session": (
        {"type": "session.update", "session": {"type": "transcription"}},
        "invalid_value",
        "session.type",
    ),
    "too heavy": (
        {
            "type": "conversation.item.create",
            "item": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_image", "image_url": "x" * 100_001}],
            },
        },
        "conversation_full",
        "item",
    ),
    "for WebRTC": ({"type": "output_audio_buffer.clear"}, "invalid_value", "type"),
}


@pytest.mark.parametrize("name", _MISTAKES)
def test_a_mistake_is_told_with_its_event_and_changes_nothing(name):
    event, code, param = _MISTAKES[name]
    stage = by_hand()
    item = {"type": "message", "role": "user", "id": "there", "content": _TEXT}
    stage.caller("conversation.item.create", item=item)
    before, asked = stage.state, len(stage.asked)

    kind = event.get("type")
    fields = {k: v for k, v in event.items() if k != "type"}
    said = stage.caller(kind, event_id="mine", **fields)

    assert kinds(said) == ["error"]
    error = said[0]["error"]
    assert error["type"] == "invalid_request_error"
    assert (error["code"], error["event_id"]) == (code, "mine")
    assert error["param"] == param
    assert len(stage.asked) == asked
    assert msgspec.structs.replace(stage.state, count=before.count) == before


def test_a_mistake_leaves_nothing_half_done():
    stage = Stage()
    stage.caller("input_audio_buffer.append", audio=sound(1000))
    stage.happen(SpeechStarted(0))
    said = stage.caller("input_audio_buffer.append", audio=sound(61_000))
    assert kinds(said) == ["error"]
    assert stage.state.turn is Turn.TALKING


def test_an_id_that_a_caller_has_made_up_is_never_given_again():
    stage = by_text()
    item = {"type": "message", "role": "user", "content": _TEXT}
    for number in range(1, 40):
        stage.caller("conversation.item.create", item={**item, "id": f"item_S{number:05d}"})
    for _ in range(20):
        stage.write("x")
    ids = [one.id for one in stage.state.items]
    assert len(set(ids)) == len(ids) == 59


def test_a_second_response_is_refused_while_one_is_under_way():
    stage = by_text()
    ask(stage)
    refused = stage.caller("response.create")[0]["error"]
    assert refused["code"] == "conversation_already_has_active_response"


def test_an_item_in_the_making_is_left_alone():
    stage = by_hand()
    response_id = ask(stage)
    stage.happen(TextCame(response_id, "Well"))
    item_id = stage.state.items[-1].id
    for kind in ("conversation.item.delete", "conversation.item.truncate"):
        error = stage.caller(kind, item_id=item_id, content_index=0, audio_end_ms=0)[0]["error"]
        assert "still being made" in error["message"]


def test_a_message_that_is_no_event_is_a_mistake():
    stage = Stage()
    (error,) = stage.happen(Unreadable("the message is not JSON"))
    assert error["error"]["code"] == "invalid_event"


@pytest.mark.parametrize(
    ("lack", "kind", "fields"),
    [
        ("ears", "input_audio_buffer.append", {"audio": sound(10)}),
        ("voice", "response.create", {"response": {"output_modalities": ["audio"]}}),
        ("voice", "session.update", {"session": {"output_modalities": ["audio"]}}),
        (
            "turns",
            "session.update",
            {"session": {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}},
        ),
    ],
)
def test_what_is_not_to_be_had_here_is_said(lack, kind, fields):
    stage = Stage(state(config=BY_TEXT, lacks={lack: "nobody does that here"}))
    error = stage.caller(kind, **fields)[0]["error"]
    assert error["code"] == "unsupported"
    assert "nobody does that here" in error["message"]


# --- the tables ---


def test_the_tables_lead_from_every_state_and_back():
    assert {state for state, _ in TURNS} == set(TURNS.values()) == set(Turn)
    assert {state for state, _ in REPLIES} == set(REPLIES.values()) == set(Reply)
    for reply in Reply:
        if reply is not Reply.IDLE:
            assert REPLIES[reply, "cancelled"] is Reply.IDLE
            assert REPLIES[reply, "failed"] is Reply.IDLE


PAGE = (Path(__file__).parents[3] / "docs" / "realtime.md").read_text("utf-8")


@pytest.mark.parametrize("diagram", diagrams())
def test_the_diagrams_of_the_docs_are_drawn_from_the_tables(diagram):
    assert f"```mermaid\n{diagram}\n```" in PAGE


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_every_config_of_the_docs_is_valid(block):
    parse(block, {})


def test_every_setting_is_documented_with_its_default():
    settings = RealtimeSettings()
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        default = f"{value} |" if isinstance(value, int | float) else ""
        assert f"| `{name}` | {default}" in PAGE
