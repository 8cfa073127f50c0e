"""What an MCP server answers, as what a tool call comes to; its refusals in three kinds (reference 8 (9))."""

from __future__ import annotations

from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError

from monoize.agent.outcome import FailureCode
from monoize.agent.ports import ToolAway
from monoize.agent.tools.source import Failed, Outcome, Returned

__all__ = ["asked", "outcome_of_error", "outcome_of_request", "outcome_of_result"]

_LONGEST_QUESTION = 500


def outcome_of_result(result: mcp_types.CallToolResult) -> Outcome:
    """Structured content as it is, also when it breaks the tool's own schema: that is judged with the envelope."""
    if result.is_error:
        return Failed(code="tool_error", message=_text(result) or "the tool says that it failed")
    if "structured_content" in result.model_fields_set:
        return Returned(value=result.structured_content)
    if all(isinstance(block, mcp_types.TextContent) for block in result.content):
        return Returned(value=_text(result))
    return Returned(
        value=[
            block.model_dump(mode="json", by_alias=True, exclude_none=True)
            for block in result.content
        ]
    )


def _text(result: mcp_types.CallToolResult) -> str:
    return "\n".join(
        block.text for block in result.content if isinstance(block, mcp_types.TextContent)
    )


def outcome_of_error(error: MCPError) -> Outcome:
    """A JSON-RPC error. Raises ToolAway where it means that a person has to do something first."""
    if error.code == mcp_types.URL_ELICITATION_REQUIRED:
        raise asked(error.message)
    if error.code == mcp_types.CONNECTION_CLOSED:
        return Failed(code="transport_error", message="the connection was lost during the call")
    return Failed(code="protocol_error", message=f"{error.message} ({error.code})")


def outcome_of_request(result: mcp_types.InputRequiredResult) -> Outcome:
    """The server wants something before it answers. Raises ToolAway when it is a person's word."""
    questions: list[Any] = list((result.input_requests or {}).values())
    for question in questions:
        if isinstance(question, mcp_types.ElicitRequest):
            raise asked(question.params.message)
    wanted = ", ".join(sorted({question.method for question in questions})) or "another round"
    return Failed(
        code="protocol_error", message=f"the server asks for {wanted}, which no tool gets here"
    )


def asked(question: str) -> ToolAway:
    return ToolAway(FailureCode.INPUT_REQUIRED, f"a tool asks: {question[:_LONGEST_QUESTION]}")
