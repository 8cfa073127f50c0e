"""How many tokens a request would be: asked of the provider where it can count, else estimated and marked so."""

from __future__ import annotations

import asyncio
from functools import partial

from monoize import wirejson
from monoize.errors import MonoizeError, UpstreamError
from monoize.pipeline.answer import reply_headers
from monoize.pipeline.attempt import Attempt
from monoize.pipeline.call import Answer, Incoming, Trace
from monoize.pipeline.kit import Kit
from monoize.pipeline.route import fail_forward
from monoize.pipeline.run import prepared
from monoize.tokens import estimated_input_tokens
from monoize.urp import Losses

__all__ = ["count_tokens"]

_NOT_THERE = (404, 405, 501)  # many who speak a protocol lack its counting


async def count_tokens(incoming: Incoming, kit: Kit, trace: Trace) -> Answer:
    call = prepared(incoming, kit, trace)
    try:
        tokens, estimated = await fail_forward(
            call, kit, trace, partial(Attempt, call, kit, trace), _counted
        )
    except MonoizeError as error:
        error.headers.update(reply_headers(call, kit, trace, Losses()))
        raise
    body = incoming.protocol.encode_count_reply(tokens)
    return Answer(
        status=200,
        content_type="application/json",
        headers={"x-monoize-estimated": "true"} if estimated else {},
        body=wirejson.dumps({**body, "estimated": True} if estimated else body),
    )


async def _counted(attempt: Attempt) -> tuple[int, bool]:
    """The provider's own count, else an estimate of ours."""
    attempt.take_upstream_name()
    attempt.apply_provider_rules()
    await attempt.resolve_media()
    tokens = await _asked(attempt)
    if tokens is not None:
        return tokens, False
    # Loading the vocabulary takes a moment, a long text too.
    return await asyncio.to_thread(estimated_input_tokens, attempt.request), True


async def _asked(attempt: Attempt) -> int | None:
    """None: nobody counts there, neither by protocol nor behind this address."""
    wire = attempt.count_request()
    if wire is None:
        return None
    try:
        await attempt.send(wire)
    except UpstreamError as error:
        if error.provider is not None and error.provider.status in _NOT_THERE:
            return None
        raise
    return attempt.protocol.decode_count(await attempt.unary())
