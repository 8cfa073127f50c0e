"""Random histories of a whole gateway in virtual time: the program decides as the naive oracle says."""

from __future__ import annotations

import os
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from fakes.routing_oracle import AttemptOracle, RequestOracle, WorldOracle
from monoize.routing import prober
from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Health, Outcome
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.policy import LoadBoard
from monoize.routing.shortcut import Shortcut, Shortcuts
from monoize.routing.survey import explained
from monoize.routing.verdict import Verdict
from monoize.routing.waterfall import Turn, Wanted, Waterfall
from monoize.settings import AffinitySettings, HealthSettings, PolicySettings, ProviderSettings

pytestmark = pytest.mark.soak

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
HISTORIES = 10_000 if SOAK else 1_000
VISITS = 200 if SOAK else 60
LOOK_EVERY = 1 if SOAK else 3  # steps; what went wrong in between still shows at the next look
BATCHES = 20
STEPS = 90
MODELS = ("a", "b", "bee")
POLICIES = (
    *("weighted_random", "round_robin", "least_inflight", "ewma_latency"),
    *("consistent_hash", "priority", "hedged"),
)
ENDS = ("success", *("failure",) * 3, "rate_limited", "neutral", "final", "skip", "left")
SKIPPED = Verdict(advances=True, outcome=Outcome.NEUTRAL, skips_provider=True)


class SeededDice:
    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.rolled: list[float] = []

    def roll(self) -> float:
        self.rolled.append(self.random.random())
        return self.rolled[-1]


# --- random settings -----------------------------------------------------------------------------


def random_health(rng: random.Random, often: float) -> dict[str, Any]:
    choices = {
        "failure_threshold": (1, 2, 3, 4),
        "cooldown_seconds": (2.0, 8.0, 20.0),
        "window_seconds": (4.0, 10.0, 30.0),
        "min_samples": (1, 2, 3, 5, 8),
        "failure_rate_threshold": (0.25, 0.5, 0.6, 0.75, 1.0),
        "rate_limit_cooldown_seconds": (1.0, 5.0, 12.0),
        "retry_after_limit_seconds": (3.0, 16.0),
        "per_model": (True, False),
        "probe_enabled": (True, True, False),
        "probe_interval_seconds": (1.0, 6.0),
        "probe_model": ("a", "own-name"),
        "probe_success_threshold": (1, 2, 3),
    }
    return {name: rng.choice(c) for name, c in choices.items() if rng.random() < often}


def random_capabilities(rng: random.Random, often: float) -> dict[str, Any]:
    choices: dict[str, Any] = {
        "operations": (["chat_completions"], ["embeddings"], ["chat_completions", "embeddings"]),
        "features": ([], ["supports_tools"], ["supports_tools", "supports_batch"]),
        "transports": (["http"], ["http", "websocket"]),
        "limits": ({"max_chars": 10}, {"max_chars": 20}, {"max_images": 1}),
    }
    return {name: rng.choice(c) for name, c in choices.items() if rng.random() < often}


def random_ask(rng: random.Random) -> dict[str, Any]:
    """What spec 4 lets a request ask for; half of all requests are plain chat."""
    if rng.random() < 0.5:
        return {}
    others = ("p0", "p1", "p2", "p9")
    choices: dict[str, Any] = {
        "operation": ("chat_completions", "embeddings", "embeddings", "text_to_speech"),
        "operations": (["chat_completions"], ["embeddings", "chat_completions"]),
        "features": (["supports_tools"], ["supports_batch"], ["supports_tools", "supports_mask"]),
        "transports": ([], ["http"], ["websocket", "http"]),
        "amounts": ({"max_chars": 10}, {"max_chars": 11}, {"max_chars": 21, "max_images": 1}),
        "backend": others,
        "allowed": (["p0", "p1"], ["p1", "p9"], []),
        "denied": (["p0"], ["p1", "p2"]),
    }
    ask = {name: rng.choice(c) for name, c in choices.items() if rng.random() < 0.07}
    if rng.random() < 0.6:
        ask["operation"] = "embeddings"
    if rng.random() < 0.3:
        ask["preferred"] = rng.choices(others, k=rng.randint(1, 3))
    for name in ("policy", "default_policy"):
        if rng.random() < 0.3:
            ask[name] = rng.choice(POLICIES)
    ask["pool"] = rng.random() < 0.6
    ask["sticky"] = rng.choice(("", "session-1", "session-2"))
    return ask


def random_provider(rng: random.Random, number: int) -> dict[str, Any]:
    names = dict.fromkeys(rng.choices(("a", "b", "b*", "*"), k=rng.randint(2, 4)))
    return {
        "id": f"p{number}",
        "type": rng.choice(("chat_completion", "chat_completion", "gemini", "messages")),
        "capabilities": random_capabilities(rng, 0.05),
        "policy": rng.choice((None, None, *POLICIES)),
        "enabled": rng.random() < 0.9,
        "models": {
            name: {
                "redirect": rng.choice((None, None, "up", "other")),
                "multiplier": rng.choice((0.5, 1, 1.5, 2)),
                "capabilities": rng.choice((None, None, random_capabilities(rng, 0.1))),
            }
            for name in names
        },
        "channels": [
            {
                "id": f"c{index}",
                "enabled": rng.random() < 0.85,
                "weight": rng.choice((0, 1, 1, 1, 2, 7)),
                "priority": rng.choice((0, 0, 1, -1)),
                "health": random_health(rng, 0.15),
            }
            for index in range(rng.randint(1, 4))
        ],
        "max_retries": rng.choice((-1, -1, 0, 1, 2)),
        "channel_retries": rng.choice((0, 1, 2)),
        "affinity": rng.choice((None, 4.0, 60.0)),
        "health": random_health(rng, 0.15),
    }


def make_plain(spec: dict[str, Any]) -> None:
    """One channel and nothing to weigh: plain calls take the shortcut."""
    channel = spec["channels"][0]
    spec |= {"enabled": True, "capabilities": {}, "policy": None, "affinity": None}
    spec["channels"] = [channel | {"enabled": True, "weight": 1}]
    for health in (spec["health"], channel["health"]):
        health["per_model"] = False


def as_settings(spec: dict[str, Any]) -> ProviderSettings:
    idle = spec["affinity"]
    affinity = None if idle is None else AffinitySettings(idle_seconds=idle)
    fields = {name: value for name, value in spec.items() if name != "affinity"}
    plain = msgspec.convert(fields, ProviderSettings)
    return msgspec.structs.replace(plain, affinity=affinity)


def as_wanted(ask: dict[str, Any], **fields: Any) -> Wanted:
    sets = {
        n: frozenset(ask[n])
        for n in ("operations", "features", "transports", "allowed", "denied")
        if n in ask
    }
    policies = {
        name: PolicySettings(name=ask[name]) for name in ("policy", "default_policy") if name in ask
    }
    preferred = {"preferred": tuple(ask["preferred"])} if "preferred" in ask else {}
    return Wanted(**{**ask, **sets, **policies, **preferred, **fields})


# --- one history ---------------------------------------------------------------------------------


class ShortWay:
    """As calls are made: by a shortcut where it gives a permit; a waterfall for the others, and when it failed."""

    def __init__(self, history: History, wanted: Wanted, *, is_plain: bool) -> None:
        self.history = history
        self.wanted = wanted
        self.asks = None if is_plain else wanted
        self.waterfall: Waterfall | None = None
        self.shortcut: Shortcut | None = None  # while its channel is all that was asked

    def next(self, now: float) -> Turn | None:
        if self.waterfall is None:
            shortcut = self.history.shortcuts[self.wanted.model]
            permit = shortcut and shortcut.permit(self.asks, self.wanted.ceiling, now)
            if permit:
                self.shortcut = shortcut
                self.history.seen["shortcut"] += 1
                self.history.budget.requests += 1
                return Turn(candidate=shortcut.candidate, permit=permit, seat=None)
            self.waterfall = self.history.waterfall(self.wanted)
        return self.waterfall.next(now)

    def failed(self, turn: Turn, verdict: Verdict, message: str) -> None:
        if self.shortcut is not None:
            self.history.seen["shortcut failed"] += 1
            self.history.budget.requests -= 1
            self.waterfall = self.history.waterfall(self.wanted)
            turn = self.waterfall.go_on_after(self.shortcut.terms, turn.permit)
            self.shortcut = None
        self.waterfall.failed(turn, verdict, message)

    def succeeded(self, turn: Turn, now: float) -> None:
        if self.shortcut is not None:
            self.history.board.note_success(self.shortcut.provider_id, self.shortcut.model)
        else:
            self.waterfall.succeeded(turn, now)

    def release(self) -> None:
        if self.shortcut is not None:
            self.history.budget.requests -= 1
            self.shortcut = None
        if self.waterfall is None:
            self.waterfall = self.history.waterfall(self.wanted)
        self.waterfall.release()


class Flight:
    """A request or a probe on its way: the program's side and the oracle's."""

    def __init__(self) -> None:
        self.waterfall: Waterfall | ShortWay | None = None
        self.request: RequestOracle | None = None
        self.key = ""
        self.seat: Any = None
        self.turn: Any = None
        self.permit: Any = None
        self.attempt: AttemptOracle | None = None
        self.answered = False  # no other channel any more, the stream still runs
        self.holds_repeat = False
        self.way: Any = None  # None: a probe, which is no traffic
        self.asked_at = 0.0
        self.is_timed = False


class History:
    def __init__(self, seed: int, *, is_short: bool = False) -> None:
        self.is_short = is_short
        self.rng = rng = random.Random(seed)
        specs = [random_provider(rng, number) for number in range(rng.randint(1, 3))]
        global_health = random_health(rng, 0.8)
        self.crowd = rng.choice((1, 1, 1, 3, 3, 14))
        if self.crowd == 14:  # many at a time and nobody trips: the retry budget is felt
            global_health |= {"failure_threshold": 1000, "min_samples": 1000}
            for spec in specs:
                spec["channel_retries"] = 2
        if seed % 3 == 0:
            make_plain(specs[0])
        self.world = WorldOracle(specs, global_health)
        self.providers = tuple(as_settings(spec) for spec in specs)
        self.by_id = {provider.id: provider for provider in self.providers}
        self.catalog = Catalog(self.providers)
        self.board = HealthBoard(msgspec.convert(global_health, HealthSettings))
        self.budget = RetryBudget()
        self.affinity = Affinity()
        self.load = LoadBoard()
        self.shortcuts = Shortcuts(self.catalog, self.board, self.load, None)
        self.dice = SeededDice(rng)
        self.waiting: list[Flight] = []
        self.running: list[Flight] = []
        self.seen: Counter[str] = Counter()
        self.told: list[Any] = []  # what each request was told to do, and what its end was

    def waterfall(self, wanted: Wanted) -> Waterfall:
        return Waterfall(
            wanted, self.catalog, self.board, self.budget, self.affinity, self.dice, self.load
        )

    def run(self) -> None:
        doings = (self.arrive, self.ask, self.ask, self.end, self.end, self.begin, self.wait)
        for step in range(STEPS):
            self.rng.choice((*doings, self.probe))()
            self.compare()
            if step % LOOK_EVERY == 0:
                self.compare_channels()
        self.drain()

    # --- what may happen ---

    def arrive(self) -> None:
        for _ in range(self.rng.randint(1, self.crowd)):
            self.arrive_alone()

    def arrive_alone(self) -> None:
        flight = Flight()
        model = self.rng.choice(MODELS)
        ceiling = self.rng.choice((None, None, 1, 1.5))
        talk = self.rng.choice(("x", "y", "z"))
        ask = random_ask(self.rng)
        wanted = as_wanted(
            ask,
            model=model,
            ceiling=None if ceiling is None else Decimal(str(ceiling)),
            conversation=lambda: talk,
        )
        flight.waterfall = (
            ShortWay(self, wanted, is_plain=not ask) if self.is_short else self.waterfall(wanted)
        )
        flight.request = RequestOracle(self.world, model, ceiling, talk, ask)
        found = explained(wanted, self.catalog, self.board, self.world.now)
        assert set(found.objections) == flight.request.passed_over()
        assert found.candidates_checked == tuple(provider.id for provider in self.providers)
        self.world.requests += 1
        self.waiting.append(flight)
        self.step_on(flight)

    def ask(self) -> None:
        if self.waiting:
            self.step_on(self.rng.choice(self.waiting))

    def step_on(self, flight: Flight) -> None:
        assert flight.waterfall is not None
        assert flight.request is not None
        expected = flight.request.allowed()
        self.dice.rolled.clear()
        turn = flight.waterfall.next(self.world.now)
        self.note(flight, turn)
        self.waiting.remove(flight)
        if turn is None or expected is None:
            assert turn is None, f"nobody was left, but {turn} was asked"
            assert expected is None, f"gave up although {expected} could be asked"
            self.seen["nobody left"] += 1
            self.land(flight)
            return
        kind, seats, how = expected
        self.seen[kind] += 1
        key = f"{turn.candidate.provider.id}/{turn.candidate.channel.id}"
        self.assert_chosen(key, seats, how, flight.request)
        assert (turn.repeat, turn.last_resort) == (kind == "repeat", kind == "last_resort")
        assert (turn.hedge is not None) == self.is_hedged(flight.request, seats[key], kind)
        flight.key, flight.seat, flight.turn, flight.permit = key, seats[key], turn, turn.permit
        flight.attempt = AttemptOracle(
            seats[key][2], self.world.now, last_resort=kind == "last_resort"
        )
        self.board_flight(flight)
        if kind == "repeat":
            self.world.repeats += 1
            flight.holds_repeat = True
        self.running.append(flight)

    def note(self, flight: Flight, turn: Turn | None) -> None:
        if turn is not None:
            candidate = turn.candidate
            place = candidate.provider.id, candidate.channel.id, candidate.upstream_model
            self.told.append((*place, turn.repeat, turn.last_resort, turn.hedge))
            return
        way = flight.waterfall
        waterfall = way.waterfall if isinstance(way, ShortWay) else way
        self.told.append((waterfall.tried, waterfall.passed, waterfall.free_in(self.world.now)))

    @staticmethod
    def is_hedged(request: RequestOracle, seat: Any, kind: str) -> bool:
        return kind == "first" and request._how([seat[0]])[0] == "hedged"

    def assert_chosen(
        self, key: str, seats: dict[str, Any], how: tuple[str, str] | None, request: RequestOracle
    ) -> None:
        policy, scope = how or ("", "")
        traffic = self.world.traffic
        if len(seats) > 1:
            self.seen[policy] += 1
            self.seen["pool"] += (
                request.ask["pool"] and len({s[0]["id"] for s in seats.values()}) > 1
            )
        if policy == "consistent_hash" and len(seats) > 1:
            assert self.dice.rolled == []
            traffic.prefers(request.sticky(), key, [other for other in seats if other != key])
            return
        among = (
            traffic.narrowed(policy, scope, seats, self.world.now) if len(seats) > 1 else [*seats]
        )
        assert key == self.drawn({name: seats[name] for name in among})

    def board_flight(self, flight: Flight) -> None:
        provider, channel, _, model = flight.seat
        flight.way = (provider["id"], channel["id"], model)
        flight.asked_at = self.world.now
        flight.is_timed = False
        self.world.traffic.on_the_way.append(flight.way[:2])
        self.world.traffic.heard.setdefault(flight.way, []).append(self.world.now)

    def note_answer(self, flight: Flight) -> None:
        """The first sign of an answer is the one that is timed."""
        if flight.way is not None and not flight.is_timed:
            flight.is_timed = True
            traffic, now = self.world.traffic, self.world.now
            traffic.times.setdefault(flight.way, []).append(now - flight.asked_at)
            traffic.heard[flight.way].append(now)

    def drawn(self, seats: dict[str, Any]) -> str:
        """The one on whom the dice fell; one alone is not rolled for."""
        if len(seats) == 1:
            assert self.dice.rolled == []
            return next(iter(seats))
        lots = [key for key, seat in seats.items() for _ in range(seat[1]["weight"])]
        (roll,) = self.dice.rolled
        return lots[int(roll * len(lots))]

    def begin(self) -> None:
        if self.running:
            flight = self.rng.choice(self.running)
            flight.permit.began(self.world.now)
            assert flight.attempt is not None
            flight.attempt.began()
            self.note_answer(flight)
            if not flight.answered and flight.waterfall is not None:
                self.answer(flight)

    def answer(self, flight: Flight) -> None:
        flight.waterfall.succeeded(flight.turn, self.world.now)
        provider, channel, *_ = flight.seat
        self.world.succeeded(provider, channel, flight.request.model, flight.request.conversation)
        flight.answered = True

    def end(self) -> None:
        if self.running:
            self.end_of(self.rng.choice(self.running))

    def end_of(self, flight: Flight) -> None:
        rng = self.rng
        what = rng.choice(ENDS)
        outcome = what if what in ("success", "failure", "rate_limited") else "neutral"
        wish = rng.choice((None, None, None, 0.0, 2.0, 7.5, 40.0))
        flight.permit.settle(Outcome(outcome), self.world.now, wish)
        flight.attempt.settle(outcome, self.world.now, wish)
        if outcome == "success":
            self.note_answer(flight)
        if flight.way is not None:
            self.world.traffic.on_the_way.remove(flight.way[:2])
        if rng.random() < 0.2:  # a second word about the same attempt is not heard
            flight.permit.settle(rng.choice(list(Outcome)), self.world.now, 5.0)
        self.running.remove(flight)
        if flight.waterfall is None:
            return
        if what == "success" and not flight.answered:
            self.answer(flight)
        if flight.answered or what == "left":
            self.land(flight)
            return
        verdict = Verdict(advances=what != "final", outcome=Outcome(outcome), retry_after=wish)
        flight.waterfall.failed(flight.turn, SKIPPED if what == "skip" else verdict, what)
        flight.request.answer = (flight.key, what)
        if flight.holds_repeat:
            self.world.repeats -= 1
            flight.holds_repeat = False
        if flight.turn.last_resort and what != "skip":
            assert flight.waterfall.next(self.world.now) is None
        self.waiting.append(flight)
        if rng.random() < 0.7:  # the usual thing: at once
            self.step_on(flight)

    def land(self, flight: Flight) -> None:
        flight.waterfall.release()
        if self.rng.random() < 0.2:
            flight.waterfall.release()
        assert flight.waterfall.next(self.world.now) is None
        self.world.requests -= 1
        self.world.repeats -= flight.holds_repeat

    def wait(self) -> None:
        self.world.now += self.rng.choice((0.0, 0.25, 1.0, 1.0, 2.0, 5.0, 8.0, 20.0, 45.0))

    def probe(self) -> None:
        now = self.world.now
        probes = prober.due(self.providers, self.board, now)
        expected = self.world.due_probes()
        assert {(p.provider.id, p.channel.id, p.upstream_model) for p in probes} == expected
        for probe in probes:
            if self.rng.random() < 0.3:
                continue
            flight = Flight()
            flight.permit = prober.started(probe, self.board, now)
            assert flight.permit is not None
            assert prober.started(probe, self.board, now) is None
            spec = next(s for s in self.world.providers if s["id"] == probe.provider.id)
            channel = next(c for c in spec["channels"] if c["id"] == probe.channel.id)
            known = self.world.channel(spec, channel, probe.upstream_model)
            known.probed_at = now
            flight.attempt = AttemptOracle(known, now)
            self.running.append(flight)
            self.seen["probe"] += 1

    def drain(self) -> None:
        """Everybody goes home: nothing may be left reserved."""
        for flight in self.running:
            flight.permit.settle(Outcome.NEUTRAL, self.world.now)
            flight.attempt.settle("neutral", self.world.now, None)
        for flight in (*self.running, *self.waiting):
            if flight.waterfall is not None:
                self.land(flight)
        assert (self.budget.requests, self.budget.repeats) == (0, 0)
        assert self.in_flight() == {}
        self.world.now += 10_000
        self.compare_channels()
        for (pid, cid, _), known in self.world.channels.items():
            assert known.eligible(self.world.now), (pid, cid)

    # --- what must hold ---

    def compare(self) -> None:
        assert self.budget.requests == self.world.requests
        assert self.budget.repeats == self.world.repeats
        on_the_way = Counter(self.world.traffic.on_the_way)
        assert self.in_flight() == on_the_way

    def left_behind(self) -> Any:
        """All that one request leaves for the next."""
        lanes = self.load._lanes.items()
        return (
            self.board.snapshot(self.providers, self.world.now),
            self.board._last_succeeded,
            {way: (lane.touched, lane.seconds) for way, lane in lanes},
            self.load._credits,
            self.affinity._by_provider,
        )

    def in_flight(self) -> dict[tuple[str, str], int]:
        return {place: t.in_flight for place, t in self.load._traffic.items() if t.in_flight}

    def compare_channels(self) -> None:
        now = self.world.now
        rows = {
            (row.provider, row.channel, row.model): row
            for row in self.board.snapshot(self.providers, now)
        }
        for key, known in self.world.channels.items():
            row = rows.pop(key)
            samples, failed = known.sampled(now)
            self.seen[row.health] += 1
            assert (row.health, row.eligible) == (known.health(now), known.eligible(now)), key
            assert row.consecutive_failures == known.run_of_failures(), key
            assert row.samples == samples, key
            assert row.failure_rate == (failed / samples if samples else 0), key
            assert row.totals == known.totals, key
            assert row.resting_seconds == max(0, known.rest_until - now), key
            assert row.cooldown_seconds_left == max(0, (known.down_until or 0) - now), key
        open_ = {
            (provider.id, channel.id)
            for provider in self.providers
            for channel in provider.channels
            if channel.enabled and channel.weight > 0
        }
        for row in rows.values():  # never used
            is_open = (row.provider, row.channel) in open_
            assert (row.health, row.eligible, row.samples) == ("healthy", is_open, 0)


@pytest.mark.spec("ROUT-1", "ROUT-2", "ROUT-3", "ROUT-4", "ROUT-5", "ROUT-6", "ROUT-7")
@pytest.mark.spec("HEALTH-1", "HEALTH-1a", "HEALTH-1b", "HEALTH-1c", "HEALTH-2", "HEALTH-3")
@pytest.mark.spec("D9", "D11", "D12", "D27", "S4-2.1", "S4-2.3")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_decision_is_one_that_the_rules_allow(batch):
    """And shortcuts tell and leave behind what the waterfall alone does."""
    each = HISTORIES // BATCHES
    for seed in range(batch * each, (batch + 1) * each):
        long, short = History(seed), History(seed, is_short=True)
        for name, history in (("long", long), ("short", short)):
            try:
                history.run()
            except Exception as error:
                pytest.fail(f"History({seed}), {name}: {type(error).__name__}: {error}")
        assert short.told == long.told, f"History({seed})"
        assert short.left_behind() == long.left_behind(), f"History({seed})"


def test_the_histories_visit_what_matters():
    """Random tests prove nothing about states that they never reach."""
    seen: Counter[str] = Counter()
    for seed in range(VISITS):
        history = History(seed, is_short=True)
        history.run()
        seen += history.seen
    for what in (
        "first",
        "repeat",
        "last_resort",
        "nobody left",
        "probe",
        *Health,
        *POLICIES,
        "pool",
        "shortcut",
        "shortcut failed",
    ):
        assert seen[what] >= VISITS // 6, seen
