"""One JSON array in any split of bytes."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.protocols.gemini import PROTOCOL
from monoize.protocols.gemini.json_array import ArrayParser, ArrayWriter
from monoize.sse import SseError
from monoize.urp import WireEvent

VALUES = [
    {"text": 'brackets ]}{[ and "quotes" and \\ back'},
    {"nested": [[{"a": "è😀"}, []], {}]},
    {},
    {"end\\": "\\\\"},
]
FORMS = {
    "compact": json.dumps(VALUES, ensure_ascii=False, separators=(",", ":")),
    "as Google writes it": "["
    + "\n,\r\n".join(json.dumps(v, indent=2, ensure_ascii=False) for v in VALUES)
    + "\n]\n",
}


def parse(writes):
    parser = ArrayParser()
    events = [event for write in writes for event in parser.feed(write)]
    return [json.loads(event.data) for event in [*events, *parser.close()]]


@pytest.mark.spec("T11", "T12")
@pytest.mark.parametrize("form", FORMS)
def test_any_split_gives_the_same_values(form):
    data = FORMS[form].encode()
    assert parse([data]) == VALUES
    assert parse([data[n : n + 1] for n in range(len(data))]) == VALUES
    dice = random.Random(3)
    for _ in range(50):
        cuts = sorted(dice.randrange(len(data) + 1) for _ in range(9))
        assert (
            parse([data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)])
            == VALUES
        )


def test_an_object_without_an_array_counts():
    assert parse([b'{"error": {"code": 503}}']) == [{"error": {"code": 503}}]


def test_what_is_no_object_is_passed_over_and_half_an_object_is_none():
    assert parse([b'["text", 5, null, {"a": 1}, {"b"']) == [{"a": 1}]
    assert parse([b"[]"]) == []
    assert parse([b"]]"]) == []


def test_events_come_as_soon_as_they_are_complete():
    parser = ArrayParser()
    assert len(parser.feed(b'[{"a": 1}')) == 1
    assert parser.feed(b', {"a"') == []
    assert len(parser.feed(b": 2}")) == 1


@pytest.mark.spec("T11")
def test_large_elements_up_to_the_limit():
    big = json.dumps([{"data": "A" * 8_000_000}]).encode()
    chunks = [big[n : n + 65536] for n in range(0, len(big), 65536)]
    assert len(parse(chunks)) == 1
    parser = ArrayParser(event_limit=100)
    with pytest.raises(SseError):
        parser.feed(b'[{"data": "' + b"A" * 200)


def test_what_is_written_is_one_array():
    writer = ArrayWriter()
    elements = b"".join(writer.event(WireEvent(json.dumps(v, ensure_ascii=False))) for v in VALUES)
    data = writer.open() + elements + writer.close()
    assert json.loads(data) == VALUES
    assert parse([data]) == VALUES
    assert json.loads(ArrayWriter().open() + ArrayWriter().close()) == []


def test_the_form_of_a_stream_follows_its_content_type_and_the_callers_query():
    assert isinstance(PROTOCOL.stream_parser("application/json; charset=UTF-8", 100), ArrayParser)
    assert not isinstance(PROTOCOL.stream_parser("text/event-stream", 100), ArrayParser)
    assert isinstance(PROTOCOL.stream_writer({}), ArrayWriter)
    assert not isinstance(PROTOCOL.stream_writer({"alt": "sse"}), ArrayWriter)


def test_an_array_has_no_comments():
    writer = ArrayWriter()
    data = writer.open() + writer.keep_alive + writer.comment("hello") + writer.close()
    assert json.loads(data) == []


pieces = st.sampled_from(
    [
        *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"},{", b"},\r\n{", b"\xff", b"a", b" "),
        *(b'{"a":1}', b'{"a":[{"b":"}"},{"c":"},{"}]}', b',\r\n{"text":"\xc3\xa9"}', b'{"a":nul}'),
    ]
)


@pytest.mark.spec("T12")
@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(pieces, max_size=20).map(b"".join), st.integers(0, 60))
def test_any_bytes_are_cut_as_one_by_one(body, cut):
    def events(chunks):
        parser = ArrayParser()
        return [event for chunk in chunks for event in parser.feed(chunk)]

    singly = events(bytes([byte]) for byte in body)
    assert events([body]) == singly
    assert events([body[:cut], body[cut:]]) == singly


def test_an_object_of_many_objects_is_one():
    element = {"parts": [{"text": str(n)} for n in range(100)]}
    assert parse([json.dumps([element, element]).encode()]) == [element, element]


def test_several_elements_are_written_as_one_by_one():
    events = [WireEvent("{}"), WireEvent('{"a":1}')]
    one_by_one = ArrayWriter()
    assert ArrayWriter().events(events) == b"".join(map(one_by_one.event, events))
