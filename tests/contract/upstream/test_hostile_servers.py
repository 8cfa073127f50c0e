"""Servers that break the rules of HTTP: the reply fails or is whole, and its connection never serves another call."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import pytest

from fakes.scripted_server import OK, ScriptedServer, answer, one_request, says
from fakes.upstream_clients import call, read
from monoize.errors import UpstreamFailed, UpstreamTimeout

pytestmark = pytest.mark.soak  # on a second loop, with `make soak`

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
NINE = HEAD + b"content-length: 9\r\n\r\n"


@dataclass(frozen=True)
class Row:
    name: str
    pieces: tuple[bytes, ...]
    end: str  # refused: no status came; broken: in the body; or the body itself
    aiohttp: str | None = None  # where that client sees it otherwise


ROWS = [
    Row("closes at once", (), "refused"),
    Row("half a status line", (b"HTTP/1.1 2",), "refused"),
    Row("half a header", (HEAD + b"content-le",), "refused"),
    Row("a head without its end", (HEAD + b"content-length: 2\r\n",), "refused"),
    Row("another protocol", (b"220 smtp.example.org ESMTP\r\n\r\n",), "refused"),
    Row("garbage", (bytes(range(256)) * 9,), "refused"),
    Row("a status that is none", (b"HTTP/1.1 9x9 OK\r\n\r\n",), "refused"),
    Row("status zero", (b"HTTP/1.1 000 OK\r\ncontent-length: 0\r\n\r\n",), "refused", "any"),
    Row(
        "an upgrade nobody asked for",
        (b"HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhey",),
        "refused",
        "any",
    ),
    Row("one huge header", (HEAD + b"x: " + b"y" * 1_000_000 + b"\r\n\r\n",), "refused"),
    Row("many headers", (HEAD, *(b"x-%d: y\r\n" % n for n in range(20_000))), "refused"),
    Row(
        "a huge head with its body",
        (HEAD + b"x: " + b"y" * 100_000 + b"\r\ncontent-length: 2\r\n\r\nok",),
        "refused",
    ),
    Row(
        "a huge head of one name",
        (HEAD + b"x: yyyyyyyyyyyyyyy\r\n" * 10_000 + b"content-length: 2\r\n\r\nok",),
        "refused",
    ),
    Row("hints without end", (b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,), "refused", "any"),
    Row(
        "a folded header", (HEAD + b"x: a\r\n b\r\ncontent-length: 2\r\n\r\nok",), "refused", "any"
    ),
    Row(
        "a header with a zero byte", (HEAD + b"x: a\0b\r\ncontent-length: 2\r\n\r\nok",), "refused"
    ),
    Row(
        "a length and chunks",
        (HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",),
        "refused",
        "any",
    ),
    Row(
        "two lengths",
        (HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok!",),
        "refused",
        "any",
    ),
    Row("a negative length", (HEAD + b"content-length: -2\r\n\r\nok",), "refused"),
    Row(
        "a length beyond numbers",
        (HEAD + b"content-length: %d\r\n\r\nok" % 2**70,),
        "refused",
        "any",
    ),
    Row("a coding nobody knows", (HEAD + b"transfer-encoding: rot13\r\n\r\nbx",), "refused", "any"),
    Row("bare line feeds", (b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok",), "refused", "any"),
    Row("a body that stops", (NINE + b"hal",), "broken"),
    Row("a body that does not begin", (NINE,), "broken"),
    Row("chunks that stop", (CHUNKED + b"2\r\nok\r\n",), "broken"),
    Row("half a chunk", (CHUNKED + b"9\r\nhal",), "broken"),
    Row(
        "a chunk size beyond numbers",
        (CHUNKED, b"f" * 17 + b"\r\nok\r\n0\r\n\r\n"),
        "broken",
        "any",
    ),
    Row("a chunk size that is none", (CHUNKED, b"zz\r\nok\r\n0\r\n\r\n"), "broken", "any"),
    Row("a negative chunk size", (CHUNKED, b"-2\r\nok\r\n0\r\n\r\n"), "broken", "any"),
    Row("a chunk size with 0x", (CHUNKED, b"0x2\r\nok\r\n0\r\n\r\n"), "broken", "any"),
    Row("a chunk longer than its size", (CHUNKED, b"2\r\nokok\r\n0\r\n\r\n"), "broken", "any"),
    Row("an extension without end", (CHUNKED, b"2;" + b"x" * 1_000_000), "broken", "any"),
    Row("a trailer without end", (CHUNKED, b"0\r\nx: " + b"y" * 1_000_000), "broken", "any"),
    Row("trailers without end", (CHUNKED, b"0\r\n" + b"x: y\r\n" * 100_000), "broken", "any"),
    Row("more than it said", (OK + b"and more",), "ok", "any"),
    Row("two replies", (OK + OK,), "ok"),
    Row("two replies, apart", (OK, OK), "ok"),
    Row("the beginning of a second reply", (OK + b"HTTP/1.1 2",), "ok"),
]


@pytest.mark.parametrize("closes", [True, False], ids=["closes", "stays"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_reply_that_breaks_the_rules(client, request, row, closes):
    is_lean = "lean" in request.node.callspec.id
    end = row.end if is_lean else row.aiohttp or row.end
    waits = () if closes else (UpstreamTimeout,)  # what is only half there may go on
    async with ScriptedServer(says(*row.pieces, then_waits=not closes), answer) as server:
        # Only who may go on for ever is given up soon; what comes by itself has the time to come.
        first_byte = 0.5 if end == "any" or (waits and end == "refused") else 60
        idle = 0.5 if end == "any" or (waits and end == "broken") else 60
        asked = call(server, first_byte_seconds=first_byte, idle_seconds=idle)
        match end:
            case "refused":
                said = r"could not be reached|in time"
                while not server.connections:  # on a busy machine a call may not get that far
                    with pytest.raises((UpstreamFailed, *waits), match=said):
                        await client.send(asked)
            case "broken":
                reply = await client.send(asked)
                with pytest.raises((UpstreamFailed, *waits), match=r"broke off|silent"):
                    await reply.read(100)
                await reply.close()
            case "any":
                with suppress(UpstreamFailed, UpstreamTimeout):
                    await read(client, asked)
            case body:
                assert await read(client, asked) == body.encode()
        if is_lean:  # whatever came is not taken for the answer to the next call (T17)
            assert await read(client, call(server)) == b"ok"
            assert server.connections == 2


@pytest.mark.spec("T17")
async def test_what_comes_while_nobody_asks_is_nobodys_answer(lean):
    sent = asyncio.Event()

    async def unasked(reader, writer):
        await answer(reader, writer)
        await asyncio.sleep(0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged")
        await writer.drain()
        sent.set()
        await reader.read()

    async with ScriptedServer(unasked, answer) as server:
        assert await read(lean, call(server)) == b"ok"
        await sent.wait()
        await asyncio.sleep(0.05)
        assert await read(lean, call(server)) == b"ok"
        assert server.connections == 2


async def test_half_a_reply_on_a_kept_connection_is_not_asked_for_again(lean):
    """Only silence says that nothing was done."""

    async def answer_and_half(reader, writer):
        await answer(reader, writer)
        await one_request(reader)
        writer.write(b"HTTP/1.1 2")
        await writer.drain()

    async with ScriptedServer(answer_and_half, answer) as server:
        assert await read(lean, call(server)) == b"ok"
        with pytest.raises(UpstreamFailed, match="could not be reached"):
            await lean.send(call(server))
        assert server.connections == 1


async def test_the_replacement_of_a_stale_connection_is_new_though_others_are_kept(lean):
    async def answer_and_die(reader, writer):
        await answer(reader, writer)
        await one_request(reader)

    async with ScriptedServer(*[answer_and_die] * 5, answer) as server:
        replies = [await lean.send(call(server)) for _ in range(5)]
        for reply in replies:
            await reply.read(10)
            await reply.close()
        assert await read(lean, call(server)) == b"ok"
        assert server.connections == 6
