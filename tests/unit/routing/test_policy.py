"""Each policy by itself: whom it chooses, how often, and what it remembers for that."""

import random
from collections import Counter
from typing import get_args

import pytest

from monoize.routing import policy as policies
from monoize.routing.breaker import Breaker, HealthLimits, Outcome
from monoize.routing.catalog import Candidate
from monoize.routing.policy import BY_WEIGHT, LoadBoard, chosen, policy_of
from monoize.settings import ChannelSettings, PolicyName, PolicySettings, ProviderSettings

TRIES = 20_000


class SeededDice:
    def __init__(self, seed):
        self.roll = random.Random(seed).random


class Rolls:
    def __init__(self, *rolls):
        self.rolls = list(rolls)

    def roll(self):
        return self.rolls.pop(0)


NO_DICE = Rolls()


def candidate(channel="a", weight=1, priority=0, provider="p", model="m"):
    return Candidate(
        provider=ProviderSettings(id=provider, type="chat_completion"),
        channel=ChannelSettings(id=channel, weight=weight, priority=priority),
        upstream_model=model,
    )


def row(**weights):
    return [candidate(name, weight) for name, weight in weights.items()]


class Desk:
    """A load board at work: attempts begin and end in virtual time."""

    def __init__(self):
        self.load = LoadBoard()
        self.now = 0.0

    def starts(self, who):
        breaker = Breaker(HealthLimits())
        return self.load.boarded(who, breaker.admit(self.now), self.now)

    def takes(self, who, seconds, outcome=Outcome.SUCCESS):
        permit = self.starts(who)
        self.now += seconds
        permit.settle(outcome, self.now)

    def picks(self, policy, among, dice=NO_DICE, *, key="", scope=("p",)):
        index = chosen(policy, among, self.load, dice, self.now, scope, lambda: key)
        return among[index].channel.id


def share(policy, among, **more):
    desk, dice = Desk(), SeededDice(20270318)
    return Counter(desk.picks(policy, among, dice, **more) for _ in range(TRIES))


def assert_shares(counts, **expected):
    """Within four standard deviations."""
    total = sum(expected.values())
    for name, part in expected.items():
        p = part / total
        assert abs(counts[name] / TRIES - p) < 4 * (p * (1 - p) / TRIES) ** 0.5 + 1e-9, counts


def test_one_alone_is_neither_rolled_for_nor_counted():
    for name in get_args(PolicyName):
        assert Desk().picks(name, row(a=3), NO_DICE) == "a"


@pytest.mark.parametrize("named", [*get_args(PolicyName)])
def test_a_policy_by_its_name_has_the_usual_parameters(named):
    assert policy_of(named) == PolicySettings(name=named)


def test_a_policy_with_parameters_stays_as_it_is():
    own = PolicySettings(name="hedged", legs=3, delay_ms=10)
    assert policy_of(own) is own
    assert policy_of(None) is None
    assert BY_WEIGHT.name == "weighted_random"


# --- by weight ---


@pytest.mark.spec("S4-2.1", "ROUT-3")
@pytest.mark.parametrize("policy", ["weighted_random", "hedged"])
def test_drawn_as_often_as_the_weights_say(policy):
    assert_shares(share(policy, row(a=1, b=5, c=4)), a=1, b=5, c=4)


# --- in turn ---


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("weights", "order"),
    [
        ({"a": 1, "b": 1, "c": 1}, "abcabc"),
        ({"a": 5, "b": 1, "c": 1}, "aabacaaaabacaa"),  # spread out, not five in a row
        ({"a": 1, "b": 2}, "babbab"),
    ],
)
def test_round_robin_goes_round_by_weight_and_smoothly(weights, order):
    desk = Desk()
    assert "".join(desk.picks("round_robin", row(**weights)) for _ in order) == order


@pytest.mark.spec("S4-2.1")
def test_whoever_was_away_has_not_saved_up_turns():
    desk = Desk()
    everybody, few = row(a=1, b=1, c=1), row(a=1, b=1)
    for _ in range(300):
        desk.picks("round_robin", few)
    counts = Counter(desk.picks("round_robin", everybody) for _ in range(300))
    assert counts == {"a": 100, "b": 100, "c": 100}


def test_round_robin_of_each_scope_goes_its_own_way():
    desk = Desk()
    picks = [desk.picks("round_robin", row(a=1, b=1), scope=(name,)) for name in "ppqq"]
    assert picks == ["a", "b", "a", "b"]


def test_any_mix_of_weights_gets_exactly_its_shares():
    rng = random.Random(7)
    for _ in range(50):
        weights = {name: rng.randint(1, 9) for name in "abcde"[: rng.randint(2, 5)]}
        desk, among = Desk(), row(**weights)
        rounds = sum(weights.values())
        counts = Counter(desk.picks("round_robin", among) for _ in range(3 * rounds))
        assert counts == {name: 3 * weight for name, weight in weights.items()}


# --- the least busy ---


@pytest.mark.spec("S4-2.1")
def test_least_inflight_counts_what_has_begun_and_not_ended():
    desk, (a, b) = Desk(), row(a=1, b=1)
    first = desk.starts(a)
    assert desk.picks("least_inflight", [a, b]) == "b"
    second = desk.starts(b)
    desk.starts(b)
    assert desk.picks("least_inflight", [a, b]) == "a"
    first.began(1.0)  # a stream: it has begun, it is still there
    assert desk.load.in_flight(a) == 1
    for _ in range(2):  # only the first word counts
        first.settle(Outcome.NEUTRAL, 2.0)
        second.settle(Outcome.FAILURE, 2.0)
    assert [desk.load.in_flight(c) for c in (a, b)] == [0, 1]


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("in_flight", "expected"),
    [
        ({"a": 1, "b": 3}, "a"),
        ({"a": 2, "b": 3}, "b"),  # three are less for a channel of twice the weight
        ({"a": 0, "b": 1}, "a"),
    ],
)
def test_a_heavier_channel_may_have_more(in_flight, expected):
    desk, among = Desk(), row(a=1, b=2)
    for who in among:
        for _ in range(in_flight[who.channel.id]):
            desk.starts(who)
    assert desk.picks("least_inflight", among) == expected


def test_equally_busy_ones_are_drawn_by_weight():
    assert_shares(share("least_inflight", row(a=1, b=3)), a=1, b=3)
    desk, among = Desk(), row(a=1, b=3)
    for who, times in zip(among, (1, 3), strict=True):
        for _ in range(times):
            desk.starts(who)
    assert desk.picks("least_inflight", among, Rolls(0.24)) == "a"
    assert desk.picks("least_inflight", among, Rolls(0.26)) == "b"


def test_other_models_of_a_channel_keep_it_busy_too():
    desk = Desk()
    desk.starts(candidate("a", model="other"))
    assert desk.picks("least_inflight", row(a=1, b=1)) == "b"


# --- the quickest ---


@pytest.mark.spec("S4-2.1")
def test_the_quickest_goes_first_by_the_average_of_its_answers():
    desk, (a, b) = Desk(), row(a=1, b=1)
    desk.takes(a, 1.0)
    desk.takes(b, 2.0)
    assert desk.picks("ewma_latency", [a, b]) == "a"
    desk.takes(a, 6.0)
    assert desk.load.pace(a) == pytest.approx(0.7 * 1.0 + 0.3 * 6.0)
    assert desk.picks("ewma_latency", [a, b]) == "b"
    for _ in range(9):
        desk.takes(a, 1.0)
    assert desk.picks("ewma_latency", [a, b]) == "a"


def test_what_counts_is_when_an_answer_begins_and_only_answers_count():
    desk, a = Desk(), candidate("a")
    stream = desk.starts(a)
    stream.began(0.5)
    stream.began(9.0)
    stream.settle(Outcome.SUCCESS, 60.0)
    assert desk.load.pace(a) == 0.5
    for outcome in (Outcome.FAILURE, Outcome.RATE_LIMITED, Outcome.NEUTRAL):
        desk.takes(a, 0.001, outcome)  # quick to say no is not quick
    assert desk.load.pace(a) == 0.5
    late = desk.starts(a)
    late.settle(Outcome.NEUTRAL, desk.now)
    late.began(desk.now)
    assert desk.load.pace(a) == 0.5


@pytest.mark.spec("S4-2.1")
def test_those_of_whom_nothing_is_known_go_first_but_one_request_finds_out():
    desk, (a, b, c) = Desk(), row(a=1, b=1, c=1)
    desk.takes(a, 1.0)
    desk.takes(b, 2.0)
    assert desk.picks("ewma_latency", [a, b, c]) == "c"
    exploring = desk.starts(c)
    assert desk.picks("ewma_latency", [a, b, c]) == "a"  # no crowd behind the first
    assert desk.picks("ewma_latency", [b, c]) == "b"
    exploring.settle(Outcome.FAILURE, desk.now)
    assert desk.picks("ewma_latency", [a, b, c]) == "a"  # it was asked and did not answer
    desk.takes(c, 0.5)
    assert desk.picks("ewma_latency", [a, b, c]) == "c"


def test_at_a_cold_start_the_requests_spread():
    desk, among = Desk(), row(a=1, b=1, c=1)
    picks = []
    for _ in range(6):
        picks.append(desk.picks("ewma_latency", among, SeededDice(1)))
        desk.starts(next(c for c in among if c.channel.id == picks[-1]))
    assert Counter(picks[:3]) == Counter(picks[3:]) == {"a": 1, "b": 1, "c": 1}


def test_a_slow_one_is_asked_again_after_a_while_and_by_one_request_only():
    desk, (a, b) = Desk(), row(a=1, b=1)
    desk.takes(a, 1.0)
    desk.takes(b, 30.0)
    for _ in range(100):
        assert desk.picks("ewma_latency", [a, b]) == "a"
        desk.takes(a, 1.0)
    desk.now += policies.LONG_UNHEARD - 100
    desk.takes(a, 0.0)
    assert desk.picks("ewma_latency", [a, b]) == "b"
    desk.starts(b)
    assert desk.picks("ewma_latency", [a, b]) == "a"  # what was known of it stands meanwhile


def test_each_model_has_a_pace_of_its_own():
    desk = Desk()
    small, large = candidate("a", model="small"), candidate("a", model="large")
    desk.takes(small, 0.5)
    desk.takes(large, 20.0)
    assert (desk.load.pace(small), desk.load.pace(large)) == (0.5, 20.0)


# --- the same for the same ---


def homes(among, keys=2000):
    desk = Desk()
    return {key: desk.picks("consistent_hash", among, key=f"session-{key}") for key in range(keys)}


@pytest.mark.spec("S4-2.1")
def test_a_key_keeps_its_channel_whatever_the_order_and_whoever_else_is_there():
    everybody = row(a=1, b=2, c=1, d=4)
    before = homes(everybody)
    assert homes(list(reversed(everybody))) == before
    without_c = homes([c for c in everybody if c.channel.id != "c"])
    moved = {key for key, home in before.items() if without_c[key] != home}
    assert moved == {key for key, home in before.items() if home == "c"}
    with_e = homes([*everybody, candidate("e", 2)])
    assert all(home in (before[key], "e") for key, home in with_e.items())
    assert Counter(with_e.values())["e"] == pytest.approx(400, abs=80)


@pytest.mark.spec("S4-2.1")
def test_keys_are_spread_by_weight():
    counts = Counter(homes(row(a=1, b=2, c=7), TRIES).values())
    assert_shares(counts, a=1, b=2, c=7)


def test_a_heavier_channel_takes_keys_over_and_gives_none_away():
    before, after = homes(row(a=1, b=1)), homes(row(a=1, b=3))
    assert all(after[key] == "b" for key, home in before.items() if home == "b")


def test_two_providers_with_channels_of_one_name_are_two():
    desk = Desk()
    both = [candidate("main", provider=name) for name in ("p", "q")]
    picks = {
        chosen("consistent_hash", both, desk.load, NO_DICE, 0.0, (), lambda k=k: f"{k}")
        for k in range(50)
    }
    assert picks == {0, 1}


@pytest.mark.parametrize("key", ["\ud800", "\x00", "ключ", "k" * 10_000])
def test_any_text_is_a_key(key):
    desk = Desk()
    assert len({desk.picks("consistent_hash", row(a=1, b=1), key=key) for _ in range(5)}) == 1


def test_without_a_key_it_is_drawn_by_weight():
    assert_shares(share("consistent_hash", row(a=1, b=3), key=""), a=1, b=3)


# --- by rank ---


@pytest.mark.spec("S4-2.1")
def test_the_highest_priority_goes_first_and_equals_are_drawn_by_weight():
    low, a, b = candidate("low", 99, -1), candidate("a", 1, 5), candidate("b", 3, 5)
    middle = candidate("middle", 99)
    counts = share("priority", [low, a, middle, b])
    assert set(counts) == {"a", "b"}
    assert_shares(counts, a=1, b=3)
    assert Desk().picks("priority", [low, middle]) == "middle"


# --- bounds ---


@pytest.mark.spec("S4-2.1")
def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(policies, "LATENCIES_KEPT", 5)
    monkeypatch.setattr(policies, "TURNS_KEPT", 7)
    desk = Desk()
    for number in range(40):
        desk.takes(candidate(f"c{number}", model=f"m{number}"), 1.0)
        desk.picks("round_robin", row(a=1, b=1), scope=(f"{number}",))
    assert len(desk.load._lanes) == 5
    assert len(desk.load._credits) == 7
    assert not any(place.in_flight for place in desk.load._traffic.values())
    assert desk.load.pace(candidate("c39", model="m39")) == 1.0  # the newest are kept
    assert desk.load.pace(candidate("c0", model="m0")) is None


def test_those_that_were_asked_last_are_remembered(monkeypatch):
    monkeypatch.setattr(policies, "LATENCIES_KEPT", 16)
    desk = Desk()
    for number in range(16):
        desk.takes(candidate("a", model=f"m{number}"), 1.0)
    desk.takes(candidate("a", model="m0"), 1.0)
    desk.takes(
        candidate("a", model="new"), 1.0
    )  # three are forgotten, so that the next two cost nothing
    known = [n for n in range(16) if desk.load.pace(candidate("a", model=f"m{n}")) is not None]
    assert known == [0, *range(4, 16)]
    assert desk.load.pace(candidate("a", model="new")) == 1.0


def test_what_was_forgotten_on_its_way_is_heard_all_the_same(monkeypatch):
    monkeypatch.setattr(policies, "LATENCIES_KEPT", 1)
    board, breaker = LoadBoard(), Breaker(HealthLimits())
    early, late = (board.boarded(candidate(), breaker.admit(0), at) for at in (0, 1))
    other = board.boarded(candidate("other"), breaker.admit(2), 2)
    assert board.pace(candidate()) is None
    assert board.in_flight(candidate()) == 2
    early.settle(Outcome.SUCCESS, 4)
    other.settle(Outcome.SUCCESS, 3)
    late.settle(Outcome.SUCCESS, 5)
    assert board.in_flight(candidate()) == 0
    assert board.pace(candidate()) == 4


def test_a_permit_is_still_a_permit():
    board, breaker = LoadBoard(), Breaker(HealthLimits(failure_threshold=1, cooldown_seconds=5))
    board.boarded(candidate(), breaker.admit(0), 0).settle(Outcome.FAILURE, 0, 9.0)
    assert not breaker.eligible(8.9)
    half_open = board.boarded(candidate(), breaker.admit(9), 9)
    assert not breaker.eligible(9)
    half_open.began(9.5)
    assert breaker.eligible(9.5)
