"""With Valkey stopped, paused, slow or read-only, each process keeps the limits by itself, without a pile-up."""

from __future__ import annotations

import asyncio
import logging

import pytest

from monoize.errors import RateLimited
from monoize.limits.valkey import PATIENCE, REST, ValkeyLimiter

START = 1_700_000_000.0
# Far above PATIENCE, for a machine that is busy with other tests; a pile-up would take 200 of them.
BOUND = 5.0


@pytest.fixture
async def open_limiter(valkey):
    opened = []

    async def open_one(url=valkey.url, patience=BOUND):  # a busy machine is not an outage
        limiter = await ValkeyLimiter.open(url, trusts_callers_clock=True, patience=patience)
        opened.append(limiter)
        return limiter

    yield open_one
    for limiter in opened:
        await limiter.aclose()


def take(limiter, at=0.0, rpm=None, tpm=None, tokens=0):
    return limiter.take(
        "k", requests_per_minute=rpm, tokens_per_minute=tpm, tokens=tokens, now=START + at
    )


async def admitted(limiter, number, at=0.0, **limits):
    """How many of so many at once pass."""
    takes = (take(limiter, at, **limits) for _ in range(number))
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*takes, return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, RateLimited) for error in refused), refused
    return number - len(refused)


def finishes_at_once(call):
    """Without waiting for anything, so without asking Valkey."""
    try:
        call.send(None)
    except StopIteration:
        return True
    except RateLimited:
        return False
    call.close()
    raise AssertionError("it waits")


OUTAGES = ["stop", "pause"]


def begin(outage, valkey, *limiters):
    getattr(valkey, outage)()
    for limiter in limiters:
        limiter._patience = PATIENCE


def end(valkey, *limiters):
    valkey.refresh()
    for limiter in limiters:
        limiter._patience = BOUND


@pytest.mark.spec("T45")
@pytest.mark.parametrize("outage", OUTAGES)
async def test_two_hundred_at_once_during_an_outage_finish_soon(valkey, open_limiter, outage):
    limiter = await open_limiter()
    begin(outage, valkey, limiter)
    assert await admitted(limiter, 200, rpm=5) == 5
    # Nobody of the next ones even tries, until it has rested.
    assert [finishes_at_once(take(limiter, REST - 0.1, rpm=9)) for _ in range(200)].count(True) == 4


@pytest.mark.spec("T45")
@pytest.mark.parametrize("outage", OUTAGES)
async def test_after_the_rest_one_call_goes_to_see(valkey, open_limiter, outage):
    limiter = await open_limiter()
    begin(outage, valkey, limiter)
    await take(limiter, rpm=1000)
    seeing = asyncio.ensure_future(take(limiter, REST + 0.2, rpm=1000))
    await asyncio.sleep(0)
    assert all(finishes_at_once(take(limiter, REST + 0.2, rpm=1000)) for _ in range(200))
    await seeing


@pytest.mark.spec("T45")
async def test_a_call_that_took_too_long_is_ended(valkey, open_limiter):
    limiter = await open_limiter()
    begin("pause", valkey, limiter)
    await take(limiter, rpm=1000)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not limiter._calls
    assert not limiter._client.connection_pool._in_use_connections


@pytest.mark.spec("T45")
async def test_patience_is_short():
    """A whole call, connecting and all; so an outage costs each caller this much, once."""
    assert 0.05 <= PATIENCE <= 0.1


@pytest.mark.parametrize("outage", OUTAGES)
async def test_a_process_that_loses_valkey_knows_its_own_share(valkey, open_limiter, outage):
    limiter, other = await open_limiter(), await open_limiter()
    assert await admitted(limiter, 3, rpm=5) == 3
    begin(outage, valkey, limiter, other)
    assert await admitted(limiter, 10, 1, rpm=5) == 2
    assert await admitted(other, 10, 1, rpm=5) == 5  # for each process by itself


async def test_when_valkey_is_back_the_replicas_agree_again(valkey, open_limiter):
    one, other = await open_limiter(), await open_limiter()
    valkey.stop()
    assert await admitted(one, 3, rpm=5) == 3
    valkey.start()
    assert await admitted(one, 1, REST + 1, rpm=6) == 1
    assert await admitted(other, 10, REST + 1, rpm=6) == 5  # not what `one` let through by itself


async def test_a_minute_with_an_outage_in_it_never_holds_more_than_the_limit_of_one_process(
    valkey, open_limiter
):
    limiter, other = await open_limiter(), await open_limiter()
    assert await admitted(limiter, 2, rpm=5) == 2
    valkey.stop()
    assert await admitted(limiter, 9, 10, rpm=5) == 3
    valkey.start()  # it has forgotten everything
    with pytest.raises(RateLimited) as raised:
        await take(limiter, 20, rpm=5)
    assert raised.value.headers["retry-after"] == "40"
    assert await admitted(other, 9, 20, rpm=5) == 5  # and that refusal was not counted there


async def test_an_idle_process_does_not_notice_a_restart(valkey, open_limiter, caplog):
    limiter = await open_limiter()
    assert await admitted(limiter, 4, rpm=5) == 4
    valkey.stop()
    valkey.start()
    for _ in range(5):  # turns of the loop, which sees that the connections have ended
        await asyncio.sleep(0)
    assert await admitted(limiter, 4, 1, rpm=5) == 1
    assert caplog.records == []


async def test_what_was_granted_before_an_outage_can_be_settled_in_it(valkey, open_limiter):
    limiter = await open_limiter()
    grants = [await take(limiter, tpm=100, tokens=30) for _ in range(3)]
    valkey.stop()
    await limiter.settle(grants[0], 10, START + 1)
    await limiter.settle(grants[1], 50, START + 1)
    await limiter.release(grants[2], START + 1)
    with pytest.raises(RateLimited, match="60 are counted"):
        await take(limiter, 2, tpm=100, tokens=41)
    await take(limiter, 2, tpm=100, tokens=40)


async def test_what_was_granted_in_an_outage_is_no_affair_of_valkeys_afterwards(
    valkey, open_limiter
):
    limiter = await open_limiter()
    valkey.stop()
    grant = await take(limiter, tpm=100, tokens=30)
    valkey.start()
    await limiter.settle(grant, 90, START + REST + 1)
    assert valkey.client.keys() == []
    with pytest.raises(RateLimited, match="90 are counted"):
        await take(limiter, REST + 2, tpm=100, tokens=11)


@pytest.mark.parametrize("turns", range(0, 30, 2))
async def test_a_call_that_was_given_up_leaves_its_answer_to_nobody(valkey, open_limiter, turns):
    """Neither to the next one on its connection, nor does it go on by itself."""
    limiter = await open_limiter()
    await take(limiter, rpm=100)
    given_up = [asyncio.ensure_future(take(limiter, 1, rpm=77)) for _ in range(8)]
    for _ in range(turns):
        await asyncio.sleep(0)
    was_under_way = [call.cancel() for call in given_up]
    results = await asyncio.gather(*given_up, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == was_under_way
    await asyncio.gather(*limiter._calls, return_exceptions=True)
    grants = [await take(limiter, 2, rpm=1000 + i) for i in range(20)]
    assert [grant.requests_standing.limit for grant in grants] == [1000 + i for i in range(20)]
    used = [grant.requests_standing.used for grant in grants]
    assert used == list(range(used[0], used[0] + 20))
    assert 2 <= used[0] <= 10  # what was given up may have been counted


@pytest.mark.parametrize("turns", range(10))
async def test_a_caller_who_leaves_does_not_wait_for_valkey(valkey, open_limiter, turns):
    limiter = await open_limiter()
    await take(limiter, rpm=100)
    valkey.pause()
    call = asyncio.ensure_future(take(limiter, 1, rpm=100))
    for _ in range(turns):
        await asyncio.sleep(0)
    call.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert call.cancelled()
    valkey.resume()


@pytest.mark.parametrize("outage", OUTAGES)
async def test_an_outage_is_logged_once_and_so_is_its_end(valkey, open_limiter, caplog, outage):
    caplog.set_level(logging.INFO, "monoize.limits")
    limiter = await open_limiter()
    begin(outage, valkey, limiter)
    for at in (0, 1, REST + 1, 2 * REST + 2):
        await admitted(limiter, 20, at, rpm=1000)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("Valkey cannot be used (")
    assert "limits per minute hold for each process by itself" in record.getMessage()
    end(valkey, limiter)
    await admitted(limiter, 20, 4 * REST, rpm=1000)
    await admitted(limiter, 20, 5 * REST, rpm=1000)
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]
    assert valkey.client.exists("monoize:limit:k")


@pytest.mark.parametrize("outage", OUTAGES)
async def test_a_gateway_starts_without_valkey_and_finds_it_later(
    valkey, open_limiter, caplog, outage
):
    getattr(valkey, outage)()
    limiter = await open_limiter(patience=0.5)
    assert await admitted(limiter, 9, rpm=5) == 5
    assert len(caplog.records) == 1
    end(valkey, limiter)
    await take(limiter, 70, rpm=5)
    assert await admitted(limiter, 9, 70, rpm=5) == 4
    assert valkey.client.exists("monoize:limit:k")


async def test_a_wrong_password_is_logged_without_it(valkey, open_limiter, caplog):
    limiter = await open_limiter(valkey.url.replace("//", "//user:hunter2@"))
    assert await admitted(limiter, 9, rpm=5) == 5
    (record,) = caplog.records
    assert "AuthenticationError" in record.getMessage()
    assert "hunter2" not in record.getMessage()


async def test_an_answer_that_is_an_error_counts_as_away(valkey, open_limiter):
    valkey.client.set("monoize:limit:k", "somebody else's")
    limiter = await open_limiter()
    assert await admitted(limiter, 9, rpm=5) == 5


async def test_after_a_failover_the_old_server_is_left(valkey, open_limiter):
    """It still answers, as a read-only replica; its connections must be made anew to follow the name."""
    limiter = await open_limiter()
    await take(limiter, rpm=5)
    before = {client["id"] for client in valkey.client.client_list()}
    valkey.client.replicaof("127.0.0.1", 1)
    await take(limiter, 1, rpm=5)
    valkey.client.replicaof("NO", "ONE")
    assert await admitted(limiter, 9, REST + 2, rpm=5) == 3
    own = {valkey.client.client_id()}
    assert {int(client["id"]) for client in valkey.client.client_list()} & set(
        map(int, before)
    ) <= own
