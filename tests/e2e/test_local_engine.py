"""The real model in this process; nothing here is faked."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import jsonschema
import pytest

from monoize.clock import RandomIds
from monoize.engine import EngineSetup, engines
from monoize.errors import EngineError, InvalidRequest

MODEL = "smollm2-135m"
CITY_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 30},
                "unit": {"enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        },
    },
}
CLOCK_TOOL = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {
            "type": "object",
            "properties": {"zone": {"$ref": "#/$defs/Zone"}},
            "required": ["zone"],
            "$defs": {"Zone": {"enum": ["utc", "local"]}},
        },
    },
}
PARAMETERS = {
    tool["function"]["name"]: tool["function"]["parameters"] for tool in (CITY_TOOL, CLOCK_TOOL)
}


@pytest.fixture
async def build(tmp_path_factory):
    built = []

    def build_one(**options):
        # One folder for all tests of a run: the weights are hashed once.
        folder = tmp_path_factory.getbasetemp() / "engine"
        setup = EngineSetup(folder=folder, ids=RandomIds(), options=options)
        built.append(engines()["smollm2"](setup))
        return built[-1]

    status = build_one().available()
    if not status.installed:
        pytest.skip(f"{status.reason} {status.install}")
    yield build_one
    for engine in built:
        await engine.aclose()


@pytest.fixture
def engine(build):
    return build()


def asked(question="What is the capital of France?", **fields):
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        **fields,
    }


LONG = asked("Write a very long story about the sea.", max_tokens=7500, logit_bias={"2": -100})


async def test_a_unary_reply_has_text_and_usage(engine):
    reply = await engine.chat(asked())
    assert reply["object"] == "chat.completion"
    assert reply["model"] == MODEL
    choice = reply["choices"][0]
    assert "Paris" in choice["message"]["content"]
    assert choice["finish_reason"] == "stop"
    usage = reply["usage"]
    assert usage["prompt_tokens"] > 0
    assert usage["completion_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_a_stream_says_the_same_as_the_unary_reply(engine):
    body = asked(seed=1)
    whole = await engine.chat(body)
    chunks = [
        json.loads(data)
        async for data in engine.stream({**body, "stream_options": {"include_usage": True}})
    ]
    text = "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )
    assert text == whole["choices"][0]["message"]["content"]
    assert len(chunks) > 4
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


async def test_a_seed_gives_the_same_text_again(engine):
    body = asked("Tell me something.", seed=11, temperature=1, max_tokens=24)
    texts = {(await engine.chat(body))["choices"][0]["message"]["content"] for _ in range(2)}
    assert len(texts) == 1


async def test_logprobs_and_stop_words_are_honoured(engine):
    reply = await engine.chat(asked(logprobs=True, top_logprobs=2, stop="capital"))
    choice = reply["choices"][0]
    assert "capital" not in choice["message"]["content"]
    assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 2


async def at_work(engine):
    """Once it has begun with the only thing that it was asked for."""
    async with asyncio.timeout(60):
        while True:
            if engine._running:
                (worker,) = engine._running
                return worker
            await asyncio.sleep(0.01)


async def test_closing_a_stream_stops_the_generation(build):
    engine = build(slots=1)
    stream = engine.stream(LONG)
    for _ in range(4):
        await anext(stream)
    await stream.aclose()
    # The only slot is free again long before 7500 tokens could have been written.
    async with asyncio.timeout(60):
        assert (await engine.chat(asked()))["choices"]


async def test_cancelling_the_reader_stops_the_generation(build):
    engine = build(slots=1)
    await engine.start()
    unary = asyncio.create_task(engine.chat(LONG))
    await at_work(engine)
    await asyncio.sleep(0.5)
    unary.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unary
    async with asyncio.timeout(60):
        assert (await engine.chat(asked()))["choices"]


async def test_reading_a_long_prompt_can_be_cancelled_too(build):
    engine = build(slots=1)
    await engine.start()
    reading = asyncio.create_task(engine.chat(asked("word number seven " * 1500)))
    worker = await at_work(engine)
    await asyncio.sleep(0.1)
    reading.cancel()
    async with asyncio.timeout(40):  # the whole prompt would take about a minute
        await asyncio.wrap_future(worker)
    assert reading.cancelled()


async def test_closing_the_engine_ends_what_is_running(engine):
    stream = engine.stream(LONG)
    await anext(stream)
    closing = asyncio.create_task(engine.aclose())
    with pytest.raises(EngineError, match="closed"):
        async for _ in stream:
            pass
    await closing


async def test_the_event_loop_turns_while_the_model_writes(engine):
    await engine.start()
    turns = 0

    async def turning():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    other = asyncio.create_task(turning())
    reply = await engine.chat(asked("Count to fifty.", max_tokens=60))
    other.cancel()
    assert turns > reply["usage"]["completion_tokens"]  # several per token; blocked it would be one


async def test_a_json_schema_is_honoured(engine):
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "continent": {"enum": ["Europe", "Asia"]},
            "tags": {"type": "array", "items": {"enum": ["old", "big"]}, "maxItems": 2},
        },
        "required": ["city", "continent", "tags"],
    }
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    reply = await engine.chat(asked(response_format=form))
    assert reply["choices"][0]["finish_reason"] == "stop"
    jsonschema.validate(json.loads(reply["choices"][0]["message"]["content"]), schema)


async def test_a_schema_that_cannot_be_enforced_is_refused(engine):
    form = {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/nowhere"}}}
    with pytest.raises(InvalidRequest) as refused:
        await anext(engine.stream(asked(response_format=form)))
    assert refused.value.param == "response_format"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "get_time"}}]
)
async def test_a_demanded_tool_call_is_made_and_fits_its_schema(engine, choice):
    body = asked("How is the weather in Rome?", tools=[CITY_TOOL, CLOCK_TOOL], tool_choice=choice)
    reply = await engine.chat(body)
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    assert call["id"].startswith("call_")
    name = call["function"]["name"]
    assert choice == "required" or name == "get_time"
    jsonschema.validate(json.loads(call["function"]["arguments"]), PARAMETERS[name])


async def test_a_prompt_beyond_the_context_is_the_callers_mistake(engine):
    with pytest.raises(InvalidRequest) as refused:
        await engine.chat(asked("a b c " * 9000))
    assert refused.value.error_code == "context_length_exceeded"


async def test_too_many_requests_are_told_that_the_engine_is_busy(build):
    engine = build(slots=1, waiting=1)
    first = engine.stream(LONG)
    await anext(first)
    second = asyncio.create_task(engine.chat(asked(max_tokens=4)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(EngineError) as refused:
        await engine.chat(asked())
    assert refused.value.error_code == "engine_busy"
    await first.aclose()
    assert (await second)["choices"]


async def test_the_runtimes_own_port_answers_nobody(engine):
    await engine.start()
    address = (await engine._server()).listening_address
    async with aiohttp.ClientSession() as session:
        for path in ("/v1/chat/completions", "/completion", "/tokenize"):
            async with session.post(address + path, json=asked()) as reply:
                assert reply.status == 401
    assert "127.0.0.1" in address


async def test_two_requests_share_the_slots(engine):
    replies = await asyncio.gather(*(engine.chat(asked(max_tokens=12)) for _ in range(4)))
    assert all(reply["usage"]["completion_tokens"] for reply in replies)
