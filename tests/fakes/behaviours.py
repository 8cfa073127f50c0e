"""What a provider does, by the name of the model: the honest ones here, the hostile ones in hostile.py."""

from __future__ import annotations

import asyncio

from fakes.hostile import HOSTILE
from fakes.scenarios import SCENARIOS
from fakes.upstream import Behaviour, Exchange

STATUSES = (400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 529)


async def honest(exchange: Exchange) -> None:
    """The scenario named by the model, whole or as a stream; or the number of tokens."""
    if exchange.counting:
        await exchange.json(exchange.speaker.count(exchange.body))
    elif exchange.stream:
        await exchange.open_stream()
        for frame in exchange.frames():
            await exchange.chunk(frame)
        await exchange.end_stream()
    else:
        await exchange.json(exchange.speaker.unary(exchange.turn(), exchange.model))


async def gated(exchange: Exchange) -> None:
    """Every event waits for the test's word; so does a unary reply."""
    if not exchange.stream:
        await exchange.step()
        await exchange.json(exchange.speaker.unary(exchange.turn("text"), exchange.model))
        return
    await exchange.open_stream()
    for frame in exchange.frames("text"):
        await exchange.step()
        await exchange.chunk(frame)
    await exchange.end_stream()


async def gated_head(exchange: Exchange) -> None:
    """Nothing at all, not even a status line, before the test's word."""
    await exchange.step()
    await exchange.open_stream()
    for frame in exchange.frames("text"):
        await exchange.chunk(frame)
    await exchange.end_stream()


async def leisurely(exchange: Exchange) -> None:
    """Pauses before everything, longer than the silence after which one gateway sends a keep-alive."""
    await asyncio.sleep(0.12)
    await exchange.open_stream()
    for frame in exchange.frames("reasoning"):
        await asyncio.sleep(0.06)
        await exchange.chunk(frame)
    await exchange.end_stream()


async def gated_refusal(exchange: Exchange) -> None:
    """A refusal that takes its time."""
    await exchange.step()
    await exchange.json(exchange.speaker.error(400, "the provider says 400"), 400)


async def drips_a_call(exchange: Exchange) -> None:
    """A call, one byte at a time."""
    await exchange.open_stream()
    for byte in b"".join(exchange.frames("tools")):
        await exchange.chunk(bytes([byte]))
    await exchange.end_stream()


FLOOD_BYTES = 64 * 1024**2
_FLOOD_TEXT = "lorem ipsum " * 4096


async def flood(exchange: Exchange) -> None:
    """Text without end, as fast as the gateway takes it."""
    frames = exchange.frames("length")
    await exchange.open_stream()
    end = exchange.speaker.terminal(frames)
    for frame in frames[:end]:
        await exchange.chunk(frame)
    marked = next(f for f in frames if b"This sentence is cut " in f)
    big = marked.replace(b"This sentence is cut ", _FLOOD_TEXT.encode())
    while exchange.written < FLOOD_BYTES:
        await exchange.chunk(big)
    for frame in frames[end:]:
        await exchange.chunk(frame)
    await exchange.end_stream()


def _status(status: int) -> Behaviour:
    async def refuse(exchange: Exchange) -> None:
        message = f"the provider says {status}"
        await exchange.json(exchange.speaker.error(status, message), status, retry_after="7")

    return refuse


BEHAVIOURS: dict[str, Behaviour] = {
    **dict.fromkeys(SCENARIOS, honest),
    **{f"status_{status}": _status(status) for status in STATUSES},
    "gated": gated,
    "gated_head": gated_head,
    "leisurely": leisurely,
    "gated_refusal": gated_refusal,
    "drips_a_call": drips_a_call,
    "flood": flood,
    **{row.name: row.act for row in HOSTILE},
}
