"""The line to a provider: how it is opened, what its end looks like, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest

from fakes.realtime_upstream import RealtimeUpstream, Visit, dies
from monoize.errors import UpstreamFailed, UpstreamTimeout
from monoize.upstream.websocket import AiohttpSockets, Closed, HandshakeRefused, SocketCall

pytestmark = pytest.mark.spec("T47")


async def closes(visit: Visit) -> None:
    await visit.line.close(4001, "reasons")


async def dies_at_once(visit: Visit) -> None:
    dies(visit)


async def shouts(visit: Visit) -> None:
    await visit.line.send("x" * 2000)


async def answers(visit: Visit) -> None:
    await visit.line.send("text")
    await visit.line.send(b"bytes")
    await visit.line.send(await visit.line.recv())


@pytest.fixture(scope="module")
def upstream() -> Iterator[RealtimeUpstream]:
    behaviours = {"closes": closes, "dies": dies_at_once, "shouts": shouts, "answers": answers}
    with RealtimeUpstream(behaviours) as running:
        running.refusals = {"no": 403, "moved": 307}
        yield running


def call(url: str, **more) -> SocketCall:
    settings = {"connect_seconds": 1, "open_seconds": 1, "send_seconds": 1, "frame_bytes": 1000}
    return SocketCall(url=url, headers={"authorization": "Bearer ours"}, **{**settings, **more})


def at(upstream: RealtimeUpstream, model: str) -> str:
    return f"ws://127.0.0.1:{upstream.port}/v1/realtime?model={model}"


async def test_messages_go_both_ways(upstream):
    line = await AiohttpSockets().open(call(at(upstream, "answers")))
    assert await line.receive() == "text"
    assert await line.receive() == b"bytes"
    await line.send("again")
    assert await line.receive() == "again"
    await line.close(1001, "enough")
    await line.close()  # harmless
    assert await line.receive() == Closed(1006)
    with pytest.raises(UpstreamFailed):
        await line.send("too late")
    assert await asyncio.to_thread(upstream.visits[-1].closed.wait, 5)
    assert (upstream.visits[-1].close_code, upstream.visits[-1].close_reason) == (1001, "enough")


@pytest.mark.parametrize(
    ("model", "end"),
    [
        ("closes", Closed(4001, "reasons")),
        ("dies", Closed(1006)),
        ("shouts", Closed(1006, "Message size 2000 exceeds limit 1000")),
    ],
)
async def test_a_line_that_died_is_not_one_that_was_closed(upstream, model, end):
    line = await AiohttpSockets().open(call(at(upstream, model)))
    found = await line.receive()
    assert isinstance(found, Closed)
    assert found.code == end.code
    assert bool(found.reason) == bool(end.reason)
    await line.close()


@pytest.mark.parametrize(("model", "status"), [("no", 403), ("moved", 307)])
async def test_whoever_does_not_open_a_socket_has_refused_and_is_not_followed(
    upstream, model, status
):
    with pytest.raises(HandshakeRefused) as refused:
        await AiohttpSockets().open(call(at(upstream, model)))
    assert refused.value.status == status
    assert not any("/elsewhere" in request.path for request in upstream.asked)


async def test_nobody_there_is_told_without_the_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UpstreamFailed) as failed:
        await AiohttpSockets().open(call(f"ws://127.0.0.1:{port}/v1/realtime"))
    assert str(port) not in failed.value.message
    assert "refused" in failed.value.message.lower()


async def test_a_server_that_says_nothing_is_waited_for_only_so_long():
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes calls, and never a word
        port = server.getsockname()[1]
        with pytest.raises(UpstreamTimeout):
            await AiohttpSockets().open(call(f"ws://127.0.0.1:{port}/", open_seconds=0.1))
    gc.collect()  # a session that was left open would complain here


async def test_a_server_without_tls_is_no_secure_one(upstream):
    with pytest.raises(UpstreamFailed) as failed:
        await AiohttpSockets().open(call(f"wss://127.0.0.1:{upstream.port}/v1/realtime"))
    assert str(upstream.port) not in failed.value.message
