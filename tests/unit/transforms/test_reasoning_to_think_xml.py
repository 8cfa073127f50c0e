"""Reasoning as text between tags."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.streams import applied, broken_grammar, chain, recut, reply
from monoize.errors import ConfigError
from monoize.transform import transform
from monoize.urp import (
    Delta,
    Error,
    Message,
    PartDone,
    PartStart,
    ProviderEvent,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    ResponseDone,
    ResponseStart,
    Role,
    Seal,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    fold,
    unfold,
)

SEAL = Seal(protocol="messages", data="c2ln")
HEADER = Message(role=Role.ASSISTANT)
START = ResponseStart(id="r", model="m")


def think() -> Any:
    return chain("reasoning_to_think_xml", {"tag": "think"})


def shown(events: list[Any]) -> list[str]:
    """The texts of choice 0, in order."""
    (choice, *_) = fold(events).choices
    return [part.content for message in choice.messages for part in message.parts]


def opened(index: int, part: Any, **more: Any) -> PartStart:
    return PartStart(part_index=index, part=part, **more)


def thought(index: int, content: str) -> Delta:
    return Delta(part_index=index, delta=ReasoningDelta(content=content))


def said(index: int, content: str) -> Delta:
    return Delta(part_index=index, delta=TextDelta(content=content))


@pytest.mark.spec("TF-7")
def test_reasoning_becomes_text_between_tags_without_its_seal_and_further_fields() -> None:
    part = Reasoning(content="hm", seal=SEAL, extra_body={"id": "rs_1"})
    after = think().response(reply(part, Text(content="hello")))
    assert after.choices[0].messages[0].parts == (
        Text(content="<think>hm</think>"),
        Text(content="hello"),
    )


@pytest.mark.spec("D6", "STR-4")
def test_the_tags_come_once_whatever_the_number_of_deltas() -> None:
    events = recut(
        unfold(reply(Reasoning(content="let me see"), Text(content="hello"))), lambda _: 1
    )
    out = applied(think(), events)
    assert shown(out) == ["<think>let me see</think>", "hello"]
    assert broken_grammar(out) == []


def test_the_first_word_is_not_held_back() -> None:
    running = think()
    assert applied(running, [START, opened(0, Reasoning(content=""), message=HEADER)]) == [START]
    assert applied(running, [thought(0, "h")]) == [
        opened(0, Text(content=""), message=HEADER),
        said(0, "<think>h"),
    ]
    assert applied(running, [thought(0, "m")]) == [said(0, "m")]


@pytest.mark.parametrize("parts", [(Reasoning(content=""),), (Reasoning(content="", seal=SEAL),)])
def test_empty_reasoning_gives_no_text_at_all(parts: tuple[Any, ...]) -> None:
    after = think().response(reply(*parts, Text(content="hello")))
    assert after.choices[0].messages[0].parts == (Text(content="hello"),)
    assert after.choices[0].messages[0].id == "msg_1"


def test_encrypted_reasoning_and_other_parts_stay() -> None:
    others = (
        ReasoningEncrypted(protocol="responses", data={"type": "reasoning"}),
        ToolCall(call_id="c", name="f", arguments="{}"),
    )
    response = reply(*others)
    assert think().response(response) is response


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    "between",
    [
        [opened(1, Text(content="")), said(1, "answer")],
        [opened(1, ToolCall(call_id="c", name="f", arguments=""))],
    ],
)
def test_what_starts_while_the_tag_is_open_closes_it_and_later_thoughts_open_another(
    between: list[Any],
) -> None:
    events = [START, opened(0, Reasoning(content=""), message=HEADER), thought(0, "a"), *between]
    events += [thought(0, "b"), PartDone(part_index=0), PartDone(part_index=1), ResponseDone()]
    out = applied(think(), events)
    assert broken_grammar(out) == []
    texts = [
        e.delta.content for e in out if isinstance(e, Delta) and isinstance(e.delta, TextDelta)
    ]
    assert [t for t in texts if t != "answer"] == ["<think>a", "</think>", "<think>b", "</think>"]
    assert texts.index("</think>") < (texts.index("answer") if "answer" in texts else 9)


def test_a_delta_of_an_older_part_closes_the_tag_too() -> None:
    events = [START, opened(0, Text(content=""), message=HEADER), said(0, "x")]
    events += [opened(1, Reasoning(content="")), thought(1, "a"), said(0, "y"), thought(1, "b")]
    out = applied(think(), [*events, PartDone(part_index=1), PartDone(part_index=0)])
    written = [e.delta.content for e in out if isinstance(e, Delta)]
    assert "".join(written) == "x<think>a</think>y<think>b</think>"
    assert broken_grammar(out) == []


def test_choices_do_not_close_one_another() -> None:
    events = [START, opened(0, Reasoning(content=""), message=HEADER), thought(0, "a")]
    events += [opened(1, Text(content=""), choice=1, message=HEADER), said(1, "x"), thought(0, "b")]
    out = applied(think(), [*events, PartDone(part_index=0), PartDone(part_index=1)])
    assert shown(out) == ["<think>ab</think>"]


@pytest.mark.parametrize("last", [ResponseDone(), Error(message="gone")])
def test_an_open_tag_is_closed_before_the_stream_ends(last: Any) -> None:
    events = [START, opened(0, Reasoning(content=""), message=HEADER), thought(0, "a"), last]
    assert applied(think(), events)[-3:] == [said(0, "</think>"), PartDone(part_index=0), last]


def test_a_seal_and_a_native_event_pass_without_a_trace_in_the_text() -> None:
    native = ProviderEvent(origin_protocol="messages", event_type="ping", body={})
    events = [START, opened(0, Reasoning(content="first "), message=HEADER), native]
    events += [
        thought(0, "a"),
        Delta(part_index=0, delta=SealDelta(seal=SEAL)),
        PartDone(part_index=0),
    ]
    out = applied(think(), events)
    assert native in out
    assert shown(out) == ["<think>first a</think>"]


@pytest.mark.spec("D3")
@pytest.mark.parametrize("config", [{}, {"tag": ""}, {"tag": 1}, {"tag": "<think>"}])
@pytest.mark.parametrize("name", ["reasoning_to_think_xml", "think_xml_to_reasoning"])
def test_the_tag_is_a_name(name: str, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="tag"):
        transform(name).parse_config(config)
