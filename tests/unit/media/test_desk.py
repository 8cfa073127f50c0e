"""References on their way in and bytes on their way out."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.far_host import FarHost, answers, listening, moved, reply
from fakes.media_shelf import MemoryShelf
from fakes.shelves import Doors, ShelfBench
from monoize.errors import (
    CallerError,
    Forbidden,
    InvalidRequest,
    MonoizeError,
    NotFound,
    PayloadTooLarge,
)
from monoize.media.blob import Blob
from monoize.media.desk import MediaDesk
from monoize.media.fetch import Fetcher
from monoize.media.ref import HttpUrl, InlineBase64, SmsFile
from monoize.settings import MediaSettings

ME, STRANGER = "user:me", "user:stranger"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


def desk(
    shelf: MemoryShelf | None = None, fetcher: Fetcher | None = None, inline_bytes: int = 1000
) -> MediaDesk:
    settings = MediaSettings(inline_bytes=inline_bytes)
    return MediaDesk(shelf or MemoryShelf(), settings, fetcher or Fetcher(settings.http_urls))


def inline(data: bytes, mime: str = "image/png") -> InlineBase64:
    return InlineBase64(mime=mime, data=base64.b64encode(data).decode())


# --- inline --------------------------------------------------------------------------------------


@pytest.mark.spec("D29", "S4-3.1", "S4-3.3")
async def test_small_data_stays_where_it_is():
    shelf, small = MemoryShelf(), inline(b"x" * 750)  # 1000 letters
    assert await desk(shelf).normalised(ME, small, param="payload.audio") is small
    assert shelf.files == {}


@pytest.mark.spec("D29", "S4-3.3", "S4-3.5")
async def test_larger_data_is_stored_and_becomes_a_reference():
    shelf, data = MemoryShelf(), b"y" * 751
    found = await desk(shelf).normalised(ME, inline(data, "Audio/WAV"), param="payload.audio")
    (stored,) = shelf.files.values()
    assert found == SmsFile(uri=f"smsfile://{stored.id}", mime="audio/wav")
    assert (stored.owner, stored.data, stored.declared_size) == (ME, data, 751)


@given(st.binary(max_size=5000))
async def test_what_is_stored_is_what_was_sent(data: bytes):
    shelf = MemoryShelf()
    found = await desk(shelf, inline_bytes=1).normalised(ME, inline(data), param="a")
    if data:
        assert isinstance(found, SmsFile)
        assert shelf.files[found.id].data == data
        assert shelf.files[found.id].declared_size == len(data)
    assert await (await desk(shelf).blob(ME, found)).read(10**6) == data


BAD = (
    *("A", "AA", "AAA", "AA=", "A===", "====", "=AAA", "AA==AA==", "AAAA====", "AAAAAA=="[:-1]),
    *("AAAA\n", " AAAA", "AA AA", "AA-_", "é===", "\ud800AAA", "smsfile://", "data:;base64,AAAA"),
)


@pytest.mark.spec("S4-3.1")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("before", ["", "AAAA" * 70_000])  # in the first piece, and in a later one
async def test_bad_base64_is_refused_by_its_name_and_nothing_is_left(bad: str, before: str):
    shelf = MemoryShelf()
    for inline_bytes in (1, 10**6):
        with pytest.raises(InvalidRequest, match="base64") as refused:
            ref = InlineBase64(mime="image/png", data=before + bad)
            await desk(shelf, inline_bytes=inline_bytes).normalised(ME, ref, param="payload.image")
        assert refused.value.param == "payload.image.data"
        assert refused.value.message.startswith("payload.image.data: ")
    assert shelf.files == {}


async def test_padding_before_the_end_is_refused_wherever_it_stands():
    step = 256 * 1024
    data = "A" * (step - 1) + "=" + "AAAA"  # the padding ends a piece
    with pytest.raises(InvalidRequest, match="base64"):
        await desk().normalised(ME, InlineBase64(mime="image/png", data=data), param="a")


@pytest.mark.spec("S4-3.1")
@pytest.mark.parametrize("mime", ["", "png", "image/", "image/png\r\nx: y", "a/b/c"])
async def test_a_type_that_is_none_is_refused_by_its_name(mime: str):
    async with FarHost() as host:
        for ref in (inline(b"x", mime), HttpUrl(url=host.url(), mime=mime)):
            with pytest.raises(InvalidRequest) as refused:
                await desk(fetcher=host.fetcher()).normalised(ME, ref, param="payload.image")
            assert refused.value.param == "payload.image.mime"
    assert host.heads == []


async def test_what_the_shelf_refuses_is_told_with_the_field():
    with pytest.raises(PayloadTooLarge) as refused:
        await desk(MemoryShelf(limit=100)).normalised(
            ME, inline(b"y" * 9000), param="payload.audio"
        )
    assert (refused.value.param, refused.value.http_status) == ("payload.audio.data", 413)


# --- stored files --------------------------------------------------------------------------------


@pytest.mark.spec("S4-3.1", "S4-3.5")
async def test_a_stored_file_has_the_type_that_it_was_stored_with():
    shelf = MemoryShelf()
    uri = shelf.lay(ME, PICTURE, "image/png")
    right, wrong = SmsFile(uri=uri, mime="image/png"), SmsFile(uri=uri, mime="text/html")
    assert await desk(shelf).normalised(ME, right, param="a") is right
    assert await desk(shelf).normalised(ME, wrong, param="a") == right
    assert shelf.read == []


@pytest.mark.spec("S4-3.1", "D29")
async def test_a_strangers_file_is_answered_like_one_that_does_not_exist():
    shelf = MemoryShelf()
    uri = shelf.lay(STRANGER, PICTURE, "image/png")
    said = []
    for named in (uri, f"{uri[:-1]}9"):
        with pytest.raises(InvalidRequest) as refused:
            ref = SmsFile(uri=named, mime="image/png")
            await desk(shelf).normalised(ME, ref, param="payload.image")
        error = refused.value
        said.append((error.message.replace(named[10:], "…"), error.param, error.error_code))
        with pytest.raises(NotFound):
            await desk(shelf).blob(ME, SmsFile(uri=named, mime="image/png"))
    text = "payload.image.uri: there is no media '…'"
    assert said == [(text, "payload.image.uri", "media_not_found")] * 2


@pytest.mark.parametrize(
    "uri", ["", "01J", "file:///etc/passwd", "http://a.example/", "smsfile:/x"]
)
async def test_other_uris_are_refused(uri: str):
    with pytest.raises(InvalidRequest, match="smsfile://") as refused:
        await desk().normalised(ME, SmsFile(uri=uri, mime="image/png"), param="payload.image")
    assert refused.value.param == "payload.image.uri"


# --- addresses -----------------------------------------------------------------------------------


@pytest.mark.spec("D30", "S4-3.5")
async def test_an_address_is_refused_unless_the_operator_allows_it():
    ref = HttpUrl(url="https://example.org/a", mime="image/png")
    with listening() as heard, pytest.raises(Forbidden, match="switched off") as refused:
        await desk().normalised(ME, ref, param="payload.image")
    assert (refused.value.param, heard.connections) == ("payload.image.url", [])
    assert not desk().fetches


@pytest.mark.spec("D30", "S4-3.5")
async def test_an_address_that_is_allowed_is_fetched_once_and_stored():
    shelf = MemoryShelf()
    async with FarHost() as host:
        host.replies["/a"] = moved("/b")
        host.replies["/b"] = reply(PICTURE, content_type="image/webp")
        chosen = desk(shelf, host.fetcher())
        found = await chosen.normalised(
            ME, HttpUrl(url=host.url(), mime="image/png"), param="payload.image"
        )
        assert chosen.fetches
        assert host.paths == ["/a", "/b"]
        assert isinstance(found, SmsFile)
        assert await (await chosen.blob(ME, found)).read(10**6) == PICTURE
        assert host.paths == ["/a", "/b"]
    (stored,) = shelf.files.values()
    assert found == SmsFile(uri=f"smsfile://{stored.id}", mime="image/webp")
    assert (stored.owner, stored.declared_size) == (ME, len(PICTURE))


async def test_the_callers_word_for_the_type_counts_where_the_host_has_none():
    shelf = MemoryShelf()
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE, content_type=None)
        ref = HttpUrl(url=host.url(), mime="image/png")
        found = await desk(shelf, host.fetcher()).normalised(ME, ref, param="a")
    assert found.mime == "image/png"


@pytest.mark.spec("D30")
async def test_a_failing_fetch_names_the_field_and_leaves_nothing():
    shelf = MemoryShelf()
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE, content_length=99_999)
        host.replies["/big"] = reply(bytes(2000))
        cases = (
            (host.fetcher(seconds=0.2), "/a", InvalidRequest),
            (host.fetcher(max_bytes=1000), "/big", PayloadTooLarge),
            (host.fetcher(), "/none", InvalidRequest),
            (host.fetcher(answers("10.0.0.1")), "/a", Forbidden),
        )
        for fetcher, path, kind in cases:
            with pytest.raises(CallerError) as refused:
                ref = HttpUrl(url=host.url(path), mime="image/png")
                await desk(shelf, fetcher).normalised(ME, ref, param="payload.image")
            assert type(refused.value) is kind
            assert refused.value.param == "payload.image.url"
    assert shelf.files == {}


# --- out -----------------------------------------------------------------------------------------


@pytest.mark.spec("S4-3.5")
async def test_bytes_can_be_read_again_and_again():
    shelf = MemoryShelf()
    uri = shelf.lay(ME, PICTURE, "image/png", "a.png")
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE)
        chosen = desk(shelf, host.fetcher())
        for ref in (
            inline(PICTURE),
            SmsFile(uri=uri, mime="x/y"),
            HttpUrl(url=host.url(), mime="image/png"),
        ):
            blob = await chosen.blob(ME, ref)
            assert (blob.mime, blob.size) == ("image/png", len(PICTURE))
            assert [await blob.read(10**6) for _ in range(2)] == [PICTURE] * 2
    assert host.paths == ["/a"]


async def test_bad_base64_has_no_bytes():
    with pytest.raises(InvalidRequest, match="base64"):
        await desk().blob(ME, InlineBase64(mime="a/b", data="AAA"))
    with pytest.raises(InvalidRequest, match="base64"):
        await (await desk().blob(ME, InlineBase64(mime="a/b", data="AA A"))).read(99)


@pytest.mark.spec("S4-3.2", "S4-3.5")
async def test_what_a_provider_made_is_stored():
    async def once() -> AsyncIterator[bytes]:
        yield b"so"
        yield b"und"

    shelf = MemoryShelf()
    blob = Blob(mime="audio/wav", chunks=once, name="speech.wav")
    found = await desk(shelf).kept(ME, blob)
    (stored,) = shelf.files.values()
    assert found == SmsFile(uri=f"smsfile://{stored.id}", mime="audio/wav")
    assert (stored.data, stored.name, stored.declared_size) == (b"sound", "speech.wav", None)


@pytest.mark.spec("S4-3.5")
async def test_a_gateway_without_a_database_keeps_nothing_and_says_so():
    chosen = MediaDesk(None, MediaSettings(inline_bytes=4), Fetcher(MediaSettings().http_urls))
    small = inline(b"x")
    assert await chosen.normalised(ME, small, param="a") is small
    stored = SmsFile(uri="smsfile://01J", mime="a/b")
    for asking in (
        chosen.normalised(ME, inline(b"xxxx"), param="a"),
        chosen.normalised(ME, stored, param="a"),
        chosen.blob(ME, stored),
        chosen.kept(ME, Blob.of(b"x", "a/b")),
    ):
        with pytest.raises(MonoizeError, match="keeps no media") as refused:
            await asking
        assert (refused.value.error_code, refused.value.http_status) == ("media_not_enabled", 501)


# --- on the real shelf ---------------------------------------------------------------------------


@pytest.mark.spec("D29", "D30", "S4-3.5")
async def test_the_real_shelf_keeps_what_comes_whole_and_nothing_else(bench: ShelfBench):
    settings = MediaSettings(inline_bytes=1000)
    broken = base64.b64encode(bytes(900_000)).decode()[:-8] + "AA==AAAA"
    async with FarHost() as host:
        host.replies |= {"/a": reply(PICTURE), "/cut": reply(PICTURE, content_length=9999)}
        chosen = MediaDesk(bench.shelf, settings, host.fetcher(seconds=0.3))
        for bad in (
            InlineBase64(mime="image/png", data=broken),
            HttpUrl(url=host.url("/cut"), mime="image/png"),
            HttpUrl(url=host.url("/none"), mime="image/png"),
        ):
            with pytest.raises(InvalidRequest):
                await chosen.normalised(ME, bad, param="a")
        assert await bench.objects() == set()
        await bench.check()
        large, far = bytes(range(256)) * 4000, HttpUrl(url=host.url("/a"), mime="image/png")
        kept = [
            (await chosen.normalised(ME, inline(large, "audio/wav"), param="a"), large),
            (await chosen.normalised(ME, far, param="a"), PICTURE),
            (await chosen.kept(ME, Blob.of(b"made", "image/png")), b"made"),
        ]
    for ref, data in kept:
        assert isinstance(ref, SmsFile)
        assert await chosen.normalised(ME, ref, param="a") is ref
        assert await (await chosen.blob(ME, ref)).read(10**7) == data
        with pytest.raises(InvalidRequest, match="there is no media"):
            await chosen.normalised(STRANGER, ref, param="a")
    await bench.check()


async def test_without_a_database_there_are_no_media():
    reply = await Doors(None).send("GET", "/v1/media")
    assert (reply.status, reply.headers["code"]) == (501, "media_not_enabled")
