"""House rules that every conversation gets."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from typing_extensions import override

from monoize.transform import Config, Context, RequestTransform
from monoize.urp import Message, Role, Text, UrpRequest, replace

__all__ = ["InjectSystemPrompt", "InjectSystemPromptConfig"]


class InjectSystemPromptConfig(Config, frozen=True, kw_only=True):
    content: Annotated[
        str, Meta(description="The text to add.", examples=["Answer in plain words."])
    ]
    position: Annotated[
        Literal["prepend", "append"],
        Meta(
            description=(
                "prepend: before everything that the first system message says. "
                "append: after everything that the last system message says."
            ),
            examples=["prepend"],
        ),
    ]


class InjectSystemPrompt(RequestTransform[InjectSystemPromptConfig]):
    """Add a text to the system prompt, before or after what the caller wrote there.

    Without a system message a new one is made, at the beginning or at the end. Developer messages do not count.
    """

    id = "inject_system_prompt"
    config = InjectSystemPromptConfig

    @override
    def apply(
        self, value: UrpRequest, state: None, context: Context[InjectSystemPromptConfig]
    ) -> UrpRequest:
        text = Text(content=context.config.content)
        messages = list(value.messages)
        places = [n for n, message in enumerate(messages) if message.role is Role.SYSTEM]
        prepends = context.config.position == "prepend"
        if places:
            place = places[0] if prepends else places[-1]
            said = messages[place].parts
            parts = (text, *said) if prepends else (*said, text)
            messages[place] = replace(messages[place], parts=parts)
        else:
            place = 0 if prepends else len(messages)
            messages.insert(place, Message(role=Role.SYSTEM, parts=(text,)))
        return replace(value, messages=tuple(messages))
