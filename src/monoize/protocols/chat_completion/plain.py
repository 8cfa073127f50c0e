"""The short way for what nearly every chat message is: a role and words, and nothing else.

It takes exactly what the JSON reader makes of such a message and leaves the rest to the long way, which would come
to the same result with twenty times the work.
"""

from __future__ import annotations

from typing import Any

from monoize.protocols._plain import bare_texts
from monoize.protocols.chat_completion.fields import DIALECT
from monoize.urp import Message, Role, Source, Text

__all__ = ["plain_message"]

# A tool's message needs the call that it answers.
_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}
_TEXTS = ("text",)
_BARE = 2  # fields: a role and a content


def plain_message(wire: Any) -> Message | None:
    """A message of two fields whose content is text or a list of texts; None for every other."""
    if type(wire) is not dict or len(wire) != _BARE:
        return None
    said_by, content = wire.get("role"), wire.get("content")
    role = _ROLES.get(said_by) if type(said_by) is str else None
    if role is None:
        return None
    if type(content) is str:
        return Message(role=role, parts=(Text(content=content),), source=Source(DIALECT, wire))
    texts = bare_texts(content, _TEXTS, DIALECT)
    return None if texts is None else Message(role=role, parts=texts, source=Source(DIALECT, wire))
