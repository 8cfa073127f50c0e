"""Bodies and forms off the wire: in pieces, within limits, and without a trace afterwards."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from fakes.asking import arriving
from fakes.shelves import request
from monoize.errors import InvalidRequest, MonoizeError, PayloadTooLarge, RequestTimeout
from monoize.multipart import MultipartLimits
from monoize.server.http import CallerGone
from monoize.server.uploads import MEMORY_BYTES, PIECE_BYTES, body_pieces, form_of
from monoize.settings import LimitSettings, TimeoutSettings

B = "b0undary"
TIMEOUTS = TimeoutSettings(body=5)
HASTE = TimeoutSettings(body=0.05)


def part(head: str, data: bytes) -> bytes:
    return f"--{B}\r\ncontent-disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{B}--\r\n".encode()


def asked(given: list[bytes], *, then: str = "end", **headers: str):
    named = {"content-type": f"multipart/form-data; boundary={B}", **headers}
    return request("POST", "/x", arriving(given, then=then), named)


def cut(body: bytes, step: int = 65_536) -> list[bytes]:
    return [body[i : i + step] for i in range(0, len(body), step)] or [b""]


async def body(given: list[bytes], limit: int = 10**9, timeouts=TIMEOUTS, **more) -> list[bytes]:
    return [piece async for piece in body_pieces(asked(given, **more), timeouts, limit, "x.y")]


# --- bodies ---


async def test_small_messages_are_handed_on_together():
    given = [bytes([i % 256]) * 10_000 for i in range(100)]
    found = await body(given)
    assert b"".join(found) == b"".join(given)
    assert len(found) == 4
    assert all(len(piece) < PIECE_BYTES + 10_000 for piece in found)


async def test_no_body_is_no_pieces():
    assert await body([b""]) == []
    assert await body([b"", b"", b"x"]) == [b"x"]


async def test_a_body_that_says_it_is_too_large_is_not_read():
    with pytest.raises(PayloadTooLarge, match=r"larger than 10 bytes \(x.y\)"):
        await body([], 10, then="silence", **{"content-length": "11"})
    assert await body([b"x" * 10], 10, **{"content-length": "10"}) == [b"x" * 10]


async def test_a_body_that_turns_out_to_be_too_large_is_broken_off():
    with pytest.raises(PayloadTooLarge):
        await body([bytes(100_000)] * 10, 900_000)
    assert len(b"".join(await body([bytes(100_000)] * 10, 1_000_000))) == 1_000_000


async def test_a_body_that_stops_coming_is_given_up():
    with pytest.raises(RequestTimeout, match=r"within 0\.05 s"):
        await body([bytes(PIECE_BYTES), b"x"], then="silence", timeouts=HASTE)


async def test_a_caller_that_leaves_is_noticed():
    with pytest.raises(CallerGone):
        await body([b"x"], then="leaves")


async def test_compressed_bodies_are_refused():
    with pytest.raises(InvalidRequest, match="uncompressed"):
        await body([b"x"], **{"content-encoding": "gzip"})


# --- forms ---


@pytest.mark.parametrize("step", [1, 100, 10**6])
async def test_a_form_becomes_texts_and_files(step):
    sent = form(
        part("name=model", b"whisper-1"),
        part('name="g[]"', b"word"),
        part('name="g[]"', b"segment"),
        part('name=file; filename="a/b.wav"\r\ncontent-type: audio/wav', b"RIFF"),
        part("name=file; filename=c\r\ncontent-type: nonsense", b""),
        part("name=said", "Grüße 🎉".encode()),
    )
    async with form_of(asked(cut(sent, step)), LimitSettings(), TIMEOUTS) as found:
        assert found.fields == {
            "model": "whisper-1",
            "g[]": ["word", "segment"],
            "said": "Grüße 🎉",
        }
        first, second = found.files["file"]
        assert (first.mime, first.name, first.size) == ("audio/wav", "b.wav", 4)
        assert await first.read(10) == b"RIFF"
        assert (second.mime, second.name, second.size) == ("application/octet-stream", "c", 0)
        assert await second.read(10) == b""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_large_file_lies_on_the_disk_without_a_name_and_is_gone_afterwards(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = os.urandom(3 * MEMORY_BYTES + 17)
    sent = form(part("name=a; filename=a", data), part("name=b; filename=b", data[:MEMORY_BYTES]))
    before = open_files()
    async with form_of(asked(cut(sent)), LimitSettings(), TIMEOUTS) as found:
        assert open_files() == before + 1
        assert list(tmp_path.iterdir()) == []
        (large,), (small,) = found.files["a"], found.files["b"]
        one, other = large.chunks(), large.chunks()  # two readers do not get in each other's way
        first = await anext(one)
        assert await anext(other) == first
        assert await large.read(len(data)) == data
        assert first + b"".join([piece async for piece in one]) == data
        assert await small.read(MEMORY_BYTES) == data[:MEMORY_BYTES]
    assert open_files() == before
    with pytest.raises(MonoizeError, match="after its request was answered"):
        await large.read(len(data))


@pytest.mark.parametrize("then", ["end", "leaves", "silence"])
async def test_nothing_is_left_of_a_form_that_never_came_to_its_end(then):
    sent = part("name=a; filename=a", bytes(3 * MEMORY_BYTES))
    before = open_files()
    with pytest.raises((InvalidRequest, CallerGone, RequestTimeout)):
        async with form_of(asked(cut(sent), then=then), LimitSettings(), HASTE):
            pass
    assert open_files() == before


async def test_nothing_is_left_when_the_request_fails():
    sent = form(part("name=a; filename=a", bytes(3 * MEMORY_BYTES)))
    before = open_files()
    with pytest.raises(ZeroDivisionError):
        async with form_of(asked(cut(sent)), LimitSettings(), TIMEOUTS):
            raise ZeroDivisionError
    assert open_files() == before


async def refused(sent: bytes, limits: LimitSettings | None = None, **more: int) -> MonoizeError:
    with pytest.raises(MonoizeError) as caught:
        async with form_of(
            asked(cut(sent)), limits or LimitSettings(), TIMEOUTS, MultipartLimits(**more)
        ):
            pass
    return caught.value


async def test_limits_of_a_form():
    large = form(part("name=a; filename=a", bytes(100_000)))
    assert (await refused(large, LimitSettings(body_bytes=90_000))).http_status == 413
    text = await refused(form(part("name=prompt", b"x" * (MEMORY_BYTES + 1))))
    assert (text.http_status, text.param) == (413, "prompt")
    many = form(*[part("name=a", b"")] * 65)
    assert (await refused(many)).http_status == 400
    assert (await refused(form(part("name=a", b"\xff")))).message == "the field a is not UTF-8 text"


async def test_what_is_no_form_is_refused():
    with pytest.raises(InvalidRequest, match="must be multipart/form-data"):
        async with form_of(
            asked([b"{}"], **{"content-type": "application/json"}), LimitSettings(), TIMEOUTS
        ):
            pass
