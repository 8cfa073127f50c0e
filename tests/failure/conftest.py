"""Gateways in this process whose patience is short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.caller import Caller
from fakes.databases import be_patient
from fakes.forwarding import serve_every_order
from fakes.gateway import GatewayThread
from fakes.pair import Pair
from fakes.upstream import FakeUpstream

LIMIT = 10 * 1024**2


@pytest.fixture(autouse=True)
def patient_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this process: whatever a test takes away, it takes away from a gateway."""
    be_patient(monkeypatch)


@pytest.fixture(scope="session")
def impatient(session_upstream: FakeUpstream) -> Iterator[Caller]:
    """A caller of a gateway that gives up soon on a silent provider, before any keep-alive is due.

    Only for providers that never get as far as an event: whoever must be heard first needs time on a busy machine.
    """
    gateway = GatewayThread(
        session_upstream,
        timeouts={"first_byte": 0.5, "idle": 0.5, "keep_alive": 60},
    )
    yield Caller(gateway.port)
    gateway.stop()


@pytest.fixture(scope="session")
def listening(session_upstream: FakeUpstream) -> Iterator[Caller]:
    """A caller of a gateway that waits long for a beginning, and gives up on one that goes silent after it."""
    gateway = GatewayThread(
        session_upstream,
        timeouts={"first_byte": 60, "idle": 1.5, "keep_alive": 60},
    )
    yield Caller(gateway.port)
    gateway.stop()


@pytest.fixture(scope="session")
def limited(session_upstream: FakeUpstream) -> Iterator[Caller]:
    """A caller of a gateway with small limits for what a provider sends."""
    limits = {"event_bytes": LIMIT, "reply_bytes": LIMIT}
    gateway = GatewayThread(session_upstream, limits=limits)
    yield Caller(gateway.port)
    gateway.stop()


@pytest.fixture(scope="session")
def chatty(session_upstream: FakeUpstream) -> Iterator[Caller]:
    """A caller of a gateway that sends a keep-alive after the shortest silence."""
    gateway = GatewayThread(session_upstream, timeouts={"keep_alive": 0.05, "first_byte": 60})
    yield Caller(gateway.port)
    gateway.stop()


@pytest.fixture(scope="session")
def giving_up(session_upstream: FakeUpstream) -> Iterator[Caller]:
    """The same, but a provider that says nothing is given up, long after the first keep-alive."""
    gateway = GatewayThread(session_upstream, timeouts={"keep_alive": 0.05, "first_byte": 2})
    yield Caller(gateway.port)
    gateway.stop()


@pytest.fixture(scope="session")
def every_order() -> Iterator[Pair]:
    with Pair() as pair:
        serve_every_order(pair)
        yield pair


@pytest.fixture
def pair(every_order: Pair) -> Iterator[Pair]:
    """Two providers in every order of protocols; nothing may be left of a call."""
    yield every_order
    every_order.assert_nothing_is_left()
