"""Counting tokens offline, for providers that do not count themselves; always an estimate."""

from __future__ import annotations

from typing import assert_never

from monoize import wirejson
from monoize.tokenizer import token_count
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

__all__ = ["estimated_input_tokens"]

_PER_MESSAGE = 4  # role and separators
_PER_IMAGE = 800  # between a small and a large picture of the vendors' own rules
_PER_FILE = 1500  # a page or two


def estimated_input_tokens(request: UrpRequest) -> int:
    """Tokens of everything a model would read: messages, calls, results and tool definitions."""
    total = sum(_message(message) for message in request.messages)
    for tool in request.tools or ():
        total += token_count(wirejson.dumps(tool.parameters or tool.body or {}).decode())
        total += token_count(f"{tool.name} {tool.description or ''}") + _PER_MESSAGE
    return total


def _message(message: Message) -> int:
    return _PER_MESSAGE + sum(_part(part) for part in message.parts)


def _part(part: Part) -> int:
    match part:
        case Text() | Reasoning() | Refusal():
            return token_count(part.content)
        case ToolCall():
            return token_count(part.name) + token_count(part.arguments) + _PER_MESSAGE
        case ToolResult():
            return _PER_MESSAGE
        case Image():
            return _PER_IMAGE
        case Audio() | File():
            return _PER_FILE
        case ProviderItem():
            return token_count(wirejson.dumps(part.body).decode())
        case ReasoningEncrypted():
            return 0  # opaque: its length says nothing about what the model reads
        case _:
            assert_never(part)
