"""The response object around the output: who answered whom, under which settings."""

from __future__ import annotations

from typing import Any

from monoize.protocol import Reply
from monoize.protocols import _extras
from monoize.protocols.responses.input import leading_instructions
from monoize.protocols.responses.request_encode import encode_settings
from monoize.protocols.responses.vocabulary import DIALECT
from monoize.urp import Losses, ResponseStart

__all__ = ["skeleton"]

# What a reply says about settings that its caller left out.
_DEFAULTS: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": False,  # Monoize keeps nothing (URP-8)
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
_FUNCTION_DEFAULTS = {"description": None, "parameters": None, "strict": None}


def skeleton(reply: Reply, start: ResponseStart) -> dict[str, Any]:
    """A response that has begun: no output yet, the caller's settings repeated as the vendor does."""
    head = {
        "id": start.id or reply.ids.new("resp_"),
        "object": "response",
        "created_at": start.created if start.created is not None else reply.created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": reply.model,
        "output": [],
        "usage": None,
    }
    native = _extras.of_reply(start, same=start.origin == DIALECT)
    return {**_DEFAULTS, **_asked(reply), **native, **head}


def _asked(reply: Reply) -> dict[str, Any]:
    settings = encode_settings(reply.request, Losses())
    asked = {key: settings[key] for key in _DEFAULTS if settings.get(key) is not None}
    instructions, _ = leading_instructions(reply.request.messages)
    if instructions is not None:
        asked["instructions"] = instructions
    if "text" in asked:
        asked["text"] = {**_DEFAULTS["text"], **asked["text"]}
    if "tools" in asked:
        asked["tools"] = [
            {**_FUNCTION_DEFAULTS, **tool} if tool.get("type") == "function" else tool
            for tool in asked["tools"]
        ]
    return asked
