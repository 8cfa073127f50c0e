"""Ears, mind and voice out of the gateway's own operations, with a scripted provider at their end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.bench import Bench, Said, provider, says
from monoize.audio import read_wav
from monoize.engine import Sound
from monoize.errors import Forbidden, MonoizeError, NoBackend
from monoize.realtime.chat import chat_wire, thoughts_of
from monoize.realtime.config import Transcription
from monoize.realtime.gateway import (
    GatewayEars,
    GatewayMind,
    GatewayVoice,
    first_model,
    known_voices,
)
from monoize.realtime.ports import Arguments, CallStart, End, Words
from monoize.realtime.state import Prompt
from monoize.urp import Usage

PROMPT = Prompt(messages=({"role": "user", "content": "hello"},))


def bench(script: Any = None, **more: Any) -> Bench:
    row = provider("there", **more)
    row["models"] = {"m": {"redirect": "their-m"}}
    return Bench({"providers": [row]}, {} if script is None else {"there": script})


def part(kind: Any, made: Bench, model: str = "m") -> Any:
    return kind(made.incoming({"model": model}), made.kit, model)


async def everything(thoughts: Any) -> list[Any]:
    return [thought async for thought in thoughts]


# --- mind ---


@pytest.mark.parametrize("kind", ["chat_completion", "messages", "responses", "gemini"])
async def test_a_chat_model_of_any_provider_thinks(kind):
    made = bench(type=kind)
    thoughts = await everything(part(GatewayMind, made).think(PROMPT))
    assert all(isinstance(thought, Words) for thought in thoughts[:-1])
    assert "".join(thought.text for thought in thoughts[:-1])
    assert isinstance(thoughts[-1], End)
    assert thoughts[-1].usage.output_tokens > 0
    assert made.sent[0].reply.closed


async def test_a_chat_model_calls_functions():
    made = bench(says("tools"))
    thoughts = await everything(part(GatewayMind, made).think(PROMPT))
    (start,) = [t for t in thoughts if isinstance(t, CallStart)]
    arguments = "".join(t.text for t in thoughts if isinstance(t, Arguments))
    assert start.name == "get_weather"
    assert json.loads(arguments)["city"]


async def test_a_model_that_breaks_off_is_raised():
    events = (
        b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n',
        b'data: {"error":{"message":"out of breath","code":"tired"}}\n\n',
    )
    made = bench(lambda _: Said(headers={"content-type": "text/event-stream"}, pieces=events))
    thinking = part(GatewayMind, made).think(PROMPT)
    assert await anext(thinking) == Words("Half")
    with pytest.raises(MonoizeError, match="out of breath"):
        await anext(thinking)


async def test_closing_a_thought_closes_the_providers_reply():
    made = bench()
    thinking = part(GatewayMind, made).think(PROMPT)
    await anext(thinking)
    await thinking.aclose()
    assert made.sent[0].reply.closed


def test_a_prompt_becomes_a_chat_request():
    tool = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}
    prompt = Prompt(
        messages=PROMPT.messages,
        tools=(tool,),
        tool_choice={"type": "function", "name": "f"},
        parallel_tool_calls=False,
        max_output_tokens=7,
    )
    assert chat_wire(prompt, "m") == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 7,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": {"type": "object"},
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
    }


@pytest.mark.parametrize(
    ("chunk", "thoughts"),
    [
        ({"choices": []}, []),
        ([], []),
        ({"choices": [{"delta": {"content": "a", "reasoning_content": "hm"}}]}, [Words("a")]),
        ({"choices": [{"delta": {"refusal": "no"}}]}, [Words("no")]),
        ({"choices": [{"delta": {}, "finish_reason": "length"}]}, [End(finish="length")]),
        ({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}, [End()]),
        (
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
            [End(usage=Usage(input_tokens=3, output_tokens=4))],
        ),
        (
            {
                "choices": [
                    {"delta": {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}}
                ]
            },
            [Arguments(1, "{}")],
        ),
    ],
)
def test_chunks_become_thoughts(chunk, thoughts):
    assert thoughts_of(chunk) == thoughts


# --- ears ---


def transcript(sent: Any) -> Said:
    return Said(pieces=(b'{"text": " good morning "}',))


async def sent_form(made: Bench) -> bytes:
    body = made.sent[0].call.body
    return b"".join([chunk async for chunk in body.chunks()])


async def test_a_recording_is_heard():
    made = bench(transcript)
    sound = Sound(pcm=b"\x01\x00" * 2400, rate=24_000)
    heard = await part(GatewayEars, made).transcribe(
        sound, Transcription(language="en", prompt="names")
    )
    assert (heard.text, heard.seconds) == ("good morning", 0.1)
    form = await sent_form(made)
    assert b"their-m" in form
    assert b'name="language"\r\n\r\nen' in form
    assert b'name="prompt"\r\n\r\nnames' in form
    assert read_wav(form[form.index(b"RIFF") :]).pcm.startswith(sound.pcm)


async def test_hints_that_nobody_takes_are_left_out():
    made = bench(transcript, capabilities={"features": ["supports_audio_input"]})
    await part(GatewayEars, made).transcribe(
        Sound(pcm=bytes(4800), rate=24_000), Transcription(language="en")
    )
    assert b'name="language"' not in await sent_form(made)


async def test_a_session_may_name_the_model_that_hears():
    made = bench(transcript)
    with pytest.raises(NoBackend):
        await part(GatewayEars, made).transcribe(
            Sound(pcm=bytes(4800), rate=24_000), Transcription(model="another")
        )


async def test_a_key_that_may_not_hear_does_not():
    row = provider("there", models={"m": {}})
    key = {"name": "k", "key": "sk-0123456789", "models": ["chat-*"]}
    made = Bench({"providers": [row], "keys": [key]}, {"there": transcript})
    ears = GatewayEars(made.incoming({"model": "m"}, key="k"), made.kit, "m")
    with pytest.raises(Forbidden):
        await ears.transcribe(Sound(pcm=bytes(4800), rate=24_000), Transcription())
    assert made.sent == []


# --- voice ---


async def test_a_text_is_spoken_as_it_comes():
    pieces = (b"\x01\x02\x03", b"\x04", b"\x05\x06\x07\x08")
    made = bench(lambda _: Said(headers={"content-type": "audio/pcm"}, pieces=pieces))
    speaking = part(GatewayVoice, made).speak("Hello.", voice="alloy", speed=1.5)
    sounds = [sound async for sound in speaking]
    assert b"".join(sound.pcm for sound in sounds) == b"".join(pieces)
    assert all(len(sound.pcm) % 2 == 0 and sound.rate == 24_000 for sound in sounds)
    assert made.sent[0].body == {
        "model": "their-m",
        "input": "Hello.",
        "voice": "alloy",
        "response_format": "pcm",
        "speed": 1.5,
    }
    assert made.sent[0].reply.closed


async def test_closing_a_voice_closes_the_providers_reply():
    made = bench(lambda _: Said(headers={"content-type": "audio/pcm"}, pieces=(b"ab", b"cd")))
    speaking = part(GatewayVoice, made).speak("Hello.", voice=None, speed=1.0)
    await anext(speaking)
    await speaking.aclose()
    assert made.sent[0].reply.closed


# --- who does what ---


def test_a_model_that_does_one_thing_is_found():
    able = {"capabilities": {"operations": ["speech_to_text"]}}
    rows = [
        provider("all", models={"gpt": {}}),
        provider("some", models={"gpt-2": {}, "whisper": able, "whisper-2": able}),
    ]
    made = Bench({"providers": rows})
    policy = made.incoming({}).caller.policy
    assert first_model(made.kit.catalog, "speech_to_text", policy) == "whisper"
    assert first_model(made.kit.catalog, "text_to_speech", policy) is None
    assert known_voices(made.kit, "gpt") is None
    assert known_voices(made.kit, "nobody") is None
