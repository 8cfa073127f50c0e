"""Functions that the tests use as tools; plain ones are imported by a process of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import time
from typing import Annotated, Any, Literal

import msgspec

from monoize.agent.tools import tool


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclasses.dataclass
class Box:
    width: float
    label: str


@tool(pure=True, scope="read")
def add(a: int, b: Annotated[int, msgspec.Meta(description="the other one", ge=0)] = 2) -> int:
    """Adds two numbers."""
    print("this is no answer")
    return a + b


@tool(pure=True, scope="read", name="mirrored")
def mirror(point: Point, box: Box | None = None, tags: list[str] = ["a"]) -> dict[str, Any]:  # noqa: B006
    return {"point": point, "is_point": isinstance(point, Point), "box": box, "tags": tags}


def unmarked(mode: Literal["a", "b"]) -> str:
    return mode


def spins(n: int) -> int:
    while True:
        n += 1


def raises() -> str:
    raise LookupError("not in stock")


def dies() -> str:
    os._exit(7)


def floods(size: int) -> str:
    return "x" * size


def prints(size: int) -> int:
    print("y" * size)
    return size


def not_json() -> Any:
    return object()


def not_a_number() -> float:
    return float("nan")


def environment() -> list[str]:
    return sorted(os.environ)


def lets_loose() -> str:
    subprocess.Popen(["sleep", "3600"], start_new_session=True)
    return "gone"


def greedy() -> int:
    return len(bytearray(2 * 1024**3))


@tool(pure=True, scope="read")
async def waits(pause: float = 3600) -> str:
    await asyncio.sleep(pause)
    return "done"


async def stubborn() -> str:
    """Does not listen the first times."""
    for _ in range(3):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue
    await asyncio.sleep(3600)
    return "never"


async def raises_here() -> str:
    raise TimeoutError("mine, not yours")


async def answers_late() -> str:
    await asyncio.sleep(0.01)
    return time.strftime("%Y")


def untyped(a):
    return a


def many(*args: int) -> int:
    return sum(args)
