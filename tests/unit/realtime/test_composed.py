"""A voice session put together from parts: the parts are scripted, the session is the real one."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest

from fakes.bench import VirtualClock
from fakes.realtime import (
    LOUD,
    AtOnce,
    FakeEars,
    FakeLine,
    FakeListeners,
    FakeMind,
    FakeVoice,
    kinds,
    sound,
    state,
)
from monoize.audio import pcm_from_ulaw
from monoize.errors import UpstreamFailed
from monoize.realtime.composed import Composed, Parts
from monoize.realtime.config import Format, SessionConfig, TurnDetection
from monoize.realtime.parting import Parting
from monoize.realtime.ports import Arguments, CallStart, End
from monoize.realtime.speaking import Tempo
from monoize.settings.realtime import RealtimeSettings
from monoize.urp import Usage

BY_HAND = SessionConfig(model="m", turn_detection=None)
BY_TEXT = SessionConfig(model="m", turn_detection=None, modality="text")


class Session:
    def __init__(self, config=BY_HAND, ears=None, mind=None, voice=None, **settings):
        self.line = FakeLine()
        self.ears = ears or FakeEars()
        self.mind = mind or FakeMind()
        self.voice = voice or FakeVoice()
        self.listeners = FakeListeners()
        self.pace = AtOnce()
        parts = Parts(ears=self.ears, mind=self.mind, voice=self.voice, listeners=self.listeners)
        self.composed = Composed(
            self.line,
            parts,
            state(config=config),
            RealtimeSettings(**settings),
            VirtualClock(),
            self.pace,
        )
        self.ended: Parting | None = None

    def write(self, text="hi"):
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        self.line.say("conversation.item.create", item=item)
        self.line.say("response.create")


@asynccontextmanager
async def running(session):
    """Until the test leaves; nothing may be left of the session then."""
    before = asyncio.all_tasks()
    task = asyncio.create_task(session.composed.run())
    try:
        yield session
        session.line.takes.set()
        session.pace.gate.set()
        session.line.leave()
        async with asyncio.timeout(5):
            session.ended = await task
    finally:
        task.cancel()
    assert asyncio.all_tasks() - before - {task} == set()
    assert session.mind.closed == len(session.mind.prompts)
    assert session.voice.closed == len(session.voice.spoken)


def spoken_bytes(line: FakeLine) -> bytes:
    deltas = [e["delta"] for e in line.sent if e["type"] == "response.output_audio.delta"]
    return b"".join(map(base64.b64decode, deltas))


async def test_a_written_question_is_answered_aloud():
    async with running(Session(mind=FakeMind(["It is ", "noon. Truly."]))) as session:
        session.write("what time is it?")
        done = await session.line.until("response.done")

    assert done["response"]["status"] == "completed"
    assert [text for text, _, _ in session.voice.spoken] == ["It is noon.", "Truly."]
    assert spoken_bytes(session.line) == LOUD * (240 * len("It is noon.Truly."))
    assert session.pace.asked == [0.0, 0.11]  # each piece when those before it are due
    assert session.ended.code == 1000


async def test_a_spoken_question_is_heard_answered_and_said():
    config = SessionConfig(model="m", turn_detection=TurnDetection(silence_duration_ms=200))
    session = Session(config, ears=FakeEars("how are you?"), mind=FakeMind(["Fine."]))
    async with running(session):
        for audio in (sound(500), sound(400, LOUD), sound(100), sound(300)):
            session.line.say("input_audio_buffer.append", audio=audio)
        done = await session.line.until("response.done")

    seen = [k for k in kinds(session.line.sent) if k.startswith("input_audio_buffer")]
    assert seen == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
    ]
    (heard,) = session.ears.sounds
    assert heard.rate == 24_000
    assert heard.pcm.strip(b"\x00") == LOUD * 9600  # all of the speech
    assert heard.seconds == pytest.approx(0.9)  # padding before, silence behind
    completed = "conversation.item.input_audio_transcription.completed"
    assert (await session.line.until(completed))["transcript"] == "how are you?"
    assert session.mind.prompts[0].messages[-1]["content"] == "how are you?"
    assert done["response"]["output"][0]["content"][0]["transcript"] == "Fine."


@pytest.mark.parametrize("cut", [97, 333, 4801])
async def test_sound_may_be_cut_anywhere(cut):
    config = SessionConfig(model="m", turn_detection=TurnDetection(silence_duration_ms=200))
    session = Session(config)
    raw = b"\x00\x00" * 2400 + LOUD * 4800 + b"\x00\x00" * 7200
    async with running(session):
        for at in range(0, len(raw), cut):
            piece = base64.b64encode(raw[at : at + cut]).decode()
            session.line.say("input_audio_buffer.append", audio=piece)
        await session.line.until("response.done")
    assert session.ears.sounds[0].pcm.strip(b"\x00") == LOUD * 4800


async def test_turns_may_be_listened_for_later_on():
    async with running(Session()) as session:
        odd = base64.b64encode(b"\x00\x00" * 24_000 + b"\x11").decode()
        session.line.say("input_audio_buffer.append", audio=odd)
        turns = {"type": "server_vad", "prefix_padding_ms": 0, "silence_duration_ms": 200}
        wanted = {"type": "realtime", "audio": {"input": {"turn_detection": turns}}}
        session.line.say("session.update", session=wanted)
        rest = base64.b64encode(b"\x11" + LOUD * 2399 + bytes(48_000)).decode()
        session.line.say("input_audio_buffer.append", audio=rest)
        started = await session.line.until("input_audio_buffer.speech_started")
        await session.line.until("response.done")
    assert started["audio_start_ms"] == 1000
    assert session.ears.sounds[0].pcm.strip(b"\x00") == LOUD * 2400


@pytest.mark.spec("T47")
async def test_speaking_into_a_reply_stops_it_at_once():
    hold = asyncio.Event()
    config = SessionConfig(model="m", turn_detection=TurnDetection(silence_duration_ms=200))
    mind = FakeMind(["One sentence. And more", hold, " that never comes."], ["As you like."])
    async with running(Session(config, mind=mind)) as session:
        session.write()
        await session.line.until("response.output_audio.delta")
        session.line.say("input_audio_buffer.append", audio=sound(300, LOUD))
        cancelled = await session.line.until("response.done")
        assert cancelled["response"]["status"] == "cancelled"
        for _ in range(20):
            await asyncio.sleep(0)
        assert mind.closed == 1

        session.line.say("input_audio_buffer.append", audio=sound(300))
        again = await session.line.until("response.done", 2)
        assert again["response"]["status"] == "completed"

    after = session.line.sent.index(cancelled)
    late = [
        e for e in session.line.sent[after:] if e.get("response_id") == cancelled["response"]["id"]
    ]
    assert late == []
    assert session.mind.prompts[1].messages[1]["content"].startswith("One sentence.")


async def test_the_first_sentence_is_heard_while_the_model_still_writes():
    hold = asyncio.Event()
    async with running(Session(mind=FakeMind(["First. Sec", hold, "ond."]))) as session:
        session.write()
        await session.line.until("response.output_audio.delta")
        assert session.voice.spoken == [("First.", None, 1.0)]
        hold.set()
        await session.line.until("response.done")


async def test_a_slow_voice_holds_up_nothing_but_its_own_words():
    session = Session(voice=FakeVoice())
    session.voice.hold = asyncio.Event()
    async with running(session):
        session.write()
        await session.line.until("response.created")
        session.line.say("conversation.item.retrieve", item_id="nope")
        await session.line.until("error")
        session.line.say("response.cancel")
        assert (await session.line.until("response.done"))["response"]["status"] == "cancelled"


async def test_ears_that_fail_are_told_and_the_session_goes_on():
    async with running(Session(ears=FakeEars(UpstreamFailed("deaf today"), "hello"))) as session:
        for _ in range(2):
            session.line.say("input_audio_buffer.append", audio=sound(200))
            session.line.say("input_audio_buffer.commit")
            session.line.say("response.create")
            await session.line.until("response.created")
            if len(session.ears.sounds) < 2:
                failed = await session.line.until("response.done")
        assert failed["response"]["status"] == "failed"
        assert failed["response"]["status_details"]["error"]["message"] == "deaf today"
        well = await session.line.until("response.done", 2)
        assert well["response"]["status"] == "completed"


@pytest.mark.parametrize("part", ["mind", "voice"])
async def test_a_part_that_fails_fails_the_response_only(part):
    mind = FakeMind(
        ["Half. ", UpstreamFailed("broke off")] if part == "mind" else ["Half. No"], ["Well."]
    )
    voice = FakeVoice(fails="No" if part == "voice" else None)
    async with running(Session(mind=mind, voice=voice)) as session:
        session.write()
        assert (await session.line.until("response.done"))["response"]["status"] == "failed"
        session.write()
        assert (await session.line.until("response.done", 2))["response"]["status"] == "completed"


async def test_a_defect_of_a_part_is_an_internal_error(caplog):
    async with running(Session(mind=FakeMind([ValueError("secret detail")]))) as session:
        session.write()
        done = await session.line.until("response.done")
    assert done["response"]["status_details"]["error"]["message"] == "internal error"
    assert "secret detail" in caplog.text


async def test_functions_reach_the_model_and_come_back():
    calls = [CallStart(0, "call_1", "weather"), Arguments(0, '{"city":"Rome"}')]
    mind = FakeMind([*calls, End(usage=Usage(input_tokens=3, output_tokens=4))])
    async with running(Session(BY_TEXT, mind=mind)) as session:
        tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
        session.line.say("session.update", session={"type": "realtime", "tools": [tool]})
        session.write()
        done = await session.line.until("response.done")
    (call,) = done["response"]["output"]
    assert (call["name"], call["arguments"]) == ("weather", '{"city":"Rome"}')
    assert done["response"]["usage"]["total_tokens"] == 7
    assert mind.prompts[0].tools == (tool,)


async def test_a_caller_who_leaves_in_the_middle_of_a_sentence_leaves_nothing_behind():
    session = Session(mind=FakeMind(["A long sentence is said here. ", asyncio.Event()]))
    async with running(session):
        session.write()
        await session.line.until("response.created")
        session.pace.gate.clear()
    # `running` has looked for what is left


async def test_leaving_right_after_an_interruption_breaks_off_no_closing():
    session = Session(mind=FakeMind(["Half an answer. And", asyncio.Event()]))
    async with running(session):
        session.write()
        await session.line.until("response.output_audio.delta")
        session.line.say("response.cancel")
        session.line.leave()
    # `running` has counted what was closed


async def test_a_caller_who_takes_nothing_is_given_up():
    session = Session(mind=FakeMind(["Many words. " * 200]), stall_seconds=0.05, queue_bytes=2000)
    async with asyncio.timeout(5):
        task = asyncio.create_task(session.composed.run())
        await session.line.until("session.created")
        session.line.takes.clear()
        session.write()
        ended = await task
    assert ended.code == 1008


async def test_what_waits_for_a_slow_caller_is_bounded():
    session = Session(mind=FakeMind(["Many words are said here. " * 400]), queue_bytes=20_000)
    async with running(session):
        await session.line.until("session.created")
        session.line.takes.clear()
        session.write()
        for _ in range(400):
            await asyncio.sleep(0)
        waiting = sum(map(len, session.composed._outbox._waiting))
        assert waiting <= 20_000
        session.line.takes.set()
        done = await session.line.until("response.done")
    assert done["response"]["status"] == "completed"  # late, and whole
    assert len(spoken_bytes(session.line)) == 2 * 240 * len("Many words are said here.") * 400


async def test_a_message_that_is_too_large_ends_the_session():
    session = Session(frame_bytes=1000)
    task = asyncio.create_task(session.composed.run())
    session.line.say("input_audio_buffer.append", audio=sound(100))
    async with asyncio.timeout(5):
        ended = await task
    assert ended.code == 1009
    assert ended.trouble.code == "message_too_big"


@pytest.mark.parametrize("frame", ["{", "[]", '"x"', b"{}", "nul"])
async def test_what_is_no_event_is_told_and_the_session_goes_on(frame):
    async with running(Session(BY_TEXT)) as session:
        for _ in range(10):  # more than may wait at a time
            session.line.frames.put_nowait(frame)
        await session.line.until("error", 10)
        session.write()
        await session.line.until("response.done")


async def test_the_telephone_is_spoken():
    config = SessionConfig(
        model="m",
        input_format=Format("audio/pcmu"),
        output_format=Format("audio/pcmu"),
        turn_detection=None,
    )
    session = Session(config, voice=FakeVoice(rate=8000))
    async with running(session):
        session.line.say(
            "input_audio_buffer.append", audio=base64.b64encode(b"\xff" * 1600).decode()
        )
        session.line.say("input_audio_buffer.commit")
        session.line.say("response.create")
        await session.line.until("response.done")
    assert session.ears.sounds[0].pcm == pcm_from_ulaw(b"\xff" * 1600)
    assert session.ears.sounds[0].rate == 8000
    assert len(spoken_bytes(session.line)) == 80 * len("Fine.Thanks.")


async def test_another_rate_is_converted():
    pytest.importorskip("av")
    async with running(Session(voice=FakeVoice(rate=16_000))) as session:
        session.write()
        await session.line.until("response.done")
    seconds = len(spoken_bytes(session.line)) / 48_000
    assert seconds == pytest.approx(0.12, abs=0.02)


# --- pace ---


async def test_sound_runs_ahead_only_so_far(monkeypatch):
    clock, slept = VirtualClock(), []

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        clock.moment += seconds

    monkeypatch.setattr("monoize.realtime.speaking.asyncio.sleep", sleep)
    tempo = Tempo(clock, 0.5)
    for piece in range(6):
        await tempo.wait(piece * 0.2)
    assert slept == [0.1, 0.2, 0.2]  # three at once, then as fast as it is heard

    clock.moment += 10  # the voice was slow: nothing is owed to the past
    await tempo.wait(1.2)
    await tempo.wait(1.4)
    assert slept == [0.1, 0.2, 0.2]
