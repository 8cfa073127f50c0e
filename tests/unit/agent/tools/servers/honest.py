"""An MCP server made with the library's own server: `honest.py` speaks stdio, `honest.py PORT` streamable HTTP."""

import sys
from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel, Field

server = MCPServer("honest")


class Sum(BaseModel):
    total: int


@server.tool()
def add(a: int, b: Annotated[int, Field(description="the other one")] = 1) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool(structured_output=False)
def shout(text: str) -> str:
    return text.upper()


@server.tool()
def fail() -> str:
    raise ToolError("no luck today")


@server.tool(structured_output=False)
def much(size: int) -> str:
    return "x" * size


@server.tool()
async def ask() -> str | InputRequiredResult:
    """Wants a person's word first."""
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
    params = ElicitRequestFormParams(message="May I?", requested_schema=schema)
    return InputRequiredResult(input_requests={"q": ElicitRequest(params=params)})


@server.tool()
async def hang() -> str:
    import anyio

    await anyio.sleep(3600)
    return "late"


@server.tool(structured_output=False)
def environment() -> str:
    import os

    return ",".join(sorted(os.environ))


@server.tool()
async def grow(ctx: Context) -> str:
    """From now on there is one tool more."""
    server.add_tool(lambda: "new", name="surprise", description="was not there before")
    return "grown"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
