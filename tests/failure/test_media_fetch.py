"""Hosts that misbehave when media are fetched from them: each ends soon, in plain words, with nothing left open."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import zlib

import pytest

from fakes.far_host import EMPTY_FAR, FAR, FarHost, Reply, answers, listening, moved, reply
from fakes.upstream import PATIENCE
from monoize.errors import CallerError, InvalidRequest, PayloadTooLarge

OK = b"HTTP/1.1 200 OK\r\n"
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


async def says_nothing(reader: Reader, _: Writer) -> None:
    await reader.read()


async def goes_at_once(_: Reader, writer: Writer) -> None:
    writer.transport.abort()


async def resets_in_the_middle(_: Reader, writer: Writer) -> None:
    writer.write(reply(bytes(1000), content_length=2000))
    await writer.drain()
    writer.transport.abort()


async def ends_too_soon(_: Reader, writer: Writer) -> None:
    writer.write(reply(bytes(1000), content_length=2000))
    await writer.drain()
    writer.close()


async def stops_in_the_middle(reader: Reader, writer: Writer) -> None:
    writer.write(reply(bytes(1000), content_length=2000))
    await reader.read()


async def drips(reader: Reader, writer: Writer) -> None:
    """One byte after the other: never silent for long, never done."""
    writer.write(reply(content_length=10**6))
    while not reader.at_eof() and not writer.transport.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.wait({asyncio.ensure_future(reader.read(1))}, timeout=0.01)


async def never_ends(_: Reader, writer: Writer) -> None:
    writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        await writer.drain()


async def drips_headers(reader: Reader, writer: Writer) -> None:
    writer.write(OK)
    while not reader.at_eof() and not writer.transport.is_closing():
        writer.write(b"x-a: b\r\n")
        await writer.drain()
        await asyncio.wait({asyncio.ensure_future(reader.read(1))}, timeout=0.01)


FAILS: dict[str, tuple[Reply, str]] = {
    "says nothing": (says_nothing, "in time"),
    "goes at once": (goes_at_once, "could not be read"),
    "resets in the middle": (resets_in_the_middle, "could not be read"),
    "ends too soon": (ends_too_soon, "could not be read"),
    "stops in the middle": (stops_in_the_middle, "in time"),
    "drips its body": (drips, "in time"),
    "drips its headers": (drips_headers, "in time|could not be read"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "could not be read"),
    "no HTTP at all": (bytes(range(256)) + b"\r\n\r\n", "could not be read"),
    "a redis": (b"-ERR unknown command\r\n\r\n", "could not be read"),
    "half a head": (OK + b"content-le", "in time"),
    "a long header": (OK + b"x-a: " + b"y" * 10**6 + b"\r\n\r\n", "could not be read"),
    "a long first line": (b"HTTP/1.1 200 " + b"O" * 10**6 + b"\r\n\r\n", "could not be read"),
    "a length that is none": (OK + b"content-length: many\r\n\r\n", "could not be read"),
    "a length below zero": (OK + b"content-length: -1\r\n\r\nx", "could not be read"),
    "two lengths": (reply(b"abcd", content_length=["2", "4"]), "could not be read"),
    "chunks that are none": (
        OK + b"transfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        "could not be read",
    ),
    "a switch of protocols": (
        b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        "status 101",
    ),
    "an early hint for ever": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000, "in time"),
    "leads round": (moved("/a"), "more than 3 times"),
}


@pytest.mark.spec("D30", "S4-3.5")
@pytest.mark.parametrize("case", FAILS)
async def test_a_host_that_fails_is_left_soon(case: str):
    said, words = FAILS[case]
    async with FarHost() as host:
        host.replies["/a"] = said
        with pytest.raises(InvalidRequest, match=words) as failed:
            # Who goes on for ever is left soon; who fails by itself has all the time to do so.
            seconds = 0.4 if "in time" in words else 60
            async with host.fetcher(seconds=seconds).fetched(host.url()) as blob:
                await blob.read(10**9)
        assert FAR not in str(failed.value)
        async with asyncio.timeout(PATIENCE):
            await host.left.wait()  # the connection is gone


@pytest.mark.spec("D30")
async def test_nobody_is_there():
    async with FarHost() as host:
        with listening() as heard, pytest.raises(InvalidRequest, match="could not be read"):
            async with host.fetcher(answers(EMPTY_FAR)).fetched(host.url()):
                pass
    assert heard.connections == [(EMPTY_FAR, host.port)]


@pytest.mark.spec("D30")
async def test_a_name_server_that_says_nothing_is_left_soon():
    async def silent(_: str, __: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with FarHost() as host:
        with pytest.raises(CallerError, match="may not be fetched"):
            async with host.fetcher(silent, seconds=0.1).fetched(host.url()):
                pass


@pytest.mark.spec("D30")
async def test_redirects_share_one_time():
    async def slowly(reader: Reader, writer: Writer) -> None:
        await asyncio.wait({asyncio.ensure_future(reader.read(1))}, timeout=0.15)
        writer.write(moved("/a"))
        await writer.drain()

    async with FarHost() as host:
        host.replies["/a"] = slowly
        with pytest.raises(InvalidRequest, match="in time"):
            async with host.fetcher(seconds=0.4, redirects=10).fetched(host.url()):
                pass
    assert len(host.heads) < 5


@pytest.mark.spec("D30")
async def test_a_body_without_end_is_cut_and_fills_no_memory():
    async with FarHost() as host:
        host.replies["/a"] = never_ends
        gc.collect()
        tracemalloc.start()
        try:
            with pytest.raises(PayloadTooLarge):
                async with host.fetcher(max_bytes=64 * 1024**2, seconds=300).fetched(
                    host.url()
                ) as blob:
                    async for _ in blob.chunks():
                        pass
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        await host.left.wait()
    assert peak < 8 * 1024**2


@pytest.mark.spec("D30")
async def test_what_is_packed_to_burst_is_not_unpacked():
    bomb = zlib.compress(bytes(32 * 1024**2), 9)
    async with FarHost() as host:
        host.replies["/a"] = reply(bomb, content_encoding="deflate")
        with pytest.raises(InvalidRequest, match="encoding"):
            async with host.fetcher().fetched(host.url()):
                pass


@pytest.mark.spec("D30")
async def test_whoever_leaves_early_leaves_no_connection():
    async with FarHost() as host:
        host.replies["/a"] = never_ends
        async with host.fetcher().fetched(host.url()) as blob:
            async for _ in blob.chunks():
                break
        async with asyncio.timeout(PATIENCE):
            await host.left.wait()


@pytest.mark.spec("D30")
@pytest.mark.parametrize("said", [says_nothing, stops_in_the_middle, never_ends])
async def test_a_caller_who_goes_takes_the_connection_along(said: Reply):
    begun = asyncio.Event()

    async def watched(reader: Reader, writer: Writer) -> None:
        begun.set()
        assert not isinstance(said, bytes)
        await said(reader, writer)

    async def reading() -> None:
        async with host.fetcher(max_bytes=10**12).fetched(host.url()) as blob:
            async for _ in blob.chunks():
                pass

    async with FarHost() as host:
        host.replies["/a"] = watched
        task = asyncio.create_task(reading())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE):
            await host.left.wait()


@pytest.mark.spec("D30")
async def test_many_at_once_do_not_mix_their_files():
    async with FarHost() as host:
        host.replies |= {f"/{n}": reply(f"file {n}".encode() * 999) for n in range(50)}
        fetcher = host.fetcher()

        async def one(number: int) -> bytes:
            async with fetcher.fetched(host.url(f"/{number}")) as blob:
                return await blob.read(10**6)

        found = await asyncio.gather(*map(one, range(50)))
    assert found == [f"file {n}".encode() * 999 for n in range(50)]
