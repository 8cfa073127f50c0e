"""Who is asked, in which order, how often, and when nobody is left."""

import random
from collections import Counter
from decimal import Decimal

import pytest

from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Health, Outcome
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.verdict import Verdict
from monoize.routing.waterfall import Tried, Wanted, Waterfall, drawn
from monoize.settings import (
    AffinitySettings,
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    ProviderSettings,
)

FAILED = Verdict(advances=True, outcome=Outcome.FAILURE, status=503)
LIMITED = Verdict(advances=True, outcome=Outcome.RATE_LIMITED, status=429)
FORWARD = Verdict(advances=True, outcome=Outcome.NEUTRAL, status=404)
FINAL = Verdict(advances=False, outcome=Outcome.NEUTRAL, status=400)
SKIPS = Verdict(advances=True, outcome=Outcome.NEUTRAL, skips_provider=True)


class Rolls:
    """Dice that fall as told, then on 0."""

    def __init__(self, *rolls):
        self.rolls = list(rolls)

    def roll(self):
        return self.rolls.pop(0) if self.rolls else 0.0


def channels(*ids, **fields):
    return tuple(ChannelSettings(id=name, **fields) for name in ids)


def provider(id="p", ids=("a", "b", "c"), *, models=("m",), multiplier=None, **fields):
    return ProviderSettings(
        **{
            "id": id,
            "type": "chat_completion",
            "models": {name: ModelSettings(multiplier=multiplier) for name in models},
            "channels": channels(*ids),
            **fields,
        }
    )


class World:
    def __init__(self, *providers, rolls=(), health=None):
        self.providers = providers
        self.catalog = Catalog(providers)
        self.board = HealthBoard(health or HealthSettings())
        self.budget = RetryBudget()
        self.affinity = Affinity()
        self.dice = Rolls(*rolls)
        self.now = 0.0

    def asks(self, model="m", ceiling=None, talk=None):
        wanted = Wanted(model=model, ceiling=ceiling, conversation=talk)
        return Waterfall(wanted, self.catalog, self.board, self.budget, self.affinity, self.dice)

    def breaker(self, provider_id, channel_id):
        owner = next(p for p in self.providers if p.id == provider_id)
        channel = next(c for c in owner.channels if c.id == channel_id)
        return self.board.breaker(owner, channel, "m")

    def break_(self, provider_id, channel_id, cooldown=60.0):
        breaker = self.breaker(provider_id, channel_id)
        while breaker.health(self.now) is Health.HEALTHY:
            breaker.admit(self.now).settle(Outcome.FAILURE, self.now, cooldown)

    def walk(self, waterfall, *verdicts, stop=20):
        """Asked until nobody is left, with these verdicts and then failures."""
        asked, verdicts = [], list(verdicts)
        while (turn := waterfall.next(self.now)) is not None and len(asked) < stop:
            verdict = verdicts.pop(0) if verdicts else FAILED
            asked.append(label(turn))
            turn.permit.settle(verdict.outcome, self.now, verdict.retry_after)
            waterfall.failed(turn, verdict, "no")
        return " ".join(asked)


def label(turn):
    mark = "!" if turn.last_resort else "+" if turn.repeat else ""
    return f"{turn.candidate.provider.id}/{turn.candidate.channel.id}{mark}"


# --- order ---


@pytest.mark.spec("ROUT-1", "ROUT-5", "ROUT-7")
def test_all_channels_of_a_provider_and_then_the_next_provider():
    world = World(provider("p"), provider("q"))
    assert world.walk(world.asks()) == "p/a p/b p/c q/a q/b q/c"


@pytest.mark.spec("ROUT-2")
def test_providers_without_the_model_or_switched_off_are_not_asked():
    world = World(
        provider("off", enabled=False), provider("other", models=("n",)), provider("p", ("a",))
    )
    assert world.walk(world.asks()) == "p/a"


@pytest.mark.spec("ROUT-2", "PIPE-2", "PIPE-4", "D17")
@pytest.mark.parametrize(
    ("ceiling", "asked"),
    [
        (None, "dear/a fair/a plain/a"),
        ("2", "dear/a fair/a plain/a"),
        ("1.9999", "fair/a plain/a"),
        ("1.5", "fair/a plain/a"),
        ("1", "plain/a"),  # a row without a multiplier costs 1
        ("0.1", ""),
    ],
)
def test_the_multiplier_must_not_be_above_the_ceiling(ceiling, asked):
    world = World(
        provider("dear", ("a",), multiplier=2),
        provider("fair", ("a",), multiplier="1.5"),
        provider("plain", ("a",)),
    )
    assert world.walk(world.asks(ceiling=ceiling and Decimal(ceiling))) == asked


@pytest.mark.spec("D17")
def test_a_tenth_is_a_tenth():
    world = World(provider("p", ("a",), multiplier=0.1), provider("q", ("a",), multiplier="0.10"))
    assert world.walk(world.asks(ceiling=Decimal("0.1"))) == "p/a q/a"


@pytest.mark.spec("ROUT-3")
def test_disabled_weightless_and_unhealthy_channels_are_not_asked():
    seats = (*channels("off", enabled=False), *channels("none", weight=0), *channels("sick", "on"))
    world = World(provider("p", channels=seats))
    world.break_("p", "sick")
    waterfall = world.asks()
    assert world.walk(waterfall) == "p/on"
    assert [(o.channel.id, o.reason) for o in waterfall.passed] == [
        ("off", "channel is disabled"),
        ("none", "weight is 0"),
        ("sick", "unhealthy for 60 s more"),
    ]


@pytest.mark.spec("ROUT-3", "D11")
def test_past_its_cooldown_a_channel_takes_one_request_at_a_time():
    world = World(provider("p", ("a",)), provider("q", ("a",)))
    world.break_("p", "a")
    world.now = 60
    first, second = world.asks(), world.asks()
    assert label(first.next(60)) == "p/a"
    assert label(second.next(60)) == "q/a"
    assert second.passed[0].reason == "probing: another request is on its way"


@pytest.mark.parametrize(
    ("rolls", "asked"),
    [
        ((0.0, 0.0), "p/a p/b p/c"),
        ((0.24, 0.66), "p/a p/b p/c"),
        ((0.24, 0.67), "p/a p/c p/b"),
        ((0.25, 0.0), "p/b p/a p/c"),
        ((0.74, 0.5), "p/b p/c p/a"),
        ((0.75, 0.34), "p/c p/b p/a"),
        ((0.9999999999999999, 0.9999999999999999), "p/c p/b p/a"),
    ],
)
def test_the_weight_is_the_chance_to_be_drawn(rolls, asked):
    seats = (ChannelSettings(id="a"), ChannelSettings(id="b", weight=2), ChannelSettings(id="c"))
    world = World(provider("p", channels=seats), rolls=rolls)
    assert world.walk(world.asks()) == asked


def test_draws_are_as_frequent_as_the_weights_say():
    dice = random.Random(20261115)
    dice.roll = dice.random
    weights = [1, 5, 0, 10, 4]
    counts = Counter(drawn(weights, dice) for _ in range(20_000))
    for index, weight in enumerate(weights):
        assert abs(counts[index] / 20_000 - weight / 20) < 0.012  # four standard deviations
    assert counts[2] == 0


def test_whole_orders_are_as_frequent_as_repeated_draws_make_them():
    seats = (ChannelSettings(id="a", weight=6), ChannelSettings(id="b", weight=3), *channels("c"))
    world = World(provider("p", channels=seats, health=HealthSettings(failure_threshold=10**6)))
    world.dice = random.Random(7)
    world.dice.roll = world.dice.random
    limits = HealthSettings(failure_threshold=10**6, min_samples=10**6)
    world.board = HealthBoard(limits)
    counts = Counter(world.walk(world.asks()) for _ in range(20_000))
    share = {"p/a p/b p/c": 0.6 * 3 / 4, "p/b p/c p/a": 0.3 * 1 / 7, "p/c p/a p/b": 0.1 * 6 / 9}
    for order, expected in share.items():
        assert abs(counts[order] / 20_000 - expected) < 0.015


# --- how many ---


@pytest.mark.spec("ROUT-4")
@pytest.mark.parametrize(
    ("max_retries", "asked"),
    [
        (-1, "p/a p/b p/c q/a"),
        (0, "p/a q/a"),
        (1, "p/a p/b q/a"),
        (2, "p/a p/b p/c q/a"),
        (9, "p/a p/b p/c q/a"),
    ],
)
def test_max_retries_is_how_many_further_channels_are_tried(max_retries, asked):
    world = World(provider("p", max_retries=max_retries), provider("q", ("a",)))
    assert world.walk(world.asks()) == asked


@pytest.mark.spec("ROUT-4")
def test_only_eligible_channels_count():
    world = World(provider("p", max_retries=1))
    world.break_("p", "a")
    assert world.walk(world.asks()) == "p/b p/c"


@pytest.mark.spec("ROUT-6")
def test_a_final_verdict_ends_it():
    world = World(provider("p"), provider("q"))
    assert world.walk(world.asks(), FAILED, FINAL) == "p/a p/b"


@pytest.mark.spec("D9", "ROUT-5")
@pytest.mark.parametrize("verdict", [LIMITED, FORWARD])
def test_a_rate_limit_or_a_listed_status_advances(verdict):
    world = World(provider("p", ("a", "b"), channel_retries=3), provider("q", ("a",)))
    assert world.walk(world.asks(), *[verdict] * 3) == "p/a p/b q/a"


def test_a_provider_that_cannot_carry_the_request_is_left_at_once():
    world = World(provider("p", channel_retries=2), provider("q", ("a",)))
    assert world.walk(world.asks(), FAILED, SKIPS) == "p/a p/b q/a"


def test_a_channel_that_another_request_broke_meanwhile_is_passed_over():
    world = World(provider("p"))
    waterfall = world.asks()
    turn = waterfall.next(0)
    world.break_("p", "b", cooldown=8.0)
    turn.permit.settle(Outcome.FAILURE, 0)
    waterfall.failed(turn, FAILED, "no")
    world.now = 1
    assert world.walk(waterfall) == "p/c"
    assert [(o.channel.id, o.reason) for o in waterfall.passed] == [("b", "unhealthy for 7 s more")]


def test_a_channel_that_came_back_meanwhile_gets_its_turn():
    world = World(provider("p"))
    waterfall = world.asks()
    turn = waterfall.next(0)
    world.break_("p", "b", cooldown=8.0)
    turn.permit.settle(Outcome.FAILURE, 0)
    waterfall.failed(turn, FAILED, "no")
    turn = waterfall.next(1)
    assert label(turn) == "p/c"
    waterfall.failed(turn, FAILED, "no")
    assert label(waterfall.next(8)) == "p/b"
    assert waterfall.passed == []


def test_a_model_that_nobody_has_is_asked_of_nobody():
    world = World(provider())
    assert world.walk(world.asks("unknown")) == ""


# --- repeats ---


@pytest.mark.spec("D9")
@pytest.mark.parametrize(
    ("retries", "verdicts", "asked"),
    [
        (0, [], "p/a p/b q/a"),
        (1, [], "p/a p/b p/a+ p/b+ q/a"),
        (2, [], "p/a p/b p/a+ p/b+ p/a+ p/b+ q/a"),
        (1, [LIMITED], "p/a p/b p/b+ q/a"),  # a rate limit is not tried again
        (2, [FAILED, FAILED, LIMITED], "p/a p/b p/a+ p/b+ p/b+ q/a"),
        (1, [FORWARD, FORWARD], "p/a p/b q/a"),
        (1, [FAILED, FAILED, FINAL], "p/a p/b p/a+"),
        (1, [FAILED, FAILED, SKIPS], "p/a p/b p/a+ q/a"),
    ],
)
def test_failed_channels_are_asked_again_after_all_untried_ones(retries, verdicts, asked):
    calm = HealthSettings(failure_threshold=9)
    world = World(
        provider("p", ("a", "b"), channel_retries=retries), provider("q", ("a",)), health=calm
    )
    assert world.walk(world.asks(), *verdicts) == asked


@pytest.mark.spec("D9")
def test_a_repeat_needs_an_eligible_channel():
    calm = HealthSettings(failure_threshold=2)
    world = World(provider("p", ("a", "b"), channel_retries=5), health=calm)
    waterfall = world.asks()
    assert world.walk(waterfall, LIMITED) == "p/a p/b p/b+"
    resting = Verdict(advances=True, outcome=Outcome.FAILURE, retry_after=5.0)
    world = World(provider("p", ("a",), channel_retries=5))
    assert world.walk(world.asks(), resting) == "p/a"


@pytest.mark.spec("D9")
def test_repeats_stay_within_the_budget_and_first_tries_do_not_need_it():
    calm = HealthSettings(failure_threshold=99)
    world = World(provider("p", ("a",), channel_retries=1), provider("q", ("a",)), health=calm)
    held = [world.budget.take() for _ in range(3)]
    assert all(held)
    assert world.walk(world.asks()) == "p/a q/a"
    world.budget.give()
    assert world.walk(world.asks()) == "p/a p/a+ q/a"
    assert world.budget.repeats == 2


@pytest.mark.spec("D9")
def test_everything_is_given_back_exactly_once():
    calm = HealthSettings(failure_threshold=99)
    world = World(provider("p", ("a",), channel_retries=3), health=calm)
    waterfall = world.asks()
    assert (world.budget.requests, world.budget.repeats) == (0, 0)
    turn = waterfall.next(0)
    waterfall.failed(turn, FAILED, "no")
    turn = waterfall.next(0)
    assert turn.repeat
    assert (world.budget.requests, world.budget.repeats) == (1, 1)
    waterfall.succeeded(turn, 0)
    assert waterfall.next(0) is None
    for _ in range(2):
        waterfall.release()
        assert (world.budget.requests, world.budget.repeats) == (0, 0)
    assert waterfall.next(0) is None
    assert world.budget.requests == 0


# --- last resort ---


@pytest.mark.spec("D11")
def test_when_everybody_is_unhealthy_the_first_to_come_back_gets_one_try():
    world = World(provider("p", ("a", "b")), provider("q", ("a",)))
    for place, channel, cooldown in (("p", "a", 50.0), ("p", "b", 40.0), ("q", "a", 45.0)):
        world.break_(place, channel, cooldown)
    assert world.walk(world.asks()) == "p/b!"
    assert world.breaker("p", "b").free_at(0) == 40
    assert world.breaker("p", "b").health(0) is Health.UNHEALTHY


@pytest.mark.spec("D11")
def test_nobody_is_a_last_resort_who_may_not_be_asked_at_all():
    seats = (*channels("off", enabled=False), *channels("none", weight=0))
    world = World(
        provider("gone", ("a",), enabled=False),
        provider("dear", ("a",), multiplier=2),
        provider("p", channels=seats),
    )
    assert world.walk(world.asks(ceiling=Decimal(1))) == ""


@pytest.mark.spec("D11")
def test_there_is_no_last_resort_once_somebody_was_asked():
    world = World(provider("p", ("a",)), provider("q", ("a",)))
    world.break_("p", "a")
    assert world.walk(world.asks()) == "q/a"


@pytest.mark.spec("D11", "D13")
def test_a_provider_that_cannot_carry_the_request_does_not_use_up_the_last_resort():
    world = World(provider("p", ("a", "b")), provider("q", ("a",)), provider("r", ("a", "b")))
    for place, channel, cooldown in (("p", "b", 10.0), ("q", "a", 20.0), ("r", "a", 30.0)):
        world.break_(place, channel, cooldown)
    world.break_("r", "b", 40.0)
    assert world.walk(world.asks(), SKIPS, SKIPS) == "p/a q/a! r/a!"


def test_a_resting_channel_is_a_last_resort_too():
    world = World(provider("p", ("a", "b")))
    for channel, rest in (("a", 9.0), ("b", 5.0)):
        world.breaker("p", channel).admit(0).settle(Outcome.RATE_LIMITED, 0, rest)
    waterfall = world.asks()
    assert world.walk(waterfall) == "p/b!"
    assert [o.reason for o in waterfall.passed] == [
        "resting for 9 s more (Retry-After)",
        "resting for 5 s more (Retry-After)",
    ]


# --- affinity ---

STICKY = AffinitySettings(idle_seconds=100)


@pytest.mark.spec("D12")
def test_a_conversation_goes_where_it_was_answered():
    world = World(provider("p", affinity=STICKY), rolls=(0.5,))
    first = world.asks(talk=lambda: "talk")
    turn = first.next(0)
    assert label(turn) == "p/b"
    turn.permit.settle(Outcome.SUCCESS, 0)
    first.succeeded(turn, 0)
    assert world.walk(world.asks(talk=lambda: "talk")) == "p/b p/a p/c"
    assert world.walk(world.asks(talk=lambda: "another")) == "p/a p/b p/c"
    world.break_("p", "b")
    assert world.walk(world.asks(talk=lambda: "talk")) != ""
    assert "p/b" not in world.walk(world.asks(talk=lambda: "talk"))


@pytest.mark.spec("D12")
def test_a_turn_that_names_the_reply_before_it_is_at_home():
    world = World(provider("p", affinity=STICKY), rolls=(0.9,))
    first = world.asks(talk=lambda: "talk")
    first.succeeded(first.next(0), 0, "after that")
    assert world.walk(world.asks(talk=lambda: "after that"), FINAL) == "p/c"


@pytest.mark.spec("D12")
def test_the_conversation_is_worked_out_only_where_it_matters():
    asked = []
    world = World(provider("p", ("a",)), provider("q", ("a", "b"), affinity=STICKY))
    waterfall = world.asks(talk=lambda: asked.append(1) or "talk")
    waterfall.failed(waterfall.next(0), FAILED, "no")
    assert asked == []
    waterfall.succeeded(waterfall.next(0), 0)
    assert asked == [1]
    plain = World(provider("p", ("a",)))
    waterfall = plain.asks(talk=lambda: asked.append(2))
    waterfall.succeeded(waterfall.next(0), 0)
    assert asked == [1]


# --- what is told ---


def test_tells_who_was_tried_and_what_came_of_it():
    world = World(provider("p", ("a", "b")))
    waterfall = world.asks()
    world.walk(waterfall, LIMITED, FORWARD)
    assert waterfall.tried == [
        Tried(provider="p", channel="a", message="no", status=429),
        Tried(provider="p", channel="b", message="no", status=404),
    ]


@pytest.mark.spec("D49")
def test_a_success_is_noted_for_the_prober():
    world = World(provider("p", ("a",), models=("m*",)))
    waterfall = world.asks("mine")
    waterfall.succeeded(waterfall.next(0), 0)
    assert world.board.last_succeeded("p") == "mine"
