"""A provider as a process of its own, so that it can be killed: `python lone_upstream.py PORT NAME`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

from fakes.pair import Actor
from fakes.scenarios import Say, Tokens, Turn
from fakes.speakers.wire import dumps
from fakes.upstream import PATIENCE, Behaviour, Exchange

PIECES = 6
PAUSE = 0.025  # seconds before each piece: enough calls are under way when somebody pulls the plug


def words(name: str) -> tuple[str, ...]:
    return tuple(f"{name} says {number} of {PIECES}. " for number in range(1, PIECES + 1))


def paced(name: str) -> Behaviour:
    """Takes its time, for the whole as for every piece."""
    turn = Turn((Say(words(name)),), "stop", Tokens(reasoning=0))

    async def answer(exchange: Exchange) -> None:
        speaker = exchange.speaker
        await asyncio.sleep(PAUSE)
        if not exchange.stream:
            await asyncio.sleep(PAUSE)
            await exchange.whole(dumps(speaker.unary(turn, exchange.model)).encode())
            return
        await exchange.open_stream()
        for frame in speaker.events(turn, exchange.model):
            await asyncio.sleep(PAUSE)
            await exchange.chunk(frame)
        await exchange.end_stream()

    return answer


class LoneUpstream:
    """The process, from here: it listens once this is made."""

    def __init__(self, name: str, port: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(port), name],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """SIGKILL: the system closes its port and breaks off its connections."""
        self._process.kill()
        self._process.wait(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()


def main() -> None:
    with Actor(paced(sys.argv[2]), port=int(sys.argv[1])) as upstream:
        print(upstream.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
