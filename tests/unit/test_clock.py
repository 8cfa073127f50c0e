"""Ids: well formed, never the same twice, not even on both sides of a fork."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from monoize import clock
from monoize.clock import RandomIds, SystemClock


def test_the_systems_clock_is_the_systems():
    before = time.time(), time.monotonic()
    now, monotonic = SystemClock().now(), SystemClock().monotonic()
    assert before[0] <= now <= time.time()
    assert before[1] <= monotonic <= time.monotonic()


@pytest.mark.spec("T26")
def test_an_id_is_its_prefix_and_24_letters_or_digits():
    ids = [RandomIds().new("req_") for _ in range(1000)]
    assert all(re.fullmatch("req_[0-9A-Za-z]{24}", one) for one in ids)
    assert RandomIds().new("").isalnum()


def test_ordered_ids_sort_by_their_moment_and_are_as_long_as_others():
    ids = RandomIds()
    every_millisecond = (1.7e9 + n / 1000 for n in range(200))
    moments = [0.0, *every_millisecond, 1.7e9 + 62, 1.8e9, 3.5e9]
    given = [ids.ordered("req_", now) for now in moments]
    assert given == sorted(given)
    assert len({one[: len("req_") + 7] for one in given}) == len(moments)  # each has its own
    assert all(re.fullmatch("req_[0-9A-Za-z]{24}", one) for one in given)
    assert len({ids.ordered("", 1.7e9) for _ in range(1000)}) == 1000


@pytest.mark.spec("T26")
def test_no_id_is_given_twice_whoever_asks():
    def some(_: int) -> list[str]:
        ids = RandomIds()
        return [ids.new("") for _ in range(500)]

    with ThreadPoolExecutor(8) as threads:
        given = [one for batch in threads.map(some, range(40)) for one in batch]
    assert len(set(given)) == len(given) == 20_000


def test_every_letter_is_as_likely_as_the_next():
    found = Counter("".join(RandomIds().new("") for _ in range(20_000)))
    assert len(found) == 62
    expected = 20_000 * 24 / 62
    assert all(0.9 < count / expected < 1.1 for count in found.values())  # eight deviations


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_child_does_not_give_the_ids_of_its_parent():
    while not clock._waiting:  # some are ready, unless the last of them was just taken
        RandomIds().new("")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "".join(RandomIds().new("") for _ in range(100)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 2400).decode()
    os.close(read)
    os.close(write)
    own = {RandomIds().new("") for _ in range(300)}
    assert len(theirs) == 2400
    assert not own & {theirs[at : at + 24] for at in range(0, 2400, 24)}
