"""The shared limiter on a real server, with the server's own clock."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace
from redis.asyncio.connection import SSLConnection, UnixDomainSocketConnection

from monoize.errors import ConfigError, RateLimited
from monoize.limiter import Demand, Grant
from monoize.limits.valkey import ValkeyLimiter, _pool
from monoize.limits.window import Window

PATIENT = 30.0  # a busy machine is not an outage
KEY = "monoize:limit:k"


@pytest.fixture
async def open_limiter(valkey):
    opened = []

    async def open_one(url=valkey.url, **options):
        opened.append(await ValkeyLimiter.open(url, **{"patience": PATIENT, **options}))
        return opened[-1]

    yield open_one
    for limiter in opened:
        await limiter.aclose()


def take(limiter, now=0.0, rpm=None, tpm=None, tokens=0):
    return limiter.take("k", requests_per_minute=rpm, tokens_per_minute=tpm, tokens=tokens, now=now)


async def test_the_servers_clock_decides_not_that_of_a_replica(open_limiter):
    """Replicas whose clocks are hours apart agree."""
    one, other = await open_limiter(), await open_limiter()
    await take(one, 5.0, rpm=1)
    with pytest.raises(RateLimited) as raised:
        await take(other, 1e9, rpm=1)
    assert 1 <= int(raised.value.headers["retry-after"]) <= 60


async def test_fifty_at_once_by_the_servers_clock_pass_as_often_as_the_limit_says(open_limiter):
    replicas = [await open_limiter() for _ in range(3)]
    takes = (take(replicas[i % 3], i, rpm=7) for i in range(50))
    results = await asyncio.gather(*takes, return_exceptions=True)
    assert sum(not isinstance(result, RateLimited) for result in results) == 7


async def test_a_settled_excess_is_counted_alike_here_and_there(open_limiter, valkey):
    limiter = await open_limiter()
    await limiter.settle(await take(limiter, tpm=100, tokens=10), 70, 0.0)
    (own,) = limiter._own._windows.values()
    held = {number.decode(): text.decode() for number, text in valkey.client.hgetall(KEY).items()}
    assert held == {
        str(number): f"{slot.at} {slot.requests} {slot.tokens}"
        for number, slot in own._slots.items()
    }


@pytest.fixture(params=[512, 1], ids=["in order", "in no order"])
def hash_order(request, valkey):
    """Small hashes keep the order of their fields, big ones do not."""
    valkey.client.config_set("hash-max-listpack-entries", request.param)
    yield
    valkey.client.config_set("hash-max-listpack-entries", 512)


@pytest.mark.spec("T38")
@pytest.mark.usefixtures("hash_order")
async def test_the_script_counts_exactly_as_the_window_in_memory(open_limiter):
    limiter, window, rng = await open_limiter(trusts_callers_clock=True), Window(), Random(5)
    now, slots = 1_700_000_000_000, []
    for _ in range(600):
        now += rng.choice((0, 1, 7, 300, 999, 1000, 2500, 20_000))
        if slots and rng.random() < 0.4:
            grant = Grant(key_id="k", slot=slots.pop(rng.randrange(len(slots))), is_shared=True)
            change = (rng.choice((0, -1)), rng.randint(-20, 20))
            window.correct(grant.slot, *change, now)
            await limiter._correct(grant, *change, now / 1000)
        else:
            demand = Demand(
                key_id="k",
                requests_per_minute=rng.choice((None, 5, 20)),
                tokens_per_minute=rng.choice((None, 60, 100)),
                tokens=rng.randint(0, 40),
            )
            tally = await limiter._counted_by_all(demand, now / 1000)
            assert replace(tally, is_shared=False) == window.take(demand, now)
            slots += [tally.slot] * tally.admitted


@pytest.mark.parametrize("limits", [{"rpm": 5}, {"rpm": 5, "tpm": 100, "tokens": 9}])
async def test_nothing_stays_behind(open_limiter, valkey, limits):
    limiter = await open_limiter()
    grant = await take(limiter, **limits)
    assert valkey.client.keys() == [KEY.encode()]
    assert 0 < valkey.client.pttl(KEY) <= 61_000
    await limiter.release(grant, 0.0)
    assert valkey.client.keys() == []
    await limiter.settle(await take(limiter, tpm=100, tokens=9), 50, 0.0)
    assert 0 < valkey.client.pttl(KEY) <= 61_000


async def test_a_key_without_limits_costs_no_round_trip(open_limiter, valkey):
    limiter = await open_limiter()
    valkey.client.config_resetstat()
    await limiter.settle(await take(limiter, tokens=5), 9, 0.0)
    await limiter.settle(await take(limiter, rpm=5, tokens=5), 9, 0.0)  # one: nothing to settle
    assert valkey.client.info("commandstats")["cmdstat_hgetall"]["calls"] == 1


async def test_old_seconds_are_removed_from_the_hash(open_limiter, valkey):
    limiter = await open_limiter(trusts_callers_clock=True)
    for second in range(200):
        await take(limiter, 1e9 + second, rpm=1000)
    assert valkey.client.hlen(KEY) == 60


async def test_a_server_that_has_lost_its_scripts_gets_them_again(open_limiter, valkey):
    limiter = await open_limiter()
    grant = await take(limiter, rpm=2)
    valkey.client.script_flush()
    await limiter.release(grant, 0.0)
    valkey.client.script_flush()
    await take(limiter, rpm=1)
    with pytest.raises(RateLimited):
        await take(limiter, rpm=1)


async def test_the_prefix_keeps_two_gateways_apart(open_limiter, valkey):
    one, other = await open_limiter(prefix="a:"), await open_limiter(prefix="b:")
    await take(one, rpm=1)
    await take(other, rpm=1)
    assert sorted(valkey.client.keys()) == [b"a:k", b"b:k"]


@pytest.mark.parametrize("scheme", ["redis", "valkey", "unix"])
async def test_the_server_is_reached_by_every_kind_of_url(open_limiter, valkey, scheme):
    url = valkey.socket_url if scheme == "unix" else valkey.url.replace("redis", scheme)
    await take(await open_limiter(url), rpm=1)
    assert valkey.client.exists(KEY)


@pytest.mark.parametrize(
    ("url", "connection"),
    [
        ("rediss://cache.internal:6380/1", SSLConnection),
        ("valkeys://cache.internal", SSLConnection),
        ("unix:///run/valkey.sock?db=2", UnixDomainSocketConnection),
    ],
)
def test_the_scheme_decides_how_to_connect(url, connection):
    assert _pool(url, 0.1).connection_class is connection


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "localhost:6379",
        "",
        "redis://user:sec/ret@localhost",
        "redis://localhost:notaport",
        "redis://localhost?sec_ret=1",
    ],
)
async def test_a_bad_url_is_the_operators_mistake_and_is_not_quoted(url):
    with pytest.raises(ConfigError) as raised:
        await ValkeyLimiter.open(url)
    assert raised.value.message.startswith("redis: not a URL of the form redis://")
    assert "sec" not in raised.value.message
    assert raised.value.__cause__ is None
