"""A run in this process: whoever comes to watch it, and whenever, is told."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.agent_runs import digest
from fakes.ledger import VirtualClock
from monoize.agent.live.watching import StateSeen
from monoize.agent.record.signing import SigningKey
from monoize.agent.runs import execution
from monoize.agent.runs.execution import Executor
from monoize.agent.runs.files import RunRecord

RUN = "run_1"


class Runtime:
    """Says how it stands, and goes on until the test has seen enough."""

    def __init__(self, *around: Any, watch: Any, **more: Any) -> None:
        self._watch = watch

    async def run(self, terms: Any) -> None:
        self._watch(StateSeen(digest=digest(1)))
        await asyncio.Event().wait()


class SlowRun:
    """A record that takes as long to be read as the test says."""

    entries = ()
    terms = None

    def __init__(self) -> None:
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def mask(self) -> None:
        self.is_asked.set()
        assert self.may_go_on.wait(10)


@pytest.fixture
def executor(monkeypatch) -> Executor:
    async def signer(self: Executor) -> SigningKey:
        return SigningKey.from_seed(bytes(32))

    async def nothing() -> None:
        pass

    monkeypatch.setattr(execution, "Runtime", Runtime)
    monkeypatch.setattr(Executor, "signer", signer)
    monkeypatch.setattr(execution, "toolbox_of", lambda *of: SimpleNamespace(aclose=nothing))
    around: Any = SimpleNamespace(clock=VirtualClock(), kit=None)
    nothing_yet = {name: lambda run_id: None for name in ("asked_to_stop", "summary")}
    files: Any = SimpleNamespace(**nothing_yet)
    book: Any = None
    return Executor(around, files, book)


@pytest.mark.spec("S5-D")
async def test_a_watcher_that_goes_before_the_run_begins_leaves_the_next_one_its_news(executor):
    run: Any = SlowRun()
    record = RunRecord(run_id=RUN, owner="user:ada", key=None, created_at=0)
    journal: Any = None
    driven = asyncio.create_task(executor._driven(run, record, journal))
    await asyncio.to_thread(run.is_asked.wait, 10)

    first = executor.channel(RUN).watched(10)
    assert await anext(first) is None
    await first.aclose()
    executor.unwatched(RUN)
    second = executor.channel(RUN).watched(10)
    assert await anext(second) is None

    run.may_go_on.set()
    async with asyncio.timeout(10):
        assert (await anext(second)).digest.seq == 1
    driven.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driven
