"""Forms in every cut, as browsers and libraries write them; and what no form may be."""

from __future__ import annotations

import re
from itertools import pairwise

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.filepost import encode_multipart_formdata

from monoize.errors import InvalidRequest
from monoize.multipart import (
    MultipartLimits,
    MultipartReader,
    PartBegin,
    PartData,
    PartEnd,
    boundary_of,
    parameters,
)

B = "b0undary"


def part(head: str, data: bytes, boundary: str = B) -> bytes:
    return f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n"


def field(name: str, data: bytes) -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"', data)


def upload(name: str, filename: str, mime: str, data: bytes) -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"; filename="{filename}"'
    return part(f"{head}\r\nContent-Type: {mime}", data)


END = f"--{B}--\r\n".encode()


def read(pieces, boundary=B, **limits):
    """(name, filename, mime, bytes) of each part."""
    reader = MultipartReader(boundary, MultipartLimits(**limits))
    found, data, is_open = [], bytearray(), False
    for piece in pieces:
        for event in reader.feed(piece):
            match event:
                case PartBegin(name=name, filename=filename, mime=mime):
                    assert not is_open
                    found.append((name, filename, mime))
                    is_open = True
                case PartData(piece_of_it):
                    assert is_open
                    assert piece_of_it
                    data += piece_of_it
                case PartEnd():
                    found[-1] = (*found[-1], bytes(data))
                    data.clear()
                    is_open = False
    reader.close()
    assert not is_open
    return found


CASES = {
    "a field": (field("a", b"1") + END, [("a", None, None, b"1")]),
    "an empty field": (field("a", b"") + END, [("a", None, None, b"")]),
    "an empty file": (upload("f", "", "text/plain", b"") + END, [("f", "", "text/plain", b"")]),
    "no part at all": (END, []),
    "two fields and a file": (
        field("a", b"1") + upload("f", "x.png", "image/png", b"\x89PNG") + field("a", b"2") + END,
        [
            ("a", None, None, b"1"),
            ("f", "x.png", "image/png", b"\x89PNG"),
            ("a", None, None, b"2"),
        ],
    ),
    "line ends and dashes in the data": (
        field("a", b"\r\n--b0undar\r\n--\r\n\r\n-") + END,
        [("a", None, None, b"\r\n--b0undar\r\n--\r\n\r\n-")],
    ),
    "data that ends with a line end": (field("a", b"x\r\n") + END, [("a", None, None, b"x\r\n")]),
    "words before and after": (
        b"words before\r\n" + field("a", b"1") + END + b"words\r\n--b0undary\r\nafter",
        [("a", None, None, b"1")],
    ),
    "blanks behind a boundary": (
        field("a", b"1").replace(b"b0undary\r\n", b"b0undary \t \r\n") + END,
        [("a", None, None, b"1")],
    ),
    "no line end at the very end": (field("a", b"1") + END[:-2], [("a", None, None, b"1")]),
    "names of any script": (
        upload("f", "Übung 練習 🎉.wav", "audio/wav", b"1") + END,
        [("f", "Übung 練習 🎉.wav", "audio/wav", b"1")],
    ),
    "a quotation mark as browsers write it": (
        upload("f", "a%22b.txt", "text/plain", b"1") + END,
        [("f", 'a"b.txt', "text/plain", b"1")],
    ),
    "a quotation mark as mail writes it": (
        upload("f", 'a\\"b\\\\.txt', "text/plain", b"1") + END,
        [("f", 'a"b\\.txt', "text/plain", b"1")],
    ),
    "a whole path of Windows": (
        upload("f", "C:\\temp\\x.txt", "text/plain", b"1") + END,
        [("f", "C:\\temp\\x.txt", "text/plain", b"1")],
    ),
    "an encoded name": (
        part("content-disposition: form-data; name=f; filename*=utf-8''%C3%BC%20x.txt", b"1") + END,
        [("f", "ü x.txt", None, b"1")],
    ),
    "headers in any case, others too": (
        part('CONTENT-disposition:FORM-DATA;NAME="a"\r\nX-Other: é', b"1") + END,
        [("a", None, None, b"1")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "parts"), CASES.values(), ids=CASES)
def test_reads_the_same_parts_whole_and_byte_by_byte(body, parts):
    assert read([body]) == parts
    assert read([body[i : i + 1] for i in range(len(body))]) == parts


@given(
    parts=st.lists(st.tuples(st.text("abc", min_size=1), st.binary(max_size=200)), max_size=5),
    cuts=st.lists(st.integers(0, 1500), max_size=12),
)
def test_reads_the_same_parts_however_they_are_cut(parts, cuts):
    body = b"".join(field(name, data.replace(b"\r\n--b", b"")) for name, data in parts) + END
    places = sorted({0, *(cut for cut in cuts if cut < len(body)), len(body)})
    pieces = [body[a:b] for a, b in pairwise(places)]
    expected = [(name, None, None, data.replace(b"\r\n--b", b"")) for name, data in parts]
    assert read(pieces) == expected


@given(
    data=st.lists(st.sampled_from([b"\r\n", b"--", b"b0undary", b"-", b"\r", b"x"]), max_size=30)
)
def test_only_a_whole_boundary_ends_a_part(data):
    text = b"".join(data)
    if b"\r\n--b0undary" not in b"\r\n\r\n" + text + b"\r\n":
        body = field("a", text) + END
        assert read([body[i : i + 3] for i in range(0, len(body), 3)]) == [("a", None, None, text)]


WRONG = {
    "nothing": b"",
    "no boundary": b"just words",
    "another boundary": field("a", b"1").replace(b"b0undary", b"other") + b"--other--\r\n",
    "no end": field("a", b"1"),
    "cut in the data": field("a", b"1")[:-3],
    "cut in the headers": field("a", b"1")[:30],
    "words behind a boundary": b"--b0undaryish\r\n" + field("a", b"1") + END,
    "endless blanks behind a boundary": b"--b0undary" + b" " * 70 + b"\r\n" + END,
    "no headers": b"--b0undary\r\n\r\n1\r\n" + END,
    "no name": part("content-disposition: form-data; filename=x", b"1") + END,
    "another disposition": part("content-disposition: attachment; name=x", b"1") + END,
    "an open quotation": part('content-disposition: form-data; name="x', b"1") + END,
    "a header without a colon": part("content-disposition", b"1") + END,
    "a header twice": part("content-disposition: form-data; name=a\r\n" * 2 + "x: y", b"1") + END,
    "a folded header": part("content-disposition: form-data;\r\n name=a", b"1") + END,
    "coded content": part(
        "content-disposition: form-data; name=a\r\ncontent-transfer-encoding: base64", b"MQ=="
    )
    + END,
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_refuses_what_is_no_form(body):
    with pytest.raises(InvalidRequest):
        read([body])
    with pytest.raises(InvalidRequest):
        read([body[i : i + 1] for i in range(len(body))])


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_refuses_headers_beyond_the_limit(step):
    body = part("content-disposition: form-data; name=a\r\nx: " + "y" * 2000, b"1") + END
    pieces = [body[i : i + step] for i in range(0, len(body), step)]
    assert read(pieces, header_bytes=3000)
    with pytest.raises(InvalidRequest, match="larger than 1000 bytes"):
        read(pieces, header_bytes=1000)


def test_headers_without_an_end_are_not_kept():
    reader = MultipartReader(B, MultipartLimits(header_bytes=1000))
    reader.feed(b"--b0undary\r\n")
    with pytest.raises(InvalidRequest):
        reader.feed(b"x" * 1010)


def test_refuses_more_parts_than_the_limit():
    body = field("a", b"1") * 5 + END
    assert len(read([body], parts=5)) == 5
    with pytest.raises(InvalidRequest, match="more than 4 parts"):
        read([body], parts=4)


def test_keeps_nothing_of_a_large_part():
    reader = MultipartReader(B)
    reader.feed(b"--b0undary\r\ncontent-disposition: form-data; name=f; filename=x\r\n\r\n")
    for _ in range(64):
        sizes = [len(event.data) for event in reader.feed(b"\r\n--" * 65536)]
        assert sum(sizes) >= 65536
        assert len(reader._buffer) <= 100


# --- what libraries send ---


async def test_reads_what_aiohttp_writes():
    form = aiohttp.FormData()
    form.add_field("model", "whisper-1")
    form.add_field("file", b"RIFF\r\n--", filename='a "b" ü.wav', content_type="audio/wav")
    payload = form()

    class Collected:
        data = b""

        async def write(self, piece):
            self.data += piece

    into = Collected()
    await payload.write(into)
    boundary = boundary_of(payload.headers["content-type"])
    assert [(p[0], p[2], p[3]) for p in read([into.data], boundary)] == [
        ("model", "text/plain; charset=utf-8", b"whisper-1"),
        ("file", "audio/wav", b"RIFF\r\n--"),
    ]


def test_reads_what_urllib3_writes():
    body, kind = encode_multipart_formdata(
        [("model", "m"), ("file", ('a "b" ü.png', b"\x89PNG", "image/png"))]
    )
    assert read([body], boundary_of(kind)) == [
        ("model", None, None, b"m"),
        ("file", 'a "b" ü.png', "image/png", b"\x89PNG"),
    ]


# --- content types ---


@pytest.mark.parametrize(
    ("text", "boundary"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; charset=utf-8; Boundary="a b:c"', "a b:c"),
        ("multipart/form-data;boundary=----WebKitFormBoundaryX", "----WebKitFormBoundaryX"),
        ("application/json", None),
        ("multipart/mixed; boundary=abc", None),
        ("", None),
    ],
)
def test_the_boundary_of_a_content_type(text, boundary):
    assert boundary_of(text) == boundary


@pytest.mark.parametrize(
    "text",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary="a "',
        f"multipart/form-data; boundary={'x' * 71}",
        "multipart/form-data; boundary=é",
    ],
)
def test_refuses_a_form_without_a_boundary(text):
    with pytest.raises(InvalidRequest, match="boundary"):
        boundary_of(text)


@given(st.text(max_size=80))
def test_parameters_of_any_text_are_read_without_a_fault(text):
    kind, found = parameters(text)
    assert re.fullmatch(r"[^\s;]*", kind)
    assert all(isinstance(value, str) for value in found.values())


def test_parameters_take_no_more_than_linear_time():
    assert parameters("a" + '; b="\\"' * 20_000) == ("", {})
