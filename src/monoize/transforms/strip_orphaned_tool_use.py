"""Providers refuse a tool call without its result, and a result without its call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.transforms._server_state import continues_on_server
from monoize.urp import Message, Part, ProviderItem, Role, ToolCall, ToolResult, UrpRequest, replace

__all__ = ["StripOrphanedToolUse"]

_Place: TypeAlias = tuple[int, int]  # which message, which of its parts


class StripOrphanedToolUse(RequestTransform[NoConfig]):
    """Remove tool calls that nobody answered and tool results that no call asked for; everything else stays.

    Nothing happens when the request continues a conversation on the provider's server, where the other half may lie.
    """

    id = "strip_orphaned_tool_use"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        if continues_on_server(value):
            return value
        orphans = _orphans(value.messages)
        if not orphans:
            return value
        kept = [_without(orphans, number, message) for number, message in enumerate(value.messages)]
        return replace(value, messages=tuple(message for message in kept if message is not None))


def _orphans(messages: Sequence[Message]) -> set[_Place]:
    """Where the parts stand that lack their other half.

    Some providers number the calls of each reply anew, so a result answers the latest call of its id.
    """
    waiting: dict[str, list[_Place]] = {}
    called: set[str] = set()
    orphans: set[_Place] = set()
    for place, part in _places(messages):
        match part:
            case ToolCall():
                called.add(part.call_id)
                waiting.setdefault(part.call_id, []).append(place)
            case ToolResult() if part.call_id not in called:
                orphans.add(place)
            case ToolResult():
                if waiting.get(part.call_id):
                    waiting[part.call_id].pop()
            case ProviderItem():
                called.update(_native_ids(part))
            case _:
                pass
    return orphans.union(*waiting.values())


def _places(messages: Sequence[Message]) -> Iterator[tuple[_Place, Part]]:
    for number, message in enumerate(messages):
        for position, part in enumerate(message.parts):
            yield (number, position), part


def _native_ids(item: ProviderItem) -> Iterator[str]:
    """A provider's own kind of call may be answered by an ordinary result, as Codex does for its shell."""
    if isinstance(item.body, Mapping):
        named = (item.body.get("call_id"), item.body.get("id"))
        yield from (name for name in named if isinstance(name, str))


def _without(orphans: set[_Place], number: int, message: Message) -> Message | None:
    """A message without its orphans; None when nothing is left that it could be sent for."""
    parts = tuple(_kept(orphans, number, message))
    if len(parts) == len(message.parts):
        return message
    if not parts or (message.role is Role.TOOL and not _has_result(parts)):
        return None
    return replace(message, parts=parts)


def _kept(orphans: set[_Place], number: int, message: Message) -> Iterator[Part]:
    """In a tool message the content of a result follows it and goes with it (DEC-4)."""
    answers_nobody = False
    for position, part in enumerate(message.parts):
        is_orphan = (number, position) in orphans
        if isinstance(part, ToolResult):
            answers_nobody = is_orphan and message.role is Role.TOOL
        if not answers_nobody and not is_orphan:
            yield part


def _has_result(parts: Sequence[Part]) -> bool:
    return any(isinstance(part, ToolResult) for part in parts)
