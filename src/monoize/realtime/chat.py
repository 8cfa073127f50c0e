"""A prompt as a chat completion is asked for, and its chunks as thoughts; values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.realtime.ports import Arguments, CallStart, End, Thought, Words
from monoize.realtime.state import Prompt
from monoize.urp import Usage

__all__ = ["chat_wire", "thoughts_of"]

_CUT_SHORT = frozenset({"length", "content_filter"})


def chat_wire(prompt: Prompt, model: str) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "model": model,
        "messages": list(prompt.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if prompt.max_output_tokens is not None:
        wire["max_completion_tokens"] = prompt.max_output_tokens
    if prompt.tools:
        wire["tools"] = [_tool(tool) for tool in prompt.tools]
        wire["tool_choice"] = _choice(prompt.tool_choice)
        if prompt.parallel_tool_calls is not None:
            wire["parallel_tool_calls"] = prompt.parallel_tool_calls
    return wire


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": function}


def _choice(choice: str | Mapping[str, Any]) -> Any:
    if isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice.get("name")}}


def thoughts_of(chunk: Any) -> list[Thought]:
    """Of one `chat.completion.chunk`; its reasoning is not said aloud."""
    if not isinstance(chunk, Mapping):
        return []
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    delta = choice.get("delta") or {}
    words = (delta.get(name) for name in ("content", "refusal"))
    found: list[Thought] = [Words(text) for text in words if isinstance(text, str) and text]
    for call in delta.get("tool_calls") or ():
        found += _call(call)
    finish, usage = choice.get("finish_reason"), _usage(chunk.get("usage"))
    if finish is not None or usage is not None:
        found.append(End(finish=finish if finish in _CUT_SHORT else "stop", usage=usage))
    return found


def _call(call: Mapping[str, Any]) -> list[Thought]:
    function, index = call.get("function") or {}, int(call.get("index") or 0)
    found: list[Thought] = []
    if function.get("name"):
        found.append(CallStart(index, str(call.get("id") or ""), str(function["name"])))
    if function.get("arguments"):
        found.append(Arguments(index, str(function["arguments"])))
    return found


def _usage(wire: Any) -> Usage | None:
    if not isinstance(wire, Mapping):
        return None
    details = wire.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return Usage(
        input_tokens=int(wire.get("prompt_tokens") or 0),
        output_tokens=int(wire.get("completion_tokens") or 0),
        cached_read=cached if isinstance(cached, int) else None,
    )
