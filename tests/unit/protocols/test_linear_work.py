"""Long histories cost what they are long: four times the messages, four times the work, in every direction."""

import pytest

from fakes.work import growth
from monoize.clock import SequentialIds
from monoize.protocol import Reply, protocol
from monoize.protocols._waiting import Waiting
from monoize.urp import (
    ArgumentsDelta,
    ChoiceEnd,
    Delta,
    Finish,
    FinishReason,
    Frame,
    Losses,
    Message,
    PartDone,
    PartStart,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    ResponseDone,
    ResponseStart,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    UrpRequest,
)

PROTOCOLS = ("chat_completion", "gemini", "messages", "responses")
LINEAR = 4.6  # four, and some for what is done once
SHELL = "local_shell_call"


def said(role, *parts):
    return Message(role=role, parts=parts)


def word(role=Role.USER):
    return said(role, Text(content="x"))


def call(n):
    return ToolCall(call_id=f"c{n}", name=f"f{n}", arguments="{}")


def result(n):
    return said(Role.TOOL, ToolResult(call_id=f"c{n}"), Text(content="r"))


def native(n):
    body = {"type": SHELL, "call_id": f"c{n}"}
    return said(
        Role.ASSISTANT, ProviderItem(origin_protocol="responses", item_type=SHELL, body=body)
    )


HISTORIES = {
    "words": lambda n: [word((Role.USER, Role.ASSISTANT)[i % 2]) for i in range(n)],
    "one turn of many messages": lambda n: [word(), *[word(Role.ASSISTANT) for _ in range(n)]],
    "instructions": lambda n: [word(), *[word(Role.SYSTEM) for _ in range(n)]],
    "parts": lambda n: [said(Role.USER, *[Text(content=f"{i}") for i in range(n)])],
    "calls and then their results": lambda n: [
        word(),
        said(Role.ASSISTANT, *map(call, range(n))),
        *map(result, range(n)),
    ],
    "results the other way round": lambda n: [
        word(),
        said(Role.ASSISTANT, *map(call, range(n))),
        *map(result, reversed(range(n))),
    ],
    "calls, each with its result": lambda n: [
        word(),
        *[m for i in range(n) for m in (said(Role.ASSISTANT, call(i)), result(i))],
    ],
    "calls without results": lambda n: [
        m for i in range(n) for m in (word(), said(Role.ASSISTANT, call(i)), result(n + i))
    ],
    "results of native calls": lambda n: [word(), *map(native, range(n)), *map(result, range(n))],
    "thoughts": lambda n: [
        word(),
        *[said(Role.ASSISTANT, Reasoning(content="h"), Text(content="x")) for _ in range(n)],
    ],
    "sealed thoughts": lambda n: [
        word(),
        *[said(Role.ASSISTANT, ReasoningEncrypted(protocol="gemini", data="s")) for _ in range(n)],
        word(Role.ASSISTANT),
    ],
}


def request(history, n):
    return UrpRequest(model="gemini-3-pro", max_output_tokens=9, messages=tuple(history(n)))


def with_tools(n):
    tools = tuple(Tool(name=f"f{i}", parameters={"type": "object"}) for i in range(n))
    allowed = ToolChoice(mode="allowed", names=tuple(tool.name for tool in tools))
    return UrpRequest(
        model="m", max_output_tokens=9, messages=(word(),), tools=tools, tool_choice=allowed
    )


REQUESTS = {
    **{name: lambda n, history=history: request(history, n) for name, history in HISTORIES.items()},
    "tools": with_tools,
}


def written(id, value):
    return protocol(id).encode_request(value, Losses()).body


def read(id, body):
    return protocol(id).decode_request(body, model="gemini-3-pro")


@pytest.mark.parametrize("id", PROTOCOLS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_long_request_is_written_and_read_in_linear_work(kind, id):
    make = REQUESTS[kind]

    def writing(n):
        value = make(n)
        return lambda: written(id, value)

    def reading(n):
        body = written(id, make(n))
        return lambda: read(id, body)

    assert growth(writing) < LINEAR
    assert growth(reading) < LINEAR


@pytest.mark.parametrize("target", PROTOCOLS)
@pytest.mark.parametrize("source", PROTOCOLS)
def test_a_long_history_is_translated_in_linear_work(source, target):
    def translating(n):
        value = read(source, written(source, request(HISTORIES["results the other way round"], n)))
        return lambda: written(target, value)

    assert growth(translating) < LINEAR


def parallel_calls(n):
    """All begin, all grow, all end: nothing says that they come one after the other."""
    header = Message(role=Role.ASSISTANT)
    yield ResponseStart(id="r", model="m")
    for i in range(n):
        empty = ToolCall(call_id=f"c{i}", name="f", arguments="")
        yield PartStart(part_index=i, part=empty, message=None if i else header)
    for i in range(n):
        yield Delta(part_index=i, delta=ArgumentsDelta(arguments="{}"))
    for i in range(n):
        yield PartDone(part_index=i)
    yield ResponseDone(choices=(ChoiceEnd(finish=Finish(reason=FinishReason.TOOL_CALLS)),))


@pytest.mark.parametrize("id", PROTOCOLS)
def test_a_stream_of_many_calls_is_written_and_read_in_linear_work(id):
    def write(n):
        reply = Reply(
            request=UrpRequest(model="m"),
            model="m",
            ids=SequentialIds(),
            created=1,
            losses=Losses(),
        )
        encoder = protocol(id).stream_encoder(reply)
        return [wire for event in parallel_calls(n) for wire in encoder.frame(Frame((event,)))]

    def reading(n):
        wires = write(n)
        decoder = protocol(id).stream_decoder(SequentialIds())
        return lambda: [*map(decoder.decode, wires), decoder.finish()]

    assert growth(lambda n: lambda: write(n)) < LINEAR
    assert growth(reading) < LINEAR


# --- things that wait --------------------------------------------------------------------------------


def test_the_oldest_of_a_name_is_taken_first_and_only_once():
    waiting = Waiting()
    for item in ("a1", "b1", "a2"):
        waiting.add(item, item[0], "any")
    assert waiting.take("a") == "a1"
    assert waiting.take("any") == "b1"
    assert waiting.take("b") is None
    assert waiting.take("a", "any") == "a2"
    assert waiting.take("any", "never heard of") is None
