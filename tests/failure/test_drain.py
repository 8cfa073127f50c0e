"""SIGTERM: no new callers, running streams come to their end, then the process goes."""

from __future__ import annotations

import signal
import socket
import subprocess
import time

import pytest

from fakes.caller import CALLERS, Caller, Reply, end_of
from fakes.gateway import GatewayProcess
from fakes.upstream import PATIENCE


@pytest.fixture
def own_gateway(session_upstream, tmp_path):
    process = GatewayProcess(tmp_path, session_upstream, timeouts={"drain": 60})
    yield process
    process.stop()


def test_running_calls_are_drained_and_new_ones_refused(own_gateway, upstream):
    caller = Caller(own_gateway.port)
    lines = []
    for protocol in CALLERS:
        line = caller.open(protocol, "messages.gated")
        lines.append((protocol, line))
    while len(upstream.exchanges) < len(CALLERS):
        time.sleep(0.01)
    for exchange in upstream.exchanges:
        exchange.allow(5)
    for _, line in lines:
        assert line.read_some()

    own_gateway.terminate()
    _wait_until_closed(own_gateway.port)
    assert own_gateway.process.poll() is None
    for exchange in upstream.exchanges:
        exchange.allow(50)

    for protocol, line in lines:
        with line:
            reply = Reply(200, {"content-type": "text/event-stream"}, line.read_rest())
            assert end_of(protocol, reply, stream=True) == "complete"
    assert own_gateway.process.wait(PATIENCE) in (0, -signal.SIGTERM)
    assert "Traceback" not in own_gateway.log_text()


def test_a_stream_that_never_ends_does_not_keep_the_process(session_upstream, upstream, tmp_path):
    process = GatewayProcess(tmp_path, session_upstream, timeouts={"drain": 1})
    try:
        with Caller(process.port).open("messages", "responses.gated") as line:
            exchange = upstream.next_exchange()
            exchange.allow(6)
            assert line.read_some()
            process.terminate()
            process.process.wait(PATIENCE)
        assert exchange.closed.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.fail("the process did not end")
    finally:
        process.stop()


def _wait_until_closed(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    pytest.fail("new callers are still let in")
