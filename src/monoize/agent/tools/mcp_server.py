"""An MCP server as a source of tools, as a process or over HTTP: one owner of the connection, and no word taken on trust."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import httpx2
import mcp_types
from mcp.client._probe import negotiate_auto
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from monoize.agent.manifest import ToolSpec
from monoize.agent.ports import ToolAway
from monoize.agent.tools._child import Program
from monoize.agent.tools._mcp_http import http_client
from monoize.agent.tools._mcp_results import (
    asked,
    outcome_of_error,
    outcome_of_request,
    outcome_of_result,
)
from monoize.agent.tools._mcp_stdio import LONGEST_MESSAGE, Faults, stdio_streams
from monoize.agent.tools.mcp_tool import McpTool
from monoize.agent.tools.source import Failed, Outcome, SourceAway, ToolSource

__all__ = ["McpServer", "http_server", "stdio_server"]

_T = TypeVar("_T")
_CONNECT_SECONDS = (
    20.0  # the library waits 10 of them for servers that pass over what they do not know
)
_GOODBYE_SECONDS = 0.2  # for a call that was cut off to tell the server so
_MOST_PAGES = 50
_MOST_TOOLS = 512
_ME = mcp_types.Implementation(name="monoize", version="1")
_RESULTS: TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult] = TypeAdapter(
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
)

Connect = Callable[[AsyncExitStack, Faults], Awaitable[TransportStreams]]


def stdio_server(
    name: str,
    program: Program,
    *,
    only: Sequence[str] | None = None,
    tools: Mapping[str, McpTool] | None = None,
) -> McpServer:
    """A server that is started here; it gets no environment but this one."""

    async def connect(stack: AsyncExitStack, faults: Faults) -> TransportStreams:
        try:
            child = program.started()
        except OSError as error:
            raise SourceAway(f"it could not be started: {error}") from None
        return await stack.enter_async_context(stdio_streams(child, faults))

    return McpServer(name, connect, only=only, tools=tools)


def http_server(
    name: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    private: bool = False,
    only: Sequence[str] | None = None,
    tools: Mapping[str, McpTool] | None = None,
) -> McpServer:
    """A server that is asked over streamable HTTP; `private` lets it be on this machine or in the house."""

    async def connect(stack: AsyncExitStack, _: Faults) -> TransportStreams:
        client = http_client(
            url,
            headers=headers or {},
            private=private,
            most_bytes=LONGEST_MESSAGE,
            seconds=_CONNECT_SECONDS,
        )
        await stack.enter_async_context(client)
        return await stack.enter_async_context(
            streamable_http_client(url, http_client=client, max_sse_event_size=LONGEST_MESSAGE)
        )

    return McpServer(name, connect, only=only, tools=tools)


class _Connection:
    """Opened, kept and closed by one task, as the library's cancel scopes demand; others only ask through it."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._stop = asyncio.Event()
        self.faults = Faults()
        self.asked: asyncio.Future[ToolAway] = asyncio.get_running_loop().create_future()
        self.opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self.owner = asyncio.ensure_future(self._own())

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                read, write = await self._connect(stack, self.faults)
                session = ClientSession(
                    read, write, elicitation_callback=self._elicited, client_info=_ME
                )
                await stack.enter_async_context(session)
                await negotiate_auto(session)
                self.opened.set_result(session)
                await self._stop.wait()
        except BaseException as error:  # told to whoever waits; nothing else may come of it
            if not self.opened.done():
                self.opened.set_exception(SourceAway(_reason(error, self.faults)))
                self.opened.exception()  # looked at: perhaps nobody waits any more
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _elicited(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        """A question to a person ends the run (D46); the server hears that it was dismissed."""
        del context
        if not self.asked.done():
            self.asked.set_result(asked(params.message))
        return mcp_types.ElicitResult(action="cancel")

    @property
    def alive(self) -> bool:
        return not self.owner.done() and self.faults.reason is None

    async def aclose(self) -> None:
        """Bounded, since the owner kills a process and leaves a server that does not say goodbye."""
        self._stop.set()
        try:
            await asyncio.wait((self.owner,), timeout=_GOODBYE_SECONDS)
        finally:
            while not self.owner.done():
                self.owner.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((self.owner,), timeout=_GOODBYE_SECONDS)


class McpServer(ToolSource):
    """Tools are called `server__tool`. The list is asked for anew each time, so that no change stays unseen."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        *,
        only: Sequence[str] | None = None,
        tools: Mapping[str, McpTool] | None = None,
    ) -> None:
        self.name = f"MCP server {name}"
        self._prefix = name
        self._connect = connect
        self._only = None if only is None else frozenset(only)
        self._said = dict(tools or {})
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._names: dict[str, str] = {}  # ours -> theirs

    @override
    async def specs(self) -> tuple[ToolSpec, ...]:
        connection = await self._connected()
        try:
            listed = await self._asked(connection, self._listed(await connection.opened))
        except MCPError as error:
            raise SourceAway(f"it does not list its tools: {error.message}") from None
        except ValidationError:
            raise SourceAway("its list of tools is malformed") from None
        specs = tuple(self._spec(tool) for tool in listed if self._wants(tool.name))
        self._names = dict(
            zip(
                (spec.name for spec in specs),
                filter(self._wants, (t.name for t in listed)),
                strict=True,
            )
        )
        return specs

    @override
    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        connection = await self._connected()
        session = await connection.opened
        request = mcp_types.CallToolRequest(
            params=mcp_types.CallToolRequestParams(
                name=self._names[name], arguments=dict(arguments)
            )
        )
        try:
            result = await self._asked(connection, session.send_request(request, _RESULTS))
        except MCPError as error:
            if connection.faults.reason is not None:
                return Failed(code="protocol_error", message=connection.faults.reason)
            return outcome_of_error(error)
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]["msg"]
            return Failed(code="protocol_error", message=f"its answer is malformed: {problem}")
        if isinstance(result, mcp_types.InputRequiredResult):
            return outcome_of_request(result)
        return outcome_of_result(result)

    @override
    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    # --- the connection ---

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.alive:
                await self.aclose()
            if self._connection is None:
                connection = self._connection = _Connection(self._connect)
                try:
                    async with asyncio.timeout(_CONNECT_SECONDS):
                        await asyncio.shield(connection.opened)
                except BaseException as error:
                    await self.aclose()
                    if isinstance(error, TimeoutError):
                        raise SourceAway("it does not answer") from None
                    raise
            return self._connection

    async def _asked(self, connection: _Connection, asking: Awaitable[_T]) -> _T:
        """The answer, unless the server asks a person first. Cut off: the server is told, and then left for good."""
        task = asyncio.ensure_future(asking)
        try:
            await asyncio.wait(
                (task, connection.asked, connection.owner), return_when=asyncio.FIRST_COMPLETED
            )
            if connection.asked.done():
                raise connection.asked.result()
            if not task.done():  # the connection is gone, and the library has not noticed
                await asyncio.wait((task,), timeout=_GOODBYE_SECONDS)
            if not task.done():
                raise MCPError(mcp_types.CONNECTION_CLOSED, "the connection was lost")
            return task.result()
        except (asyncio.CancelledError, ToolAway):
            task.cancel()
            await asyncio.wait((task,), timeout=_GOODBYE_SECONDS)
            await self.aclose()
            raise
        finally:
            task.cancel()
            if task.done() and not task.cancelled():
                task.exception()

    # --- the tools ---

    async def _listed(self, session: ClientSession) -> list[mcp_types.Tool]:
        found: list[mcp_types.Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await session.list_tools(
                params=mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
            )
            found += page.tools
            cursor = page.next_cursor
            if cursor is None and len(found) <= _MOST_TOOLS:
                return found
        raise SourceAway(f"it lists more than {_MOST_TOOLS} tools, or without end")

    def _wants(self, name: str) -> bool:
        return self._only is None or name in self._only

    def _spec(self, tool: mcp_types.Tool) -> ToolSpec:
        said = self._said.get(tool.name, McpTool())
        return ToolSpec(
            name=f"{self._prefix}__{said.rename or tool.name}",
            description=tool.description or "",
            parameters={"type": "object", **tool.input_schema},
            result_schema=tool.output_schema,
            pure=said.pure,
            scope=said.scope,
        )


def _reason(error: BaseException, faults: Faults) -> str:
    while isinstance(error, BaseExceptionGroup):  # the library's task groups wrap what happened
        error = error.exceptions[0]
    said = faults.stderr.captured().marked().strip()[-500:]
    told = faults.reason or _told(error)
    return f"{told}; it wrote: {said}" if said else told


def _told(error: BaseException) -> str:
    match error:
        case SourceAway():
            return str(error)
        case httpx2.HTTPError():
            return f"it cannot be reached: {error}"
        case MCPError():
            return f"it does not begin a session: {error.message}"
        case asyncio.CancelledError():
            return "it was closed"
        case _:
            return f"it does not begin a session ({type(error).__name__})"
