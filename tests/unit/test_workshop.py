"""Work in threads: loaded once, bounded, and free again when nobody waits."""

from __future__ import annotations

import asyncio
import threading

import pytest

from monoize.errors import EngineError, InvalidRequest
from monoize.workshop import Workshop


class Gate:
    """Work that says when it has begun, and goes on when it is let."""

    def __init__(self):
        self.begun = threading.Event()
        self.open = threading.Event()

    def pass_through(self, model):
        self.begun.set()
        assert self.open.wait(60)
        return model

    async def wait(self):
        assert await asyncio.to_thread(self.begun.wait, 60)


@pytest.fixture
async def make():
    made = []

    def build(load=lambda: "model", *, slots=1, waiting=0):
        made.append(Workshop("test", load, slots=slots, waiting=waiting))
        return made[-1]

    yield build
    for workshop in made:
        await workshop.aclose()


async def test_the_model_is_loaded_once_and_handed_to_the_work(make):
    loaded = []

    def load():
        loaded.append(threading.current_thread())
        return "model"

    workshop = make(load, slots=2, waiting=8)
    results = await asyncio.gather(
        *(workshop.begin(lambda model, number: (model, number), n) for n in range(6))
    )
    assert results == [("model", n) for n in range(6)]
    assert len(loaded) == 1
    assert loaded[0] is not threading.main_thread()


async def test_a_load_that_failed_is_tried_again(make):
    answers = iter([EngineError("not installed"), "model"])

    def load():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    workshop = make(load)
    with pytest.raises(EngineError, match="not installed"):
        await workshop.start()
    assert await workshop.begin(lambda model: model) == "model"


async def test_one_request_too_many_is_told_so_at_once(make):
    workshop, gate = make(waiting=1), Gate()
    running = asyncio.create_task(workshop.begin(gate.pass_through))
    await gate.wait()
    waiting = asyncio.create_task(workshop.begin(lambda model: model))
    await asyncio.sleep(0)
    with pytest.raises(EngineError) as refused:
        await workshop.begin(lambda model: model)
    assert refused.value.error_code == "engine_busy"
    assert refused.value.http_status == 503
    assert refused.value.retryable
    gate.open.set()
    assert await running == await waiting == "model"
    assert await workshop.begin(lambda model: model) == "model"


async def test_a_request_that_has_begun_is_never_refused(make):
    workshop, gate = make(), Gate()
    running = asyncio.create_task(workshop.begin(gate.pass_through))
    await gate.wait()
    later = asyncio.create_task(workshop.go_on(lambda model: model))
    await asyncio.sleep(0)
    gate.open.set()
    assert await running == await later == "model"


async def test_work_that_waits_leaves_the_queue_when_it_is_cancelled(make):
    workshop, gate, done = make(waiting=1), Gate(), []
    running = asyncio.create_task(workshop.begin(gate.pass_through))
    await gate.wait()
    waiting = asyncio.create_task(workshop.begin(done.append))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    another = asyncio.create_task(workshop.begin(lambda model: model))  # its place is free
    await asyncio.sleep(0)
    gate.open.set()
    assert await running == await another == "model"
    assert not done


async def test_work_that_runs_keeps_its_place_until_it_is_done(make):
    workshop, gate = make(), Gate()
    running = asyncio.create_task(workshop.begin(gate.pass_through))
    await gate.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(EngineError, match="busy"):
        await workshop.begin(lambda model: model)
    gate.open.set()
    await workshop.go_on(lambda model: model)  # behind it
    assert await workshop.begin(lambda model: model) == "model"


async def test_a_short_request_gets_between_the_pieces_of_a_long_one(make):
    workshop, gate, order = make(waiting=4), Gate(), []

    async def long():
        await workshop.begin(gate.pass_through)
        order.append("long")
        for _ in range(3):
            await workshop.go_on(lambda _: order.append("long"))

    async def short():
        await workshop.begin(lambda _: order.append("short"))

    tasks = [asyncio.create_task(long())]
    await gate.wait()
    tasks.append(asyncio.create_task(short()))
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(*tasks)
    assert order.index("short") <= 2


async def test_closing_waits_for_the_work_at_hand_and_refuses_the_rest(make):
    workshop, gate = make(waiting=1), Gate()
    running = asyncio.create_task(workshop.begin(gate.pass_through))
    await gate.wait()
    waiting = asyncio.create_task(workshop.begin(lambda model: model))
    await asyncio.sleep(0)
    closing = asyncio.create_task(workshop.aclose())
    await asyncio.sleep(0)
    gate.open.set()
    await closing
    assert await running == "model"
    with pytest.raises(EngineError, match="closed"):
        await waiting
    with pytest.raises(EngineError, match="closed"):
        await workshop.begin(lambda model: model)


async def test_our_own_refusals_come_out_as_they_are_and_surprises_as_engine_errors(make, caplog):
    def refuse(_):
        raise InvalidRequest("too long", param="input[3]")

    def stumble(_):
        raise ZeroDivisionError("a defect of the library")

    workshop = make()
    with pytest.raises(InvalidRequest) as refused:
        await workshop.begin(refuse)
    assert refused.value.param == "input[3]"
    assert not caplog.records
    with pytest.raises(EngineError, match="a defect of the library"):
        await workshop.begin(stumble)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_it_belongs_to_no_event_loop():
    workshop = Workshop("test", lambda: "model", slots=1, waiting=0)
    assert [asyncio.run(workshop.begin(lambda model: model)) for _ in range(2)] == ["model"] * 2
    asyncio.run(workshop.aclose())
