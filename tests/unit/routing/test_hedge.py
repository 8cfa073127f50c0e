"""Hedged calls in virtual time: who is asked when, who wins, and what becomes of the others."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import Counter
from dataclasses import dataclass, field

import pytest

from fakes.bench import Bench, Said, Sent, replied, status, well
from fakes.caller import body
from monoize.errors import MonoizeError, UpstreamFailed, UpstreamRefused
from monoize.pipeline.call import HedgedLeg, Trace
from monoize.pipeline.hedge import Course, Race
from monoize.pipeline.received import Live
from monoize.pipeline.run import run
from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Breaker, HealthLimits, Outcome
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Candidate, Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.policy import LoadBoard
from monoize.routing.verdict import Verdict
from monoize.routing.waterfall import Turn, Wanted, Waterfall
from monoize.settings import (
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    PolicySettings,
    ProviderSettings,
)
from monoize.upstream.client import UpstreamCall, UpstreamClient
from monoize.urp import Losses

NEVER = 10_000.0
START = 1000.0


# --- virtual time ---


class SkippingLoop(asyncio.SelectorEventLoop):
    """Where nothing happens until a timer fires, it fires at once, and that much time has gone by."""

    def __init__(self):
        self.moment = START
        super().__init__(_Skipping(self))

    def time(self):
        return self.moment


class _Skipping(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def select(self, timeout=None):
        assert timeout is not None, "nobody will ever go on"
        self.loop.moment += max(0.0, timeout)
        return super().select(0)


class LoopClock:
    def now(self):
        return 1_800_000_000 + self.monotonic()

    def monotonic(self):
        return asyncio.get_running_loop().time()


def in_virtual_time(coroutine):
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(coroutine)


# --- a gateway whose providers take their time ---


class Timed(UpstreamClient):
    """By host: the seconds until its reply begins, and the reply; unlisted ones answer at once."""

    def __init__(self, plan):
        self.plan = plan
        self.sent = []
        self.cut = {}  # host -> when
        self.replies = {}

    async def send(self, call: UpstreamCall):
        sent = Sent(call)
        now = asyncio.get_running_loop().time
        seconds, script = self.plan.get(sent.host, (0.0, well))
        self.sent.append((sent.host, round(now() - START, 3)))
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cut[sent.host] = round(now() - START, 3)
            raise
        reply = script(sent)
        if isinstance(reply, Exception):
            raise reply
        self.replies[sent.host] = reply
        return reply

    async def aclose(self):
        return


def channels(names):
    return [{"id": name, "base_url": f"http://{name}", "api_key": "sk"} for name in names]


def hedged(names="ab", *, legs=2, delay_ms=50, **more):
    return {
        "id": "p",
        "type": "chat_completion",
        "models": {"m": {}},
        "channels": channels(names),
        "policy": {"name": "hedged", "legs": legs, "delay_ms": delay_ms},
        **more,
    }


class OneCall:
    """One call through a whole gateway."""

    def __init__(self, plan, *providers):
        self.bench = Bench({"providers": list(providers or (hedged(),))})
        self.client = Timed(plan)
        self.bench.use(client=self.client, clock=LoopClock(), load=LoadBoard())
        self.error = None
        self.reply = None
        self.took = None

    def run(self, *, stream=False, leaves_after=None):
        in_virtual_time(self._run(stream, leaves_after))
        return self

    async def _run(self, stream, leaves_after):
        began = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._asked(stream))
        if leaves_after is not None:
            await asyncio.sleep(leaves_after)
            task.cancel()
        await asyncio.wait({task})
        self.took = round(asyncio.get_running_loop().time() - began, 3)
        assert not any(p.in_flight for p in self.bench.kit.load._traffic.values())
        if task.cancelled():
            return
        try:
            self.reply = task.result()
        except MonoizeError as error:
            self.error = error
        left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        assert left == []

    async def _asked(self, stream):
        incoming = self.bench.incoming(body("chat_completion", "m", stream=stream))
        return await replied(await run(incoming, self.bench.kit, self.bench.trace))

    @property
    def trace(self):
        return self.bench.trace

    @property
    def legs(self):
        return [f"{leg.provider}/{leg.channel}" for leg in self.trace.legs]

    def outcomes(self):
        rows = self.bench.kit.board.snapshot(self.bench.settings.providers, START)
        return {
            row.channel: {name: count for name, count in row.totals.items() if count}
            for row in rows
            if any(row.totals.values())
        }


# --- who is asked, and when ---


@pytest.mark.spec("S4-2.1", "S4-2.2")
def test_the_second_leg_starts_after_the_delay_and_the_first_answer_wins():
    race = OneCall({"a": (NEVER, well), "b": (0.2, well)}).run()
    assert race.client.sent == [("a", 0.0), ("b", 0.05)]
    assert race.took == 0.25
    assert race.reply.status == 200
    assert race.reply.headers["x-monoize-channel"] == "b"
    assert race.reply.headers["x-monoize-attempts"] == "2"
    assert race.client.cut == {"a": 0.25}
    assert race.trace.legs == [HedgedLeg(provider="p", channel="a", upstream_model="m")]
    assert race.outcomes() == {"a": {"neutral": 1}, "b": {"success": 1}}


def test_an_answer_in_time_needs_no_second_leg():
    race = OneCall({"a": (0.049, well)}).run()
    assert race.client.sent == [("a", 0.0)]
    assert (race.legs, race.trace.attempts) == ([], 1)


def test_the_first_leg_may_still_win():
    race = OneCall({"a": (0.06, well), "b": (0.5, well)}).run()
    assert race.trace.channel == "a"
    assert race.client.cut == {"b": 0.06}
    assert race.legs == ["p/b"]


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("legs", "sent"),
    [
        (2, [("a", 0.0), ("b", 0.02)]),
        (3, [("a", 0.0), ("b", 0.02), ("c", 0.04)]),
        (4, [("a", 0.0), ("b", 0.02), ("c", 0.04), ("d", 0.06)]),
    ],
)
def test_no_more_than_legs_are_asked_at_a_time(legs, sent):
    plan = dict.fromkeys("abcde", (1.0, well))
    race = OneCall(plan, hedged("abcde", legs=legs, delay_ms=20)).run()
    assert race.client.sent == sent
    assert race.trace.attempts == legs
    assert race.trace.channel == "a"
    assert race.legs == [f"p/{host}" for host, _ in sent[1:]]


def test_a_provider_with_one_channel_has_nobody_to_hedge_with():
    race = OneCall({"a": (1.0, well)}, hedged("a"), hedged("z", id="q")).run()
    assert race.client.sent == [("a", 0.0)]


@pytest.mark.spec("ROUT-4")
def test_max_retries_holds_for_legs_as_well():
    race = OneCall({"a": (1.0, well)}, hedged("abc", max_retries=0)).run()
    assert race.client.sent == [("a", 0.0)]


# --- failures ---


@pytest.mark.spec("S4-2.2", "ROUT-5")
def test_a_leg_that_fails_starts_the_next_at_once():
    plan = {"a": (0.01, status(503)), "b": (0.02, status(500)), "c": (0.0, well)}
    race = OneCall(plan, hedged("abc")).run()
    assert race.client.sent == [("a", 0.0), ("b", 0.01), ("c", 0.03)]
    assert race.trace.channel == "c"
    assert race.legs == []
    assert [(t["channel"], t["status"]) for t in race.trace.tried] == [("a", 503), ("b", 500)]
    assert race.outcomes() == {"a": {"failure": 1}, "b": {"failure": 1}, "c": {"success": 1}}


def test_a_failure_beside_a_running_leg_starts_one_more_and_the_others_run_on():
    plan = {"a": (0.3, well), "b": (0.01, status(503)), "c": (0.01, status(429)), "d": (9.0, well)}
    race = OneCall(plan, hedged("abcd")).run()
    assert race.client.sent == [("a", 0.0), ("b", 0.05), ("c", 0.06), ("d", 0.07)]
    assert race.trace.channel == "a"
    assert race.legs == ["p/d"]
    assert race.outcomes() == {
        "a": {"success": 1},
        "b": {"failure": 1},
        "c": {"rate_limited": 1},
        "d": {"neutral": 1},
    }


def test_two_that_fail_at_the_same_moment_are_replaced_by_two():
    plan = {**dict.fromkeys("cd", (0.3, well)), "a": (0.25, status(503)), "b": (0.125, status(503))}
    race = OneCall(plan, hedged("abcd", delay_ms=125)).run()
    assert race.client.sent == [("a", 0.0), ("b", 0.125), ("c", 0.25), ("d", 0.25)]
    assert (race.trace.channel, race.legs) == ("c", ["p/d"])


@pytest.mark.spec("ROUT-7")
def test_when_all_legs_have_failed_the_next_provider_is_asked():
    plan = {"a": (0.1, status(503)), "b": (0.1, status(503))}
    race = OneCall(plan, hedged("ab"), hedged("z", id="q")).run()
    assert race.client.sent == [("a", 0.0), ("b", 0.05), ("z", 0.15)]
    assert (race.trace.provider, race.legs) == ("q", [])


@pytest.mark.spec("ROUT-8", "D9")
def test_failed_legs_are_repeated_one_by_one_and_then_it_is_over():
    plan = dict.fromkeys("ab", (0.1, status(503)))
    race = OneCall(plan, hedged("ab", channel_retries=1)).run()
    assert race.client.sent == [("a", 0.0), ("b", 0.05), ("a", 0.15), ("b", 0.25)]
    assert race.error.http_status == 502
    assert race.bench.kit.budget.repeats == 0


@pytest.mark.spec("ROUT-6")
def test_a_final_refusal_ends_the_race_and_the_others_are_cut_off():
    plan = {"a": (NEVER, well), "b": (0.01, status(400))}
    race = OneCall(plan, hedged("abc")).run()
    assert race.error.http_status == 400
    assert race.client.sent == [("a", 0.0), ("b", 0.05)]
    assert race.client.cut == {"a": 0.06}
    assert (race.legs, race.trace.channel) == (["p/a"], "b")
    assert race.outcomes() == {"a": {"neutral": 1}, "b": {"neutral": 1}}


@pytest.mark.spec("D13")
def test_a_provider_that_cannot_carry_the_request_sends_nothing_and_is_left():
    race = OneCall({}, hedged("abc", type="messages"), hedged("z", id="q"))
    incoming = race.bench.incoming(
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "n": 2}
    )

    async def asked():
        return await replied(await run(incoming, race.bench.kit, race.trace))

    reply = in_virtual_time(asked())
    assert reply.status == 200
    assert [host for host, _ in race.client.sent] == ["z"]
    assert race.legs == []


# --- streams ---


@dataclass
class Dripping(Said):
    """Pieces after pauses."""

    pauses: tuple[float, ...] = ()
    chunks_given: int = 0

    async def coming(self):
        for pause, piece in zip(self.pauses, self.pieces, strict=True):
            await asyncio.sleep(pause)
            self.chunks_given += 1
            yield piece


def dripping(first, later=0.0):
    def script(sent):
        whole = well(sent)
        pauses = (first, *[later] * (len(whole.pieces) - 1))
        return Dripping(headers=whole.headers, pieces=whole.pieces, pauses=pauses)

    return script


@pytest.mark.spec("D10", "S4-2.2")
def test_a_stream_is_hedged_until_its_first_event_and_no_longer():
    race = OneCall({"a": (0.01, dripping(0.02, later=0.5))}).run(stream=True)
    assert race.client.sent == [("a", 0.0)]
    assert race.reply.raw.endswith(b"data: [DONE]\n\n")


@pytest.mark.spec("D10", "T18", "S4-2.2")
def test_headers_alone_are_no_answer_and_the_losers_stream_is_closed():
    plan = {"a": (0.01, dripping(NEVER)), "b": (0.0, dripping(0.1, later=0.2))}
    race = OneCall(plan).run(stream=True)
    assert race.client.sent == [("a", 0.0), ("b", 0.05)]
    assert race.reply.raw.endswith(b"data: [DONE]\n\n")
    assert race.client.replies["a"].closed
    assert race.client.replies["a"].chunks_given == 0
    assert race.legs == ["p/a"]
    assert race.outcomes() == {"a": {"neutral": 1}, "b": {"success": 1}}


def test_two_that_answer_at_the_same_moment_are_one_winner_and_one_loser():
    plan = {"a": (0.25, dripping(0.0)), "b": (0.125, dripping(0.0))}
    race = OneCall(plan, hedged("ab", delay_ms=125)).run(stream=True)
    assert race.trace.channel == "a"
    assert race.reply.raw.endswith(b"data: [DONE]\n\n")
    assert race.client.replies["b"].closed
    assert race.legs == ["p/b"]
    assert race.outcomes() == {"a": {"success": 1}, "b": {"neutral": 1}}


# --- the caller leaves ---


@pytest.mark.spec("T18", "S4-2.2")
@pytest.mark.parametrize("stream", [False, True])
def test_when_the_caller_leaves_every_leg_is_cut_off(stream):
    plan = dict.fromkeys("abc", (NEVER, well))
    race = OneCall(plan, hedged("abc", legs=3)).run(stream=stream, leaves_after=0.12)
    assert race.client.cut == {"a": 0.12, "b": 0.12, "c": 0.12}
    assert race.outcomes() == {name: {"neutral": 1} for name in "abc"}
    assert (race.trace.channel, race.legs) == ("a", ["p/b", "p/c"])
    assert race.bench.kit.budget.requests == 0


# --- what is told ---


def test_the_wait_is_counted_once_and_not_for_each_leg():
    race = OneCall({"a": (NEVER, well), "b": (0.2, well)}).run()
    assert race.trace.upstream_seconds == pytest.approx(0.25)
    assert float(race.reply.headers["x-monoize-overhead-ms"]) == 0.0
    race = OneCall(dict.fromkeys("ab", (0.2, status(503)))).run()
    assert race.trace.upstream_seconds == pytest.approx(0.25)


def test_every_attempt_is_reported_and_the_one_that_answered_last():
    plan = {"a": (NEVER, well), "b": (0.01, status(503)), "c": (0.2, well)}
    race = OneCall(plan, hedged("abc")).run()
    assert [(r.channel, r.error) for r in race.trace.asked] == [
        ("b", "upstream_error"),
        ("a", "cancelled"),
        ("c", None),
    ]


# --- legs and the one trace that they share ---


@dataclass
class Scripted:
    """An attempt that writes into the trace as real ones do, some of it late."""

    candidate: Candidate
    trace: Trace
    plan: tuple[float, float, object]  # before it is sent, until it answers, and what comes of it
    was_sent: bool = False
    closed: int = 0
    upstream_model: str = ""

    def __post_init__(self):
        self.trace.provider = self.candidate.provider.id
        self.trace.channel = self.candidate.channel.id
        self.trace.request_losses = Losses()

    async def work(self):
        before, after, what = self.plan
        await asyncio.sleep(before)
        self.upstream_model = f"model-of-{self.candidate.channel.id}"
        self.trace.upstream_model = self.upstream_model
        self.trace.request_losses.drop(f"field-of-{self.candidate.channel.id}")
        self.trace.attempts += 1
        started = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(after)
        finally:
            self.trace.upstream_seconds += asyncio.get_running_loop().time() - started
        self.was_sent = True
        if isinstance(what, BaseException):
            raise what
        return what

    async def close(self):
        self.closed += 1


FORWARD = Verdict(advances=True, outcome=Outcome.FAILURE)
STOP = Verdict(advances=False, outcome=Outcome.NEUTRAL)
PLACE = ProviderSettings(id="p", type="chat_completion", models={"m": ModelSettings()})


@dataclass
class Track(Course):
    plans: dict
    clock: LoopClock = field(default_factory=LoopClock)
    trace: Trace = field(default_factory=Trace)
    attempts: dict = field(default_factory=dict)
    at_a_time: list = field(default_factory=list)
    running: int = 0

    def __post_init__(self):
        self.waiting = [self.turn(name) for name in self.plans]
        self.turns = list(self.waiting)
        self.breakers = {t.candidate.channel.id: t.seat.breaker for t in self.turns}

    def turn(self, name):
        candidate = Candidate(
            provider=PLACE, channel=ChannelSettings(id=name), upstream_model="asked"
        )
        breaker = Breaker(HealthLimits(failure_threshold=99))
        seat = type("Seat", (), {"breaker": breaker})
        return Turn(candidate=candidate, permit=breaker.admit(0), seat=seat)

    def begun(self, candidate):
        name = candidate.channel.id
        attempt = Scripted(candidate, self.trace, self.plans[name])
        self.attempts[name] = attempt
        return attempt

    async def worked(self, attempt):
        self.running += 1
        self.at_a_time.append(self.running)
        try:
            return await attempt.work()
        finally:
            self.running -= 1

    def another(self):
        return self.waiting.pop(0) if self.waiting else None

    async def lost(self, turn, attempt, started, error):
        verdict = STOP if isinstance(error, UpstreamRefused) else FORWARD
        turn.permit.settle(verdict.outcome, self.clock.monotonic())
        await attempt.close()
        return verdict

    def cut_off(self, attempt, started):
        return

    def race(self, **policy):
        hedge = PolicySettings(name="hedged", **policy)

        async def asked():
            first = self.another()
            return await Race(self, hedge).run(first)

        return in_virtual_time(asked())


@pytest.mark.spec("S4-2.2")
def test_a_leg_that_was_not_sent_yet_costs_nothing():
    course = Track({"a": (0.0, NEVER, "x"), "b": (NEVER, 0.0, "x"), "c": (0.0, 0.1, "made")})
    winner = course.race(legs=3)
    assert winner.task.result() == "made"
    assert [leg.channel for leg in course.trace.legs] == ["a"]
    assert course.trace.legs[0].upstream_model == "model-of-a"
    assert course.trace.attempts == 2
    assert [attempt.closed > 0 for attempt in course.attempts.values()] == [True, True, False]


def test_the_trace_tells_of_the_winner_however_the_legs_wrote_into_it():
    course = Track({"a": (0.07, 0.08, "made"), "b": (0.03, NEVER, "x"), "c": (0.01, NEVER, "x")})
    course.race(legs=3)
    trace = course.trace
    assert (trace.provider, trace.channel, trace.upstream_model) == ("p", "a", "model-of-a")
    assert trace.request_losses.dropped == ("field-of-a",)
    assert trace.upstream_seconds == pytest.approx(0.08)


@pytest.mark.spec("D18")
def test_a_defect_in_one_leg_ends_the_race_and_nothing_is_left_reserved():
    course = Track({"a": (0.0, NEVER, "x"), "b": (0.0, 0.1, ZeroDivisionError("ours"))})
    with pytest.raises(ZeroDivisionError):
        course.race()
    for breaker in course.breakers.values():
        assert breaker.totals[Outcome.NEUTRAL] == 1
    assert all(attempt.closed for attempt in course.attempts.values())


def test_a_defect_beside_an_answer_is_logged_and_the_answer_stands(caplog):
    broken = ZeroDivisionError("ours")
    course = Track({"a": (0.0, 0.25, broken), "b": (0.0, 0.125, "made")})
    assert course.race(delay_ms=125).task.result() == "made"
    assert "a leg broke" in caplog.text
    caplog.clear()
    refused = Track({"a": (0.0, 0.25, UpstreamRefused("no")), "b": (0.0, 0.125, "made")})
    assert refused.race(delay_ms=125).task.result() == "made"
    assert caplog.text == ""  # a provider's no is no defect


@pytest.mark.spec("T18")
def test_a_stream_that_came_too_late_is_closed_although_nobody_has_read_it():
    closed = []

    async def batches():
        try:
            yield []
            yield []
        finally:
            closed.append(True)

    async def asked():
        running = batches()
        await anext(running)
        course = Track({"a": (0.0, 0.25, "made"), "b": (0.0, 0.125, Live([], running))})
        winner = await Race(course, PolicySettings(name="hedged", delay_ms=125)).run(
            course.another()
        )
        return winner.task.result(), list(closed)

    assert in_virtual_time(asked()) == ("made", [True])


def test_a_leg_that_cannot_even_begin_gives_its_place_back():
    course = Track({"a": (0.0, 1.0, "x")})

    def broken(_):
        raise ZeroDivisionError

    course.begun = broken
    with pytest.raises(ZeroDivisionError):
        course.race()
    assert course.breakers["a"].totals[Outcome.NEUTRAL] == 1


# --- random races ---


def random_plan(rng):
    made = ["made", "made", UpstreamFailed("no"), UpstreamFailed("no"), UpstreamRefused("never")]
    times = (0.0, 0.01, 0.02, 0.05, 0.1, 0.3)
    return {
        name: (rng.choice(times), rng.choice((*times, NEVER)), rng.choice(made))
        for name in "abcdef"[: rng.randint(1, 6)]
    }


@pytest.mark.spec("S4-2.1", "S4-2.2")
@pytest.mark.parametrize("batch", range(5))
def test_whatever_happens_everything_is_accounted_for(batch):
    seen = Counter()
    for seed in range(batch * 200, batch * 200 + 200):
        rng = random.Random(seed)
        course = Track(random_plan(rng))
        policy = {"legs": rng.randint(2, 4), "delay_ms": rng.choice((10, 20, 50))}
        leaves = rng.random() < 0.15

        async def asked(course=course, policy=policy, leaves=leaves):
            race = Race(course, PolicySettings(name="hedged", **policy)).run(course.another())
            if leaves:
                async with asyncio.timeout(0.04):
                    return await race
            return await race

        try:
            winner = in_virtual_time(asked())
            seen["won" if winner is not None else "all failed"] += 1
        except UpstreamRefused:
            winner = None
            seen["refused"] += 1
        except TimeoutError:
            winner = None
            seen["left"] += 1
        begun = course.attempts
        sent = [name for name, attempt in begun.items() if attempt.upstream_model]
        legs = [leg.channel for leg in course.trace.legs]
        assert max(course.at_a_time) <= policy["legs"], seed
        assert course.trace.attempts == len(sent), seed
        assert set(legs) <= set(sent), seed
        assert len(legs) == len(set(legs)), seed
        for name, breaker in course.breakers.items():
            settled = sum(breaker.totals.values())
            is_winner = winner is not None and winner.attempt is begun.get(name)
            assert settled == (name in begun and not is_winner), (seed, name)
            if name in begun and not is_winner:
                assert begun[name].closed, (seed, name)
        if winner is not None:
            name = winner.attempt.candidate.channel.id
            assert name not in legs, seed
            assert course.trace.channel == name, seed
            assert course.trace.request_losses.dropped == (f"field-of-{name}",), seed
            failed = {n for n, b in course.breakers.items() if b.totals[Outcome.FAILURE]}
            final = {n for n in sent if isinstance(course.plans[n][2], UpstreamRefused)}
            assert set(sent) - set(legs) - failed - final == {name}, seed
    assert min(seen[what] for what in ("won", "all failed", "refused", "left")) > 5, seen


# --- with the real waterfall ---


@pytest.mark.spec("D11", "S4-2.2")
def test_a_losing_leg_leaves_a_half_open_channel_free_for_the_next():
    provider = ProviderSettings(
        id="p",
        type="chat_completion",
        models={"m": ModelSettings()},
        channels=(ChannelSettings(id="a"), ChannelSettings(id="b")),
        policy="hedged",
    )
    board = HealthBoard(HealthSettings(failure_threshold=1, cooldown_seconds=5))
    breaker = board.breaker(provider, provider.channels[1], "m")
    breaker.admit(0).settle(Outcome.FAILURE, 0)
    load, dice = LoadBoard(), type("Dice", (), {"roll": lambda self: 0.0})()
    waterfall = Waterfall(
        Wanted(model="m"), Catalog((provider,)), board, RetryBudget(), Affinity(), dice, load
    )
    waterfall.next(6)
    leg = waterfall.leg(6)
    assert not breaker.eligible(6)
    leg.permit.settle(Outcome.NEUTRAL, 6)
    assert breaker.eligible(6)
    assert load.in_flight(leg.candidate) == 0
