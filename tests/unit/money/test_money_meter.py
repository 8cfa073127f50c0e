import pytest
from hypothesis import HealthCheck, given, settings

from fakes.urp_values import responses
from monoize.money import MOST_TOKENS, Meter, metered
from monoize.money.classes import plain
from monoize.urp import (
    ArgumentsDelta,
    Audio,
    Base64,
    Citation,
    CitationDelta,
    Delta,
    EncryptedDelta,
    Error,
    Image,
    MediaDelta,
    Message,
    PartDone,
    PartStart,
    ProviderEvent,
    ReasoningDelta,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    Role,
    Seal,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    Url,
    UrpRequest,
    Usage,
)

PATIENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
REQUEST = UrpRequest(model="m", messages=(Message(role=Role.USER, parts=(Text(content="1234"),)),))
START = ResponseStart(id="r", model="m")


def read(*events):
    meter = Meter()
    for event in events:
        meter.add(event)
    return meter.read(REQUEST)


def delta(delta):
    return Delta(part_index=0, delta=delta)


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
@pytest.mark.parametrize("words", [("x" * 40,), ("wörter", " und", " \ud83d", "\ude00")])
def test_words_weigh_the_same_however_they_are_told(kind, words):
    meter = Meter()
    meter.said(kind, words)
    assert meter.read(REQUEST) == read(*(delta(kind(content=word)) for word in words))
    assert meter.read(REQUEST) != read()


def test_the_providers_count_holds():
    usage = Usage(input_tokens=7, output_tokens=2)
    found = read(START, delta(TextDelta(content="x" * 400)), ResponseDone(usage=usage))
    assert found.usage is usage
    assert not found.estimated


@PATIENT
@given(responses("chat_completion"))
def test_a_meter_of_a_count_reads_what_the_end_of_a_stream_tells(response):
    usage = response.usage or Usage()
    told = read(START, ResponseDone(usage=usage, service_tier="flex"))
    assert Meter(usage, "flex").read(REQUEST) == told
    assert told.plain == plain(usage)


@pytest.mark.spec("T39")
def test_counts_that_no_table_holds_are_cut():
    found = read(START, ResponseDone(usage=Usage(input_tokens=2**70, output_tokens=-1)))
    assert (found.usage.input_tokens, found.usage.output_tokens) == (MOST_TOKENS, 0)
    begun = ResponseStart(id="r", model="m", usage=Usage(input_tokens=2**70))
    assert read(begun).usage.input_tokens == MOST_TOKENS


def test_a_stream_that_was_cut_is_estimated_from_what_went_by():
    found = read(START, delta(TextDelta(content="12345678")), delta(TextDelta(content="9")))
    assert found.usage == Usage(input_tokens=1, output_tokens=3)
    assert found.estimated


def test_what_was_counted_at_the_start_holds_when_the_end_is_missing():
    start = ResponseStart(
        id="r", model="m", usage=Usage(input_tokens=50, cached_read=40, output_tokens=1)
    )
    found = read(start, delta(TextDelta(content="x" * 40)), Error(message="cut"))
    assert found.usage == Usage(input_tokens=50, cached_read=40, output_tokens=10)
    assert found.estimated


@pytest.mark.parametrize("usage", [None, Usage()])
def test_zeros_beside_an_answer_are_no_count(usage):
    found = read(START, delta(TextDelta(content="1234")), ResponseDone(usage=usage))
    assert found.usage == Usage(input_tokens=1, output_tokens=1)
    assert found.estimated


def test_zeros_beside_nothing_are_a_count():
    found = read(START, ResponseDone(usage=Usage()))
    assert found.usage == Usage()
    assert not found.estimated


@pytest.mark.parametrize(
    ("event", "usage"),
    [
        (delta(TextDelta(content="汉字")), Usage(output_tokens=2)),
        (delta(RefusalDelta(content="12345")), Usage(output_tokens=2)),
        (delta(ArgumentsDelta(arguments="12345")), Usage(output_tokens=2)),
        (delta(ReasoningDelta(content="12345")), Usage(output_tokens=2, reasoning=2)),
        (delta(MediaDelta(data="A" * 3001)), Usage(output_tokens=2, audio_output=2)),
        (delta(MediaDelta(transcript="12345")), Usage(output_tokens=2)),
        (delta(CitationDelta(citation=Citation(url="u"))), Usage()),
        (delta(SealDelta(seal=Seal(protocol="p", data="d"))), Usage()),
        (delta(EncryptedDelta(data="d")), Usage()),
        (
            PartStart(part_index=0, part=ToolCall(call_id="c", name="tool", arguments="{}")),
            Usage(output_tokens=2),
        ),
        (
            PartStart(part_index=0, part=Image(media=Url(url="u"))),
            Usage(output_tokens=1290, image_output=1290),
        ),
        (
            PartStart(
                part_index=0,
                part=Audio(media=Base64(data="A" * 3000, media_type="audio/wav")),
            ),
            Usage(output_tokens=1, audio_output=1),
        ),
        (PartStart(part_index=0, part=Text(content="")), Usage()),
        (PartDone(part_index=0), Usage()),
        (ProviderEvent(origin_protocol="p", event_type="t", body={}), Usage()),
    ],
)
def test_everything_that_a_model_says_is_counted(event, usage):
    found = read(event).usage
    assert found.input_tokens == 1
    assert (found.output_tokens, found.reasoning) == (usage.output_tokens, usage.reasoning)
    assert (found.audio_output, found.image_output) == (usage.audio_output, usage.image_output)


@PATIENT
@given(responses("messages"))
def test_a_whole_reply_is_read_like_its_stream(response):
    found = metered(response, REQUEST)
    assert found.usage.output_tokens >= 0
    if response.usage is not None and response.usage.input_tokens:
        assert found.usage == response.usage
        assert not found.estimated
