"""A provider as a process of its own that writes down what it was asked for and what it counted.

`python counting_upstream.py PORT FILE`. The caller's text says what is to happen: `[[NUMBER WAY]]`; the number also gives the
usage, a different one for each of a quarter of a million calls, so that a row of the log leads back to its call.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TextIO

from fakes.scenarios import Say, Tokens, Turn
from fakes.speakers.wire import dumps
from fakes.upstream import PATIENCE, Exchange, FakeUpstream, PeerGone

# Nano-USD per token: prices of the config below are USD per million.
INPUT_NANO, OUTPUT_NANO = 1_250, 10_000
PRICES = {"m": {"input": "1.25", "output": "10"}}
LONGEST = 1000  # tokens of an answer: max_tokens of every call
WAYS = ("whole", "paced", "refuse", "fail", "cut")
_PAUSE = 0.015  # seconds before each piece of a paced answer
_WORD = re.compile(rb"\[\[(\d+) (\w+)\]\]")


def usage_of(number: int) -> tuple[int, int]:
    """Input and output tokens; less than any estimate of the input, and no more than max_tokens."""
    return number % 250 + 1, number // 250 % LONGEST + 1


def price_of(number: int) -> int:
    given, made = usage_of(number)
    return given * INPUT_NANO + made * OUTPUT_NANO


class Counting(FakeUpstream):
    """Remembers nothing but what is in its file."""

    def __init__(self, notes: TextIO, port: int = 0) -> None:
        super().__init__({}, port)
        self._notes = notes

    async def answer(self, exchange: Exchange) -> None:
        found = _WORD.search(exchange.raw)
        assert found is not None, exchange.raw
        number, way = int(found[1]), found[2].decode()
        self._note("asked", number)
        with suppress(PeerGone):
            await self._answer(exchange, number, way)
        exchange._line.exchanges.remove(exchange)

    def _note(self, what: str, number: int) -> None:
        self._notes.write(json.dumps([what, number]) + "\n")
        self._notes.flush()

    async def _answer(self, exchange: Exchange, number: int, way: str) -> None:
        speaker = exchange.speaker
        if way in ("refuse", "fail"):
            status = 400 if way == "refuse" else 500
            await exchange.json(speaker.error(status, f"it says {status}"), status)
            return
        given, made = usage_of(number)
        tokens = Tokens(input=given, cached=0, output=made, reasoning=0)
        turn = Turn((Say((f"The {number} ", "is a ", "number.")),), "stop", tokens)
        if not exchange.stream:
            await self._pause(way)
            await self._pause(way)
            if way == "cut":  # after its beginning, or the gateway would just ask again
                await exchange.head(
                    200, {"content-type": "application/json", "content-length": "999"}
                )
                await exchange.bytes(b'{"id":')
                exchange.reset()
                return
            self._note("counted", number)  # before the gateway can know of it
            await exchange.whole(dumps(speaker.unary(turn, exchange.model)).encode())
            return
        frames = speaker.events(turn, exchange.model)
        end = speaker.terminal(frames)
        await exchange.open_stream()
        for place, frame in enumerate(frames):
            if place == end:
                if way == "cut":
                    exchange.reset()
                    return
                self._note("counted", number)
            await self._pause(way)
            await exchange.chunk(frame)
        await exchange.end_stream()

    async def _pause(self, way: str) -> None:
        if way == "paced":
            await asyncio.sleep(_PAUSE)


class CountingUpstream:
    """The process, from here: it listens once this is made."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "counted.jsonl"
        self._process = subprocess.Popen(
            [sys.executable, __file__, "0", str(self._file)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def notes(self, what: str) -> Counter[int]:
        """How often each number was `asked` or `counted`."""
        lines = self._file.read_text("utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        return Counter(number for kind, number in found if kind == what)

    def provider(self, kind: str = "chat_completion") -> dict[str, Any]:
        """As the config says it; nothing that goes wrong makes the gateway avoid it."""
        return {
            "id": kind,
            "type": kind,
            "models": {"m": {}},
            "channels": [
                {
                    "id": f"{kind}-main",
                    "base_url": f"http://127.0.0.1:{self.port}/{kind}",
                    "api_key": "sk-channel-counting",
                }
            ],
            "health": {
                "failure_threshold": 10**6,
                "min_samples": 10**6,
                "probe_enabled": False,
            },
        }


def main() -> None:
    notes = Path(sys.argv[2]).open("a", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
    with Counting(notes, port=int(sys.argv[1])) as upstream:
        print(upstream.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
