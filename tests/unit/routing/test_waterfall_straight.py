"""A provider with one channel that is well is asked without a round; nobody can tell the difference."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Outcome
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.policy import LoadBoard
from monoize.routing.shortcut import Shortcuts
from monoize.routing.verdict import Verdict
from monoize.routing.waterfall import Turn, Wanted, Waterfall
from monoize.settings import (
    AffinitySettings,
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    PolicySettings,
    ProviderSettings,
)

PATIENT = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
VERDICTS = {
    "ok": None,
    "failed": Verdict(advances=True, outcome=Outcome.FAILURE, status=503),
    "limited": Verdict(advances=True, outcome=Outcome.RATE_LIMITED, retry_after=7.0, status=429),
    "forward": Verdict(advances=True, outcome=Outcome.NEUTRAL, status=404),
    "final": Verdict(advances=False, outcome=Outcome.NEUTRAL, status=400),
    "skips": Verdict(advances=True, outcome=Outcome.NEUTRAL, skips_provider=True),
}


class RoundByRound(Waterfall):
    """Always the long way."""

    @override
    def _only_choice(self, now: float) -> Turn | None:
        return None


class AfterShortcut(Waterfall):
    """Its first turn is a shortcut's, where there is one."""

    def __init__(self, wanted: Wanted, catalog: Catalog, board: HealthBoard, *others: Any) -> None:
        super().__init__(wanted, catalog, board, *others)
        self.shortcut = Shortcuts(catalog, board, self._load, None)[wanted.model]
        plain = msgspec.structs.replace(wanted, ceiling=None, conversation=None)
        self.asks = None if plain == Wanted(model=wanted.model) else wanted

    @override
    def next(self, now: float) -> Turn | None:
        shortcut, self.shortcut = self.shortcut, None
        permit = shortcut and shortcut.permit(self.asks, self._wanted.ceiling, now)
        return self.go_on_after(shortcut.terms, permit) if permit else super().next(now)


class Dice:
    def roll(self) -> float:
        return 0.25


class World:
    """What requests leave behind, and what each of them was told."""

    def __init__(self, kind: type[Waterfall], providers: tuple[ProviderSettings, ...]) -> None:
        self.kind = kind
        self.providers = providers
        self.catalog = Catalog(providers)
        self.board = HealthBoard(HealthSettings(failure_threshold=2, cooldown_seconds=5))
        self.budget = RetryBudget()
        self.affinity = Affinity()
        self.load = LoadBoard()
        self.now = 0.0
        self.told: list[Any] = []

    def ask(self, wanted: Wanted, ends: list[str]) -> None:
        way = self.kind(
            wanted, self.catalog, self.board, self.budget, self.affinity, Dice(), self.load
        )
        for end in ends:
            turn = way.next(self.now)
            self.told.append(None if turn is None else shown(turn))
            if turn is None:
                break
            if turn.hedge is not None:
                beside = way.leg(self.now)
                self.told.append(None if beside is None else shown(beside))
                if beside is not None:
                    beside.permit.settle(Outcome.NEUTRAL, self.now)
            self.now += 0.5
            verdict = VERDICTS[end]
            if verdict is None:
                turn.permit.settle(Outcome.SUCCESS, self.now)
                way.succeeded(turn, self.now)
                break
            turn.permit.settle(verdict.outcome, self.now, verdict.retry_after)
            way.failed(turn, verdict, end)
        self.told += [way.tried, way.passed, way.free_in(self.now), self.budget.repeats]
        way.release()
        self.now += 1.0

    def state(self) -> Any:
        rows = [msgspec.to_builtins(row) for row in self.board.snapshot(self.providers, self.now)]
        candidates = list(self.catalog.candidates("m"))
        return (
            rows,
            [(self.load.pace(c), self.load.in_flight(c)) for c in candidates],
            self.affinity._by_provider,
            (self.budget.requests, self.budget.repeats),
        )


def shown(turn: Turn) -> tuple[Any, ...]:
    hedge = None if turn.hedge is None else turn.hedge.name
    candidate = turn.candidate
    place = candidate.provider.id, candidate.channel.id, candidate.upstream_model
    return (*place, turn.repeat, turn.last_resort, hedge)


channels = st.builds(
    ChannelSettings,
    id=st.just("a"),
    weight=st.sampled_from([1, 1, 1, 0]),
    enabled=st.sampled_from([True, True, True, False]),
)
policies = st.sampled_from([None, None, "round_robin", PolicySettings(name="hedged", legs=2)])


@st.composite
def provider(draw: st.DrawFn, name: str) -> ProviderSettings:
    own = [draw(channels)]
    if draw(st.integers(0, 3)) == 0:
        own.append(ChannelSettings(id="b"))
    return ProviderSettings(
        id=name,
        type="chat_completion",
        models={"m": ModelSettings(multiplier=draw(st.sampled_from([None, "3"])))},
        channels=tuple(own),
        max_retries=draw(st.sampled_from([-1, 0, 1])),
        channel_retries=draw(st.sampled_from([0, 0, 1, 2])),
        policy=draw(policies),
        affinity=draw(st.sampled_from([None, AffinitySettings()])),
    )


@st.composite
def wanted(draw: st.DrawFn) -> Wanted:
    return Wanted(
        model="m",
        ceiling=draw(st.sampled_from([None, None, 2])),
        conversation=lambda: "talk",
        operation=draw(st.sampled_from(["chat_completions", "embeddings"])),
        denied=draw(st.sampled_from([frozenset(), frozenset({"p"})])),
        preferred=draw(st.sampled_from([(), (), ("q",)])),
        policy=draw(st.sampled_from([None, None, PolicySettings(name="hedged")])),
        pool=draw(st.sampled_from([False, False, True])),
    )


asked = st.lists(
    st.tuples(wanted(), st.lists(st.sampled_from(sorted(VERDICTS)), min_size=1, max_size=6)),
    min_size=1,
    max_size=6,
)


@pytest.mark.spec("ROUT-1", "ROUT-3", "ROUT-4", "ROUT-5", "D9", "D11", "D12")
@PATIENT
@given(provider("p"), provider("q"), asked)
def test_the_short_way_tells_and_leaves_what_the_long_way_does(p, q, requests):
    short, shorter, long = (
        World(kind, (p, q)) for kind in (Waterfall, AfterShortcut, RoundByRound)
    )
    for want, ends in requests:
        for world in (short, shorter, long):
            world.ask(want, ends)
        assert short.told == shorter.told == long.told
        assert short.state() == shorter.state() == long.state()


PLAIN = ProviderSettings(
    id="p",
    type="chat_completion",
    models={"m": ModelSettings()},
    channels=(ChannelSettings(id="a"),),
)
CALL = Wanted(model="m")
TWO = (ChannelSettings(id="a"), ChannelSettings(id="b"))
HEDGED = PolicySettings(name="hedged")


@pytest.mark.parametrize(
    ("changes", "want", "is_short"),
    [
        ({}, CALL, True),
        ({"policy": "round_robin", "affinity": AffinitySettings()}, CALL, True),
        ({"channels": TWO}, CALL, False),
        ({"channels": (ChannelSettings(id="a", enabled=False),)}, CALL, False),
        ({"channels": (ChannelSettings(id="a", weight=0),)}, CALL, False),
        ({"policy": HEDGED}, CALL, False),
        ({}, msgspec.structs.replace(CALL, policy=HEDGED), False),
        ({}, msgspec.structs.replace(CALL, pool=True), False),
        ({}, msgspec.structs.replace(CALL, preferred=("p",)), False),
        ({}, msgspec.structs.replace(CALL, denied=frozenset({"p"})), False),
        ({}, msgspec.structs.replace(CALL, model="other"), False),
    ],
)
def test_the_short_way_is_for_one_channel_and_nothing_to_choose(changes, want, is_short):
    world = World(Waterfall, (msgspec.structs.replace(PLAIN, **changes),))
    way = Waterfall(want, world.catalog, world.board, world.budget, world.affinity, Dice())
    assert (way._only_choice(0.0) is not None) is is_short


KINDS = pytest.mark.parametrize("kind", [Waterfall, AfterShortcut, RoundByRound])


@pytest.mark.spec("D9", "D11")
@KINDS
@pytest.mark.parametrize(
    ("ends", "asked"),
    [
        (["ok"], "p"),
        (["failed", "ok"], "pp"),  # repeated
        (
            ["failed", "failed"],
            "pp",
        ),  # not well any more, and q is no last resort: somebody was asked
        (["forward"], "p"),
        (["final"], "p"),
        (["skips", "ok"], "pq"),  # nothing was sent: q may be the last resort
    ],
)
def test_the_others_are_asked_after_the_first_as_ever(kind, ends, asked):
    own = HealthSettings(failure_threshold=1)
    unwell = msgspec.structs.replace(PLAIN, id="q", health=own)
    world = World(kind, (msgspec.structs.replace(PLAIN, channel_retries=1), unwell))
    world.board.breaker(unwell, unwell.channels[0], "m").admit(0.0).settle(Outcome.FAILURE, 0.0)
    world.ask(CALL, [*ends, *["ok"] * 3])
    told = [turn[0] for turn in world.told if isinstance(turn, tuple)]
    assert "".join(told) == asked


@KINDS
def test_who_was_asked_is_not_asked_again_whatever_became_of_it(kind):
    world = World(kind, (PLAIN, msgspec.structs.replace(PLAIN, id="q")))
    way = kind(CALL, world.catalog, world.board, world.budget, world.affinity, Dice())
    asked = [way.next(0.0), way.next(0.0), way.next(0.0)]
    assert [turn and turn.candidate.provider.id for turn in asked] == ["p", "q", None]


def test_a_channel_that_is_not_well_is_not_taken_the_short_way():
    world = World(Waterfall, (PLAIN,))
    world.ask(CALL, ["failed"])
    world.ask(CALL, ["failed"])
    way = Waterfall(CALL, world.catalog, world.board, world.budget, world.affinity, Dice())
    assert way._only_choice(world.now) is None
