"""Several sources behind one manifest: what is refused when it is taken, what is watched, how results are wrapped."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from monoize.agent.machine.observe import read_envelope
from monoize.agent.manifest import ToolSpec
from monoize.agent.message import ToolInvocation
from monoize.agent.outcome import FailureCode
from monoize.agent.ports import ToolAway
from monoize.agent.tools import Failed, Returned, SourceAway, Tools, ToolSource
from monoize.agent.tools._capture import Capture
from monoize.agent.tools.source import MOST_BYTES


class Stock(ToolSource):
    """A source whose tools and answers a test chooses."""

    def __init__(self, *specs: ToolSpec, name: str = "stock", answer: Any = None) -> None:
        self.name = name
        self.offers = specs
        self.answer = answer if answer is not None else Returned(value="fine")
        self.closed = 0

    async def specs(self):
        if isinstance(self.offers, SourceAway):
            raise self.offers
        return self.offers

    async def call(self, name, arguments):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return await self.answer() if callable(self.answer) else self.answer

    async def aclose(self):
        self.closed += 1


def spec(name="go", **more):
    return ToolSpec(name=name, **more)


def call_of(name="go"):
    return ToolInvocation(id="call_7", name=name, arguments={}, source_model="m")


async def test_the_order_is_that_of_the_sources():
    tools = Tools([Stock(spec("z"), spec("a")), Stock(spec("m"))])
    manifest = await tools.manifest()
    assert manifest.names() == ("z", "a", "m")
    assert manifest.digest() == (await tools.manifest()).digest()


@pytest.mark.parametrize(
    ("sources", "code", "words"),
    [
        (
            [Stock(spec("go"), name="first"), Stock(spec("go"), name="second")],
            "tools_unavailable",
            ("go", "first", "second"),
        ),
        ([Stock(spec("go"), spec("go"))], "tools_unavailable", ("two tools",)),
        ([Stock(spec("go there"))], "tools_unavailable", ("go there",)),
        ([Stock(spec("x" * 65))], "tools_unavailable", ("64",)),
        ([Stock(spec(""))], "tools_unavailable", ("stock",)),
        ([Stock(spec("größe"))], "tools_unavailable", ("größe",)),
        ([Stock(spec(scope="root"))], "tools_unavailable", ("root",)),
        ([Stock(spec(parameters={"type": "array"}))], "schema_unsupported", ("object",)),
        (
            [Stock(spec(parameters={"type": "object", "properties": {"a": {"type": 5}}}))],
            "schema_unsupported",
            ("arguments",),
        ),
        ([Stock(spec(result_schema={"type": "nonsense"}))], "schema_unsupported", ("result",)),
        (
            [Stock(spec(result_schema={"$ref": "https://example.org/x"}))],
            "schema_unsupported",
            ("result",),
        ),
        (
            [Stock(spec(parameters={"type": "object", "maxProperties": 2**60}))],
            "schema_unsupported",
            ("2^53",),
        ),
    ],
)
async def test_what_cannot_be_agreed_to_is_named(sources, code, words):
    with pytest.raises(ToolAway) as away:
        await Tools(sources).manifest()
    assert away.value.code == code
    assert FailureCode(away.value.code)
    for word in words:
        assert word in away.value.reason


async def test_a_source_that_is_away_is_named_and_is_an_error_later():
    source = Stock(spec())
    tools = Tools([source])
    await tools.manifest()
    source.offers = SourceAway("the cable is out")
    envelope = json.loads(await tools.call(call_of(), 1))
    assert envelope["error"]["code"] == "transport_error"
    with pytest.raises(ToolAway, match="the cable is out") as away:
        await tools.manifest()
    assert away.value.code == "tools_unavailable"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ((spec("go", description="otherwise"),), "has changed go"),
        ((spec("go", pure=True),), "has changed go"),
        ((spec("go", parameters={"type": "object", "const": True}),), "has changed go"),
        ((), "no longer has go"),
        ((spec("go"), spec("more")), "has a new tool more"),
        ((spec("go", parameters={"type": "object", "maximum": 2**60}),), "has changed go"),
    ],
)
async def test_any_difference_ends_the_run(now, said):
    source = Stock(spec("go"), answer=AssertionError("called all the same"))
    tools = Tools([source])
    await tools.manifest()
    source.offers = now
    with pytest.raises(ToolAway, match=said) as away:
        await tools.call(call_of(), 1)
    assert away.value.code == "manifest_changed"


async def test_true_is_not_one():
    """Python's equality would take the one schema for the other."""
    source = Stock(spec(parameters={"type": "object", "const": True}))
    tools = Tools([source])
    await tools.manifest()
    source.offers = (spec(parameters={"type": "object", "const": 1}),)
    with pytest.raises(ToolAway, match="has changed"):
        await tools.call(call_of(), 1)


async def test_a_tool_that_nobody_has():
    with pytest.raises(ToolAway) as away:
        await Tools([Stock(spec())]).call(call_of("other"), 1)
    assert away.value.code == "unknown_tool"


@pytest.mark.parametrize(
    "value", [None, True, 3, 2.5, "text", 'a\u2028b\\"', [1, {"b": None}], {"ö": [[]]}, 2**70]
)
async def test_a_result_is_wrapped_and_the_core_takes_it(value):
    raw = await Tools([Stock(spec(), answer=Returned(value=value))]).call(call_of(), 1)
    assert json.loads(raw) == {
        "status": "ok",
        "tool": "go",
        "tool_call_id": "call_7",
        "result": value,
        "error": None,
        "retryable": False,
    }
    envelope, problem = read_envelope(raw, call_of(), spec())
    assert (envelope is not None, problem) == (True, "")


@pytest.mark.parametrize(
    ("code", "pure", "retryable"),
    [
        ("tool_error", True, False),
        ("protocol_error", True, False),
        ("transport_error", True, True),
        ("transport_error", False, False),  # it may have taken effect
    ],
)
async def test_a_failure_is_wrapped_and_the_core_takes_it(code, pure, retryable):
    answer = Failed(code=code, message="no \ud800 luck" + "!" * 10_000)
    raw = await Tools([Stock(spec(pure=pure), answer=answer)]).call(call_of(), 1)
    envelope, problem = read_envelope(raw, call_of(), spec())
    assert problem == ""
    assert envelope is not None
    assert isinstance(envelope.error, dict)
    assert (envelope.status, envelope.error["code"]) == ("error", code)
    assert envelope.retryable is retryable
    assert len(envelope.error["message"]) == 4096


def nested(depth):
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), nested(100_000)])
async def test_a_result_that_json_cannot_say_is_a_protocol_error(value):
    raw = await Tools([Stock(spec(), answer=Returned(value=value))]).call(call_of(), 1)
    assert json.loads(raw)["error"]["code"] == "protocol_error"


async def test_half_a_character_does_not_spoil_an_envelope():
    raw = await Tools([Stock(spec(), answer=Returned(value={"a": "x\ud800"}))]).call(call_of(), 1)
    assert json.loads(raw)["result"] == {"a": "x?"}


@pytest.mark.parametrize("value", ["é" * MOST_BYTES, ["x" * 1000] * 10_000])
async def test_a_result_beyond_the_room_is_cut_with_its_size_told(value):
    raw = await Tools([Stock(spec(), answer=Returned(value=value))]).call(call_of(), 30)
    assert len(raw) < 2 * MOST_BYTES
    assert "bytes left out" in json.loads(raw.decode())["result"]


async def test_a_text_that_its_source_has_cut_is_not_cut_again():
    capture = Capture(MOST_BYTES)
    capture.feed(b"\n\0" * MOST_BYTES)  # swells six times in JSON
    answer = Returned(value=capture.captured().text)
    raw = await Tools([Stock(spec(), answer=answer)]).call(call_of(), 30)
    assert json.loads(raw)["result"] == answer.value


async def test_the_time_is_up():
    async def forever():
        await asyncio.sleep(3600)

    with pytest.raises(TimeoutError):
        await Tools([Stock(spec(), answer=forever)]).call(call_of(), 0.01)


async def test_asking_for_the_tools_counts_into_the_time():
    source = Stock(spec())
    tools = Tools([source])
    await tools.manifest()

    async def forever():
        await asyncio.sleep(3600)

    source.specs = forever  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await tools.call(call_of(), 0.01)


async def test_every_source_is_closed_also_when_one_fails():
    class Stuck(Stock):
        async def aclose(self):
            await super().aclose()
            raise OSError("stuck")

    sources = [Stuck(), Stock(), Stuck(), Stock()]
    with pytest.raises(OSError, match="stuck"):
        await Tools(sources).aclose()
    assert [source.closed for source in sources] == [1, 1, 1, 1]
