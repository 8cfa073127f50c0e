"""Voice sessions as OpenAI's own client holds them: at a provider, on any chat model, and spoken on the local engines."""

from __future__ import annotations

import asyncio
import base64
import difflib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.dashboard import until as seen_when
from fakes.gateway import KEY
from fakes.realtime_gateway import RealtimeGateway, provider
from fakes.realtime_upstream import RealtimeUpstream
from fakes.upstream import FakeUpstream
from monoize.clock import RandomIds
from monoize.engine import EngineSetup, Sound, SpeechEngine, TranscriptionEngine, engines
from monoize.sound import resampled
from monoize.voice_activity import VoiceActivity

pytestmark = pytest.mark.spec("D26", "S4-2.1")

RATE = 24_000
PATIENCE = 120.0  # two busy cores hear, think and speak


def client(gateway: RealtimeGateway, **more: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=KEY, **more)


async def until(connection: Any, *kinds: str) -> list[Any]:
    """All events up to the first of these kinds."""
    seen = []
    async with asyncio.timeout(PATIENCE):
        async for event in connection:
            seen.append(event)
            assert event.type != "error", event
            if event.type in kinds:
                return seen
    raise AssertionError(f"the line ended after {[event.type for event in seen]}")


# --- at a provider ---


@pytest.fixture(scope="module")
def at_provider() -> Iterator[RealtimeGateway]:
    with (
        RealtimeUpstream() as upstream,
        RealtimeGateway([provider("openai", upstream, ["well"])]) as gateway,
    ):
        yield gateway


async def test_the_official_client_holds_a_session_at_a_provider(at_provider):
    async with client(at_provider) as sdk, sdk.realtime.connect(model="say-well") as connection:
        created = await connection.recv()
        assert created.type == "session.created"
        assert created.session.model == "say-well"
        await connection.session.update(
            session={"type": "realtime", "output_modalities": ["audio"], "instructions": "hi"}
        )
        assert (await connection.recv()).session.instructions == "hi"
        await connection.response.create()
        seen = await until(connection, "response.done")
    sounds = [event.delta for event in seen if event.type == "response.output_audio.delta"]
    assert b"".join(map(base64.b64decode, sounds)) == b"".join(bytes([n]) * 480 for n in range(3))
    assert seen[-1].response.usage.total_tokens == 130


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")
def test_the_official_client_without_asyncio_does_too(at_provider):
    base_url = f"http://127.0.0.1:{at_provider.port}/v1"
    with (
        openai.OpenAI(base_url=base_url, api_key=KEY) as sdk,
        sdk.realtime.connect(model="say-well") as connection,
    ):
        assert connection.recv().type == "session.created"
        connection.response.create()
        for event in connection:
            if event.type == "response.done":
                break
        assert event.response.status == "completed"


async def test_a_refusal_is_the_clients_own_error(at_provider):
    with pytest.raises(Exception, match="401"):
        async with client(at_provider) as sdk:
            sdk.api_key = "sk-somebody-else"
            async with sdk.realtime.connect(model="say-well"):
                pass


# --- any chat model ---


@pytest.fixture
def on_chat(session_upstream: FakeUpstream) -> Iterator[RealtimeGateway]:
    """A provider that has no realtime sessions, and nobody who hears or speaks."""
    chat = {
        "id": "anthropic",
        "type": "messages",
        "models": {"claude": {"redirect": "text"}},
        "channels": [
            {
                "id": "main",
                "base_url": session_upstream.base_url("messages"),
                "api_key": "sk-chat-channel",
            }
        ],
    }
    with RealtimeGateway([chat]) as gateway:
        yield gateway
        # The caller has gone a moment ago.
        assert seen_when(gateway.unfinished, lambda left: left == []) == []


async def test_a_session_in_text_is_put_together_on_any_chat_model(on_chat, upstream):
    async with client(on_chat) as sdk, sdk.realtime.connect(model="claude") as connection:
        created = await connection.recv()
        assert created.session.output_modalities == ["text"]  # nobody speaks here
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Say hello!"}],
            }
        )
        await connection.response.create()
        seen = await until(connection, "response.done")
        said = "".join(e.delta for e in seen if e.type == "response.output_text.delta")
        response = seen[-1].response
    assert response.status == "completed"
    assert response.output[0].content[0].text == said != ""
    assert response.usage.output_tokens > 0
    assert upstream.exchanges[-1].protocol == "messages"


async def test_a_mistake_is_an_error_event_and_the_session_goes_on(on_chat):
    async with client(on_chat) as sdk, sdk.realtime.connect(model="claude") as connection:
        await connection.recv()
        await connection.input_audio_buffer.append(audio="AAAA", event_id="mine")
        refused = await connection.recv()
        assert refused.error.event_id == "mine"
        assert "transcription_model" in refused.error.message  # and what to do about it
        await connection.response.create()
        await until(connection, "response.done")


# --- spoken, on this machine ---


def _lacking() -> str | None:
    found = {
        name: kind(EngineSetup(folder=Path("data/engines"), ids=RandomIds())).available()
        for name, kind in engines().items()
        if name in ("smollm2", "moonshine", "hibari")
    }
    found["turn detection"] = VoiceActivity.available()
    return next((f"{name}: {s.reason}" for name, s in found.items() if not s.installed), None)


needs_engines = pytest.mark.skipif(
    _lacking() is not None, reason=f"a local engine is not installed: {_lacking()}"
)


def local(engine: str, model: str) -> dict[str, Any]:
    return {
        "id": engine,
        "type": "local",
        "engine": engine,
        "models": {model: {}},
        "channels": [{"id": "engine"}],
    }


@pytest.fixture(scope="module")
def on_this_machine() -> Iterator[RealtimeGateway]:
    providers = [
        local("smollm2", "smollm2-135m"),
        local("moonshine", "moonshine-base-en"),
        local("hibari", "hibari-heart"),
    ]
    with RealtimeGateway(providers) as gateway:
        yield gateway


@asynccontextmanager
async def engine(name: str, folder: Path) -> AsyncIterator[Any]:
    made = engines()[name](EngineSetup(folder=folder, ids=RandomIds()))
    yield made
    await made.aclose()


async def spoken(text: str, folder: Path) -> bytes:
    """A question as somebody would ask it."""
    async with engine("hibari", folder) as voice:
        assert isinstance(voice, SpeechEngine)
        return b"".join([sound.pcm async for sound in voice.speak(text)])


async def heard(pcm: bytes, folder: Path) -> str:
    async with engine("moonshine", folder) as ears:
        assert isinstance(ears, TranscriptionEngine)
        sound = await resampled(Sound(pcm=pcm, rate=RATE), ears.rate)
        return (await ears.transcribe(sound)).text


async def say(connection: Any, pcm: bytes) -> None:
    """As a microphone would, but faster; silence around it."""
    silence = bytes(RATE * 2 // 2)
    recording = silence + pcm + silence * 3
    for at in range(0, len(recording), 9600):
        piece = base64.b64encode(recording[at : at + 9600]).decode()
        await connection.input_audio_buffer.append(audio=piece)


def like(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other.lower()).ratio()


@needs_engines
async def test_a_spoken_question_is_heard_and_answered_aloud(on_this_machine, tmp_path):
    question = "What is the capital of France?"
    async with (
        client(on_this_machine) as sdk,
        sdk.realtime.connect(model="smollm2-135m") as connection,
    ):
        await connection.recv()
        await connection.session.update(session={"type": "realtime", "max_output_tokens": 24})
        await say(connection, await spoken(question, tmp_path))
        seen = await until(connection, "response.done")
    of = {event.type: event for event in seen}
    assert "input_audio_buffer.speech_started" in of
    assert "input_audio_buffer.speech_stopped" in of
    transcript = of["conversation.item.input_audio_transcription.completed"].transcript
    assert like(transcript, question) > 0.8
    sounds = [event.delta for event in seen if event.type == "response.output_audio.delta"]
    answer = of["response.output_audio_transcript.done"].transcript
    pcm = b"".join(map(base64.b64decode, sounds))
    assert len(pcm) > RATE  # half a second at least
    assert (
        like(await heard(pcm, tmp_path), answer) > 0.5
    )  # the same words, as far as small ears tell
    assert seen[-1].response.usage.output_tokens > 0


@needs_engines
async def test_speaking_into_the_answer_stops_it(on_this_machine, tmp_path):
    async with (
        client(on_this_machine) as sdk,
        sdk.realtime.connect(model="smollm2-135m") as connection,
    ):
        await connection.recv()
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Tell me a long story about the sea."}],
            }
        )
        await connection.response.create()
        await until(connection, "response.output_audio.delta")
        await say(connection, await spoken("Stop, please. What is your name?", tmp_path))
        cancelled = (await until(connection, "response.done"))[-1].response
        assert cancelled.status == "cancelled"
        assert cancelled.status_details.reason == "turn_detected"
        again = (await until(connection, "response.done"))[-1].response
        assert again.status in ("completed", "cancelled")  # a pause in the question is a turn, too
    for _ in range(600):
        if not on_this_machine.unfinished():
            break
        await asyncio.sleep(0.05)
    assert on_this_machine.unfinished() == []


@needs_engines
async def test_the_telephone_works_as_well(on_this_machine):
    """G.711 both ways, turns by hand, a text item in between."""
    async with (
        client(on_this_machine) as sdk,
        sdk.realtime.connect(model="smollm2-135m") as connection,
    ):
        await connection.recv()
        law = {"format": {"type": "audio/pcmu"}}
        await connection.session.update(
            session={
                "type": "realtime",
                "max_output_tokens": 12,
                "audio": {"input": {**law, "turn_detection": None}, "output": law},
            }
        )
        silence = base64.b64encode(b"\xff" * 8000).decode()
        await connection.input_audio_buffer.append(audio=silence)
        await connection.input_audio_buffer.commit()
        await until(connection, "conversation.item.input_audio_transcription.completed")
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Say hello."}],
            }
        )
        await connection.response.create()
        seen = await until(connection, "response.done")
    sounds = [event.delta for event in seen if event.type == "response.output_audio.delta"]
    assert sum(len(base64.b64decode(sound)) for sound in sounds) > 2000
    assert seen[-1].response.status in ("completed", "incomplete")
