"""Those who watch a run: the newest state is never missed, and the end comes once."""

from __future__ import annotations

import msgspec
import pytest

from fakes.agent_runs import digest
from monoize.agent.live.watching import Delta, Ended, StateSeen
from monoize.agent.machine.digest import StateDigest
from monoize.agent.runs.channel import RunChannel


def end(seq: int) -> Ended:
    return Ended(
        run_id="r",
        outcome="COMPLETED_CHAT_ONLY",
        failure_code=None,
        reason=None,
        output="",
        digest=digest(seq),
        contract={},
        head="",
    )


async def all_of(channel: RunChannel) -> list:
    return [seen async for seen in channel.watched(10)]


@pytest.mark.spec("S5-D")
async def test_a_late_watcher_gets_the_state_as_it_is():
    channel = RunChannel()
    channel.see(StateSeen(digest=digest(1)))
    channel.see(StateSeen(digest=digest(2)))
    watching = channel.watched(10)
    assert (await anext(watching)).digest.seq == 2
    channel.see(end(3))
    assert isinstance(await anext(watching), Ended)
    with pytest.raises(StopAsyncIteration):
        await anext(watching)
    assert not channel.is_watched


async def test_the_end_is_there_for_whoever_comes_after_it():
    channel = RunChannel()
    channel.see(end(3))
    assert [type(seen) for seen in await all_of(channel)] == [Ended]


async def test_silence_is_told():
    channel = RunChannel()
    watching = channel.watched(0.001)
    assert await anext(watching) is None  # nothing is known yet
    assert await anext(watching) is None
    await watching.aclose()


@pytest.mark.spec("S5-D")
async def test_a_slow_watcher_misses_texts_and_never_the_newest_state():
    channel = RunChannel()
    watching = channel.watched(10)
    await anext(watching)
    for number in range(5000):
        channel.see(Delta(step_id="step-1", kind="text", number=0, text="x"))
        if number % 100 == 0:
            channel.see(StateSeen(digest=digest(number)))
    channel.see(end(9999))
    rest = [seen async for seen in watching]
    assert len(rest) <= 1001
    assert isinstance(rest[-1], Ended)
    states = [seen.digest.seq for seen in rest if isinstance(seen, StateSeen)]
    assert states[-1] == 4900


def test_a_digest_survives_its_file():
    assert msgspec.json.decode(msgspec.json.encode(digest(4)), type=StateDigest) == digest(4)
