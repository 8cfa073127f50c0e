"""The short way for conversations and replies that are nothing but words: most are.

A codec asks here first. It gets the words, or None when something else hangs on one of them (a call, a picture, a
seal, an unknown field), and then goes its long way, which reads and writes the same for plain words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monoize.urp import Choice, Message, Part, Role, Source, Text, UrpResponse

__all__ = ["bare_texts", "plain_reply", "plain_talk"]

_ASSISTANT, _TOOL = Role.ASSISTANT, Role.TOOL
_BARE = 2  # fields: a type and a text


def bare_texts(content: Any, kinds: tuple[str, ...], dialect: str) -> tuple[Text, ...] | None:
    """A list of nothing but `{"type": one of these kinds, "text": ...}`; None for every other content."""
    if type(content) is not list:
        return None
    texts = []
    for wire in content:
        if type(wire) is not dict or len(wire) != _BARE or wire.get("type") not in kinds:
            return None
        words = wire.get("text")
        if type(words) is not str:
            return None
        texts.append(Text(content=words, source=Source(dialect, wire)))
    return tuple(texts)


def plain_talk(messages: Sequence[Message], dialect: str) -> list[str] | None:
    """What each message of a foreign conversation says.

    Not plain: a message of `dialect` itself, which may be replayed, one that says nothing, and two assistants in
    a row, whom some protocols join.
    """
    found = []
    before = None
    for message in messages:
        role, source = message.role, message.source
        if role is _TOOL or (role is _ASSISTANT and before is _ASSISTANT):
            return None
        if message.extra_body or message.name is not None or message.envelope is not None:
            return None
        if source is not None and source.protocol == dialect:
            return None
        words = _only_words(message.parts, dialect)
        if words is None:
            return None
        found.append(words)
        before = role
    return found


def plain_reply(response: UrpResponse, dialect: str) -> str | None:
    """The words of a foreign reply that is one text; None for one of `dialect` itself, which may be replayed."""
    if response.origin == dialect or len(response.choices) != 1:
        return None
    choice = response.choices[0]
    if choice.index != 0 or len(choice.messages) != 1 or _is_of(choice, dialect):
        return None
    message = choice.messages[0]
    return None if _is_of(message, dialect) else _only_words(message.parts, dialect)


def _is_of(value: Choice | Message, dialect: str) -> bool:
    return value.source is not None and value.source.protocol == dialect


def _only_words(parts: tuple[Part, ...], dialect: str) -> str | None:
    if len(parts) != 1:
        return None
    part = parts[0]
    if type(part) is not Text or part.seal or part.citations or part.logprobs or part.extra_body:
        return None
    source, words = part.source, part.content
    if source is not None and source.protocol == dialect:
        return None
    return None if not words or words.isspace() else words
