"""Callers of every kind, many at a time: those who read to the end, who leave, who ask for nonsense."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

import aiohttp

from fakes.caller import Reply, body, end_of, path
from fakes.counting_upstream import LONGEST

PROTOCOLS = ("chat_completion", "messages", "responses", "gemini")
# What callers do, and how often; the first of a pair is the upstream's part.
MIX: tuple[tuple[str, str, int], ...] = (
    ("whole", "read", 8),
    ("paced", "read", 5),
    ("paced", "leave", 3),
    ("fail", "read", 2),
    ("refuse", "read", 1),
    ("cut", "read", 1),
    ("whole", "misname", 1),
)


@dataclass
class Lived:
    """One request and what its caller saw."""

    number: int
    protocol: str
    stream: bool
    way: str  # what the upstream does
    habit: str  # what the caller does: read, leave, misname
    key: str
    model: str = "m"
    request_id: str | None = None
    status: int | None = None
    fault: str = ""  # what broke
    end: str = "nothing"  # complete, error, refused, cut, left, late, broken

    @property
    def is_complete(self) -> bool:
        return self.end == "complete"


def some(numbers: Iterable[int], keys: tuple[str, ...], seed: int) -> list[Lived]:
    dice = random.Random(seed)
    kinds = [(way, habit) for way, habit, weight in MIX for _ in range(weight)]
    return [
        Lived(number, dice.choice(PROTOCOLS), dice.random() < 0.5, *dice.choice(kinds), dice.choice(keys))
        for number in numbers
    ]  # fmt: skip


def asking(one: Lived) -> tuple[str, bytes]:
    model = "nobody-has-this" if one.habit == "misname" else one.model
    given = body(one.protocol, model, stream=one.stream)
    match one.protocol:
        case "gemini":
            given["generationConfig"] = {"maxOutputTokens": LONGEST}
        case "responses":
            given["max_output_tokens"] = LONGEST
        case _:
            given["max_tokens"] = LONGEST
    text = json.dumps(given).replace("the weather?", f"the weather? [[{one.number} {one.way}]]")
    return path(one.protocol, model, stream=one.stream), text.encode()


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        headers={"content-type": "application/json"},
        connector=aiohttp.TCPConnector(limit=0),
    )


async def live(client: aiohttp.ClientSession, port: int, one: Lived) -> Lived:
    target, data = asking(one)
    headers = {"authorization": f"Bearer {one.key}"} if one.key else {}
    # Whoever waits for a whole reply leaves before it is there.
    patience = 0.02 if one.habit == "leave" and not one.stream else 60.0
    try:
        async with client.post(
            f"http://127.0.0.1:{port}{target}",
            data=data,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=patience),
        ) as got:
            one.status = got.status
            one.request_id = got.headers.get("x-request-id")
            if one.habit == "leave" and one.stream and got.status == 200:
                await got.content.readany()
                got.close()
                one.end = "left"
                return one
            reply = Reply(
                got.status, {k.lower(): v for k, v in got.headers.items()}, await got.read()
            )
    except TimeoutError:
        one.end = "left" if one.habit == "leave" else "late"
        return one
    except (aiohttp.ClientError, ConnectionError) as error:
        one.end, one.fault = "broken", repr(error)
        return one
    try:
        one.end = end_of(one.protocol, reply, stream=one.stream)
    except (AssertionError, KeyError, ValueError) as error:
        one.end, one.fault = (
            "broken",
            f"{error!r}: {reply.raw[-300:]!r}",
        )  # in the middle of an event
    return one


async def live_all(
    port: int,
    everyone: Iterable[Lived],
    *,
    at_a_time: int,
    goes_on: Callable[[], bool] = lambda: True,
    told: Callable[[int], None] = lambda _: None,
) -> list[Lived]:
    """Each caller sends its next request when it has its answer, until nobody shall begin any more.

    `told` hears how many have their answer.
    """
    waiting = iter(everyone)
    done: list[Lived] = []
    answered = count(1)

    async def worker(client: aiohttp.ClientSession) -> None:
        for one in waiting:
            if not goes_on():
                return
            done.append(one)
            await live(client, port, one)
            told(next(answered))

    async with session() as client:
        await asyncio.gather(*(worker(client) for _ in range(at_a_time)))
    return done
