"""Items travel from a worker thread to a coroutine, bounded, until one side has had enough."""

from __future__ import annotations

import asyncio
import threading

import pytest

from monoize.engines._handover import Handover


async def test_items_arrive_in_order_and_then_the_end():
    handover: Handover[int] = Handover(asyncio.get_running_loop(), room=2)

    def work():
        taken = [handover.give(number) for number in range(10)]
        handover.end()
        return taken

    worker = asyncio.create_task(asyncio.to_thread(work))
    assert [number async for number in handover.items()] == list(range(10))
    assert await worker == [True] * 10


async def test_the_workers_error_is_raised_at_the_reader():
    handover: Handover[int] = Handover(asyncio.get_running_loop())
    handover.end(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await anext(handover.items())


async def test_a_slow_reader_holds_the_worker_back():
    handover: Handover[int] = Handover(asyncio.get_running_loop(), room=3)
    given = []
    is_full = threading.Event()

    def work():
        for number in range(100):
            if len(given) == 3:
                is_full.set()
            if not handover.give(number):
                return
            given.append(number)

    worker = asyncio.create_task(asyncio.to_thread(work))
    await asyncio.to_thread(is_full.wait)
    assert given == [0, 1, 2]
    handover.leave()
    await worker
    assert given == [0, 1, 2]


async def test_a_reader_that_leaves_stops_the_worker():
    handover: Handover[int] = Handover(asyncio.get_running_loop(), room=2)

    def work():
        number = 0
        while handover.give(number):
            number += 1
        return number

    worker = asyncio.create_task(asyncio.to_thread(work))
    items = handover.items()
    await anext(items)
    await items.aclose()
    assert await worker < 10
    assert handover.give(0) is False


def test_a_closed_loop_is_a_reader_that_left():
    loop = asyncio.new_event_loop()
    handover: Handover[int] = Handover(loop)
    loop.close()
    assert handover.give(1) is False
    handover.end()
