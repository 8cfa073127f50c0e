"""Replies without reasoning."""

from __future__ import annotations

import pytest

from fakes.streams import applied, broken_grammar, chain, reply
from monoize.urp import (
    Choice,
    Delta,
    Frame,
    Message,
    PartDone,
    PartStart,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    ResponseStart,
    Role,
    Seal,
    Text,
    TextDelta,
    ToolCall,
    UrpResponse,
    WireEvent,
    fold,
    unfold,
)

THOUGHT = Reasoning(content="hm", seal=Seal(protocol="messages", data="c2ln"))
SECRET = ReasoningEncrypted(protocol="responses", data={"type": "reasoning"})
ANSWER = Text(content="hello")
CALL = ToolCall(call_id="c", name="f", arguments="{}")


@pytest.mark.spec("TF-7")
def test_all_reasoning_vanishes_and_the_rest_stays() -> None:
    after = chain("strip_reasoning").response(reply(THOUGHT, SECRET, ANSWER, THOUGHT, CALL))
    assert after.choices[0].messages[0].parts == (ANSWER, CALL)


@pytest.mark.spec("D6")
def test_the_header_of_the_message_goes_to_the_first_part_that_is_left() -> None:
    out = applied(chain("strip_reasoning"), unfold(reply(THOUGHT, ANSWER, CALL)))
    assert broken_grammar(out) == []
    starts = [event for event in out if isinstance(event, PartStart)]
    assert [start.part_index for start in starts] == [0, 1]
    assert [start.message and start.message.id for start in starts] == ["msg_1", None]


@pytest.mark.spec("D6")
def test_no_empty_text_takes_the_place_of_reasoning() -> None:
    out = applied(chain("strip_reasoning"), unfold(reply(THOUGHT, SECRET)))
    assert not any(isinstance(event, PartStart | Delta | PartDone) for event in out)
    assert fold(out).choices[0].messages == ()


def test_a_message_of_reasoning_only_vanishes_and_its_neighbour_keeps_its_header() -> None:
    first = Message(role=Role.ASSISTANT, id="one", parts=(THOUGHT,))
    second = Message(role=Role.ASSISTANT, id="two", parts=(ANSWER,))
    response = UrpResponse(id="r", model="m", choices=(Choice(messages=(first, second)),))
    after = chain("strip_reasoning").response(response)
    assert [(m.id, m.parts) for m in after.choices[0].messages] == [("two", (ANSWER,))]


@pytest.mark.spec("STR-4")
def test_parts_side_by_side_are_told_apart() -> None:
    header = Message(role=Role.ASSISTANT)
    events = [
        ResponseStart(id="r", model="m"),
        PartStart(part_index=0, part=Reasoning(content=""), message=header),
        PartStart(part_index=1, part=Text(content="")),
        Delta(part_index=0, delta=ReasoningDelta(content="hm")),
        Delta(part_index=1, delta=TextDelta(content="hello")),
        PartDone(part_index=0),
        PartDone(part_index=1),
    ]
    out = applied(chain("strip_reasoning"), events)
    assert out[1:] == [
        PartStart(part_index=0, part=Text(content=""), message=header),
        Delta(part_index=0, delta=TextDelta(content="hello")),
        PartDone(part_index=0),
    ]


def test_frames_without_reasoning_keep_their_wire_event() -> None:
    running = chain("strip_reasoning")
    frames = [Frame((event,), WireEvent("{}")) for event in unfold(reply(ANSWER, CALL))]
    assert all(running.frame(frame) is frame for frame in frames)
