"""One breaker for each channel, or for each model on it; and what operators see."""

import pytest

from monoize.routing import health
from monoize.routing.breaker import Health, Outcome
from monoize.routing.health import HealthBoard
from monoize.settings import ChannelSettings, HealthSettings, ModelSettings, ProviderSettings

F = Outcome.FAILURE
NOTHING_SET = HealthSettings()


def provider(*channels, id="p", health=NOTHING_SET, kind="chat_completion"):
    return ProviderSettings(
        id=id, type=kind, channels=channels, models={"*": ModelSettings()}, health=health
    )


def fail(breaker, times=3, now=0.0):
    for _ in range(times):
        breaker.admit(now).settle(F, now)


ONE, TWO = ChannelSettings(id="one"), ChannelSettings(id="two")
PER_MODEL = HealthSettings(per_model=True)


@pytest.mark.spec("D11")
def test_a_channel_has_one_breaker_for_all_models():
    board, place = HealthBoard(HealthSettings()), provider(ONE, TWO)
    assert board.breaker(place, ONE, "a") is board.breaker(place, ONE, "b")
    assert board.breaker(place, ONE, "a") is not board.breaker(place, TWO, "a")


@pytest.mark.spec("D11")
def test_a_channel_may_have_one_breaker_for_each_model():
    board, place = HealthBoard(PER_MODEL), provider(ONE)
    fail(board.breaker(place, ONE, "a"))
    assert board.breaker(place, ONE, "a").health(0) is Health.UNHEALTHY
    assert board.breaker(place, ONE, "b").health(0) is Health.HEALTHY


@pytest.mark.spec("HEALTH-1a")
def test_a_breaker_has_the_limits_of_its_channel():
    board = HealthBoard(HealthSettings(failure_threshold=9, min_samples=9, window_seconds=9))
    own = ChannelSettings(id="own", health=HealthSettings(failure_threshold=1))
    place = provider(own, TWO, health=HealthSettings(failure_threshold=7, min_samples=5))
    limits = board.breaker(place, own, "a").limits
    assert (limits.failure_threshold, limits.min_samples, limits.window_seconds) == (1, 5, 9)
    assert board.breaker(place, TWO, "a").limits.failure_threshold == 7


def test_changed_settings_reach_a_known_channel_and_its_state_stays():
    board = HealthBoard(HealthSettings())
    fail(board.breaker(provider(ONE), ONE, "a"), times=2)
    strict = ChannelSettings(id="one", health=HealthSettings(failure_threshold=5))
    breaker = board.breaker(provider(strict), strict, "a")
    assert breaker.limits.failure_threshold == 5
    assert breaker.consecutive_failures == 2


@pytest.mark.spec("HEALTH-1a")
def test_while_two_configurations_are_in_use_each_brings_its_own_limits():
    """Requests that began before a change of settings end by the old ones."""
    board = HealthBoard(HealthSettings())
    strict = ChannelSettings(id="one", health=HealthSettings(failure_threshold=5))
    old, new = provider(ONE), provider(strict)
    for _ in range(2):
        known = board.breaker(old, ONE, "a")
        assert known.limits.failure_threshold == 3
        assert board.limits(new, strict).failure_threshold == 5  # looking is not using
        assert known.limits.failure_threshold == 3
        assert board.breaker(new, strict, "a") is known
        assert known.limits.failure_threshold == 5
    apart = provider(ONE, health=PER_MODEL)
    assert board.breaker(apart, ONE, "a") is not known
    assert board.breaker(new, strict, "a") is known


def test_models_are_bounded_and_unhealthy_ones_are_kept(monkeypatch):
    monkeypatch.setattr(health, "MODELS_KEPT", 4)
    board, place = HealthBoard(PER_MODEL), provider(ONE)
    fail(board.breaker(place, ONE, "sick"))
    board.breaker(place, ONE, "used").admit(0).settle(Outcome.SUCCESS, 0)
    for number in range(20):
        board.breaker(place, ONE, "used")  # keeps it young
        board.breaker(place, ONE, f"model {number}")
    names = {model for model, _ in board.breakers(place, ONE)}
    assert names == {"sick", "used", "model 18", "model 19"}
    for number in range(20):
        fail(board.breaker(place, ONE, f"also sick {number}"))
    assert len(board.breakers(place, ONE)) == 4


def test_the_bound_is_a_thousand():
    board, place = HealthBoard(PER_MODEL), provider(ONE)
    for number in range(2000):
        board.breaker(place, ONE, str(number))
    assert len(board.breakers(place, ONE)) == 1024


@pytest.mark.spec("D49")
def test_remembers_which_model_last_succeeded():
    board = HealthBoard(HealthSettings())
    assert board.last_succeeded("p") is None
    board.note_success("p", "a")
    board.note_success("p", "b")
    assert (board.last_succeeded("p"), board.last_succeeded("q")) == ("b", None)


@pytest.mark.spec("HEALTH-3")
def test_the_snapshot_shows_every_channel_even_unused_ones():
    board, place = HealthBoard(HealthSettings()), provider(ONE, TWO)
    local = provider(id="here", kind="local")
    fail(board.breaker(place, ONE, "a"), now=5)
    rows = board.snapshot([place, local], 10)
    assert [(r.provider, r.channel, r.model, r.health, r.eligible) for r in rows] == [
        ("p", "one", None, "unhealthy", False),
        ("p", "two", None, "healthy", True),
        ("here", "engine", None, "healthy", True),
    ]
    sick, unused = rows[0], rows[1]
    assert (sick.cooldown_seconds_left, sick.resting_seconds) == (55, 0)
    assert (sick.consecutive_failures, sick.samples, sick.failure_rate) == (3, 3, 1)
    assert sick.totals == {"success": 0, "failure": 3, "rate_limited": 0, "neutral": 0}
    assert (sick.last_success_seconds_ago, sick.last_failure_seconds_ago) == (None, 5)
    assert (unused.samples, unused.failure_rate, unused.last_failure_seconds_ago) == (0, 0, None)


def test_the_snapshot_tells_models_apart_and_changes_nothing():
    board, place = HealthBoard(PER_MODEL), provider(ONE, TWO)
    fail(board.breaker(place, ONE, "a"))
    board.breaker(place, ONE, "b").admit(0).settle(F, 0, 8.0)
    rows = [(r.channel, r.model, r.health, r.resting_seconds) for r in board.snapshot([place], 1)]
    assert rows == [
        ("one", "a", "unhealthy", 0),
        ("one", "b", "healthy", 7),
        ("two", None, "healthy", 0),
    ]
    assert board.breakers(place, TWO) == []


@pytest.mark.spec("ROUT-3", "HEALTH-3")
@pytest.mark.parametrize("closed", [{"enabled": False}, {"weight": 0}])
def test_a_channel_that_gets_no_traffic_is_not_shown_as_eligible(closed):
    row, other = HealthBoard(HealthSettings()).snapshot(
        [provider(ChannelSettings(id="one", **closed), TWO)], 0.0
    )
    assert (row.health, row.eligible) == (Health.HEALTHY, False)
    assert other.eligible
