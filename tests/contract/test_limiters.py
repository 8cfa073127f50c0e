"""One suite for every limiter, in virtual time; several Valkey limiters on one server are several replicas."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from itertools import count

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monoize.errors import RateLimited
from monoize.limiter import headers
from monoize.limits.memory import MemoryLimiter
from monoize.limits.valkey import ValkeyLimiter

START = 1_700_000_000.0
MINUTE = 60.0
STRICTNESS = 1.0  # seconds by which a limiter may err, and only on the strict side
PATIENT = 30.0  # a busy machine is not an outage
HISTORIES = 400 if os.environ.get("MONOIZE_SOAK") == "1" else 40

_fresh = count()


@pytest.fixture(params=["memory", "valkey"])
def open_replicas(request):
    """An async context: so many limiters that are to agree with one another."""
    if request.param == "memory":

        @asynccontextmanager
        async def opened(number=1):
            yield [MemoryLimiter()] * number  # one process is all it knows

    else:
        server = request.getfixturevalue("valkey")

        @asynccontextmanager
        async def opened(number=1):
            options = {"patience": PATIENT, "trusts_callers_clock": True}
            limiters = [await ValkeyLimiter.open(server.url, **options) for _ in range(number)]
            yield limiters
            for limiter in limiters:
                await limiter.aclose()

    return opened


@pytest.fixture
async def limiter(open_replicas):
    async with open_replicas() as (limiter,):
        yield limiter


def take(limiter, at=0.0, *, key="k", rpm=None, tpm=None, tokens=0):
    return limiter.take(
        key, requests_per_minute=rpm, tokens_per_minute=tpm, tokens=tokens, now=START + at
    )


async def passes(limiter, *args, **options):
    try:
        await take(limiter, *args, **options)
    except RateLimited:
        return False
    return True


async def refused(limiter, *args, **options):
    with pytest.raises(RateLimited) as raised:
        await take(limiter, *args, **options)
    assert raised.value.http_status == 429
    return raised.value


# --- races ---------------------------------------------------------------------------------------


@pytest.mark.spec("T38")
@pytest.mark.parametrize("limits", [{"rpm": 1}, {"tpm": 10, "tokens": 10}], ids=["rpm", "tpm"])
async def test_of_fifty_at_once_on_a_limit_of_one_exactly_one_passes(open_replicas, limits):
    async with open_replicas(5) as replicas:
        takes = (passes(replicas[i % 5], **limits) for i in range(50))
        assert sum(await asyncio.gather(*takes)) == 1


@pytest.mark.spec("T38")
async def test_replicas_together_let_through_exactly_the_limit(open_replicas):
    async with open_replicas(4) as replicas:
        takes = (passes(replicas[i % 4], i / 10, rpm=37, tpm=200, tokens=5) for i in range(120))
        assert sum(await asyncio.gather(*takes)) == 37


async def test_a_replica_settles_what_the_others_then_see(open_replicas):
    async with open_replicas(2) as (one, other):
        grant = await take(one, tpm=100, tokens=100)
        assert not await passes(other, 1, tpm=100, tokens=60)
        await one.settle(grant, 40, START + 2)
        assert await passes(other, 3, tpm=100, tokens=60)


# --- what is counted -----------------------------------------------------------------------------


async def test_a_key_without_limits_always_passes(limiter):
    grants = [await take(limiter, tokens=10**9) for _ in range(100)]
    await limiter.settle(grants[0], 5, START)
    await limiter.release(grants[1], START)
    assert all(headers(grant) == {} for grant in grants)


async def test_keys_do_not_share_their_limits(limiter):
    assert await passes(limiter, key="a", rpm=1)
    assert await passes(limiter, key="b", rpm=1)
    assert not await passes(limiter, key="a", rpm=1)


async def test_a_lone_request_leaves_the_window_after_exactly_a_minute(limiter):
    assert await passes(limiter, 0.5, rpm=1)
    assert not await passes(limiter, 60.499, rpm=1)
    assert await passes(limiter, 60.5, rpm=1)


@pytest.mark.spec("T38")
async def test_there_is_no_burst_where_two_minutes_meet(limiter):
    """Counters that start anew every minute let twice the limit through there."""
    assert [await passes(limiter, 59 + i / 10, rpm=5) for i in range(8)].count(True) == 5
    assert [await passes(limiter, 60 + i, rpm=5) for i in range(50)].count(True) == 0


async def test_what_is_refused_counts_for_nothing(limiter):
    assert await passes(limiter, 0, rpm=2, tpm=100, tokens=90)
    for at in range(1, 50):  # neither as a request nor as tokens
        assert not await passes(limiter, at, rpm=2, tpm=100, tokens=20)
    assert await passes(limiter, 50, rpm=2, tpm=100, tokens=10)


async def test_a_limit_that_was_changed_holds_at_once(limiter):
    for at in range(3):
        assert await passes(limiter, at, rpm=3)
    assert await passes(limiter, 3, rpm=4)
    assert not await passes(limiter, 4, rpm=2)


async def test_a_clock_that_was_set_back_locks_nobody_out(limiter):
    assert await passes(limiter, 3600, rpm=1)
    assert not await passes(limiter, 3599.9, rpm=1)
    assert await passes(limiter, 0, rpm=1)


# --- what the caller is told ---------------------------------------------------------------------


@pytest.mark.spec("T38")
async def test_the_message_names_requests_when_requests_are_used_up(limiter):
    assert await passes(limiter, rpm=1, tpm=1000, tokens=10)
    error = await refused(limiter, 10, rpm=1, tpm=1000, tokens=10)
    assert error.message == (
        "requests per minute: this API key may make 1 and has made 1; try again in 50 s"
    )
    assert error.error_code == "rate_limit_exceeded"
    assert error.headers["retry-after"] == "50"


@pytest.mark.spec("T38")
async def test_the_message_names_tokens_when_tokens_are_used_up(limiter):
    assert await passes(limiter, rpm=5, tpm=1000, tokens=900)
    error = await refused(limiter, 10, rpm=5, tpm=1000, tokens=200)
    assert error.message == (
        "tokens per minute: this API key may use 1000, 900 are counted and this request needs"
        " about 200; try again in 50 s"
    )


@pytest.mark.spec("T38")
@pytest.mark.parametrize(("first", "named"), [("rpm", "tokens"), ("tpm", "requests")])
async def test_when_both_are_used_up_the_one_that_holds_longer_is_named(limiter, first, named):
    big, small = {"tokens": 100}, {"tokens": 1}
    order = (small, big) if first == "rpm" else (big, small)
    for at, size in enumerate(order):
        assert await passes(limiter, at * 20, rpm=5, tpm=200, **size)
    # A limit of one request waits for the second, of 101 tokens for the big one.
    limits = {"rpm": 2, "tpm": 101} if first == "rpm" else {"rpm": 1, "tpm": 101}
    error = await refused(limiter, 30, tokens=50, **limits)
    assert error.message.startswith(f"{named} per minute")
    wait = int(error.headers["retry-after"])
    assert wait == 50
    assert not await passes(limiter, 30 + wait - 1, tokens=50, **limits)
    assert await passes(limiter, 30 + wait, tokens=50, **limits)


async def test_a_request_above_the_whole_limit_is_told_that_waiting_does_not_help(limiter):
    error = await refused(limiter, tpm=100, tokens=101)
    assert "this request needs about 101 and this API key may use 100" in error.message
    assert "waiting does not help" in error.message
    assert "retry-after" not in error.headers
    assert error.headers["x-should-retry"] == "false"  # or the SDKs try again and again
    assert await passes(limiter, tpm=100, tokens=100)


async def test_the_reply_says_how_much_is_left_in_the_words_of_openai(limiter):
    await take(limiter, 0, rpm=10, tpm=1000, tokens=300)
    grant = await take(limiter, 20.25, rpm=10, tpm=1000, tokens=0)
    assert headers(grant) == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "8",
        "x-ratelimit-reset-requests": "1m0s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "700",
        "x-ratelimit-reset-tokens": "39.75s",
    }


async def test_a_refusal_says_it_too(limiter):
    await take(limiter, 0, rpm=1)
    error = await refused(limiter, 59.88, rpm=1)
    assert error.headers == {
        "retry-after": "1",
        "x-ratelimit-limit-requests": "1",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "120ms",
    }


# --- afterwards ----------------------------------------------------------------------------------


async def test_what_was_used_less_is_given_back(limiter):
    grant = await take(limiter, rpm=9, tpm=100, tokens=80)
    await limiter.settle(grant, 30, START + 1)
    assert not await passes(limiter, 2, rpm=9, tpm=100, tokens=71)
    assert await passes(limiter, 2, rpm=9, tpm=100, tokens=70)


async def test_what_was_used_more_counts_for_a_minute_from_when_it_is_known(limiter):
    grant = await take(limiter, tpm=100, tokens=10)
    await limiter.settle(grant, 95, START + 90)  # a long answer: the estimate has left the window
    assert not await passes(limiter, 149, tpm=100, tokens=16)
    assert await passes(limiter, 149, tpm=100, tokens=15)
    assert await passes(limiter, 150, tpm=100, tokens=85)


async def test_a_key_in_debt_waits_a_minute_at_most(limiter):
    grant = await take(limiter, tpm=100, tokens=1)
    await limiter.settle(grant, 10**12, START + 5)
    error = await refused(limiter, 10, tpm=100, tokens=0)
    assert error.headers["retry-after"] == "55"
    assert error.headers["x-ratelimit-remaining-tokens"] == "0"
    assert await passes(limiter, 65, tpm=100, tokens=99)


async def test_a_grant_is_settled_once(limiter):
    grant = await take(limiter, rpm=2, tpm=100, tokens=50)
    await limiter.settle(grant, 40, START + 1)
    await limiter.settle(grant, 0, START + 1)
    await limiter.release(grant, START + 1)
    assert not await passes(limiter, 2, rpm=2, tpm=100, tokens=61)
    assert await passes(limiter, 2, rpm=2, tpm=100, tokens=60)
    assert not await passes(limiter, 2, rpm=2, tpm=100, tokens=0)


async def test_a_released_request_was_never_there(limiter):
    grant = await take(limiter, rpm=1, tpm=100, tokens=100)
    await limiter.release(grant, START + 1)
    await limiter.release(grant, START + 1)
    await limiter.settle(grant, 100, START + 1)
    assert await passes(limiter, 2, rpm=1, tpm=100, tokens=100)
    assert not await passes(limiter, 3, rpm=1, tpm=100, tokens=0)


async def test_a_release_that_comes_late_takes_nothing_from_others(limiter):
    grant = await take(limiter, 0, rpm=1)
    assert await passes(limiter, 61, rpm=1)
    await limiter.release(grant, START + 62)
    assert not await passes(limiter, 63, rpm=1)


async def test_a_key_without_a_token_limit_counts_no_tokens(limiter):
    grant = await take(limiter, rpm=5, tokens=500)
    await limiter.settle(grant, 5000, START + 1)
    assert await passes(limiter, 2, rpm=5, tpm=100, tokens=100)


# --- against a naive oracle ----------------------------------------------------------------------


class Entry(msgspec.Struct):
    at: float
    requests: int
    tokens: int


class Oracle:
    """Every request by itself; looks through all of them each time."""

    def __init__(self, rpm, tpm):
        self.rpm, self.tpm = rpm, tpm
        self.entries = []

    def fits(self, at, tokens, span=MINUTE):
        inside = [e for e in self.entries if at - e.at < span - 1e-6]
        return not (
            (self.rpm is not None and sum(e.requests for e in inside) + 1 > self.rpm)
            or (self.tpm is not None and sum(e.tokens for e in inside) + tokens > self.tpm)
        )

    def add(self, at, requests, tokens):
        self.entries.append(Entry(at, requests, 0 if self.tpm is None else tokens))
        return self.entries[-1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 1500)),  # milliseconds
        st.tuples(st.just("wait"), st.integers(0, 70_000)),
        st.tuples(st.just("take"), st.integers(0, 60)),
        st.tuples(st.just("take"), st.integers(0, 60)),
        st.tuples(st.just("settle"), st.integers(0, 120)),
        st.tuples(st.just("release"), st.just(0)),
    ),
    min_size=10,
    max_size=80,
)
LIMITS = st.tuples(st.none() | st.integers(1, 6), st.none() | st.integers(60, 150))


class History:
    """Plays steps to replicas and to the oracle, and compares them."""

    def __init__(self, replicas, limits):
        self.replicas, self.turn = replicas, count()
        self.oracle = Oracle(*limits)
        self.limits = {"rpm": limits[0], "tpm": limits[1], "key": f"h{next(_fresh)}"}
        self.open = []
        self.now = 0.0
        self.admitted = []

    def limiter(self):
        return self.replicas[next(self.turn) % len(self.replicas)]

    async def play(self, action, amount):
        if action == "wait":
            self.now = round(self.now + amount / 1000, 3)
        elif action == "take":
            await self.take(amount)
        elif self.open:
            limiter, grant, entry = self.open.pop(0)
            if action == "release":
                await limiter.release(grant, START + self.now)
                self.oracle.entries.remove(entry)
                self.admitted.remove(entry)
            else:
                await limiter.settle(grant, amount, START + self.now)
                self.oracle.add(self.now, 0, max(0, amount - entry.tokens))
                entry.tokens = min(entry.tokens, amount)

    async def take(self, tokens):
        limiter = self.limiter()
        try:
            grant = await take(limiter, self.now, tokens=tokens, **self.limits)
        except RateLimited as error:
            assert not self.oracle.fits(self.now, tokens, MINUTE + STRICTNESS), "too strict"
            await self.check_promise(tokens, int(error.headers["retry-after"]))
        else:
            assert self.oracle.fits(self.now, tokens), "too lenient"
            self.note(limiter, grant, tokens)

    async def check_promise(self, tokens, wait):
        """Nobody comes in between: then it passes, and not more than two seconds earlier."""
        early = wait - 1 - STRICTNESS  # rounded up to whole seconds
        assert early < 0 or not self.oracle.fits(self.now + early - 0.001, tokens)
        self.now = round(self.now + wait, 3)
        limiter = self.limiter()
        grant = await take(limiter, self.now, tokens=tokens, **self.limits)
        self.note(limiter, grant, tokens)

    def note(self, limiter, grant, tokens):
        entry = self.oracle.add(self.now, 1, tokens)
        self.open.append((limiter, grant, entry))
        self.admitted.append(entry)

    def check_every_minute(self):
        """Straight from the definition, over every minute that begins with a request."""
        rpm = self.oracle.rpm
        for first in self.admitted:
            inside = [e for e in self.admitted if 0 <= e.at - first.at < MINUTE - 1e-6]
            assert rpm is None or len(inside) <= rpm


@pytest.mark.soak
@pytest.mark.spec("T38")
@settings(
    max_examples=HISTORIES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(limits=LIMITS, steps=STEPS)
async def test_no_minute_holds_more_than_the_limit(open_replicas, limits, steps):
    async with open_replicas(2) as replicas:
        history = History(replicas, limits)
        for step in steps:
            await history.play(*step)
        history.check_every_minute()
