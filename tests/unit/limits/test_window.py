"""The sliding window's memory is bounded, and its figures are right after every change."""

from __future__ import annotations

import random

import pytest

from monoize.limiter import Demand
from monoize.limits.window import SLOT, WINDOW, Window, Windows, milliseconds


def demand(key="k", rpm=None, tpm=None, tokens=0):
    return Demand(key_id=key, requests_per_minute=rpm, tokens_per_minute=tpm, tokens=tokens)


def test_a_busy_window_keeps_one_slot_for_each_second():
    window, rng = Window(), random.Random(1)
    now = 0
    for _ in range(20_000):
        now += rng.randint(0, 40)
        window.take(demand(rpm=10**6, tpm=10**9, tokens=3), now)
    assert len(window._slots) <= WINDOW // SLOT + 1


def test_merged_requests_leave_with_the_youngest_of_their_second():
    window = Window()
    for now in (100, 300, 900):
        assert window.take(demand(rpm=3), now).admitted
    assert window.take(demand(rpm=3), 60_899).requests_wait == 1
    tally = window.take(demand(rpm=3), 60_900)
    assert tally.admitted
    assert tally.requests == 1


def test_the_wait_is_for_as_many_slots_as_the_request_needs():
    window = Window()
    for now, tokens in ((0, 10), (2_000, 20), (5_000, 70)):
        window.take(demand(tpm=100, tokens=tokens), now)
    waits = [window.take(demand(tpm=100, tokens=n), 10_000).tokens_wait for n in (10, 11, 30, 31)]
    assert waits == [50_000, 52_000, 52_000, 55_000]


def test_a_refund_makes_an_emptied_second_vanish():
    window = Window()
    window.take(demand(rpm=5, tpm=100, tokens=40), 0)
    slot = window.take(demand(rpm=5, tpm=100, tokens=10), 30_000).slot
    window.correct(slot, -1, -10, 31_000)
    tally = window.take(demand(rpm=1, tpm=100, tokens=0), 32_000)
    assert (tally.requests, tally.tokens) == (1, 40)
    assert (tally.requests_reset, tally.tokens_reset) == (28_000, 28_000)


def test_a_refund_never_takes_more_than_is_there():
    """The window may have been lost and begun anew within the same second."""
    window = Window()
    slot = window.take(demand(tpm=100, tokens=5), 0).slot
    window.correct(slot, -3, -500, 10)
    assert window.take(demand(tpm=100, tokens=100), 20).admitted
    assert not window.take(demand(tpm=100, tokens=1), 30).admitted


def test_replies_that_arrive_out_of_order_are_all_counted():
    window = Window()
    for now in (10_001, 9_999, 10_002, 9_998):
        assert window.take(demand(rpm=4), now).admitted
    assert not window.take(demand(rpm=4), 69_997).admitted
    tally = window.take(demand(rpm=4), 69_999)
    assert tally.requests == 3


def test_idle_keys_are_forgotten_one_by_one():
    windows = Windows()
    for number in range(1000):
        windows.take(demand(f"k{number}", rpm=5), 0)
    for number in range(600):
        windows.take(demand(f"new{number}", rpm=5), WINDOW + number)
    assert len(windows) == 600


def test_a_key_that_is_heard_of_is_remembered_longer():
    windows = Windows()
    windows.take(demand("busy", rpm=2), 0)
    windows.take(demand("idle", rpm=2), 0)
    windows.take(demand("busy", rpm=2), WINDOW - 1)
    windows.take(demand("new", rpm=1), WINDOW)  # drops "idle", which is now the first
    assert set(windows._windows) == {"busy", "new"}


def test_there_are_never_more_keys_than_the_bound():
    windows = Windows(10)
    for number in range(100):
        windows.take(demand(f"k{number}", rpm=5), number)
    assert len(windows) == 10
    assert windows.take(demand("k99", rpm=5), 100).requests == 2


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.0, 0), (1.2345, 1234), (1e9 + 0.001, 10**12 + 1)]
)
def test_moments_are_whole_milliseconds(seconds, expected):
    assert milliseconds(seconds) == expected


def test_a_limit_of_nothing_lets_nothing_through():
    tally = Window().take(demand(rpm=0), 0)
    assert (tally.admitted, tally.requests_wait) == (False, WINDOW)
