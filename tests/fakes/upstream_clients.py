"""Calls for upstream clients that speak HTTP, and what they may leave behind."""

from __future__ import annotations

import asyncio

from monoize.upstream.client import UpstreamCall


def call(server, **more):
    given = {
        "url": server.url if server else "",
        "headers": {},
        "body": b"{}",
        "first_byte_seconds": 60,
        "idle_seconds": 60,
    }
    return UpstreamCall(**{**given, **more})


async def read(client, call, limit=10**9):
    reply = await client.send(call)
    try:
        return await reply.read(limit)
    finally:
        await reply.close()


async def settled(look, wanted):
    """What is seen once it is as wanted, or after a long time: connections need some turns of the loop to end."""
    for _ in range(1000):
        if (seen := look()) == wanted:
            return seen
        await asyncio.sleep(0.02)
    return look()
