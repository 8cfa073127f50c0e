"""Some providers insist that the roles of a conversation take turns."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.urp import (
    Message,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Role,
    ToolCall,
    ToolResult,
    UrpRequest,
    replace,
)

__all__ = ["MergeConsecutiveRoles"]

# Parts whose message is a unit of its own: a result belongs to one call, a thought to one turn.
_STANDING_ALONE = (ToolCall, ToolResult, Reasoning, ReasoningEncrypted, ProviderItem)


class MergeConsecutiveRoles(RequestTransform[NoConfig]):
    """Join neighbouring messages of the same role into one, for providers whose roles must take turns.

    Tool messages, tool calls, reasoning and native items of a provider are never joined.
    """

    id = "merge_consecutive_roles"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        numbers = Counter(message.envelope for message in value.messages)
        shared = {number for number, times in numbers.items() if number is not None and times > 1}
        groups: list[list[Message]] = []
        for message in value.messages:
            if groups and _mergeable(groups[-1][-1], message):
                groups[-1].append(message)
            else:
                groups.append([message])
        if len(groups) == len(value.messages):
            return value
        return replace(value, messages=tuple(_merged(group, shared) for group in groups))


def _mergeable(before: Message, after: Message) -> bool:
    return (
        before.role is after.role
        and before.role is not Role.TOOL
        and not any(isinstance(p, _STANDING_ALONE) for p in (*before.parts, *after.parts))
    )


def _merged(group: list[Message], shared: set[int]) -> Message:
    """All at once: one after the other would copy a long conversation once for each of its messages."""
    first = group[0]
    if len(group) == 1:
        return first
    envelope = first.envelope
    for other in group[1:]:
        if envelope != other.envelope and not shared.isdisjoint({envelope, other.envelope}):
            # New words do not become part of the envelope that holds tool results (D48).
            envelope = None
    fields: dict[str, Any] = {}
    for message in reversed(group):  # what an earlier message says holds
        fields |= message.extra_body
    return replace(
        first,
        parts=tuple(part for message in group for part in message.parts),
        envelope=envelope,
        extra_body=fields,
    )
