"""Step 11: what was received, in the caller's protocol and with the name that the caller used."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import msgspec

from monoize import wirejson
from monoize.pipeline.admission import Ending, Ticket
from monoize.pipeline.call import Answer, Call, Errand, Trace
from monoize.pipeline.kit import Kit
from monoize.pipeline.received import Received, Whole
from monoize.pipeline.streaming import StreamBody, abandon
from monoize.protocol import Reply
from monoize.urp import Losses

__all__ = ["answered", "reply_headers"]

Receiving = Coroutine[Any, Any, Received]


def answered(
    call: Call, receiving: Receiving, kit: Kit, trace: Trace, ticket: Ticket
) -> Coroutine[Any, Any, Answer]:
    way = _streamed if call.wants_stream else _unary
    return way(call, receiving, kit, trace, ticket)


async def _unary(
    call: Call, receiving: Receiving, kit: Kit, trace: Trace, ticket: Ticket
) -> Answer:
    received = await receiving
    if not isinstance(received, Whole):  # attempts collect a stream that nobody asked for
        raise TypeError("a stream for a caller that wants one reply")
    body = received.raw
    if body is None:
        written = call.incoming.protocol.encode_response(
            received.response, _reply(call, kit, trace)
        )
        body = wirejson.dumps(written)
    await ticket.settle(Ending(status="success", meter=received.meter))
    if ticket.captures:
        ticket.keep(body)
    headers = {**reply_headers(call, kit, trace, trace.response_losses), **ticket.headers}
    return Answer(status=200, content_type="application/json", headers=headers, body=body)


async def _streamed(
    call: Call, receiving: Receiving, kit: Kit, trace: Trace, ticket: Ticket
) -> Answer:
    """Wait for a beginning, but no longer than the caller may be left without a sign of life (D10)."""
    loop = asyncio.get_running_loop()
    # Each event of an envelope names its backend, and its patience is for the first of them.
    begun = trace.begun = None if call.incoming.enveloped else loop.create_future()
    opening = asyncio.ensure_future(receiving)
    silence = kit.timeouts.keep_alive
    signs = {opening} if begun is None else {opening, begun}
    try:
        await asyncio.wait(signs, timeout=silence, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await abandon(opening)
        raise
    is_open = opening.done()
    synthesized = is_open and isinstance(opening.result(), Whole)  # a failure is a status here
    caller = call.incoming
    writer = caller.protocol.stream_writer(caller.query)
    encoder = caller.protocol.stream_encoder(_reply(call, kit, trace))
    headers = {
        **reply_headers(call, kit, trace, Losses()),
        **ticket.headers,
        **({"x-monoize-stream": "synthesized"} if synthesized else {}),  # PIPE-1a, D5
        "cache-control": "no-cache",
        "x-accel-buffering": "no",  # T14
    }
    closing = partial(_closing, trace, _Head.of(trace))
    body = StreamBody(opening, encoder, writer, silence, closing, ticket, begun)
    return Answer(status=200, content_type=writer.content_type, headers=headers, body=body)


class _Head(msgspec.Struct, frozen=True):
    """What the head of a stream says of the attempt that was under way; another may have answered since (D10)."""

    route: tuple[str | None, str | None, int]
    dropped: tuple[str, ...]

    @classmethod
    def of(cls, trace: Trace) -> _Head:
        route = (trace.provider, trace.channel, trace.attempts)
        return cls(route, trace.request_losses.dropped)


def _closing(trace: Trace, head: _Head, response_losses: Losses) -> list[str]:
    """Remarks at the end of a stream: what its head could not say, or said otherwise."""
    remarks, now, losses = [], _Head.of(trace), Losses()
    if now.route != head.route:
        provider, channel, attempts = now.route
        remarks.append(f"monoize-provider {provider}; channel={channel}; attempts={attempts}")
    if now.dropped != head.dropped:
        losses = trace.request_losses
    if now.dropped != head.dropped or response_losses.dropped:
        remarks.append(f"monoize-translation {losses.and_(response_losses).header()}")
    return remarks


def _reply(call: Call, kit: Kit, trace: Trace) -> Reply:
    return Reply(
        request=call.sent,
        model=call.requested_model,
        ids=kit.ids,
        created=int(kit.clock.now()),
        losses=trace.response_losses,
    )


def reply_headers(call: Errand, kit: Kit, trace: Trace, response_losses: Losses) -> dict[str, str]:
    """The route taken and what it cost in fidelity and time (INTERFACES)."""
    spent = kit.clock.monotonic() - call.incoming.started - trace.upstream_seconds
    headers = {
        "x-monoize-attempts": str(trace.attempts),
        "x-monoize-translation": trace.request_losses.and_(response_losses).header(),
        "x-monoize-overhead-ms": f"{max(0.0, spent) * 1000:.2f}",
    }
    if trace.provider is not None:
        headers["x-monoize-provider"] = trace.provider
    if trace.channel is not None:
        headers["x-monoize-channel"] = trace.channel
    return headers
