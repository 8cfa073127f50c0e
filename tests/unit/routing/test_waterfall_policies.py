"""Capabilities, policies, preferences and pools in the way of a request."""

import pytest

from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Health, Outcome
from monoize.routing.budget import RetryBudget
from monoize.routing.capability import Capabilities
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.policy import LoadBoard
from monoize.routing.verdict import Verdict
from monoize.routing.waterfall import Wanted, Waterfall
from monoize.settings import (
    AffinitySettings,
    CapabilitySettings,
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    PolicySettings,
    ProviderSettings,
)

FAILED = Verdict(advances=True, outcome=Outcome.FAILURE, status=503)
LIMITED = Verdict(advances=True, outcome=Outcome.RATE_LIMITED, status=429)
FINAL = Verdict(advances=False, outcome=Outcome.NEUTRAL, status=400)
SKIPS = Verdict(advances=True, outcome=Outcome.NEUTRAL, skips_provider=True)
CALM = HealthSettings(failure_threshold=99, min_samples=10**6)
IN_TURN, HEDGED = PolicySettings(name="round_robin"), PolicySettings(name="hedged")
BY_KEY, BY_RANK = PolicySettings(name="consistent_hash"), PolicySettings(name="priority")


class First:
    """Dice that always fall on the first."""

    def roll(self):
        return 0.0


def channel(id, **fields):
    return ChannelSettings(id=id, **fields)


def provider(id="p", ids=("a", "b", "c"), **fields):
    seats = tuple(channel(name) if isinstance(name, str) else name for name in ids)
    return ProviderSettings(
        **{
            "id": id,
            "type": "chat_completion",
            "models": {"m": ModelSettings()},
            "channels": seats,
            **fields,
        }
    )


class World:
    def __init__(self, *providers, health=CALM, engines=None):
        self.providers = {p.id: p for p in providers}
        self.catalog = Catalog(providers, engines or {})
        self.board = HealthBoard(health)
        self.budget = RetryBudget()
        self.affinity = Affinity()
        self.load = LoadBoard()
        self.now = 0.0

    def asks(self, **fields):
        wanted = Wanted(**{"model": "m", **fields})
        return Waterfall(
            wanted, self.catalog, self.board, self.budget, self.affinity, First(), self.load
        )

    def breaks(self, provider_id, channel_id, seconds=60.0):
        owner = self.providers[provider_id]
        seat = next(c for c in owner.channels if c.id == channel_id)
        breaker = self.board.breaker(owner, seat, "m")
        while breaker.health(self.now) is Health.HEALTHY:
            breaker.admit(self.now).settle(Outcome.FAILURE, self.now, seconds)

    def walk(self, waterfall, *verdicts):
        asked, verdicts = [], list(verdicts)
        while (turn := waterfall.next(self.now)) is not None:
            verdict = verdicts.pop(0) if verdicts else FAILED
            asked.append(label(turn))
            turn.permit.settle(verdict.outcome, self.now, verdict.retry_after)
            waterfall.failed(turn, verdict, "no")
        return " ".join(asked)

    def first(self, **fields):
        """Who is asked first, if it is answered at once."""
        waterfall = self.asks(**fields)
        turn = waterfall.next(self.now)
        turn.permit.settle(Outcome.SUCCESS, self.now)
        waterfall.succeeded(turn, self.now)
        return label(turn)


def label(turn):
    mark = "!" if turn.last_resort else "+" if turn.repeat else ""
    return f"{turn.candidate.provider.id}/{turn.candidate.channel.id}{mark}"


# --- capabilities ---


@pytest.mark.spec("S4-2.1", "S4-2.3", "ROUT-2")
def test_a_provider_that_cannot_do_it_is_passed_over_with_the_reason():
    embedder = ProviderSettings(id="here", type="local", engine="e", models={"m": ModelSettings()})
    world = World(
        embedder,
        provider("p", ("a",)),
        engines={"e": Capabilities(operations=frozenset({"embeddings"}))},
    )
    chat = world.asks()
    assert world.walk(chat) == "p/a"
    assert [(o.provider.id, o.channel, o.reason) for o in chat.passed] == [
        ("here", None, "missing operation: chat_completions")
    ]
    assert world.walk(world.asks(operation="embeddings")) == "here/engine p/a"
    voice = world.asks(operation="realtime_voice", transports=frozenset({"websocket"}))
    assert world.walk(voice) == "p/a"


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, "p/a q/a r/a"),
        ({"backend": "q"}, "q/a"),
        ({"backend": "nobody"}, ""),
        ({"allowed": frozenset({"q", "r"})}, "q/a r/a"),
        ({"denied": frozenset({"q"})}, "p/a r/a"),
        ({"features": frozenset({"supports_tools"})}, "p/a r/a"),
        ({"amounts": {"max_chars": 11}}, "p/a q/a"),
        ({"amounts": {"max_chars": 10}}, "p/a q/a r/a"),
    ],
)
def test_hints_and_requirements_only_narrow(fields, asked):
    plain = ModelSettings(capabilities=CapabilitySettings(features=("supports_stream",)))
    short = CapabilitySettings(limits={"max_chars": 10})
    world = World(
        provider("p", ("a",)),
        provider("q", ("a",), models={"m": plain}),
        provider("r", ("a",), capabilities=short),
    )
    assert world.walk(world.asks(**fields)) == asked


@pytest.mark.spec("D11", "S4-2.1")
def test_whoever_cannot_do_it_is_no_last_resort_either():
    world = World(provider("p", ("a",), type="messages"), provider("q", ("a",)))
    world.breaks("p", "a", 1.0)
    world.breaks("q", "a", 9.0)
    assert world.walk(world.asks(operation="embeddings")) == "q/a!"


# --- policies ---


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("policy", "fields", "asked"),
    [
        (None, {}, "a a a a"),
        ("round_robin", {}, "a b c a"),
        (IN_TURN, {}, "a b c a"),
        ("round_robin", {"policy": BY_RANK}, "b b b b"),  # the request's wins
        ("priority", {"policy": IN_TURN}, "a b c a"),
        ("priority", {"default_policy": IN_TURN}, "b b b b"),
        (None, {"default_policy": IN_TURN}, "a b c a"),
        (None, {"policy": BY_RANK, "default_policy": IN_TURN}, "b b b b"),
    ],
)
def test_the_requests_policy_wins_then_the_providers_then_the_operations(policy, fields, asked):
    world = World(provider("p", ("a", channel("b", priority=1), "c"), policy=policy))
    assert " ".join(world.first(**fields)[2:] for _ in range(4)) == asked


def test_a_policy_orders_those_that_are_asked_later_as_well():
    seats = (channel("a", priority=1), channel("b", priority=3), channel("c", priority=2))
    world = World(provider("p", seats, policy="priority"), provider("q", ("a",)))
    assert world.walk(world.asks()) == "p/b p/c p/a q/a"
    world.breaks("p", "b")
    assert world.walk(world.asks()) == "p/c p/a q/a"


@pytest.mark.spec("ROUT-1")
def test_across_providers_the_configured_order_stands():
    world = World(provider("p", ("a", "b"), policy="round_robin"), provider("q", ("a",)))
    firsts = [world.first() for _ in range(6)]
    assert firsts == ["p/a", "p/b"] * 3


def test_what_is_in_flight_is_seen_by_the_next_request():
    world = World(provider("p", ("a", "b"), policy="least_inflight"))
    waterfalls = [world.asks() for _ in range(4)]
    turns = [waterfall.next(0) for waterfall in waterfalls]
    assert [label(turn) for turn in turns] == ["p/a", "p/b", "p/a", "p/b"]
    turns[1].permit.settle(Outcome.NEUTRAL, 1)
    assert label(world.asks().next(1)) == "p/b"


def test_the_last_resort_is_in_flight_too():
    world = World(provider("p", ("a",)))
    world.breaks("p", "a")
    turn = world.asks().next(0)
    assert turn.last_resort
    assert world.load.in_flight(turn.candidate) == 1
    turn.permit.settle(Outcome.SUCCESS, 1)
    assert world.load.in_flight(turn.candidate) == 0


@pytest.mark.spec("S4-2.1", "D12")
def test_a_session_keeps_its_channel_and_a_conversation_is_one():
    world = World(provider("p", tuple("abcdefgh"), policy="consistent_hash"))
    by_key = {key: world.first(sticky=key) for key in "123456789"}
    assert len(set(by_key.values())) > 3
    for key, home in by_key.items():
        assert world.first(sticky=key, conversation=lambda: "another") == home
        assert world.first(conversation=lambda key=key: key) == home
    assert world.first() == "p/a"  # nothing to hash: drawn by weight


@pytest.mark.spec("D12")
@pytest.mark.parametrize("policy", ["round_robin", "priority", "least_inflight", "consistent_hash"])
def test_the_channel_that_knows_the_conversation_still_wins(policy):
    seats = (channel("a", priority=9), "b", "c")
    world = World(provider("p", seats, policy=policy, affinity=AffinitySettings()))
    world.affinity.remember(AffinitySettings(), "p", "talk", "c", 0)
    assert [world.first(conversation=lambda: "talk") for _ in range(3)] == ["p/c"] * 3


def test_without_a_board_each_request_begins_anew():
    world = World(provider("p", policy="round_robin"))
    world.load = None
    assert [world.first() for _ in range(3)] == ["p/a"] * 3


# --- preferred ---


@pytest.mark.spec("S4-2.1", "ROUT-1")
@pytest.mark.parametrize(
    ("preferred", "operation", "asked"),
    [
        (("r", "q"), "embeddings", "r/a q/a p/a s/a"),
        (("s",), "embeddings", "s/a p/a q/a r/a"),
        (("nobody", "q", "p", "q"), "embeddings", "q/a p/a r/a s/a"),
        ((), "embeddings", "p/a q/a r/a s/a"),
        (("r", "q"), "chat_completions", "p/a q/a r/a s/a"),  # the configured order stands
    ],
)
def test_preferred_backends_come_first_where_it_is_no_chat(preferred, operation, asked):
    world = World(*(provider(name, ("a",)) for name in "pqrs"))
    assert world.walk(world.asks(preferred=preferred, operation=operation)) == asked


def test_a_preference_does_not_let_anybody_in():
    world = World(provider("p", ("a",)), provider("q", ("a",), type="messages"))
    asks = world.asks(preferred=("q",), operation="embeddings")
    assert world.walk(asks) == "p/a"


# --- pool ---


def pooled(world, **fields):
    return world.asks(pool=True, operation="embeddings", **fields)


@pytest.mark.spec("S4-2.1")
def test_a_pool_is_one_round_of_everybodys_channels():
    world = World(provider("p", ("a", "b")), provider("q", ("a", "b")))
    firsts = [world.first(pool=True, operation="embeddings", policy=IN_TURN) for _ in range(5)]
    assert firsts == ["p/a", "p/b", "q/a", "q/b", "p/a"]
    assert world.walk(pooled(world, policy=IN_TURN)) == "p/b q/a q/b p/a"


def test_weights_count_across_the_whole_pool():
    world = World(
        provider("p", (channel("a", weight=1),)), provider("q", (channel("a", weight=3),))
    )
    firsts = [world.first(pool=True, policy=IN_TURN, operation="embeddings") for _ in range(4)]
    assert sorted(firsts) == ["p/a", "q/a", "q/a", "q/a"]


def test_a_pool_is_ordered_by_nobodys_own_policy():
    seats = ("a", channel("b", priority=9))
    world = World(provider("p", seats, policy="priority"), provider("q", seats, policy="priority"))
    assert world.walk(pooled(world)) == "p/a p/b q/a q/b"
    assert world.walk(pooled(world, default_policy=BY_RANK)) == "p/b q/b p/a q/a"


@pytest.mark.spec("ROUT-2", "S4-2.1")
def test_only_those_are_in_the_pool_that_could_do_it():
    world = World(
        provider("claude", ("a",), type="messages"),
        provider("off", ("a",), enabled=False),
        provider("other", ("a",), models={"n": ModelSettings()}),
        provider("p", ("a",)),
    )
    asks = pooled(world)
    assert world.walk(asks) == "p/a"
    assert [o.provider.id for o in asks.passed] == ["claude"]
    assert world.walk(pooled(World(provider("claude", type="messages")))) == ""


@pytest.mark.spec("ROUT-4", "S4-2.1")
def test_in_a_pool_each_provider_keeps_its_own_limits():
    world = World(
        provider("p", ("a", "b", "c"), max_retries=0, channel_retries=2),
        provider("q", ("a", "b"), max_retries=-1, channel_retries=1),
    )
    asked = world.walk(pooled(world, policy=IN_TURN))
    assert asked == "p/a q/a q/b p/a+ q/a+ q/b+ p/a+"


@pytest.mark.spec("S4-2.1")
def test_the_preferred_of_a_pool_are_a_pot_of_their_own():
    world = World(*(provider(name, ("a",)) for name in "pqrs"))
    asks = pooled(world, preferred=("s", "q"), policy=IN_TURN)
    assert world.walk(asks) == "q/a s/a p/a r/a"
    chat = world.asks(pool=True, preferred=("s",), policy=IN_TURN)
    assert world.walk(chat).startswith("s/a")


def test_a_provider_of_a_pool_that_cannot_carry_it_leaves_the_others_in():
    world = World(provider("p", ("a", "b"), channel_retries=1), provider("q", ("a",)))
    assert world.walk(pooled(world), FAILED, SKIPS) == "p/a p/b q/a"
    assert world.walk(pooled(world), SKIPS) == "p/a q/a"


@pytest.mark.spec("D11")
def test_the_last_resort_of_a_pool_is_whoever_comes_back_first():
    world = World(provider("p", ("a",)), provider("q", ("a",)))
    world.breaks("p", "a", 9.0)
    world.breaks("q", "a", 5.0)
    asks = pooled(world)
    assert world.walk(asks) == "q/a!"
    assert asks.free_in(0) == 5


def test_the_conversations_channel_wins_in_a_pool():
    sticky = AffinitySettings()
    world = World(provider("p", ("a",)), provider("q", ("a", "b"), affinity=sticky))
    world.affinity.remember(sticky, "q", "talk", "b", 0)
    assert world.walk(pooled(world, conversation=lambda: "talk"), FINAL) == "q/b"


# --- legs ---


@pytest.mark.spec("S4-2.2")
def test_a_hedged_turn_has_more_legs_of_the_same_provider():
    world = World(provider("p", ("a", "b", "c"), policy="hedged"), provider("q", policy="hedged"))
    waterfall = world.asks()
    first = waterfall.next(0)
    assert first.hedge == HEDGED
    legs = [waterfall.leg(0), waterfall.leg(0), waterfall.leg(0)]
    assert [leg and label(leg) for leg in legs] == ["p/b", "p/c", None]
    for turn in (first, *legs[:2]):
        turn.permit.settle(Outcome.FAILURE, 0)
        waterfall.failed(turn, FAILED, "no")
    assert label(waterfall.next(0)) == "q/a"


@pytest.mark.spec("ROUT-4", "S4-2.2")
def test_legs_are_further_channels_and_must_be_well():
    world = World(provider("p", tuple("abcde"), policy="hedged", max_retries=2))
    world.breaks("p", "b")
    waterfall = world.asks()
    turns = [waterfall.next(0), waterfall.leg(0), waterfall.leg(0)]
    assert [label(turn) for turn in turns] == ["p/a", "p/c", "p/d"]
    assert waterfall.leg(0) is None


def test_legs_come_from_the_whole_pool():
    world = World(provider("p", ("a",)), provider("q", ("a",)))
    waterfall = pooled(world, policy=HEDGED)
    assert [label(waterfall.next(0)), label(waterfall.leg(0))] == ["p/a", "q/a"]


@pytest.mark.parametrize("policy", [None, "round_robin"])
def test_other_policies_have_no_legs(policy):
    waterfall = World(provider("p", policy=policy)).asks()
    assert waterfall.leg(0) is None
    assert waterfall.next(0).hedge is None
    assert waterfall.leg(0) is None


def test_neither_a_repeat_nor_a_last_resort_is_hedged():
    world = World(provider("p", ("a", "b"), policy="hedged", channel_retries=1))
    waterfall = world.asks()
    for turn in (waterfall.next(0), waterfall.leg(0)):
        turn.permit.settle(Outcome.FAILURE, 0)
        waterfall.failed(turn, FAILED, "no")
    again = waterfall.next(0)
    assert (again.repeat, again.hedge) == (True, None)
    world.breaks("p", "a")
    world.breaks("p", "b")
    resort = world.asks().next(0)
    assert (resort.last_resort, resort.hedge) == (True, None)


def test_after_the_end_there_are_no_legs():
    world = World(provider("p", policy="hedged"))
    waterfall = world.asks()
    waterfall.succeeded(waterfall.next(0), 0)
    assert waterfall.leg(0) is None
