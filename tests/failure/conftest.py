"""Gateways in this process whose patience is short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.caller import Caller
from fakes.forwarding import serve_every_order
from fakes.gateway import GatewayThread
from fakes.pair import Pair
from fakes.upstream import FakeUpstream

LIMIT = 10 * 1024**2


@pytest.fixture(scope="session")
def impatient(session_upstream: FakeUpstream) -> Iterator[Caller]:
    """A caller of a gateway that gives up soon on a silent provider, before any keep-alive is due."""
    gateway = GatewayThread(
        session_upstream,
        timeouts={"first_byte": 0.5, "idle": 0.5, "keep_alive": 60},
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
    gateway = GatewayThread(session_upstream, timeouts={"keep_alive": 0.05, "first_byte": 0.8})
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
