"""Messages to and from an MCP server that is a process: framed and bounded here, since its output is not to be trusted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
import msgspec
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from monoize.agent.tools._capture import Capture
from monoize.agent.tools._child import Child
from monoize.agent.tools._pipe import Pipe

__all__ = ["LONGEST_MESSAGE", "Faults", "stdio_streams"]

LONGEST_MESSAGE = 16 * 1024**2  # bytes of one message; a result is cut further, see MOST_BYTES
_MOST_IDLE_TALK = 10_000  # messages between two answers
_STDERR_BYTES = 8192


class Faults:
    """Why a connection came to an end, when the server is to blame."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.stderr = Capture(_STDERR_BYTES)


class _Peek(msgspec.Struct, frozen=True):
    """Just enough of a message to see what it is."""

    id: int | str | None = None
    method: str | None = None


class _Wire:
    def __init__(self, child: Child, faults: Faults) -> None:
        self._child = child
        self._faults = faults
        self._asked: set[int | str] = set()
        self._idle_talk = 0

    async def read_into(self, messages: Any) -> None:
        """Until the server closes its output, or does what no server does."""
        async with messages:
            async for line in _lines(self._child.stdout, self._faults):
                message = self._judged(line)
                if self._faults.reason is not None:
                    return
                if message is not None:
                    await messages.send(SessionMessage(message))

    def _judged(self, line: bytes) -> Any:
        """The message, if it is one that matters here: an answer, or a question of the server."""
        self._idle_talk += 1
        if self._idle_talk > _MOST_IDLE_TALK:
            self._faults.reason = f"it sent {_MOST_IDLE_TALK} messages that answer nothing"
            return None
        try:
            peek = msgspec.json.decode(line, type=_Peek)
            if (
                peek.id is None
            ):  # notifications: nothing is built on them, the list of tools is asked for anew
                return None
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (
            msgspec.DecodeError,
            ValueError,
        ):  # a greeting on the wrong output, as many write it
            return None
        if peek.method is None:
            if peek.id not in self._asked:
                self._faults.reason = (
                    f"it answered a request that nobody made, {str(peek.id)[:40]!r}"
                )
                return None
            self._asked.discard(peek.id)
            self._idle_talk = 0
        return message

    async def write_from(self, messages: Any) -> None:
        async with messages:
            async for each in messages:
                message = each.message
                if isinstance(message, mcp_types.JSONRPCRequest):
                    self._asked.add(message.id)
                data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                if not await self._child.stdin.write(data):
                    return

    async def listen(self) -> None:
        while chunk := await self._child.stderr.read():
            self._faults.stderr.feed(chunk)


async def _lines(pipe: Pipe, faults: Faults) -> AsyncIterator[bytes]:
    buffer = bytearray()
    seen = 0
    while chunk := await pipe.read():
        buffer += chunk
        while (end := buffer.find(b"\n", seen)) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            seen = 0
            if line.strip():
                yield line
        seen = len(buffer)
        if seen > LONGEST_MESSAGE:
            faults.reason = f"it sent a message of more than {LONGEST_MESSAGE} bytes"
            return


@asynccontextmanager
async def stdio_streams(child: Child, faults: Faults) -> AsyncIterator[TransportStreams]:
    """The two streams that a session of `mcp` works with; the child is killed at the end."""
    incoming_in, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_out = anyio.create_memory_object_stream[SessionMessage](0)
    wire = _Wire(child, faults)
    tasks = [
        asyncio.ensure_future(work)
        for work in (wire.read_into(incoming_in), wire.write_from(outgoing_out), wire.listen())
    ]
    try:
        yield incoming, outgoing
    finally:
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await child.aclose()
            await asyncio.wait(tasks)
        for stream in (incoming_in, incoming, outgoing, outgoing_out):
            stream.close()
