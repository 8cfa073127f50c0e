"""Plain words take a short way through every codec: it ends where the long way ends, and takes nothing else."""

import copy
import gc
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.urp_values import requests, responses, texts
from monoize.clock import SequentialIds
from monoize.errors import MonoizeError
from monoize.protocol import Reply, protocol, protocol_ids
from monoize.protocols._plain import plain_reply, plain_talk
from monoize.protocols.chat_completion.plain import plain_message as plain_chat_message
from monoize.protocols.gemini.plain import plain_content
from monoize.protocols.messages.plain import plain_message
from monoize.protocols.responses.plain import plain_item
from monoize.urp import (
    Choice,
    Citation,
    Finish,
    FinishReason,
    Losses,
    Message,
    Role,
    Seal,
    Source,
    Text,
    ToolCall,
    UrpRequest,
    UrpResponse,
    Usage,
)

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "open"
PROTOCOLS = ("chat_completion", "messages", "responses", "gemini")
RELAXED = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# --- both ways ---------------------------------------------------------------------------------------


class Strange(dict):
    """An object as no JSON reader makes it: the short way leaves it alone, the long way reads it like any."""


class StrangeWords(str):
    """Likewise a text."""

    __slots__ = ()


class StrangeText(Text, frozen=True, kw_only=True):
    """Likewise a part, for encoders."""


def estranged(wire):
    match wire:
        case dict():
            return Strange({key: estranged(value) for key, value in wire.items()})
        case list():
            return [estranged(value) for value in wire]
        case str():
            return StrangeWords(wire)
        case _:
            return wire


def laid_open(value):
    """A value with everything that it holds, its sources too."""
    match value:
        case Source():
            return ("source", value.protocol, value.span, laid_open(value.wire))
        case msgspec.Struct():
            fields = {name: laid_open(getattr(value, name)) for name in value.__struct_fields__}
            return (type(value).__name__.removeprefix("Strange"), fields)
        case Mapping():
            return {str(key): laid_open(inner) for key, inner in value.items()}
        case list() | tuple():
            return [laid_open(inner) for inner in value]
        case str():
            return str(value)
        case _:
            return (type(value), value)


def outcome(work):
    """What came of it, a refusal included."""
    try:
        return laid_open(work())
    except MonoizeError as error:
        return (type(error), str(error), error.param)


def reading(id, body):
    return lambda: protocol(id).decode_request(body, model="gemini-2.5-flash")


def reading_reply(id, body):
    return lambda: protocol(id).decode_response(body, SequentialIds())


def assert_read_alike(read, id, body):
    assert outcome(read(id, body)) == outcome(read(id, estranged(body)))


def written(id, request):
    losses = Losses()
    wire = outcome(lambda: protocol(id).encode_request(request, losses))
    return wire, losses.dropped


def written_reply(id, response):
    request = UrpRequest(model="m", origin=id, temperature=0.5, user="u")
    losses, ids = Losses(), SequentialIds()
    reply = Reply(request=request, model="named", ids=ids, created=7, losses=losses)
    return outcome(lambda: protocol(id).encode_response(response, reply)), losses.dropped


def with_strange_texts(message):
    parts = tuple(
        StrangeText(**{name: getattr(part, name) for name in part.__struct_fields__})
        if type(part) is Text
        else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def strange_request(request):
    messages = tuple(map(with_strange_texts, request.messages))
    return msgspec.structs.replace(request, messages=messages)


def strange_reply(response):
    choices = tuple(
        msgspec.structs.replace(choice, messages=tuple(map(with_strange_texts, choice.messages)))
        for choice in response.choices
    )
    return msgspec.structs.replace(response, choices=choices)


# --- wires -------------------------------------------------------------------------------------------

junk = st.sampled_from(
    (None, "", " ", [], {}, 0, 1.5, True, False, "user", ["a"], [{"type": "text", "text": "t"}])
)
FIELDS = (
    "role content type text parts name id status tool_calls refusal annotations cache_control "
    "thought thoughtSignature function_call reasoning_content input messages contents instructions system "
    "system_instruction systemInstruction temperature max_tokens max_completion_tokens seed random_seed stop "
    "stop_sequences stream tools tool_choice metadata user text usage index finish_reason logprobs model unheard_of"
).split()


@st.composite
def spoilt(draw, wires):
    """A wire with some of its fields changed, added or taken away, wherever they lie."""
    wire = json.loads(json.dumps(draw(wires)))
    for _ in range(draw(st.integers(0, 3))):
        objects = [found for found in walked(wire) if isinstance(found, dict)]
        target = draw(st.sampled_from(objects))
        field = draw(st.sampled_from([*target, *FIELDS]))
        if field in target and draw(st.booleans()):
            del target[field]
        else:
            target[field] = copy.deepcopy(draw(junk))
    return wire


def walked(wire):
    yield wire
    inner = wire.values() if isinstance(wire, dict) else wire if isinstance(wire, list) else ()
    for value in inner:
        yield from walked(value)


def talk(id, *said):
    """A conversation of plain words, as callers of each protocol write it."""
    match id:
        case "chat_completion" | "messages":
            messages = [{"role": role, "content": words} for role, words in said]
            return {"model": "m", "max_tokens": 9, "temperature": 0.5, "messages": messages}
        case "responses":
            items = [{"role": role, "content": words} for role, words in said]
            return {"model": "m", "instructions": "short", "input": items, "temperature": 1}
        case _:
            speaker = {"assistant": "model"}
            contents = [
                {"role": speaker.get(role, role), "parts": [{"text": words}]}
                for role, words in said
            ]
            system = {"parts": [{"text": "short"}]}
            return {"contents": contents, "systemInstruction": system}


def requests_of(id):
    said = st.tuples(st.sampled_from(("user", "assistant", "system", "developer")), texts)
    plain = st.lists(said, min_size=2, max_size=4).map(lambda found: talk(id, *found))
    anything = requests(id).map(lambda r: protocol(id).encode_request(r, Losses()).body)
    return st.one_of(plain, spoilt(plain), spoilt(anything))


def replies_of(id):
    reply = Reply(
        request=UrpRequest(model="m", origin=id),
        model="m",
        ids=SequentialIds(),
        created=1,
        losses=Losses(),
    )
    return responses(id).map(lambda r: protocol(id).encode_response(r, reply))


@pytest.mark.soak
@pytest.mark.spec("DEC-1", "DEC-2", "URP-5")
@pytest.mark.parametrize("id", PROTOCOLS)
def test_a_request_is_read_alike_on_both_ways(id):
    @RELAXED
    @given(requests_of(id))
    def check(body):
        assert_read_alike(reading, id, body)

    check()


@pytest.mark.soak
@pytest.mark.spec("DEC-1", "T36")
@pytest.mark.parametrize("id", PROTOCOLS)
def test_a_reply_is_read_alike_on_both_ways(id):
    @RELAXED
    @given(spoilt(replies_of(id)))
    def check(body):
        assert_read_alike(reading_reply, id, body)

    check()


@pytest.mark.skipif(not CORPUS.exists(), reason="no recorded traffic here")
@pytest.mark.parametrize("id", PROTOCOLS)
def test_recorded_traffic_is_read_alike_on_both_ways(id):
    rows = map(json.loads, (CORPUS / "index.jsonl").read_text("utf-8").splitlines())
    mine = [row for row in rows if row["protocol"] == id and row["tier"] == "core"]
    for row in mine:
        record = json.loads((CORPUS / row["path"]).read_text("utf-8"))
        if isinstance(record.get("request"), dict):
            assert_read_alike(reading, id, record["request"])
        if isinstance(record.get("response"), dict):
            assert_read_alike(reading_reply, id, record["response"])
    assert mine


# --- values ------------------------------------------------------------------------------------------

seals = st.sampled_from((None, None, None, Seal(protocol="gemini", data="s")))
citations = st.sampled_from(((), (), (), (Citation(url="https://example.org/"),)))
extras = st.sampled_from(({}, {}, {}, {"cache_control": {"type": "ephemeral"}}))
sources = st.sampled_from((None, Source("chat_completion", {"role": "user", "content": "x"})))
said_parts = st.builds(
    Text,
    content=st.one_of(texts, texts, texts, st.sampled_from(("", " ", "\n\t"))),
    seal=seals,
    citations=citations,
    extra_body=extras,
)
calls = st.just(ToolCall(call_id="c", name="f", arguments="{}"))
messages_said = st.builds(
    Message,
    role=st.sampled_from((Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT, Role.TOOL)),
    parts=st.one_of(
        said_parts.map(lambda part: (part,)),
        said_parts.map(lambda part: (part,)),
        st.lists(st.one_of(said_parts, calls), max_size=2).map(tuple),
    ),
    name=st.sampled_from((None, None, None, "ann")),
    envelope=st.sampled_from((None, None, None, 3)),
    extra_body=extras,
    source=sources,
)
plain_texts = st.builds(
    lambda words, end: Text(content=words + end), texts, st.sampled_from(("", "", "\n"))
)
plain_messages = st.builds(
    lambda role, part: Message(role=role, parts=(part,)),
    st.sampled_from((Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT)),
    plain_texts,
)
histories = st.one_of(
    st.lists(plain_messages, max_size=5), st.lists(st.one_of(plain_messages, messages_said))
).map(tuple)


@pytest.mark.soak
@pytest.mark.spec("ENC-2", "D7", "T23")
@pytest.mark.parametrize("id", protocol_ids())
def test_a_request_is_written_alike_on_both_ways(id):
    @RELAXED
    @given(histories, st.sampled_from((*PROTOCOLS, "")))
    def check(messages, origin):
        request = UrpRequest(
            model="claude-sonnet-4-5", max_output_tokens=50, messages=messages, origin=origin
        )
        assert written(id, request) == written(id, strange_request(request))

    check()


@pytest.mark.soak
@pytest.mark.spec("ENC-2", "T7", "T36")
@pytest.mark.parametrize("id", PROTOCOLS)
def test_a_reply_is_written_alike_on_both_ways(id):
    finishes = st.sampled_from((None, *(Finish(reason=reason) for reason in FinishReason)))
    plain_choices = st.builds(
        lambda message, finish: (Choice(messages=(message,), finish=finish),),
        plain_messages,
        finishes,
    )
    choices = st.builds(
        Choice,
        index=st.sampled_from((0, 0, 1)),
        messages=st.lists(st.one_of(plain_messages, messages_said), max_size=2).map(tuple),
        finish=finishes,
    )
    any_choices = st.lists(choices, max_size=2, unique_by=lambda choice: choice.index).map(tuple)

    @RELAXED
    @given(
        st.one_of(plain_choices, any_choices),
        st.sampled_from(PROTOCOLS),
        st.sampled_from((None, "default", "turbo")),
        st.sampled_from((None, Usage(input_tokens=9, output_tokens=4, reasoning=2))),
    )
    def check(said, origin, tier, usage):
        response = UrpResponse(
            id="r", model="m", choices=said, origin=origin, service_tier=tier, usage=usage
        )
        assert written_reply(id, response) == written_reply(id, strange_reply(response))

    check()


# --- what is plain, and what is not ------------------------------------------------------------------

TEXT = {"type": "text", "text": "x"}
READERS = {
    "chat_completion": (plain_chat_message, {"role": "user", "content": "x"}),
    "chat_completion in parts": (plain_chat_message, {"role": "user", "content": [TEXT, TEXT]}),
    "messages": (plain_message, {"role": "user", "content": "x"}),
    "messages in blocks": (plain_message, {"role": "assistant", "content": [TEXT, TEXT]}),
    "responses": (plain_item, {"role": "user", "content": "x"}),
    "responses with its type": (plain_item, {"type": "message", "role": "user", "content": "x"}),
    "gemini": (plain_content, {"role": "model", "parts": [{"text": "x"}, {"text": "y"}]}),
}


@pytest.mark.parametrize("kind", READERS)
def test_words_are_plain(kind):
    read, wire = READERS[kind]
    assert read(wire).source.wire is wire


@pytest.mark.parametrize("kind", READERS)
def test_nothing_else_is_plain(kind):
    read, wire = READERS[kind]
    body = "parts" if "parts" in wire else "content"
    odd_parts = ([{}], [None], ["x"], [{**TEXT, "cache_control": {}}], [{"type": "image"}])
    odd_texts = ([{"text": None}], [{"text": "x", "thought": True}], [{"type": "text", "text": 1}])
    not_plain = [
        *(None, "x", 1, [], {}, estranged(wire)),
        *({**wire, "role": role} for role in (None, 1, [], {}, "tool", "unheard of", "USER")),
        *({**wire, body: content} for content in (None, 1, {}, {"text": "x"})),
        *({**wire, body: content} for content in (*odd_parts, *odd_texts)),
        *({**wire, extra: value} for extra in ("name", "id", "status") for value in (None, "x")),
        *({key: value for key, value in wire.items() if key != gone} for gone in ("role", body)),
    ]
    assert [found for found in not_plain if read(found) is not None] == []


def test_an_empty_part_of_a_content_is_not_plain():
    """Beside others the long way leaves it out."""
    assert plain_content({"role": "model", "parts": [{"text": "x"}, {"text": ""}]}) is None


def test_a_system_item_is_not_plain():
    """Its place among the items is remembered."""
    assert plain_item({"role": "system", "content": "x"}) is None


def test_a_conversation_is_plain_only_where_nothing_hangs_on_its_words():
    def said(role=Role.USER, words="x", part=(), **more):
        return Message(role=role, parts=(Text(content=words, **dict(part)),), **more)

    own = Source("messages", {})
    assert plain_talk((said(Role.SYSTEM), said(words="y")), "messages") == ["x", "y"]
    for odd in (
        said(words=""),
        said(words=" \n"),
        said(name="ann"),
        said(envelope=1),
        said(extra_body={"k": 1}),
        said(source=own),
        said(part={"source": own}),
        said(part={"seal": Seal(protocol="gemini", data="s")}),
        said(part={"citations": (Citation(url="u"),)}),
        said(part={"extra_body": {"k": 1}}),
        said(Role.TOOL),
        Message(role=Role.USER),
        Message(role=Role.USER, parts=(Text(content="x"), Text(content="y"))),
        Message(role=Role.ASSISTANT, parts=(ToolCall(call_id="c", name="f", arguments="{}"),)),
    ):
        assert plain_talk((said(), odd), "messages") is None
    assert plain_talk((said(Role.ASSISTANT), said(Role.ASSISTANT)), "messages") is None


def test_a_reply_is_plain_only_as_one_text_of_another_dialect():
    message = Message(role=Role.ASSISTANT, parts=(Text(content="x"),))

    def reply(*choices, origin="chat_completion"):
        return UrpResponse(id="r", model="m", choices=choices, origin=origin)

    assert plain_reply(reply(Choice(messages=(message,))), "gemini") == "x"
    assert plain_reply(reply(Choice(messages=(message,))), "chat_completion") is None
    for odd in (
        reply(),
        reply(Choice()),
        reply(Choice(index=1, messages=(message,))),
        reply(Choice(messages=(message, message))),
        reply(Choice(messages=(message,)), Choice(index=1, messages=(message,))),
        reply(Choice(messages=(message,), source=Source("gemini", {}))),
        reply(Choice(messages=(Message(role=Role.ASSISTANT, parts=()),))),
    ):
        assert plain_reply(odd, "gemini") is None


# --- how short ---------------------------------------------------------------------------------------


def calls_made(work):
    """Functions of Python that are called."""
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event == "call"

    work()  # what is done once in a process is done now
    before = sys.getprofile()
    gc.disable()  # somebody may listen to it
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.parametrize("id", PROTOCOLS)
def test_a_plain_message_costs_at_most_two_calls_to_read_and_to_write(id):
    def turns(n):
        return talk(id, *[(("user", "assistant")[i % 2], "x") for i in range(2 * n + 1)])

    def writing(target, body):
        request = reading(id, body)()
        return lambda: protocol(target).encode_request(request, Losses())

    few, many = turns(5), turns(55)
    more = 2 * 55 - 2 * 5
    assert calls_made(reading(id, many)) - calls_made(reading(id, few)) <= 2 * more
    for target in PROTOCOLS:
        cost = calls_made(writing(target, many)) - calls_made(writing(target, few))
        assert cost <= (0 if target == id else 2 * more)
