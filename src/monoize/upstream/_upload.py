"""A body that is read while it is sent: in its own task, because the reply may come before its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from monoize.upstream._connection import Broken, Connection
from monoize.upstream._reason import reason
from monoize.upstream.client import Streamed

__all__ = ["Upload"]


class Upload:
    def __init__(self, body: Streamed, connection: Connection) -> None:
        self._task = asyncio.ensure_future(_sent(body, connection))
        self._task.add_done_callback(partial(_ended, connection))

    @property
    def is_complete(self) -> bool:
        task = self._task
        return task.done() and not task.cancelled() and task.exception() is None

    async def aclose(self) -> None:
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))


async def _sent(body: Streamed, connection: Connection) -> None:
    size = 0
    chunks = body.chunks()
    try:
        async for piece in chunks:
            size += len(piece)
            if connection.is_lost or (body.size is not None and size > body.size):
                break  # what is too much would be read as another request
            if piece:
                connection.write(_framed(piece) if body.size is None else piece)
            await connection.drained()
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
    if body.size is None:
        connection.write(b"0\r\n\r\n")
    elif size != body.size:
        raise Broken("the request's body is not as long as was said")


def _framed(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _ended(connection: Connection, task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, Broken):
        connection.fail(error)
    elif error is not None:
        connection.fail(Broken(reason(error)))
