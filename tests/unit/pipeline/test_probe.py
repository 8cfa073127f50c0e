"""The active prober in virtual time: a small request in the provider's own protocol, and its verdict."""

import asyncio

import msgspec
import pytest

from fakes.bench import Bench, provider, says, status
from fakes.speakers import SPEAKERS
from monoize.errors import MonoizeError
from monoize.pipeline.probe import Prober, probed
from monoize.routing.catalog import Catalog
from monoize.routing.prober import due
from monoize.settings import CapabilitySettings

SETTINGS = {"health": {"cooldown_seconds": 60, "probe_interval_seconds": 30}}


def bench_with(*providers, scripts=None, settings=None):
    return Bench({"providers": list(providers), "settings": settings or SETTINGS}, scripts)


async def made_unwell(bench, model="m"):
    for _ in range(3):
        with pytest.raises(MonoizeError):
            await bench.ask(model)
    bench.sent.clear()


async def look_around(bench):
    prober = Prober(lambda: bench.kit)
    prober.look_around()
    for task in list(prober._running):
        await task


def health(bench):
    return [
        r.health for r in bench.kit.board.snapshot(bench.settings.providers, bench.clock.moment)
    ]


@pytest.mark.spec("HEALTH-2")
@pytest.mark.parametrize("kind", SPEAKERS)
async def test_a_probe_speaks_the_providers_own_protocol(kind):
    bench = bench_with(
        provider("p", kind, models={"m": {"redirect": "own-name"}}), scripts={"p": status(500)}
    )
    await made_unwell(bench)
    await look_around(bench)
    assert bench.sent == []  # still cooling
    bench.clock.moment += 61
    assert health(bench) == ["probing"]
    bench.client.scripts.clear()
    await look_around(bench)
    (sent,) = bench.sent
    paths = {
        "chat_completion": "/v1/chat/completions",
        "responses": "/v1/responses",
        "grok": "/v1/responses",
        "messages": "/v1/messages",
        "gemini": "/v1beta/models/own-name:generateContent",
    }
    assert sent.call.url == f"http://p{paths[kind]}"
    assert "16" in sent.call.body.decode()
    assert "own-name" in sent.call.url + sent.call.body.decode()
    assert health(bench) == ["healthy"]


@pytest.mark.spec("HEALTH-2", "D11")
async def test_a_probe_that_hangs_gives_its_place_back_as_a_failure():
    impatient = {"health": {"probe_interval_seconds": 0.001}}
    bench = bench_with(provider("p"), scripts={"p": status(500)}, settings=impatient)
    await made_unwell(bench)
    bench.clock.moment += 61

    async def hang(call):
        await asyncio.Event().wait()

    bench.client.send = hang
    await look_around(bench)
    (row,) = bench.kit.board.snapshot(bench.settings.providers, bench.clock.moment)
    assert (row.health, row.cooldown_seconds_left) == ("unhealthy", 60)


@pytest.mark.spec("HEALTH-2", "HEALTH-1c")
@pytest.mark.parametrize(("code", "rests"), [(500, 60), (404, 60), (401, 60), (429, 15)])
async def test_a_failed_probe_starts_the_cooldown_anew(code, rests):
    bench = bench_with(provider("p"), scripts={"p": status(500)})
    await made_unwell(bench)
    bench.clock.moment += 61
    bench.client.scripts["p"] = status(code)
    await look_around(bench)
    (row,) = bench.kit.board.snapshot(bench.settings.providers, bench.clock.moment)
    assert (row.health, row.cooldown_seconds_left) == ("unhealthy", rests)


@pytest.mark.spec("HEALTH-2")
async def test_probes_can_be_switched_off():
    settings = {"health": {"probe_enabled": False}}
    bench = bench_with(provider("p"), scripts={"p": status(500)}, settings=settings)
    await made_unwell(bench)
    bench.clock.moment += 61
    await look_around(bench)
    assert bench.sent == []


@pytest.mark.spec("HEALTH-2", "D49")
async def test_several_successes_may_be_asked_for_one_interval_apart():
    settings = {"health": {"probe_success_threshold": 2, "probe_interval_seconds": 30}}
    bench = bench_with(
        provider("p", models={"m*": {}}), scripts={"p": status(500)}, settings=settings
    )
    bench.client.scripts["p"] = says("text")
    await bench.ask("m9")  # a glob has no name to ask for: what last succeeded has
    bench.client.scripts["p"] = status(500)
    await made_unwell(bench, "m1")
    bench.clock.moment += 61
    bench.client.scripts["p"] = says("text")
    await look_around(bench)
    assert bench.sent[0].body["model"] == "m9"
    await look_around(bench)
    assert (len(bench.sent), health(bench)) == (1, ["probing"])
    bench.clock.moment += 30
    await look_around(bench)
    assert (len(bench.sent), health(bench)) == (2, ["healthy"])


@pytest.mark.spec("D11")
async def test_a_callers_request_may_come_before_the_probe():
    bench = bench_with(provider("p"), scripts={"p": status(500)})
    await made_unwell(bench)
    bench.clock.moment += 61
    (probe,) = due(bench.kit.catalog.providers, bench.kit.board, bench.clock.moment)
    bench.client.scripts.clear()
    await bench.ask("m")
    await probed(probe, bench.kit)
    assert len(bench.sent) == 1
    assert health(bench) == ["healthy"]


async def test_the_providers_rules_hold_for_probes_too():
    rules = [{"transform": "force_stream", "phase": "request", "config": {"enabled": True}}]
    bench = bench_with(provider("p", transforms=rules), scripts={"p": status(500)})
    await made_unwell(bench)
    bench.clock.moment += 61
    bench.client.scripts.clear()
    await look_around(bench)
    assert bench.sent[0].body["stream"] is True
    assert health(bench) == ["healthy"]


async def test_a_channel_that_does_not_chat_is_not_probed_with_a_chat():
    bench = bench_with(provider("p", models={"m": {}}), scripts={"p": status(500)})
    await made_unwell(bench)
    bench.clock.moment += 61
    only_vectors = CapabilitySettings(operations=("embeddings",))
    place = msgspec.structs.replace(bench.settings.providers[0], capabilities=only_vectors)
    bench.kit = msgspec.structs.replace(bench.kit, catalog=Catalog((place,)))
    await look_around(bench)
    assert bench.sent == []
