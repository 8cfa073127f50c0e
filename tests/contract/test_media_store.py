"""What the shelf asks of an object store, on each that there is: a folder, memory, a real S3 server."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from itertools import count

import pytest

from fakes.seaweedfs import BUCKET, S3Server, s3_server
from monoize.errors import ConfigError, MediaAway
from monoize.media import store as module
from monoize.media.store import CHUNK_BYTES, MediaStore, ObjectMissing
from monoize.media.turns import Turns

__all__ = ["s3_server"]

LIMIT = 1024**3
_numbers = count()


@pytest.fixture(params=["folder", "memory", "s3"])
async def store(request, tmp_path, monkeypatch) -> MediaStore:
    match request.param:
        case "folder":
            return await MediaStore.open("./media", tmp_path, "library")
        case "memory":
            return await MediaStore.open("memory://", tmp_path, "library")
    server: S3Server = request.getfixturevalue("s3_server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return await MediaStore.open(f"s3://{BUCKET}/some/prefix", tmp_path, f"library{next(_numbers)}")


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


async def put(store: MediaStore, name: str, *given: bytes) -> None:
    await store.put(name, pieces(*given), LIMIT)


async def whole(store: MediaStore, name: str, *span: int) -> bytes:
    _, chunks = await store.get(name, *span)
    return b"".join([chunk async for chunk in chunks])


async def names(store: MediaStore) -> set[str]:
    return {name async for page in store.names() for name in page}


@pytest.mark.spec("D29", "S4-3.3")
async def test_what_is_put_can_be_got(store):
    await put(store, "one", b"a", b"", b"bc")
    await put(store, "two", b"x" * 1000)
    assert await whole(store, "one") == b"abc"
    assert await whole(store, "two") == b"x" * 1000
    assert await names(store) == {"one", "two"}
    assert await store.has("one")
    assert not await store.has("three")


@pytest.mark.parametrize("size", [5 * 1024**2 - 1, 5 * 1024**2, 5 * 1024**2 + 1, 23 * 1024**2 + 7])
async def test_objects_of_several_parts_are_put_together_again(store, size):
    piece = os.urandom(256 * 1024 + 3)
    given = [piece] * (size // len(piece)) + [piece[: size % len(piece)]]
    await put(store, "large", *given)
    digest, found = hashlib.sha256(), 0
    told, chunks = await store.get("large")
    async for chunk in chunks:
        assert 0 < len(chunk) <= CHUNK_BYTES
        digest.update(chunk)
        found += len(chunk)
    assert (told, found) == (size, size)
    assert digest.digest() == hashlib.sha256(b"".join(given)).digest()


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 1), b"0"),
        ((3, 7), b"3456"),
        ((9, 10), b"9"),
        ((0, 10), b"0123456789"),
        ((4,), b"456789"),
        ((5, 99), b"56789"),
    ],
)
async def test_a_range_of_an_object(store, span, expected):
    await put(store, "digits", b"01234", b"56789")
    assert await whole(store, "digits", *span) == expected
    size, _ = await store.get("digits", *span)
    assert size == 10


async def test_what_is_not_there_is_missing(store):
    with pytest.raises(ObjectMissing):
        await store.get("nothing")


async def test_what_is_deleted_is_gone_and_may_be_deleted_again(store):
    await put(store, "one", b"a")
    await put(store, "two", b"b")
    await store.delete("one")
    await store.delete("one")
    await store.delete("never-was")
    assert await names(store) == {"two"}
    with pytest.raises(ObjectMissing):
        await store.get("one")


class Enough(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1, 30, 60])
async def test_an_upload_that_breaks_off_leaves_nothing(store, after):
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(after):
            yield bytes(256 * 1024)
        raise Enough

    with pytest.raises(Enough):
        await store.put("broken", broken(), LIMIT)
    assert await names(store) == set()
    assert not await store.has("broken")


@pytest.mark.parametrize("error", [TimeoutError, ConnectionResetError, FileNotFoundError])
async def test_an_error_of_the_sender_is_not_taken_for_one_of_the_store(store, error):
    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise error

    with pytest.raises(error):
        await store.put("broken", broken(), LIMIT)


async def test_a_cancelled_upload_leaves_nothing(store):
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(256 * 1024)
        begun.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(store.put("cancelled", endless(), LIMIT))
    await begun.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert await names(store) == set()


async def test_an_upload_that_is_cancelled_twice_is_taken_back_all_the_same(store, caplog):
    begun = asyncio.Event()

    async def broken() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(256 * 1024)
        begun.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(store.put("cancelled", broken(), LIMIT))
    await begun.wait()
    for _ in range(3):
        upload.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert await names(store) == set()
    gc.collect()
    assert not caplog.records


async def test_an_upload_that_is_cancelled_at_its_very_end_is_done_or_not(store):
    for turns in (1, 2, 5, 10, 20, 50):
        upload = asyncio.create_task(put(store, "late", *[bytes(1024**2)] * 6))
        for _ in range(turns):
            await asyncio.sleep(0)
        came_in_time = upload.cancel()
        if came_in_time:
            with pytest.raises(asyncio.CancelledError):
                await upload
        before = await store.has("late")
        assert before or came_in_time  # an upload that ended is there
        await asyncio.sleep(0.05)
        assert await store.has("late") is before  # nothing goes on behind our back
        await store.delete("late")


async def test_many_at_a_time_are_not_mixed_up(store):
    async def one(number: int) -> bool:
        data = [bytes([number]) * 100_000, number.to_bytes(4, "big") * 300_000]
        await put(store, f"object{number}", *data)
        return await whole(store, f"object{number}") == b"".join(data)

    assert all(await asyncio.gather(*(one(number) for number in range(24))))
    assert len(await names(store)) == 24


async def test_a_reader_may_stop_in_the_middle(store):
    await put(store, "large", *[bytes(1024**2)] * 8)
    _, chunks = await store.get("large")
    async for _ in chunks:
        break
    await chunks.aclose()
    assert await whole(store, "large", 0, 3) == bytes(3)


async def test_lists_more_than_one_page(store):
    for start in range(0, 600, 100):
        await asyncio.gather(*(put(store, f"n{start + i:05}", b"x") for i in range(100)))
    assert len(await names(store)) == 600


async def test_only_so_many_upload_at_a_time_and_one_owner_half_of_them(store, monkeypatch):
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.02)
    store._turns = Turns(4)
    async with store.turn("ada"), store.turn("ada"):
        with pytest.raises(MediaAway, match="too many uploads") as caught:
            async with store.turn("ada"):
                pass
        assert (caught.value.error_code, caught.value.http_status) == ("media_store_busy", 503)
        assert caught.value.headers["retry-after"]
        async with store.turn("bob"), store.turn("eve"):
            with pytest.raises(MediaAway):
                async with store.turn("new"):
                    pass
    async with store.turn("ada"), store.turn("ada"), store.turn("new"):
        pass


async def test_whoever_waits_gets_the_next_turn(store):
    store._turns = Turns(2)
    order = []

    async def upload(name: str) -> None:
        async with store.turn(name):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*(upload(f"owner{number}") for number in range(20)))
    assert len(order) == 20
    assert not store._turns._held


# --- a folder ---


@pytest.fixture
async def folder(tmp_path) -> MediaStore:
    return await MediaStore.open("./data/media", tmp_path, "library")


async def test_a_folder_is_its_owners_alone(folder, tmp_path):
    before = os.umask(0)
    try:
        other = await MediaStore.open("./new/media", tmp_path, "library")
        await put(other, "one", b"a")
    finally:
        os.umask(before)
    place = tmp_path / "new" / "media" / "library"
    assert {stat.S_IMODE(p.stat().st_mode) for p in (place, place.parent)} == {0o700}
    assert stat.S_IMODE((place / "one").stat().st_mode) == 0o600


async def test_a_relative_folder_lies_below_the_config_and_an_absolute_one_where_it_says(tmp_path):
    for url, place in (
        ("media", tmp_path / "base" / "media"),
        (str(tmp_path / "there"), tmp_path / "there"),
        (f"file://{tmp_path}/url", tmp_path / "url"),
    ):
        store = await MediaStore.open(url, tmp_path / "base", "library")
        await put(store, "one", b"a")
        assert (place / "library" / "one").read_bytes() == b"a"


async def test_what_a_killed_process_left_half_written_is_listed_and_removed(folder, tmp_path):
    place = tmp_path / "data" / "media" / "library"
    (place / "half#1").write_bytes(b"a")
    (place / "half#12").write_bytes(b"a")
    (place / "halfway").write_bytes(b"a")
    assert await names(folder) == {"half", "halfway"}
    await folder.delete("half")
    assert [file.name for file in place.iterdir()] == ["halfway"]


async def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"media\.store") as caught:
        await MediaStore.open("./file/media", tmp_path, "library")
    assert "\n" not in caught.value.message


async def test_a_disk_that_fails_is_no_fault_of_the_caller(folder, tmp_path, caplog):
    place = tmp_path / "data" / "media" / "library"
    place.rmdir()
    place.write_bytes(b"no folder any more")
    with pytest.raises(MediaAway) as caught:
        await put(folder, "one", b"a" * 3_000_000)
    assert (caught.value.http_status, caught.value.retryable) == (503, True)
    assert str(tmp_path) not in caught.value.message  # the caller need not know where
    assert str(tmp_path) in caplog.text


# --- addresses ---


@pytest.mark.parametrize("url", ["ftp://host/x", "http://host/x", "redis://x", "s3://", "://x"])
async def test_an_address_of_no_store_is_one_sentence(url, tmp_path):
    with pytest.raises(ConfigError, match=r"media\.store") as caught:
        await MediaStore.open(url, tmp_path, "library")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix"]
)
async def test_clouds_are_named_by_their_url(url, tmp_path, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    store = await MediaStore.open(url, tmp_path, "library")
    assert store._store.prefix == "prefix/library"


# --- S3 ---


async def test_a_wrong_secret_is_found_out_and_not_told(s3_server, tmp_path, monkeypatch, caplog):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    store = await MediaStore.open(f"s3://{BUCKET}", tmp_path, "library")
    with pytest.raises(MediaAway) as caught:
        await put(store, "one", b"a")
    assert "the media store cannot be used now" in caught.value.message
    assert "403" in caplog.text
    assert "a-wrong-secret" not in caplog.text


async def test_a_server_that_is_away_is_given_up_soon(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    store = await MediaStore.open(f"s3://{BUCKET}", tmp_path, "library")
    async with asyncio.timeout(25):
        for work in (put(store, "one", b"a"), store.get("one"), store.delete("one")):
            with pytest.raises(MediaAway):
                await work


async def test_a_server_that_hangs_is_given_up_and_used_again_when_it_is_back(
    s3_server, tmp_path, monkeypatch
):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    patient = await MediaStore.open(f"s3://{BUCKET}", tmp_path, "hangs")
    monkeypatch.setitem(module._CLIENT, "read_timeout", "500ms")
    store = await MediaStore.open(f"s3://{BUCKET}", tmp_path, "hangs")
    await put(patient, "one", b"a")
    s3_server.pause()
    try:
        async with asyncio.timeout(25):
            with pytest.raises(MediaAway):
                await put(store, "two", b"b")
            with pytest.raises(MediaAway):
                await store.get("one")
    finally:
        s3_server.resume()
    assert await whole(patient, "one") == b"a"
    await put(patient, "three", b"c")  # not "two": the server may still do what nobody waited for
    assert await whole(patient, "three") == b"c"


async def test_two_databases_in_one_bucket_do_not_see_one_another(s3_server, tmp_path, monkeypatch):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    ours, theirs = [
        await MediaStore.open(f"s3://{BUCKET}/shared/", tmp_path, library)
        for library in ("ours", "theirs")
    ]
    await put(ours, "one", b"ours")
    await put(theirs, "one", b"theirs")
    await ours.delete("one")
    assert (await names(ours), await whole(theirs, "one")) == (set(), b"theirs")


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_parts_of_an_upload_that_broke_off_are_taken_back(
    s3_server, tmp_path, monkeypatch, is_cancelled
):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    store = await MediaStore.open(f"s3://{BUCKET}", tmp_path, "library")
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def broken() -> AsyncIterator[bytes]:
        for _ in range(13):
            yield bytes(1024**2)
        arrived.set()
        await go_on.wait()
        raise Enough

    before = s3_server.unfinished()
    upload = asyncio.create_task(store.put("broken", broken(), LIMIT))
    await arrived.wait()
    assert s3_server.unfinished() == before + 1
    if is_cancelled:
        upload.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError if is_cancelled else Enough):
        await upload
    assert s3_server.unfinished() == before
