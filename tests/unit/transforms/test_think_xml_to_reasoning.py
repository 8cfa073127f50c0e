"""Text between tags as reasoning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.streams import applied, broken_grammar, chain, recut, reply, taggy
from monoize.urp import (
    Citation,
    CitationDelta,
    Delta,
    Error,
    Frame,
    Message,
    PartDone,
    PartStart,
    Reasoning,
    ReasoningDelta,
    ResponseDone,
    ResponseStart,
    Role,
    Seal,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    WireEvent,
    fold,
    unfold,
)

HEADER = Message(role=Role.ASSISTANT)
START = ResponseStart(id="r", model="m")
SEAL = Seal(protocol="gemini", data="c2ln")
CALL = ToolCall(call_id="c", name="f", arguments="{}")


def unthink() -> Any:
    return chain("think_xml_to_reasoning", {"tag": "think"})


def said(index: int, content: str) -> Delta:
    return Delta(part_index=index, delta=TextDelta(content=content))


def parts_of(text: Text) -> tuple[Any, ...]:
    (message,) = unthink().response(reply(text, CALL)).choices[0].messages
    assert message.parts[-1] == CALL
    assert message.id == "msg_1"
    return message.parts[:-1]


T, R = (lambda c: Text(content=c)), (lambda c: Reasoning(content=c))

CASES = {
    "": [T("")],
    "no tag at all": [T("no tag at all")],
    "<think>a</think>b": [R("a"), T("b")],
    "x<think>a</think>b": [T("x"), R("a"), T("b")],
    "<think>a</think>": [R("a")],
    "<think></think>b": [T("b")],
    "<think></think>": [],
    "x<think>a": [T("x"), R("a")],
    "<think>": [],
    "x<think>a</think>y<think>b</think>z": [T("x"), R("a"), T("y"), R("b"), T("z")],
    "x<think>a</think><think>b</think>": [T("x"), R("a"), R("b")],
    "a </think> b": [T("a </think> b")],
    "<think>a<think>b</think>c": [R("a<think>b"), T("c")],
    "1 < 2 <thin": [T("1 < 2 <thin")],
    "<<think>a</</think>b": [T("<"), R("a</"), T("b")],
    "<Think>a</Think>": [T("<Think>a</Think>")],
    "<think>\na\n</think>\n\nb": [R("\na\n"), T("\n\nb")],
}


@pytest.mark.spec("TF-7", "D6")
@pytest.mark.parametrize("text", CASES)
def test_text_is_split_at_the_tags_in_order(text: str) -> None:
    assert list(parts_of(T(text))) == CASES[text]


@pytest.mark.spec("D6", "STR-4")
@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("text", CASES)
def test_tags_may_be_cut_anywhere(text: str, size: int) -> None:
    out = applied(unthink(), recut(unfold(reply(T(text), CALL)), lambda _: size))
    assert broken_grammar(out) == []
    (message,) = fold(out).choices[0].messages
    assert list(message.parts) == [*CASES[text], CALL]


@given(taggy, st.data())
def test_nothing_but_whole_tags_is_lost(text: str, data: st.DataObject) -> None:
    cut = recut(unfold(reply(T(text), CALL)), lambda left: data.draw(st.integers(1, left)))
    (message,) = fold(applied(unthink(), cut)).choices[0].messages
    kept = "".join(part.content for part in message.parts[:-1])
    assert kept.replace("<think>", "").replace("</think>", "") == _without_tags(text)


def _without_tags(text: str) -> str:
    """Every tag taken out that the reading from left to right finds, and those that stay text, too."""
    out, inside = "", False
    while text:
        tag = "</think>" if inside else "<think>"
        before, found, text = text.partition(tag)
        out += before
        inside = inside != bool(found)
    return out.replace("<think>", "").replace("</think>", "")


def test_only_what_may_become_a_tag_is_held_back() -> None:
    running = unthink()
    assert applied(running, [START, PartStart(part_index=0, part=T(""), message=HEADER)]) == [START]
    assert applied(running, [said(0, "so <thi")]) == [
        PartStart(part_index=0, part=T(""), message=HEADER),
        said(0, "so "),
    ]
    assert applied(running, [said(0, "s")]) == [said(0, "<this")]
    assert applied(running, [said(0, "<think")]) == []
    assert applied(running, [said(0, ">a")]) == [
        PartDone(part_index=0),
        PartStart(part_index=1, part=R("")),
        Delta(part_index=1, delta=ReasoningDelta(content="a")),
    ]


@pytest.mark.parametrize("last", [ResponseDone(), Error(message="gone")])
def test_held_text_is_written_before_the_stream_ends(last: Any) -> None:
    events = [START, PartStart(part_index=0, part=T(""), message=HEADER), said(0, "a<thi"), last]
    assert applied(unthink(), events)[-3:] == [said(0, "<thi"), PartDone(part_index=0), last]


def test_a_stream_without_tags_keeps_its_very_events() -> None:
    events = list(unfold(reply(Text(content="hello", seal=SEAL), CALL)))
    out = applied(unthink(), events)
    assert all(new is old for new, old in zip(out, events, strict=True))


def test_frames_after_the_first_word_keep_their_wire_event() -> None:
    running = unthink()
    applied(running, [START, PartStart(part_index=0, part=T(""), message=HEADER), said(0, "a")])
    frame = Frame((said(0, "b"),), WireEvent("{}"))
    assert running.frame(frame) is frame


def test_text_without_a_tag_keeps_seal_citations_and_log_probabilities() -> None:
    tokens = tuple({"token": token} for token in ("1 ", "<", " 2"))
    text = Text(
        content="1 < 2",
        seal=SEAL,
        logprobs=tokens,
        citations=(Citation(url="u", start=0, end=1),),
        extra_body={"x": 1},
    )
    assert parts_of(text) == (text,)
    cut = recut(unfold(reply(text)), lambda _: 1)
    (message,) = fold(applied(unthink(), cut)).choices[0].messages
    assert message.parts == (text,)


@pytest.mark.spec("D6")
def test_log_probabilities_follow_the_text_that_they_spell() -> None:
    tokens = tuple({"token": token} for token in ("x", "<th", "ink>", "a", "</think>", "b"))
    text = Text(content="x<think>a</think>b", logprobs=tokens)
    assert parts_of(text) == (
        Text(content="x", logprobs=({"token": "x"},)),
        R("a"),
        Text(content="b", logprobs=({"token": "b"},)),
    )


def test_log_probabilities_that_do_not_spell_the_text_stay_where_they_began() -> None:
    text = Text(content="x<think>a</think>b", logprobs=({"token": "?"}, {"logprob": 1}))
    assert parts_of(text) == (Text(content="x", logprobs=text.logprobs), R("a"), T("b"))


@pytest.mark.spec("D6")
def test_seal_and_citations_of_a_cut_text_go_to_its_last_text() -> None:
    cited = (Citation(url="early", start=0, end=1), Citation(url="late", start=19, end=20))
    text = Text(content="x<think>a</think>yz", seal=SEAL, citations=cited)
    assert parts_of(text) == (
        T("x"),
        R("a"),
        Text(
            content="yz",
            seal=SEAL,
            citations=(Citation(url="early"), Citation(url="late", start=2, end=3)),
        ),
    )


def test_what_comes_between_the_pieces_waits_for_the_next_text() -> None:
    citation = CitationDelta(citation=Citation(url="u"))
    events = [
        START,
        PartStart(part_index=0, part=T(""), message=HEADER),
        said(0, "<think>a</think>"),
    ]
    events += [Delta(part_index=0, delta=citation), said(0, "b"), PartDone(part_index=0)]
    (message,) = fold(applied(unthink(), events)).choices[0].messages
    assert message.parts == (R("a"), Text(content="b", citations=(citation.citation,)))


def test_a_seal_without_any_text_left_is_dropped() -> None:
    assert parts_of(Text(content="<think>a</think>", seal=SEAL)) == (R("a"),)


def test_what_a_delta_carries_beside_its_text_is_not_lost() -> None:
    delta = TextDelta(content="<thi", extra_body={"k": 1})
    events = [START, PartStart(part_index=0, part=T(""), message=HEADER)]
    events += [Delta(part_index=0, delta=delta), said(0, "s"), PartDone(part_index=0)]
    (message,) = fold(applied(unthink(), events)).choices[0].messages
    assert message.parts == (Text(content="<this", extra_body={"k": 1}),)


def test_text_that_its_start_holds_already_is_read() -> None:
    start = PartStart(
        part_index=0, part=Text(content="<think>a", extra_body={"x": 1}), message=HEADER
    )
    events = [START, start, said(0, "</think>b"), Delta(part_index=0, delta=SealDelta(seal=SEAL))]
    out = applied(unthink(), [*events, PartDone(part_index=0)])
    (message,) = fold(out).choices[0].messages
    assert message.parts == (R("a"), Text(content="b", extra_body={"x": 1}, seal=SEAL))


def test_reasoning_that_is_one_already_is_left_alone() -> None:
    response = reply(Reasoning(content="<think>a</think>"))
    assert unthink().response(response) is response


def test_what_one_transform_wraps_the_other_unwraps() -> None:
    response = reply(R("let me <see>"), T("hello"))
    wrapped = chain("reasoning_to_think_xml", {"tag": "think"}).response(response)
    assert unthink().response(wrapped) == response
