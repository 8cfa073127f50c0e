"""A service that failed is left alone, then asked by one call at a time."""

from monoize.limits.circuit import Circuit


def test_every_call_may_go_while_all_is_well():
    circuit = Circuit(3)
    assert [circuit.enter(0) for _ in range(5)] == [0] * 5
    assert not circuit.succeeded(0)


def test_nobody_goes_for_a_while_after_a_failure_and_then_one():
    circuit = Circuit(3)
    assert circuit.failed(10)
    assert circuit.enter(12.9) is None
    assert [circuit.enter(13) is not None for _ in range(200)].count(True) == 1
    assert circuit.enter(15.9) is None
    assert circuit.enter(16) is not None  # the one that went has not come back


def test_the_news_is_told_once():
    circuit = Circuit(3)
    assert [circuit.failed(now) for now in (0, 0.1, 3, 6)] == [True, False, False, False]
    ticket = circuit.enter(9)
    assert circuit.succeeded(ticket)
    assert not circuit.succeeded(ticket)
    assert circuit.enter(9) is not None
    assert circuit.failed(10)


def test_a_success_from_before_the_failure_proves_nothing():
    circuit = Circuit(3)
    slow = circuit.enter(0)
    circuit.failed(0)
    assert not circuit.succeeded(slow)
    assert circuit.enter(1) is None


def test_a_clock_that_was_set_back_does_not_keep_it_shut():
    circuit = Circuit(3)
    circuit.failed(1000)
    assert circuit.enter(10) is not None
