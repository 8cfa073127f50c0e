"""Some providers refuse a history that ends with the assistant: end it with the user."""

from __future__ import annotations

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.urp import Message, Role, UrpRequest, replace

__all__ = ["AppendEmptyUserMessage"]


class AppendEmptyUserMessage(RequestTransform[NoConfig]):
    """Append a user message without parts when the last message is the assistant's."""

    id = "append_empty_user_message"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        if not value.messages or value.messages[-1].role is not Role.ASSISTANT:
            return value
        return replace(value, messages=(*value.messages, Message(role=Role.USER)))  # AEUM-3
