import sys

import msgspec
import pytest

from monoize.urp import (
    ArgumentsDelta,
    Audio,
    Base64,
    Choice,
    ChoiceEnd,
    Citation,
    CitationDelta,
    Delta,
    EncryptedDelta,
    Error,
    Finish,
    FinishReason,
    Folder,
    MediaDelta,
    Message,
    PartDone,
    PartStart,
    ProviderEvent,
    ProviderItem,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    Role,
    Seal,
    SealDelta,
    StreamFailed,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    UrpResponse,
    Usage,
    bare,
    fold,
    unfold,
)

SEAL = Seal(protocol="gemini", data="s")
EVERY_PART = (
    Reasoning(content="hm", seal=SEAL),
    ReasoningEncrypted(protocol="responses", data={"id": "rs"}),
    Text(
        content="hello", citations=(Citation(url="u"),), logprobs=({"token": "hello"},), seal=SEAL
    ),
    Refusal(content="no"),
    ToolCall(call_id="c", name="f", arguments='{"a":1}', seal=SEAL),
    ToolResult(call_id="c"),
    Audio(media=Base64(data="AAAA", media_type="audio/wav"), transcript="t"),
    ProviderItem(origin_protocol="responses", item_type="web_search_call", body={"id": "ws"}),
)


def response(*messages: Message) -> UrpResponse:
    finish = Finish(reason=FinishReason.STOP, native="stop", protocol="chat_completion")
    return UrpResponse(
        id="r",
        model="m",
        created=5,
        origin="chat_completion",
        choices=(
            Choice(index=0, messages=messages, finish=finish, extra_body={"x": 1}),
            Choice(index=1, messages=(Message(role=Role.ASSISTANT, parts=(Text(content="two"),)),)),
        ),
        usage=Usage(input_tokens=3, output_tokens=2),
        extra_body={"system_fingerprint": "fp"},
    )


@pytest.mark.spec("STR-2", "STR-3", "T31")
def test_unfolding_and_folding_gives_the_same_response():
    whole = response(
        Message(role=Role.ASSISTANT, parts=EVERY_PART, id="msg_1"),
        Message(role=Role.ASSISTANT, parts=(Text(content="more"),), id="msg_2"),
    )
    assert bare(fold(unfold(whole))) == bare(whole)


def start(index, part, **more):
    return PartStart(part_index=index, part=part, **more)


def grown(part, *deltas):
    events = [
        start(0, part),
        *(Delta(part_index=0, delta=d) for d in deltas),
        PartDone(part_index=0),
    ]
    return (
        fold([ResponseStart(id="r", model="m"), *events, ResponseDone()])
        .choices[0]
        .messages[0]
        .parts[0]
    )


@pytest.mark.spec("STR-3")
def test_every_delta_grows_its_part():
    assert grown(Text(content="a"), TextDelta(content="b"), TextDelta(content="c")).content == "abc"
    assert (
        grown(Reasoning(content=""), ReasoningDelta(content="x"), SealDelta(seal=SEAL)).seal == SEAL
    )
    assert grown(Refusal(content=""), RefusalDelta(content="no")).content == "no"
    call = ToolCall(call_id="c", name="f", arguments="")
    assert (
        grown(call, ArgumentsDelta(arguments="{"), ArgumentsDelta(arguments="}")).arguments == "{}"
    )
    text = grown(
        Text(content=""),
        TextDelta(content="a", logprobs=({"token": "a"},)),
        TextDelta(content="b", logprobs=({"token": "b"},)),
    )
    assert [row["token"] for row in text.logprobs] == ["a", "b"]
    assert (
        len(
            grown(
                Text(content=""),
                CitationDelta(citation=Citation(url="u")),
                CitationDelta(citation=Citation(url="v")),
            ).citations
        )
        == 2
    )
    encrypted = ReasoningEncrypted(protocol="responses", data=None)
    assert grown(encrypted, EncryptedDelta(data={"id": 1})).data == {"id": 1}
    sound = grown(
        Audio(media=Base64(data="", media_type="audio/wav")),
        MediaDelta(data="AA"),
        MediaDelta(data="BB", transcript="hi"),
    )
    assert (sound.media.data, sound.transcript) == ("AABB", "hi")


def test_extra_fields_of_a_delta_join_those_of_the_part():
    part = grown(Text(content="", extra_body={"a": 1}), TextDelta(content="x", extra_body={"b": 2}))
    assert part.extra_body == {"a": 1, "b": 2}


def test_a_delta_that_does_not_fit_its_part_changes_nothing_else():
    part = grown(
        Refusal(content="no"),
        SealDelta(seal=SEAL),
        CitationDelta(citation=Citation()),
        EncryptedDelta(data=1),
        MediaDelta(data="x"),
    )
    assert part == Refusal(content="no")


@pytest.mark.spec("T3", "STR-3")
def test_interleaved_parts_keep_their_own_pieces():
    calls = [ToolCall(call_id=c, name=c, arguments="") for c in "ab"]
    events = [start(0, calls[0]), start(1, calls[1])]
    events += [Delta(part_index=i % 2, delta=ArgumentsDelta(arguments=str(i))) for i in range(4)]
    parts = fold([*events, ResponseDone()]).choices[0].messages[0].parts
    assert [p.arguments for p in parts] == ["02", "13"]


def test_a_delta_without_its_part_is_passed_over():
    assert fold([Delta(part_index=7, delta=TextDelta(content="x")), ResponseDone()]).choices == ()


def test_usage_of_the_start_stands_until_the_end_brings_its_own():
    folder = Folder()
    assert folder.usage() is None
    folder.add(ResponseStart(id="r", model="m", usage=Usage(input_tokens=9)))
    assert folder.usage() == Usage(input_tokens=9)
    folder.add(ProviderEvent(origin_protocol="messages", event_type="ping", body={}))
    folder.add(
        ResponseDone(usage=Usage(input_tokens=9, output_tokens=1), choices=(ChoiceEnd(index=0),))
    )
    assert folder.response().usage == Usage(input_tokens=9, output_tokens=1)


@pytest.mark.spec("T15", "STR-2")
def test_a_stream_that_failed_is_no_response():
    with pytest.raises(StreamFailed, match="overloaded"):
        fold([ResponseStart(id="r", model="m"), Error(message="overloaded")])


@pytest.mark.parametrize(
    ("part", "delta"),
    [
        (Text(content=""), TextDelta(content="a", logprobs=({"token": "a"},))),
        (Text(content=""), CitationDelta(citation=Citation(url="u"))),
        (Audio(media=Base64(data="", media_type="a/b")), MediaDelta(data="AA", transcript="w")),
        (Text(content=""), TextDelta(content="a", extra_body={"k": "v"})),
    ],
    ids=["logprobs", "citations", "sound", "unknown fields"],
)
def test_a_part_that_grows_is_not_copied_with_every_delta(part, delta):
    """A copy for each of them would cost the square of the stream's length."""
    copies = 0

    def count(frame, event, arg):
        nonlocal copies
        copies += event == "c_call" and arg is msgspec.structs.replace

    events = [
        ResponseStart(id="r", model="m"),
        PartStart(part_index=0, part=part),
        *[Delta(part_index=0, delta=delta)] * 100,
    ]
    sys.setprofile(count)
    try:
        (choice,) = fold(events).choices
    finally:
        sys.setprofile(None)
    assert copies < 10
    assert choice.messages[0].parts[0] != part
