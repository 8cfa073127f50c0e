"""The shelf: whose media are whose, how much room they take, and what is left of those that never were."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from fakes.shelves import DAY, ShelfBench, pieces
from monoize.errors import (
    DatabaseAway,
    InvalidRequest,
    MediaAway,
    NotFound,
    PayloadTooLarge,
    RequestTimeout,
)
from monoize.media import ids, upload
from monoize.media.ref import SmsFile
from monoize.media.shelf import Shelf
from monoize.media.store import MediaStore
from monoize.store import media as rows
from monoize.store.database import Database
from monoize.store.media import LEAST_BYTES, Usage

MIB = 1024**2


# --- one of them ---


@pytest.mark.spec("D29", "S4-3.1", "S4-3.3", "S4-3.5")
async def test_what_is_put_is_found_with_all_that_is_known_of_it(bench):
    data = [b"RIFF", b"\x24\0\0\0WAVE", b"x" * 100_000]
    stored = await bench.shelf.put("user:ada", pieces(*data), name="a/b.wav", key="k1")
    whole = b"".join(data)
    assert stored.sha256 == hashlib.sha256(whole).hexdigest()
    assert (stored.size, stored.name, stored.key_id) == (len(whole), "b.wav", "k1")
    assert stored.mime == "application/octet-stream"  # the first chunk is too short to tell
    assert (stored.created_at, stored.expires_at) == (
        round(bench.clock.now() * 1000),
        round((bench.clock.now() + 30 * DAY) * 1000),
    )
    assert stored.ref == SmsFile(uri=f"smsfile://{stored.id}", mime=stored.mime)
    assert await bench.shelf.find("user:ada", stored.id) == stored
    blob = await bench.shelf.blob("user:ada", stored.id)
    assert (blob.size, blob.mime, blob.name) == (len(whole), stored.mime, "b.wav")
    for _ in range(2):  # as often as it is needed
        assert await blob.read(MIB) == whole
    await bench.check()


async def test_the_type_is_the_senders_word_or_a_look_at_the_first_bytes(bench):
    png = b"\x89PNG\r\n\x1a\n"
    assert (await bench.shelf.put("o", pieces(b"", png))).mime == "image/png"
    assert (await bench.shelf.put("o", pieces(png), mime="text/plain")).mime == "text/plain"
    with pytest.raises(InvalidRequest, match="media type"):
        await bench.shelf.put("o", pieces(png), mime="nonsense")
    await bench.check()


async def test_a_range_of_it(bench):
    stored = await bench.shelf.put("o", pieces(b"0123456789"))
    blob = await bench.shelf.blob("o", stored.id, (3, 6))
    assert (blob.size, await blob.read(10)) == (3, b"345")


async def test_media_without_an_end_are_kept(bench):
    shelf = bench.with_settings(keep_days=None)
    stored = await shelf.put("o", pieces(b"x"))
    assert stored.expires_at is None
    bench.clock.moment += 10_000 * DAY
    assert not await shelf.sweep()
    assert await shelf.find("o", stored.id) == stored


@pytest.mark.spec("S4-3.5")
async def test_strangers_are_answered_as_if_it_did_not_exist(bench):
    stored = await bench.shelf.put("user:ada", pieces(b"secret"))
    other = ids.new_id(1, bytes(10))
    for owner in ("user:bob", "key:ada", "nobody", "user:", "user:ad%"):
        for verb in (bench.shelf.find, bench.shelf.blob, bench.shelf.delete):
            with pytest.raises(NotFound) as caught:
                await verb(owner, stored.id)
            with pytest.raises(NotFound) as absent:
                await verb(owner, other)
            said = caught.value.message.replace(stored.id, other)
            assert said == absent.value.message
        assert await bench.shelf.page(owner) == ()
        assert await bench.shelf.usage(owner) == Usage()
    assert await (await bench.shelf.blob("user:ada", stored.id)).read(10) == b"secret"


@pytest.mark.parametrize("wrong", ["", "..", "../../etc/passwd", "x" * 26, "0" * 25 + "\0"])
async def test_an_id_of_another_form_reaches_neither_database_nor_store(bench, wrong):
    await bench.database.aclose()
    for verb in (bench.shelf.find, bench.shelf.blob, bench.shelf.delete):
        with pytest.raises(NotFound):
            await verb("o", wrong)


async def test_an_upload_of_nothing_is_refused(bench):
    for nothing in (pieces(), pieces(b"", b"")):
        with pytest.raises(InvalidRequest, match="nothing in it"):
            await bench.shelf.put("o", nothing)
    assert await bench.rows() == {}
    await bench.check()


async def test_what_is_deleted_is_gone(bench):
    one = await bench.shelf.put("o", pieces(b"1"))
    two = await bench.shelf.put("o", pieces(b"2"))
    await bench.shelf.delete("o", one.id)
    with pytest.raises(NotFound):
        await bench.shelf.delete("o", one.id)
    assert [stored.id for stored in await bench.shelf.page("o")] == [two.id]
    assert await bench.objects() == set(await bench.rows()) == {two.id}
    await bench.check()


async def test_pages_go_from_the_newest_to_the_oldest(bench):
    made = []
    for number in range(7):
        bench.clock.moment += 1
        made.append((await bench.shelf.put("o", pieces(bytes([number])))).id)
    await bench.shelf.put("other", pieces(b"x"))
    found, before = [], None
    while page := await bench.shelf.page("o", before=before, limit=3):
        found += [stored.id for stored in page]
        before = found[-1]
    assert found == made[::-1]
    with pytest.raises(InvalidRequest, match="limit"):
        await bench.shelf.page("o", limit=0)


# --- sizes ---


async def test_an_upload_beyond_the_limit_is_refused_before_or_while_it_comes(bench):
    shelf = bench.with_settings(max_bytes=10)
    assert (await shelf.put("o", pieces(b"x" * 10))).size == 10
    with pytest.raises(PayloadTooLarge, match=r"10 bytes at most \(media.max_bytes\)"):
        await shelf.put("o", pieces(b"x" * 10, b"x"))
    with pytest.raises(PayloadTooLarge):
        await shelf.put("o", unread(), declared_size=11)
    assert (await shelf.put("o", pieces(b"x" * 20), limit=20)).size == 20
    await bench.check()
    assert len(await bench.objects()) == 2


async def unread() -> AsyncIterator[bytes]:
    raise AssertionError("nobody should read this")
    yield


async def test_small_files_count_for_a_little_more(bench):
    shelf = bench.with_settings(quota_bytes=3 * LEAST_BYTES)
    for _ in range(3):
        await shelf.put("o", pieces(b"x"))
    assert await shelf.usage("o") == Usage(files=3, bytes=3 * LEAST_BYTES)
    with pytest.raises(PayloadTooLarge):
        await shelf.put("o", pieces(b"x"))


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_quota_is_used_to_the_last_byte_and_not_beyond(bench, is_declared):
    shelf = bench.with_settings(quota_bytes=5 * MIB)

    async def put(size: int) -> None:
        chunks = pieces(*[bytes(MIB // 4)] * (size // (MIB // 4)), bytes(size % (MIB // 4)))
        await shelf.put("o", chunks, declared_size=size if is_declared else None)

    await put(3 * MIB + 5)
    with pytest.raises(PayloadTooLarge, match=r"of your 5242880 are used") as caught:
        await put(2 * MIB - 4)
    assert (caught.value.error_code, caught.value.http_status) == ("media_quota_exceeded", 413)
    assert await shelf.usage("o") == Usage(files=1, bytes=3 * MIB + 5)
    await put(2 * MIB - 5)
    assert await shelf.usage("o") == Usage(files=2, bytes=5 * MIB)
    await put_by_another(shelf)
    await bench.check()


async def put_by_another(shelf) -> None:
    assert (await shelf.put("other", pieces(b"x"))).size == 1


async def test_room_is_reserved_before_bytes_are_written_and_given_back(bench):
    seen = []

    async def watched(*given: bytes) -> AsyncIterator[bytes]:
        for piece in given:
            seen.append((await bench.shelf.usage("o")).bytes)
            yield piece

    stored = await bench.shelf.put("o", watched(bytes(MIB), bytes(MIB)), declared_size=8 * MIB)
    assert seen == [8 * MIB] * 2
    assert await bench.shelf.usage("o") == Usage(files=1, bytes=2 * MIB)  # it was shorter
    await bench.shelf.delete("o", stored.id)
    assert await bench.shelf.usage("o") == Usage()
    seen.clear()
    await bench.shelf.put("o", watched(*[bytes(MIB)] * 6))
    assert seen == [1 * MIB, 1 * MIB, 2 * MIB, 4 * MIB, 4 * MIB, 8 * MIB]
    await bench.check()


@pytest.mark.parametrize("declared", [50_000, None])
async def test_fifty_uploads_and_room_for_one(bench, declared):
    shelf = bench.with_settings(quota_bytes=99_999, max_bytes=50_000)

    async def one(number: int) -> str | None:
        try:
            stored = await shelf.put(
                "o", pieces(*[bytes([number]) * 10_000] * 5), declared_size=declared
            )
        except PayloadTooLarge as error:
            assert error.error_code == "media_quota_exceeded"
            return None
        return stored.id

    done = await asyncio.gather(*(one(number) for number in range(50)))
    won = {media_id for media_id in done if media_id}
    assert len(won) == 1
    assert set(await bench.rows()) == await bench.objects() == won
    await bench.check()
    await shelf.put("o", pieces(bytes(40_000)))
    await bench.check()


# --- what goes wrong on the way ---


class Enough(Exception):
    pass


async def test_an_upload_that_fails_leaves_nothing(bench):
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(3 * MIB)
        raise Enough

    with pytest.raises(Enough):
        await bench.shelf.put("o", broken())
    assert (await bench.rows(), await bench.objects()) == ({}, set())
    assert await bench.shelf.usage("o") == Usage()


async def test_a_cancelled_upload_leaves_nothing(bench):
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield bytes(3 * MIB)
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(bench.shelf.put("o", endless(), declared_size=5 * MIB))
    await begun.wait()
    await bench.check(uploads=1)
    assert await bench.shelf.page("o") == ()  # nobody sees half of it
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await bench.rows(), await bench.objects()) == ({}, set())
    assert await bench.shelf.usage("o") == Usage()


class Fickle(MediaStore):
    """Away when it is told to be."""

    away: frozenset[str] = frozenset()

    async def put(self, name, chunks, limit):
        await super().put(name, chunks, limit)
        self._fail("put")

    async def delete(self, name):
        self._fail("delete")
        await super().delete(name)

    def _fail(self, verb: str) -> None:
        if verb in self.away:
            raise MediaAway("away")


@pytest.fixture
async def fickle(database, tmp_path) -> ShelfBench:
    return ShelfBench(database, await Fickle.open("media", tmp_path, "library"))


async def test_a_store_that_fails_at_the_end_of_an_upload_is_swept_later(fickle):
    fickle.store.away = frozenset({"put", "delete"})
    with pytest.raises(MediaAway):
        await fickle.shelf.put("o", pieces(b"x"))
    assert len(await fickle.objects()) == 1
    fickle.store.away = frozenset()
    assert not await fickle.shelf.sweep()
    await fickle.check(uploads=1)
    fickle.clock.moment += 3601
    await fickle.shelf.sweep()
    assert (await fickle.rows(), await fickle.objects()) == ({}, set())
    await fickle.check()


async def test_what_is_deleted_is_gone_for_its_owner_while_the_store_is_away(fickle):
    stored = await fickle.shelf.put("o", pieces(b"x"))
    fickle.store.away = frozenset({"delete"})
    await fickle.shelf.delete("o", stored.id)
    assert (await fickle.shelf.page("o"), await fickle.shelf.usage("o")) == ((), Usage())
    with pytest.raises(NotFound):
        await fickle.shelf.find("o", stored.id)
    assert await fickle.objects() == {stored.id}
    fickle.clock.moment += 601
    with pytest.raises(MediaAway):
        await fickle.shelf.sweep()
    fickle.store.away = frozenset()
    assert not await fickle.shelf.sweep()  # not before it is time for another try
    assert await fickle.objects() == {stored.id}
    fickle.clock.moment += 601
    await fickle.shelf.sweep()
    assert (await fickle.rows(), await fickle.objects()) == ({}, set())
    await fickle.check()


class Busy(Database):
    """Fails to answer so and so often, before or after it has done what it was told."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect = database.dialect
        self.before = 0
        self.after = 0

    async def read(self, work):
        return await self._database.read(work)

    async def write(self, work):
        if self.before:
            self.before -= 1
            raise DatabaseAway("busy")
        done = await self._database.write(work)
        if self.after:
            self.after -= 1
            raise DatabaseAway("lost")
        return done

    async def book(self, booking, *, settles=True):
        raise NotImplementedError

    async def aclose(self):
        raise NotImplementedError


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_database_that_is_busy_for_a_moment_does_not_cost_an_upload(
    bench, monkeypatch, when
):
    monkeypatch.setattr(upload, "_PAUSES", (0.0, 0.0, 0.0))
    busy = Busy(bench.database)
    shelf = Shelf(bench.store, busy, bench.clock, bench.shelf.settings)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            setattr(busy, when, 3)
            yield bytes(MIB)

    assert (await shelf.put("o", chunks())).size == 5 * MIB
    await bench.check()


async def test_a_database_that_goes_away_during_an_upload_leaves_it_to_the_sweep(
    bench, monkeypatch
):
    monkeypatch.setattr(upload, "_PAUSES", (0.0, 0.0))
    busy = Busy(bench.database)
    shelf = Shelf(bench.store, busy, bench.clock, bench.shelf.settings)

    async def broken() -> AsyncIterator[bytes]:
        yield bytes(MIB)
        busy.before = 100
        yield bytes(8 * MIB)

    with pytest.raises(DatabaseAway):
        await shelf.put("o", broken())
    await bench.check(uploads=1)
    bench.clock.moment += 3601
    await bench.shelf.sweep()
    assert (await bench.rows(), await bench.objects()) == ({}, set())
    await bench.check()


async def test_bytes_that_are_lost_are_not_found_and_logged(bench, caplog):
    stored = await bench.shelf.put("o", pieces(b"12345"))
    await bench.store.put(stored.id, pieces(b"123"), 10)
    with pytest.raises(NotFound):
        await bench.shelf.opened(stored)
    await bench.store.delete(stored.id)
    with pytest.raises(NotFound):
        await bench.shelf.opened(stored)
    assert "has 3 bytes instead of 5" in caplog.text
    assert f"{stored.id} has lost its bytes" in caplog.text


# --- the sweep ---


async def test_what_expired_is_gone_at_once_and_swept_in_small_steps(bench):
    shelf = bench.with_settings(keep_days=1)
    for number in range(5):
        await shelf.put(f"owner{number % 2}", pieces(b"x"))
    bench.clock.moment += DAY / 2
    kept = await shelf.put("owner0", pieces(b"y"))
    bench.clock.moment += DAY / 2
    assert await shelf.page("owner1") == ()
    assert len(await bench.objects()) == 6
    assert await shelf.sweep(limit=2)
    await bench.check()
    assert await shelf.sweep(limit=2)
    assert not await shelf.sweep(limit=2)
    assert set(await bench.rows()) == await bench.objects() == {kept.id}
    await bench.check()


async def test_several_processes_may_sweep_at_once(bench):
    shelf = bench.with_settings(keep_days=1)
    for _ in range(30):
        await shelf.put("o", pieces(b"x"))
    bench.clock.moment += 2 * DAY
    others = [bench.with_settings() for _ in range(4)]

    async def all_of_it(one) -> None:
        while await one.sweep(limit=5):
            pass

    await asyncio.gather(*map(all_of_it, others))
    assert (await bench.rows(), await bench.objects()) == ({}, set())
    assert await shelf.usage("o") == Usage()


async def test_a_slow_upload_that_goes_on_is_not_swept(bench):
    async def slow() -> AsyncIterator[bytes]:
        for _ in range(20):
            bench.clock.moment += 1000
            await bench.shelf.sweep()
            yield b"x" * 10

    assert (await bench.shelf.put("o", slow())).size == 200
    await bench.check()


async def test_an_upload_that_stood_still_too_long_is_refused_in_the_end(bench):
    async def stuck() -> AsyncIterator[bytes]:
        yield b"x"
        bench.clock.moment += 3601
        await bench.shelf.sweep()

    with pytest.raises((RequestTimeout, MediaAway)):  # whichever notices first
        await bench.shelf.put("o", stuck())
    assert (await bench.rows(), await bench.objects()) == ({}, set())
    await bench.check()


async def test_rows_and_objects_that_lost_one_another_are_removed_after_a_day(bench):
    kept, hollow = [await bench.shelf.put("o", pieces(b"x")) for _ in range(2)]
    now = round(bench.clock.now() * 1000)
    stray, foreign = ids.new_id(now, b"s" * 10), "somebody-elses-file"
    for name in (stray, foreign):
        await bench.store.put(name, pieces(b"x"), 10)
    await bench.store.delete(hollow.id)
    assert await bench.shelf.reconcile() == (0, 0)  # they may be young
    bench.clock.moment += DAY + 1
    young = ids.new_id(round(bench.clock.now() * 1000), b"y" * 10)
    await bench.store.put(young, pieces(b"x"), 10)
    assert await bench.shelf.reconcile() == (1, 1)
    assert await bench.objects() == {kept.id, foreign, young}
    assert set(await bench.rows()) == {kept.id}
    assert (await bench.shelf.usage("o")).files == 1


async def test_a_store_without_any_of_our_objects_is_taken_for_the_wrong_one(bench):
    made = [await bench.shelf.put("o", pieces(b"x")) for _ in range(3)]
    for stored in made:
        await bench.store.delete(stored.id)
    bench.clock.moment += 2 * DAY
    assert await bench.shelf.reconcile() == (0, 0)
    assert set(await bench.rows()) == {stored.id for stored in made}


async def test_a_new_database_does_not_touch_the_media_of_an_old_one(database, tmp_path):
    bench = await ShelfBench.open(database, tmp_path)
    again = await ShelfBench.open(database, tmp_path)  # the same database: the same part of it
    stored = await bench.shelf.put("o", pieces(b"x"))
    assert await again.objects() == {stored.id}
    library = await database.read(lambda c: rows.library(c, "fresh", 1))
    assert (tmp_path / "media" / library / stored.id).exists()
    other = await MediaStore.open("media", tmp_path, "another")
    assert not {name async for page in other.names() for name in page}


async def test_media_of_an_owner_that_is_no_more_are_swept(bench):
    for _ in range(3):
        await bench.shelf.put("user:gone", pieces(b"x"))
    kept = await bench.shelf.put("user:here", pieces(b"x"))
    now = round(bench.clock.now() * 1000)
    await bench.database.write(lambda c: rows.abandon(c, "user:gone", now=now))
    await bench.shelf.sweep()
    assert set(await bench.rows()) == await bench.objects() == {kept.id}
    await bench.check()
