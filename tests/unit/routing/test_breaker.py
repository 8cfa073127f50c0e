"""A channel's health: when it trips, how long it rests, how it comes back."""

from pathlib import Path

import pytest

from monoize.routing.breaker import (
    SAMPLES_KEPT,
    TRANSITIONS,
    Breaker,
    Health,
    HealthLimits,
    Outcome,
    Signal,
    diagram,
)
from monoize.settings import HealthSettings

S, F, R, N = Outcome.SUCCESS, Outcome.FAILURE, Outcome.RATE_LIMITED, Outcome.NEUTRAL
HEALTHY, UNHEALTHY, PROBING = Health
DEFAULTS = (3, 60, 30, 20, 0.6, 15, 600, False, True, 30, None, 1)
PAGE = Path(__file__).parents[3] / "docs" / "routing.md"


def after(outcomes, *, now=0.0, limits=None):
    breaker = Breaker(limits or HealthLimits())
    for outcome in outcomes:
        breaker.admit(now).settle(outcome, now)
    return breaker


def tripped(**limits):
    """Unhealthy since 0, probing from 60 on."""
    breaker = after([F, F, F], limits=HealthLimits(**limits))
    assert breaker.health(0) is UNHEALTHY
    return breaker


# --- the table ---


@pytest.mark.spec("HEALTH-3")
def test_the_three_states_are_the_specifications():
    assert [state.value for state in Health] == ["healthy", "unhealthy", "probing"]


def test_every_state_can_be_reached_and_left_and_every_signal_means_one_thing():
    assert {old for old, _ in TRANSITIONS} == set(Health) == set(TRANSITIONS.values())
    assert sorted(signal for _, signal in TRANSITIONS) == sorted(Signal)


def test_the_diagram_of_the_docs_is_drawn_from_the_table():
    assert f"```mermaid\n{diagram()}\n```" in PAGE.read_text("utf-8")


@pytest.mark.spec("HEALTH-1", "HEALTH-2")
def test_the_docs_name_every_knob_with_its_default():
    page = PAGE.read_text("utf-8")
    for name, value in zip(HealthLimits.__struct_fields__, DEFAULTS, strict=True):
        said = {"None": "none", "True": "true", "False": "false"}.get(str(value), value)
        assert f"| `{name}` | {said} |" in page


# --- limits ---


@pytest.mark.spec("HEALTH-1", "HEALTH-2")
def test_defaults_are_the_specifications():
    limits = HealthLimits.of(HealthSettings())
    assert tuple(getattr(limits, name) for name in limits.__struct_fields__) == DEFAULTS


def test_every_setting_is_a_limit():
    assert set(HealthSettings.__struct_fields__) == set(HealthLimits.__struct_fields__)


@pytest.mark.spec("HEALTH-1a")
@pytest.mark.parametrize(
    ("channel", "provider", "everywhere", "expected"),
    [
        (None, None, None, 3),
        (None, None, 9, 9),
        (None, 7, 9, 7),
        (5, 7, 9, 5),
        (5, None, None, 5),
    ],
)
def test_the_narrower_setting_wins(channel, provider, everywhere, expected):
    layers = [HealthSettings(failure_threshold=value) for value in (channel, provider, everywhere)]
    assert HealthLimits.of(*layers).failure_threshold == expected


@pytest.mark.spec("HEALTH-1a")
def test_false_is_a_value_like_any_other():
    layers = (HealthSettings(probe_enabled=False), HealthSettings(probe_enabled=True))
    assert HealthLimits.of(*layers).probe_enabled is False


# --- tripping ---


@pytest.mark.spec("HEALTH-1b")
@pytest.mark.parametrize(
    ("outcomes", "health"),
    [
        ([F, F], HEALTHY),
        ([F, F, F], UNHEALTHY),
        ([F, F, S, F, F], HEALTHY),  # a success ends the run
        ([F, R, F, R, R, F], UNHEALTHY),  # 429 neither counts nor interrupts
        ([F, N, F, N, F], UNHEALTHY),  # nor does what nobody is to blame for
        ([R] * 19, HEALTHY),  # not enough samples
        ([R] * 20, UNHEALTHY),
        ([S] * 8 + [R] * 11, HEALTHY),  # 19 samples
        ([S] * 8 + [R] * 12, UNHEALTHY),  # 12 of 20 is 0.6 exactly
        ([S] * 9 + [R] * 13, HEALTHY),  # 13 of 22 is less
        ([S] * 9 + [R] * 14, UNHEALTHY),  # 14 of 23 is more
        ([N] * 40, HEALTHY),
        ([N] * 8 + [R] * 12, HEALTHY),  # neutral is no sample
    ],
)
def test_trips_at_the_thresholds(outcomes, health):
    assert after(outcomes).health(0) is health


@pytest.mark.spec("HEALTH-1b")
@pytest.mark.parametrize(("moment", "health"), [(30.0, UNHEALTHY), (30.25, HEALTHY)])
def test_only_the_window_counts(moment, health):
    breaker = after([R] * 19)
    breaker.admit(moment).settle(R, moment)
    assert breaker.health(moment) is health


@pytest.mark.spec("HEALTH-1b")
def test_a_run_of_failures_has_no_window():
    breaker = Breaker(HealthLimits())
    for moment in (0, 1000, 2000):
        breaker.admit(moment).settle(F, moment)
    assert breaker.health(2000) is UNHEALTHY


def test_a_success_never_trips_whatever_the_rate():
    breaker = after([R] * 19)
    breaker.admit(0).settle(S, 0)
    assert breaker.health(0) is HEALTHY


def test_samples_are_bounded():
    breaker = after([S] * (SAMPLES_KEPT + 500))
    assert breaker.window(0) == (SAMPLES_KEPT, 0)
    mixed = after([R] + [S] * SAMPLES_KEPT)
    assert mixed.window(0) == (SAMPLES_KEPT, 0)


# --- cooldown and Retry-After ---


@pytest.mark.spec("HEALTH-1c", "D9")
@pytest.mark.parametrize(
    ("last", "retry_after", "cooldown"),
    [
        (F, None, 60),
        (R, None, 15),
        (F, 5.0, 5),
        (R, 40.0, 40),
        (R, 1e9, 600),  # nobody asks for more than the limit
        (F, 0.0, 60),  # says nothing
        (R, 0.0, 15),
    ],
)
def test_the_failure_that_trips_sets_the_cooldown(last, retry_after, cooldown):
    limits = HealthLimits(failure_threshold=3, min_samples=3)
    breaker = after([F, F], limits=limits)
    breaker.admit(0).settle(last, 0, retry_after)
    assert breaker.health(cooldown - 0.25) is UNHEALTHY
    assert breaker.health(cooldown) is PROBING
    assert breaker.free_at(0) == cooldown


@pytest.mark.spec("D9")
@pytest.mark.parametrize("outcome", [F, R])
def test_rests_for_retry_after_without_being_unhealthy(outcome):
    breaker = Breaker(HealthLimits())
    breaker.admit(0).settle(outcome, 0, 8.0)
    assert breaker.health(0) is HEALTHY
    assert [breaker.eligible(t) for t in (0, 7.75, 8)] == [False, False, True]
    assert (breaker.free_at(0), breaker.free_at(20)) == (8, 20)


@pytest.mark.spec("D9")
def test_a_rest_is_capped_and_the_longer_one_stands():
    breaker = Breaker(HealthLimits(retry_after_limit_seconds=10, failure_threshold=9))
    permits = [breaker.admit(0) for _ in range(3)]
    for permit, seconds in zip(permits, (4.0, 99.0, 2.0), strict=True):
        permit.settle(F, 0, seconds)
    assert breaker.resting_until == 10


@pytest.mark.parametrize("outcome", [S, N])
def test_nobody_rests_after_anything_but_a_failure(outcome):
    breaker = Breaker(HealthLimits())
    breaker.admit(0).settle(outcome, 0, 8.0)
    assert breaker.eligible(0)


# --- half open ---


@pytest.mark.spec("D11", "HEALTH-3")
def test_past_its_cooldown_exactly_one_is_let_in_at_a_time():
    breaker = tripped()
    assert not breaker.eligible(59.75)
    assert breaker.eligible(60)
    permit = breaker.admit(60)
    assert breaker.health(60) is PROBING
    assert not breaker.eligible(60)
    assert breaker.free_at(60) == 60
    permit.settle(N, 61)  # the caller left: nobody knows more than before
    assert breaker.health(61) is PROBING
    assert breaker.eligible(61)


@pytest.mark.spec("D11", "HEALTH-2")
@pytest.mark.parametrize("needed", [1, 2, 3])
def test_recovers_after_enough_successes(needed):
    breaker = tripped(probe_success_threshold=needed)
    for number in range(needed):
        assert breaker.health(60 + number) is PROBING
        breaker.admit(60 + number).settle(S, 60 + number)
    assert breaker.health(70) is HEALTHY
    assert (breaker.consecutive_failures, breaker.window(70)) == (0, (0, 0))
    assert (breaker.cooldown_until, breaker.resting_until) == (0, 0)


def test_recovery_also_ends_a_rest_that_was_asked_for_before():
    breaker = Breaker(HealthLimits())
    permits = [breaker.admit(0) for _ in range(3)]
    for permit, wish in zip(permits, (500.0, None, 5.0), strict=True):
        permit.settle(F, 0, wish)
    breaker.admit(5).settle(S, 6)
    assert breaker.eligible(6)


@pytest.mark.spec("D11", "HEALTH-1c")
@pytest.mark.parametrize(
    ("outcome", "retry_after", "cooldown"),
    [(F, None, 60), (R, None, 15), (F, 4.0, 4), (R, 9999.0, 600)],
)
def test_one_failure_while_probing_closes_it_again(outcome, retry_after, cooldown):
    breaker = tripped(probe_success_threshold=2)
    breaker.admit(60).settle(S, 60)
    breaker.admit(61).settle(outcome, 62, retry_after)
    assert breaker.health(62) is UNHEALTHY
    assert breaker.free_at(62) == 62 + cooldown
    breaker.admit(62 + cooldown).settle(S, 700)
    assert breaker.health(700) is PROBING  # the earlier success no longer counts


@pytest.mark.spec("D11")
def test_the_first_event_of_a_reply_is_the_proof():
    breaker = tripped()
    permit = breaker.admit(60)
    permit.began(61)
    assert breaker.health(61) is HEALTHY
    permit.settle(F, 90)  # broke off later: from before the change of state
    assert breaker.health(90) is HEALTHY
    assert breaker.consecutive_failures == 0


@pytest.mark.spec("D11")
def test_one_reply_is_one_proof_and_keeps_its_place_until_it_ends():
    breaker = tripped(probe_success_threshold=2)
    permit = breaker.admit(60)
    permit.began(61)
    permit.began(62)
    assert not breaker.eligible(62)
    permit.settle(S, 63)
    assert breaker.health(63) is PROBING
    assert breaker.eligible(63)
    breaker.admit(64).began(65)
    assert breaker.health(65) is HEALTHY


def test_a_reply_that_breaks_off_while_still_probing_is_a_failure():
    breaker = tripped(probe_success_threshold=2)
    permit = breaker.admit(60)
    permit.began(61)
    permit.settle(F, 70)
    assert breaker.health(70) is UNHEALTHY


def test_the_first_event_means_nothing_to_a_healthy_channel():
    breaker = after([F, F])
    breaker.admit(0).began(0)
    assert (breaker.consecutive_failures, breaker.window(0)) == (2, (2, 2))


# --- permits ---


def test_the_first_word_about_an_attempt_is_the_last():
    breaker = Breaker(HealthLimits(failure_threshold=2))
    permit = breaker.admit(0)
    permit.settle(S, 0)
    permit.settle(F, 0)
    permit.settle(F, 0)
    permit.began(0)
    assert breaker.health(0) is HEALTHY
    assert breaker.totals == {S: 1, F: 0, R: 0, N: 0}


def test_a_permit_from_before_the_last_change_of_state_changes_nothing():
    breaker = Breaker(HealthLimits())
    late = [breaker.admit(0) for _ in range(6)]
    for permit in late[:3]:
        permit.settle(F, 1)
    assert breaker.free_at(1) == 61
    late[3].settle(F, 30, 500.0)
    assert breaker.free_at(30) == 61
    late[4].settle(S, 70)
    assert breaker.health(70) is PROBING
    breaker.admit(70).settle(S, 70)
    late[5].settle(F, 71)
    assert breaker.consecutive_failures == 0
    assert breaker.totals == {S: 2, F: 5, R: 0, N: 0}  # but it did happen


@pytest.mark.spec("D11")
@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_last_resort_leaves_the_state_as_it_is(outcome):
    breaker = tripped(probe_success_threshold=1)
    permit = breaker.last_resort()
    permit.began(11)
    permit.settle(outcome, 12, 300.0)
    assert breaker.health(12) is UNHEALTHY
    assert breaker.free_at(12) == 60
    assert breaker.consecutive_failures == 3
    assert breaker.totals[outcome] == 1 + 3 * (outcome is F)


def test_remembers_when_it_last_did_well_and_badly():
    breaker = Breaker(HealthLimits())
    assert (breaker.last_success_at, breaker.last_failure_at) == (None, None)
    breaker.admit(1).settle(S, 2)
    breaker.admit(3).settle(R, 4)
    breaker.admit(5).settle(N, 6)
    assert (breaker.last_success_at, breaker.last_failure_at) == (2, 4)
