"""Policies over whole calls: what one call leaves behind is what the next one is chosen by."""

import pytest

from fakes.bench import Bench, Said, status, well
from fakes.caller import body
from monoize.pipeline.call import Trace
from monoize.pipeline.run import run
from monoize.routing.policy import LoadBoard


def bench(policy, scripts=None, names="ab"):
    channels = [{"id": name, "base_url": f"http://{name}"} for name in names]
    row = {"id": "p", "type": "chat_completion", "models": {"m": {}}, "channels": channels}
    made = Bench({"providers": [{**row, "policy": policy}]}, scripts)
    made.use(load=LoadBoard())
    return made


def hosts(of):
    return "".join(sent.host for sent in of.sent)


@pytest.mark.spec("S4-2.1")
async def test_calls_take_turns():
    of = bench("round_robin", names="abc")
    for _ in range(7):
        await of.ask()
    assert hosts(of) == "abcabca"


@pytest.mark.spec("S4-2.1")
async def test_a_new_configuration_goes_on_where_the_old_one_was():
    of, load = bench("round_robin"), LoadBoard()
    of.use(load=load)
    await of.ask()
    after = bench("round_robin")
    after.use(load=load)
    await after.ask()
    assert hosts(of) + hosts(after) == "ab"


@pytest.mark.spec("S4-2.1")
async def test_a_stream_is_on_its_way_until_it_has_been_read():
    of = bench("least_inflight")
    stream = await run(of.incoming(body("chat_completion", "m", stream=True)), of.kit, Trace())
    for _ in range(3):  # answered at once: each is gone before the next comes
        await of.ask()
    assert hosts(of) == "abbb"
    await stream.body.aclose()
    await of.ask()
    assert hosts(of) == "abbba"


async def test_a_call_that_fails_is_not_on_its_way_any_more():
    of = bench("least_inflight", {"a": status(503), "b": status(400)})
    for _ in range(2):
        with pytest.raises(Exception, match="says 400"):
            await of.ask()
    assert hosts(of) == "abab"


@pytest.mark.spec("S4-2.1")
async def test_the_channel_that_answered_sooner_is_asked():
    of = bench("ewma_latency")
    seconds = {"a": 0.9, "b": 0.4}

    def slow(sent) -> Said:
        of.clock.moment += seconds[sent.host]
        return well(sent)

    of.client.scripts.update(a=slow, b=slow)
    for _ in range(5):
        await of.ask()
    assert hosts(of) == "abbbb"
    of.clock.moment += 120  # long unheard of: both are tried anew
    await of.ask()
    await of.ask()
    assert hosts(of)[5:] in ("ab", "ba")


async def test_a_conversation_keeps_its_channel_without_any_memory():
    of = bench("consistent_hash", names="abcdefgh")
    homes = {}
    for turn in range(3):
        for talk in range(8):
            said = [{"role": "user", "content": f"conversation {talk}"}]
            more = [{"role": "assistant", "content": "yes?"}, {"role": "user", "content": "go on"}]
            await of.ask(messages=said + more * turn)
            homes.setdefault(talk, set()).add(of.sent[-1].host)
    assert all(len(home) == 1 for home in homes.values())
    assert len(set().union(*homes.values())) > 2
