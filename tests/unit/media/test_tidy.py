"""Old media go by themselves, whatever fails on the way."""

from __future__ import annotations

import pytest

from fakes.shelves import DAY, pieces
from monoize.errors import DatabaseAway, MediaAway
from monoize.media.tidy import keep_tidy


class Enough(BaseException):
    pass


class Nights:
    """Sleeps without waiting, so and so often."""

    def __init__(self, count: int) -> None:
        self.slept: list[float] = []
        self._left = count

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._left -= 1
        if self._left < 0:
            raise Enough


async def tidied(shelf, nights: int) -> list[float]:
    slept = Nights(nights)
    with pytest.raises(Enough):
        await keep_tidy(lambda: shelf, slept.sleep)
    return slept.slept


async def test_what_expired_is_removed_step_by_step(bench):
    shelf = bench.with_settings(keep_days=1)
    for _ in range(205):
        await shelf.put("o", pieces(b"x"))
    bench.clock.moment += 2 * DAY
    slept = await tidied(shelf, 4)
    assert (await bench.rows(), await bench.objects()) == ({}, set())
    assert slept[0] == 60
    assert slept.count(0.05) == 2  # between the steps
    await bench.check()


class Moody:
    """A shelf that fails in every way, and goes well at last."""

    def __init__(self) -> None:
        self.moods = [DatabaseAway("away"), MediaAway("away"), ZeroDivisionError(), None]
        self.swept = 0
        self.reconciled = 0

    async def sweep(self) -> bool:
        self.swept += 1
        mood = self.moods.pop(0) if self.moods else None
        if mood is not None:
            raise mood
        return False

    async def reconcile(self) -> tuple[int, int]:
        self.reconciled += 1
        return 0, 0


async def test_a_failure_is_not_the_end(caplog):
    shelf = Moody()
    await tidied(shelf, 5)
    assert shelf.swept == 5
    assert caplog.text.count("old media could not be removed") == 1  # outages are no news


async def test_rows_and_objects_are_compared_once_a_day():
    shelf = Moody()
    shelf.moods = []
    await tidied(shelf, 3 * 24 * 60 + 5)
    assert shelf.reconciled == 3
