"""Calls for upstream clients that speak HTTP, and what they may leave behind."""

from __future__ import annotations

import os

from monoize.upstream.client import UpstreamCall


def call(server, **more):
    given = {
        "url": server.url,
        "headers": {},
        "body": b"{}",
        "first_byte_seconds": 10,
        "idle_seconds": 10,
    }
    return UpstreamCall(**{**given, **more})


async def read(client, call, limit=10**9):
    reply = await client.send(call)
    try:
        return await reply.read(limit)
    finally:
        await reply.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
