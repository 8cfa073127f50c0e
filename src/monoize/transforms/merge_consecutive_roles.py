"""Some providers insist that the roles of a conversation take turns."""

from __future__ import annotations

from collections import Counter

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
        merged: list[Message] = []
        for message in value.messages:
            if merged and _mergeable(merged[-1], message):
                merged[-1] = _merged(merged[-1], message, shared)
            else:
                merged.append(message)
        if len(merged) == len(value.messages):
            return value
        return replace(value, messages=tuple(merged))


def _mergeable(before: Message, after: Message) -> bool:
    return (
        before.role is after.role
        and before.role is not Role.TOOL
        and not any(isinstance(p, _STANDING_ALONE) for p in (*before.parts, *after.parts))
    )


def _merged(before: Message, after: Message, shared: set[int]) -> Message:
    envelope = before.envelope
    if envelope != after.envelope and not shared.isdisjoint({envelope, after.envelope}):
        # New words do not become part of the envelope that holds tool results (D48).
        envelope = None
    return replace(
        before,
        parts=(*before.parts, *after.parts),
        envelope=envelope,
        extra_body={**after.extra_body, **before.extra_body},
    )
