"""The short way for what nearly every message is: a role and words, and nothing else.

It takes exactly what the JSON reader makes of such a message and leaves the rest to the long way, which would come
to the same result with several times the work.
"""

from __future__ import annotations

from typing import Any

from monoize.protocols._plain import bare_texts
from monoize.protocols.messages.dialect import DIALECT
from monoize.urp import Message, Role, Source, Text

__all__ = ["plain_message"]

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_TEXTS = ("text",)
_BARE = 2  # fields: a role and a content


def plain_message(wire: Any) -> Message | None:
    """A message of two fields whose content is text or a list of bare text blocks; None for every other."""
    if type(wire) is not dict or len(wire) != _BARE:
        return None
    said_by, content = wire.get("role"), wire.get("content")
    role = _ROLES.get(said_by) if type(said_by) is str else None
    if role is None:
        return None
    if type(content) is str:
        parts: tuple[Text, ...] = (Text(content=content, source=Source(DIALECT, content)),)
    else:
        texts = bare_texts(content, _TEXTS, DIALECT)
        if texts is None:
            return None
        parts = texts
    return Message(role=role, parts=parts, source=Source(DIALECT, wire))
