"""SIGTERM while somebody watches the log: a stream that never ends by itself ends at once."""

from __future__ import annotations

import socket
import time

import pytest

from fakes.caller import Caller
from fakes.gateway import KEY, GatewayProcess
from fakes.upstream import PATIENCE


@pytest.fixture
def own_gateway(session_upstream, tmp_path):
    process = GatewayProcess(tmp_path, session_upstream, timeouts={"drain": 60})
    yield process
    process.stop()


def watching(port: int) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    head = (
        f"GET /api/logs/stream HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n\r\n"
    )
    line.sendall(head.encode())
    seen = b""
    while b": watching" not in seen:
        got = line.recv(4096)
        assert got, seen
        seen += got
    return line


def test_whoever_watches_the_log_does_not_hold_up_the_end(own_gateway, upstream):
    """And a call that is under way comes to its own end all the same."""
    with (
        watching(own_gateway.port) as watcher,
        Caller(own_gateway.port).open("messages", "messages.gated") as line,
    ):
        exchange = upstream.next_exchange()
        exchange.allow(5)
        assert line.read_some()
        own_gateway.terminate()
        rest = b""
        while got := watcher.recv(4096):
            rest += got
        assert rest.endswith(b"0\r\n\r\n")
        assert own_gateway.process.poll() is None
        exchange.allow(50)
        assert b"message_stop" in line.read_rest()
    began = time.monotonic()
    own_gateway.process.wait(PATIENCE)
    assert time.monotonic() - began < PATIENCE
    assert "Traceback" not in own_gateway.log_text()
