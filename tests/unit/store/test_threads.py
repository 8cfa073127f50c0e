"""What a loop gives to threads is done, once, and whoever waits for it hears how it went."""

import asyncio
import threading

import pytest

from monoize.store.threads import Threads


@pytest.fixture
def make():
    made = []

    def make(most=1):
        made.append(Threads(most, "test"))
        return made[-1]

    yield make
    for threads in made:
        threads.join()


async def test_results_and_errors_come_back(make):
    threads = make()
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(KeyError, match="x"):
        await threads.run(lambda: {}["x"])
    assert await threads.run(threading.get_ident) != threading.get_ident()


async def test_one_thread_does_everything_in_its_order(make):
    threads, seen = make(), []
    await asyncio.gather(*(threads.run(lambda n=n: seen.append(n)) for n in range(100)))
    assert seen == list(range(100))
    assert len(threads._begun) == 1


async def test_no_more_threads_than_are_needed_and_allowed(make):
    threads, inside = make(most=3), threading.Barrier(3)
    for _ in range(5):
        await threads.run(lambda: None)
    assert len(threads._begun) == 1
    await asyncio.gather(*(threads.run(inside.wait) for _ in range(6)))  # three at a time meet
    assert len(threads._begun) == 3


async def test_who_is_cancelled_before_it_began_takes_it_back(make):
    threads, seen, gate = make(), [], threading.Event()
    first = asyncio.ensure_future(threads.run(gate.wait))
    second = asyncio.ensure_future(threads.run(lambda: seen.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    await first
    assert await threads.run(lambda: "third") == "third"
    assert seen == []


async def test_what_has_begun_runs_to_its_end_though_nobody_waits(make):
    threads, seen = make(), []
    began, gate = threading.Event(), threading.Event()

    def work():
        began.set()
        gate.wait()
        seen.append("done")

    task = asyncio.ensure_future(threads.run(work))
    await asyncio.to_thread(began.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await threads.run(lambda: None)
    assert seen == ["done"]


def test_a_loop_that_is_gone_stops_no_thread(make):
    threads, gate, seen = make(), threading.Event(), []

    async def leave():
        task = asyncio.ensure_future(threads.run(gate.wait))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())  # the loop is closed now, and the thread still at work
    gate.set()

    async def come():
        seen.append(await threads.run(lambda: "alive"))

    asyncio.run(come())
    assert seen == ["alive"]
