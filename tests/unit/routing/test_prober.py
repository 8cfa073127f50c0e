"""Which channels get a probe, and which model it asks for."""

import msgspec
import pytest

from monoize.routing.breaker import Health, Outcome
from monoize.routing.health import HealthBoard
from monoize.routing.prober import due, started
from monoize.settings import ChannelSettings, HealthSettings, ModelSettings, ProviderSettings

CHANNEL = ChannelSettings(id="a")
PLACE = ProviderSettings(
    id="p",
    type="gemini",
    models={"*": ModelSettings(), "m": ModelSettings(redirect="own-m"), "n": ModelSettings()},
    channels=(CHANNEL,),
)
GLOBS = msgspec.structs.replace(PLACE, models={"g*": ModelSettings(redirect="own-g")})


def tripped(place=PLACE, models=("m",), **health):
    """Unhealthy since 0, probing from 60 on."""
    board = HealthBoard(HealthSettings(**health))
    for model in models:
        breaker = board.breaker(place, place.channels[0], model)
        for _ in range(3):
            breaker.admit(0).settle(Outcome.FAILURE, 0)
        assert breaker.health(0) is Health.UNHEALTHY
    return board


def models_due(place, board, now=60.0):
    return [(probe.model, probe.upstream_model) for probe in due([place], board, now)]


@pytest.mark.spec("HEALTH-2")
def test_a_channel_is_due_once_its_cooldown_is_over():
    board = tripped()
    assert due([PLACE], board, 59.75) == []
    (probe,) = due([PLACE], board, 60)
    assert (probe.provider, probe.channel) == (PLACE, CHANNEL)


@pytest.mark.spec("HEALTH-2")
def test_healthy_and_unused_channels_are_left_alone():
    board = HealthBoard(HealthSettings())
    assert due([PLACE], board, 60) == []
    board.breaker(PLACE, CHANNEL, "m").admit(0).settle(Outcome.FAILURE, 0, 8.0)
    assert due([PLACE], board, 4) == []


@pytest.mark.spec("HEALTH-2")
@pytest.mark.parametrize(
    ("place", "health"),
    [
        (PLACE, {"probe_enabled": False}),
        (msgspec.structs.replace(PLACE, enabled=False), {}),
        (msgspec.structs.replace(PLACE, channels=(ChannelSettings(id="a", enabled=False),)), {}),
        (msgspec.structs.replace(PLACE, channels=(ChannelSettings(id="a", weight=0),)), {}),
    ],
)
def test_what_is_switched_off_is_not_probed(place, health):
    assert due([place], tripped(place, **health), 60) == []


@pytest.mark.spec("HEALTH-2", "D49")
@pytest.mark.parametrize(
    ("place", "health", "succeeded", "expected"),
    [
        (PLACE, {}, None, [("m", "own-m")]),  # the first exact name
        (PLACE, {}, "n", [("m", "own-m")]),
        (PLACE, {"probe_model": "n"}, None, [("n", "n")]),
        (PLACE, {"probe_model": "m"}, None, [("m", "own-m")]),
        (GLOBS, {"probe_model": "outside"}, None, [("outside", "outside")]),
        (GLOBS, {}, "g1", [("g1", "own-g")]),  # what last succeeded
        (GLOBS, {}, None, []),
    ],
)
def test_the_model_is_the_configured_one_else_the_first_else_the_last(
    place, health, succeeded, expected
):
    board = tripped(place, **health)
    if succeeded:
        board.note_success("p", succeeded)
    assert models_due(place, board) == expected


@pytest.mark.spec("D11")
def test_each_model_of_its_own_breaker_is_probed_as_itself():
    board = tripped(models=("own-m", "x"), per_model=True)
    board.breaker(PLACE, CHANNEL, "well").admit(0).settle(Outcome.SUCCESS, 0)
    assert models_due(PLACE, board) == [("own-m", "own-m"), ("x", "x")]


@pytest.mark.spec("D11", "HEALTH-2")
def test_one_probe_or_one_request_at_a_time():
    board = tripped()
    (probe,) = due([PLACE], board, 60)
    permit = started(probe, board, 60)
    assert started(probe, board, 60) is None
    assert due([PLACE], board, 100) == []  # it is still on its way
    permit.settle(Outcome.SUCCESS, 100)
    assert board.breaker(PLACE, CHANNEL, "m").health(100) is Health.HEALTHY


def test_a_caller_who_came_first_makes_the_probe_needless():
    board = tripped()
    (probe,) = due([PLACE], board, 60)
    board.breaker(PLACE, CHANNEL, "m").admit(60)
    assert started(probe, board, 60) is None


@pytest.mark.spec("HEALTH-2")
def test_probes_keep_their_distance():
    board = tripped(probe_interval_seconds=30, cooldown_seconds=5)
    (probe,) = due([PLACE], board, 60)
    started(probe, board, 60).settle(Outcome.FAILURE, 61)
    assert board.breaker(PLACE, CHANNEL, "m").health(66) is Health.PROBING
    assert due([PLACE], board, 89.75) == []
    assert len(due([PLACE], board, 90)) == 1
