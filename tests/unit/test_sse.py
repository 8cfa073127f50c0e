import pytest

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
