"""PIPE-1, in order: the way of every model call through the gateway."""

from __future__ import annotations

import asyncio

from monoize import wirejson
from monoize.errors import ModelNotFound, MonoizeError
from monoize.pipeline.attempt import Attempt, Kit
from monoize.pipeline.call import Answer, Call, Incoming, Trace
from monoize.pipeline.streaming import OpenStream, StreamBody, abandon, opened
from monoize.protocol import Reply, with_model
from monoize.routing.catalog import Candidate, Catalog
from monoize.urp import Losses

__all__ = ["decoded", "reply_headers", "routed", "run"]


async def run(incoming: Incoming, catalog: Catalog, kit: Kit, trace: Trace) -> Answer:
    """A failure before the first event is raised (D18); after it, it is part of the answer's body."""
    call = decoded(incoming)  # 1
    candidate = routed(call, catalog)  # 4
    attempt = Attempt(call, candidate, kit, trace)  # 5
    try:
        return await (_streamed if call.request.stream else _unary)(attempt)  # 7 to 11
    except MonoizeError as error:
        error.headers.update(reply_headers(attempt, Losses()))
        raise


def decoded(incoming: Incoming) -> Call:
    request = incoming.protocol.decode_request(
        incoming.wire, model=incoming.model, stream=incoming.stream
    )
    return Call(incoming=incoming, request=request, requested_model=request.model)


def routed(call: Call, catalog: Catalog) -> Candidate:
    """The first enabled channel of the first enabled provider that has the model."""
    for candidate in catalog.candidates(call.request.model):
        return candidate
    raise ModelNotFound(f"no provider has the model {call.request.model!r}", param="model")


async def _unary(attempt: Attempt) -> Answer:
    await attempt.send()  # 7
    raw, wire = await attempt.unary()
    response = attempt.decoded(wire)  # 8
    reply = _reply(attempt)
    if reply.replays:
        text = raw.decode("utf-8", "surrogatepass")
        named = with_model(text, attempt.protocol.model_paths, reply.model)
        body = named.encode("utf-8", "surrogatepass")
    else:
        body = wirejson.dumps(attempt.call.incoming.protocol.encode_response(response, reply))  # 11
    headers = reply_headers(attempt, attempt.trace.response_losses)
    return Answer(status=200, content_type="application/json", headers=headers, body=body)


async def _streamed(attempt: Attempt) -> Answer:
    """Wait for the first event, but no longer than the caller may be left without a sign of life (D10)."""
    caller = attempt.call.incoming
    attempt.encoded()  # refuses and reports before anything is promised
    reply = _reply(attempt)
    opening = asyncio.ensure_future(_open(attempt, reply))
    try:
        await asyncio.wait({opening}, timeout=attempt.kit.timeouts.keep_alive)
    except asyncio.CancelledError:
        await abandon(opening)
        raise
    if opening.done():
        opening.result()  # a failure before the first event is an HTTP status
    writer = caller.protocol.stream_writer(caller.query)
    encoder = caller.protocol.stream_encoder(reply)
    body = StreamBody(opening, encoder, writer, attempt.kit.timeouts.keep_alive)
    headers = {
        **reply_headers(attempt, Losses()),
        "cache-control": "no-cache",
        "x-accel-buffering": "no",  # T14
    }
    return Answer(status=200, content_type=writer.content_type, headers=headers, body=body)


async def _open(attempt: Attempt, reply: Reply) -> OpenStream:
    await attempt.send()  # 7
    parser = attempt.stream_parser()
    if parser is None:
        reply.replays = False  # answered in one piece: there are no events to replay
    return await opened(attempt.frames(parser))  # 8


def _reply(attempt: Attempt) -> Reply:
    return Reply(
        request=attempt.call.request,
        model=attempt.call.requested_model,
        ids=attempt.kit.ids,
        created=int(attempt.kit.clock.now()),
        losses=attempt.trace.response_losses,
        replays=attempt.same_dialect,
    )


def reply_headers(attempt: Attempt, response_losses: Losses) -> dict[str, str]:
    """The route taken and what it cost in fidelity and time (INTERFACES)."""
    trace, started = attempt.trace, attempt.call.incoming.started
    spent = attempt.kit.clock.monotonic() - started - trace.upstream_seconds
    return {
        "x-monoize-provider": attempt.candidate.provider.id,
        "x-monoize-channel": attempt.candidate.channel.id,
        "x-monoize-attempts": str(trace.attempts),
        "x-monoize-translation": trace.request_losses.and_(response_losses).header(),
        "x-monoize-overhead-ms": f"{max(0.0, spent) * 1000:.2f}",
    }
