"""Repeats in flight stay below a fifth of the requests in flight, and three are always allowed."""

import pytest

from monoize.routing.budget import RetryBudget


@pytest.mark.spec("D9")
@pytest.mark.parametrize(
    ("requests", "allowed"),
    [(0, 3), (1, 3), (15, 3), (16, 4), (20, 4), (21, 5), (100, 20), (1000, 200)],
)
def test_at_least_three_and_else_a_fifth(requests, allowed):
    budget = RetryBudget()
    for _ in range(requests):
        budget.enter()
    assert [budget.take() for _ in range(allowed + 2)] == [True] * allowed + [False, False]
    assert budget.repeats == allowed


@pytest.mark.spec("D9")
def test_what_is_given_back_may_be_taken_again():
    budget = RetryBudget()
    for _ in range(16):
        budget.enter()
    assert [budget.take() for _ in range(5)] == [True] * 4 + [False]
    budget.give()
    assert [budget.take(), budget.take()] == [True, False]
    for _ in range(16):
        budget.leave()
    budget.give()
    assert not budget.take()  # three are still on their way
    assert (budget.requests, budget.repeats) == (0, 3)
