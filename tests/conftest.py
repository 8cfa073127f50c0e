"""Fixtures that more than one folder of tests uses: a provider on loopback, and the gateway in front of it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from fakes.behaviours import BEHAVIOURS
from fakes.caller import Caller
from fakes.gateway import GatewayProcess
from fakes.upstream import FakeUpstream

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
# For properties that say nothing else. No deadline: how long an example takes says more of the machine than of us.
# A plain run takes the same examples every time, so that it fails over what has changed; the soak looks for new ones.
settings.register_profile("plain", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("soak", max_examples=400, deadline=None)
settings.load_profile("soak" if SOAK else "plain")

# Collecting makes millions of objects that all stay: looking for garbage among them is a fifth of its time, and of every
# later look.
gc.disable()

_RUNNING: list[GatewayProcess] = []


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def session_upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream(BEHAVIOURS) as upstream:
        yield upstream


@pytest.fixture
def upstream(session_upstream: FakeUpstream) -> Iterator[FakeUpstream]:
    """The provider, with no memory of earlier tests; a mistake of the fake itself fails the test."""
    session_upstream.forget()
    yield session_upstream
    assert not session_upstream.faults


@pytest.fixture(scope="session")
def gateway(
    session_upstream: FakeUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """The real program with its default limits, one process for all tests of a worker."""
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), session_upstream)
    _RUNNING.append(process)
    yield process
    _RUNNING.remove(process)
    process.stop()


@pytest.fixture
def caller(gateway: GatewayProcess) -> Caller:
    return Caller(gateway.port)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failing test shows the last lines of the gateway's log."""
    report = yield
    if report.failed:
        for process in _RUNNING:
            report.sections.append(("log of the gateway", process.log_text()[-4000:]))
    return report
