"""What the operator says of an MCP server's tool; what the server itself says of it (annotations) is not believed."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from monoize.agent.manifest import TOOL_NAME
from monoize.settings.section import Section

__all__ = ["McpTool"]


class McpTool(Section, frozen=True, kw_only=True):
    rename: Annotated[str, Meta(pattern=f"^{TOOL_NAME.pattern}$")] | None = None
    pure: bool = False
    scope: Literal["read", "write", "execute"] = "execute"
