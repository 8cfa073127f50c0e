"""Thoughts of one model are of no use to another, and some providers refuse them."""

from __future__ import annotations

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.urp import Message, Reasoning, ReasoningEncrypted, UrpRequest, replace

__all__ = ["StripInputReasoning"]


class StripInputReasoning(RequestTransform[NoConfig]):
    """Take earlier reasoning, readable or encrypted, out of the conversation before it is sent.

    A message that held nothing else is left out.
    """

    id = "strip_input_reasoning"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        kept = [(message, _spoken(message)) for message in value.messages]
        if all(after is before for before, after in kept):
            return value
        messages = tuple(after for before, after in kept if after is before or after.parts)
        return replace(value, messages=messages)


def _spoken(message: Message) -> Message:
    parts = tuple(p for p in message.parts if not isinstance(p, Reasoning | ReasoningEncrypted))
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)
