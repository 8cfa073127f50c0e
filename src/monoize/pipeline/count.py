"""Counting a request's tokens: by the provider where it can, else by a tokenizer and marked as an estimate."""

from __future__ import annotations

import asyncio

from monoize import wirejson
from monoize.pipeline.attempt import Attempt, Kit
from monoize.pipeline.call import Answer, Call, Incoming, Trace
from monoize.pipeline.run import decoded, routed
from monoize.routing.catalog import Catalog
from monoize.tokens import estimated_input_tokens

__all__ = ["count_tokens"]


async def count_tokens(incoming: Incoming, catalog: Catalog, kit: Kit) -> Answer:
    call = decoded(incoming)
    attempt = Attempt(call, routed(call, catalog), kit, Trace())
    tokens = await _asked(attempt)
    estimated = tokens is None
    if tokens is None:  # loading the vocabulary takes a moment, a long text too
        tokens = await asyncio.to_thread(estimated_input_tokens, call.request)
    return _answer(call, tokens, estimated=estimated)


async def _asked(attempt: Attempt) -> int | None:
    wire = attempt.count_request()
    if wire is None:
        return None
    await attempt.send(wire)
    _, reply = await attempt.unary()
    return attempt.protocol.decode_count(reply)


def _answer(call: Call, tokens: int, *, estimated: bool) -> Answer:
    body = call.incoming.protocol.encode_count_reply(tokens)
    return Answer(
        status=200,
        content_type="application/json",
        headers={"x-monoize-estimated": "true"} if estimated else {},
        body=wirejson.dumps({**body, "estimated": True} if estimated else body),
    )
