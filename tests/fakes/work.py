"""How much a piece of code does, counted and not timed: the same on every machine and under any load."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["growth", "lines_run"]


def lines_run(work: Callable[[], object]) -> int:
    """Lines of Python that run, each turn of a loop counted again."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], Callable[[], object]], size: int = 60) -> float:
    """How many times as much is done for four times as much: 4 is linear, 16 quadratic.

    `work(n)` prepares, what it returns is counted.
    """
    work(size)()  # what is done once in a process is done now
    return lines_run(work(4 * size)) / lines_run(work(size))
