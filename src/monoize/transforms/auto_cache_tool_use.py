"""A loop of tool calls sends the same beginning again and again: let the provider remember it."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.transforms._cache_breakpoints import has_breakpoint, has_room, marked
from monoize.urp import Message, Role, ToolCall, ToolResult, UrpRequest

__all__ = ["AutoCacheToolUse"]


class AutoCacheToolUse(RequestTransform[NoConfig]):
    """When a request brings tool results, let Anthropic cache the prompt up to the question that led to the calls.

    Marks the last part of the user message before the calling assistant message. Nothing happens when that
    message is marked already or the request has four marks.
    """

    id = "auto_cache_tool_use"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        target = _question(value.messages)
        if target is None or not has_room(value):  # ACTU-5
            return value
        if has_breakpoint(value.messages[target]):  # ACTU-8
            return value
        return marked(value, target)


def _question(messages: Sequence[Message]) -> int | None:
    """The user message that led to the calls whose results end the request (ACTU-4, ACTU-6, ACTU-7)."""
    tail = _tail_start(messages)
    assistant = tail - 1
    if tail == len(messages) or assistant < 0 or not _calls(messages[assistant]):
        return None
    places = reversed(range(assistant))
    return next((n for n in places if messages[n].role is Role.USER), None)


def _tail_start(messages: Sequence[Message]) -> int:
    """Where the tool results at the end begin; words of the same envelope belong to them (D48)."""
    envelopes = {m.envelope for m in messages if _brings_result(m)} - {None}
    start = len(messages)
    while start > 0:
        message = messages[start - 1]
        beside = message.role is not Role.ASSISTANT and message.envelope in envelopes
        if not (_brings_result(message) or beside):
            break
        start -= 1
    return start


def _brings_result(message: Message) -> bool:
    return message.role is Role.TOOL or any(isinstance(p, ToolResult) for p in message.parts)


def _calls(message: Message) -> bool:
    return message.role is Role.ASSISTANT and any(isinstance(p, ToolCall) for p in message.parts)
