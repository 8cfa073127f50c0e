from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.sse import SseError, SseParser, SseWriter, serialized
from monoize.urp import WireEvent

CASES = {
    "one event": (b"data: a\n\n", [WireEvent("a")]),
    "a name": (b"event: ping\ndata: {}\n\n", [WireEvent("{}", "ping")]),
    "several lines of data": (b"data: a\ndata: b\n\n", [WireEvent("a\nb")]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [WireEvent("a"), WireEvent("b")]),
    "CR alone": (b"data: a\r\rdata: b\r\r", [WireEvent("a"), WireEvent("b")]),
    "mixed line ends": (b"data: a\r\n\ndata: b\r\r\n", [WireEvent("a"), WireEvent("b")]),
    "BOM": (b"\xef\xbb\xbfdata: a\n\n", [WireEvent("a")]),
    "comments": (b": OPENROUTER PROCESSING\n\ndata: a\n: x\n\n", [WireEvent("a")]),
    "no space after the colon": (b"data:a\n\n", [WireEvent("a")]),
    "padding stays": (b"data:  a \n\n", [WireEvent(" a ")]),
    "a name without data is no event": (b"event: x\n\ndata: a\n\n", [WireEvent("a")]),
    "other fields": (b"id: 1\nretry: 5\nfoo\ndata: a\n\n", [WireEvent("a")]),
    "empty data": (b"data\n\n", [WireEvent("")]),
    "end without a blank line": (b"data: a\n\ndata: b", [WireEvent("a"), WireEvent("b")]),
    "end after one line end": (b"data: a\n", [WireEvent("a")]),
    "a cut emoji at the end": (b"data: a\xf0\x9f", [WireEvent("a\ufffd")]),
    "CJK and emoji": ("data: 你好 🎉\n\n".encode(), [WireEvent("你好 🎉")]),
    "nothing": (b"", []),
}


def parsed(chunks):
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


@pytest.mark.spec("T11", "T12")
@pytest.mark.parametrize(("body", "events"), CASES.values(), ids=CASES)
def test_reads_the_same_events_whole_and_byte_by_byte(body, events):
    assert parsed([body]) == events
    assert parsed([body[i : i + 1] for i in range(len(body))]) == events


@pytest.mark.spec("T11")
def test_takes_a_line_of_eight_megabytes_in_small_chunks():
    line = b"data: " + b"x" * (8 * 1024**2) + b"\n\n"
    events = parsed([line[i : i + 65536] for i in range(0, len(line), 65536)])
    assert [len(event.data) for event in events] == [8 * 1024**2]


def line_by_line(body):
    """The standard's own words, all at once."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    events, data, name = [], [], None
    for line in [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
        elif not line:
            events += [WireEvent("\n".join(data), name)] if data else []
            data, name = [], None
    return events


pieces = st.sampled_from(
    [
        *(b"data: ", b"data:", b"data", b"event: a", b"event: b", b"event:", b": note", b"id: 1"),
        *(b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"x", b" ", b"{}", b"\xff"),
        *(b"\xf0\x9f\x99\x82", b"\xf0\x9f", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
        *(b"data: {}\n\n", b"event: a\ndata: {}\n\n", b"data: {}\r\n\r\n"),
    ]
)


@pytest.mark.spec("T11", "T12")
@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(pieces, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=8))
def test_reads_any_bytes_in_any_split_as_line_by_line(body, cuts):
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    assert parsed([body[a:b] for a, b in pairwise(places)]) == line_by_line(body)


def test_refuses_an_event_beyond_the_limit():
    parser = SseParser(event_limit=100)
    with pytest.raises(SseError, match="larger than 100"):
        parser.feed(b"data: " + b"x" * 200)


def test_many_small_lines_without_an_end_count_towards_the_limit():
    parser = SseParser(event_limit=100)
    with pytest.raises(SseError):
        for _ in range(50):
            parser.feed(b"data: abc\n")


def test_the_limit_is_per_event():
    parser = SseParser(event_limit=20)
    assert len(parser.feed(b"data: 0123456789\n\n" * 10)) == 10


@pytest.mark.parametrize("ahead", [b"", b"data: a\n\n", b"data: a\n\ndata: b", b"event: x\ndata: "])
def test_the_limit_holds_wherever_a_read_begins(ahead):
    parser = SseParser(event_limit=20)
    parser.feed(ahead)
    with pytest.raises(SseError, match="larger than 20"):
        parser.feed(b"\n\ndata: a\n\ndata: 01234567890123456789\n\n")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "event", [WireEvent("a"), WireEvent("a\nb", "x"), WireEvent("a\r\nb\rc"), WireEvent("")]
)
def test_what_is_written_is_read_back(event, line_end):
    data = event.data.replace("\r\n", "\n").replace("\r", "\n")
    assert parsed([serialized(event, line_end)]) == [WireEvent(data, event.name)]


def test_a_written_comment_is_passed_over():
    writer = SseWriter("\r\n", b": alive\r\n\r\n")
    body = writer.open() + writer.comment("hello") + writer.event(WireEvent("a")) + writer.close()
    assert parsed([body]) == [WireEvent("a")]
    assert writer.content_type.startswith("text/event-stream")


def test_a_writer_without_comments_writes_none():
    assert SseWriter("\n", b"\n", comments=False).comment("x") == b""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_several_events_are_written_as_one_by_one(line_end):
    events = [WireEvent("a"), WireEvent("b\nc", "x"), WireEvent("\ud83d"), WireEvent("", "y")]
    writer = SseWriter(line_end, b"")
    assert writer.events(events) == b"".join(map(writer.event, events))
    assert writer.events([]) == b""
