"""What an operation sends: JSON with base64 in its places, and forms that are read while they are sent."""

import base64
import json
from collections.abc import AsyncIterator
from email import message_from_bytes
from email.policy import HTTP

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.errors import PayloadTooLarge
from monoize.media.blob import Blob
from monoize.multipart import MultipartReader, PartBegin, PartData
from monoize.operation import Inline, Multipart
from monoize.pipeline.outgoing import json_body, multipart_body

PNG = Blob.of(b"\x89PNG\r\n\x1a\n" + bytes(50), "image/png", "a.png")
BOUNDARY = "monoize-0123456789"


async def written(fields):
    streamed, kind = multipart_body(Multipart(fields=fields), BOUNDARY)
    data = b"".join([chunk async for chunk in streamed.chunks()])
    return streamed, kind, data


# --- JSON ----------------------------------------------------------------------------------------


@pytest.mark.spec("S4-3.5")
async def test_bytes_stand_where_they_belong_at_any_depth():
    data = base64.b64encode(await PNG.read(1000)).decode()
    body = {"a": [{"b": (Inline(blob=PNG),)}], "c": Inline(blob=PNG, data_url=True), "d": None}
    assert json.loads(await json_body(body, 1000)) == {
        "a": [{"b": [data]}],
        "c": f"data:image/png;base64,{data}",
        "d": None,
    }


@pytest.mark.spec("S4-3.5")
async def test_all_media_of_a_body_together_keep_within_the_limit():
    two = [Inline(blob=PNG), Inline(blob=PNG)]
    await json_body(two, 2 * PNG.size)
    with pytest.raises(PayloadTooLarge):
        await json_body(two, 2 * PNG.size - 1)


async def test_half_a_character_is_written_as_it_was_read():
    assert json.loads(await json_body({"input": "x\ud800"}, 10)) == {"input": "x\ud800"}


# --- forms ---------------------------------------------------------------------------------------


@pytest.mark.spec("S4-3.5")
async def test_a_form_is_what_its_length_says_and_what_every_reader_reads():
    streamed, kind, data = await written((("model", "ear"), ("lang", "日本"), ("file", PNG)))
    assert streamed.size == len(data)
    parsed = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + data, policy=HTTP)
    found = [
        (part.get_param("name", header="content-disposition"), part.get_payload(decode=True))
        for part in parsed.iter_parts()
    ]
    assert found == [
        ("model", b"ear"),
        ("lang", "日本".encode()),
        ("file", await PNG.read(1000)),
    ]


async def test_a_form_can_be_sent_twice():
    """A kept connection may turn out to be closed; then it is sent anew."""
    streamed, _, first = await written((("model", "ear"), ("file", PNG)))
    assert b"".join([chunk async for chunk in streamed.chunks()]) == first


async def test_a_file_of_unknown_size_makes_a_form_of_unknown_size():
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    streamed, _, data = await written((("file", Blob(mime="audio/wav", chunks=chunks)),))
    assert streamed.size is None
    assert b"onetwo" in data


async def test_files_are_handed_on_piece_by_piece():
    taken = []

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(3):
            taken.append(number)
            yield bytes([number])

    streamed, _ = multipart_body(
        Multipart(fields=(("file", Blob(mime="audio/wav", chunks=chunks, size=3)),)), BOUNDARY
    )
    pieces = streamed.chunks()
    await anext(pieces)
    assert taken == []
    await anext(pieces)
    assert taken == [0]


# Of a backslash before a quote every reader thinks differently; no file's name has one (media/names.py).
_NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00\\"), min_size=1, max_size=12
)
_HOSTILE = st.sampled_from(
    [
        'a"; filename="evil.txt',
        'x"\r\nContent-Type: text/html\r\n\r\n<b>',
        "a\r\n--monoize-0123456789--\r\n",
        "a\nb",
        "a\rb",
        "ü☃",
    ]
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(_NAMES | _HOSTILE, _NAMES | _HOSTILE), min_size=1, max_size=4))
def test_no_name_can_break_out_of_its_header(pairs):
    """Names of fields and of files come from callers."""
    blobs = tuple((name, Blob.of(b"data", "text/plain", filename)) for name, filename in pairs)

    async def work():
        return await written(blobs)

    coroutine = work()
    try:
        coroutine.send(None)
    except StopIteration as done:
        _, _, data = done.value
    reader = MultipartReader(BOUNDARY)
    events = list(reader.feed(data))
    reader.close()
    begun = [event for event in events if isinstance(event, PartBegin)]
    assert [event.mime for event in begun] == ["text/plain"] * len(pairs)
    assert all(event.filename is not None for event in begun)
    assert b"".join(event.data for event in events if isinstance(event, PartData)) == b"data" * len(
        pairs
    )
