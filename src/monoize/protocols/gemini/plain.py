"""The short way for what nearly every content is: a role and words, and nothing else.

It takes exactly what the JSON reader makes of such a content and leaves the rest to the long way, which would come
to the same result with many times the work.
"""

from __future__ import annotations

from typing import Any

from monoize.protocols.gemini.spelling import DIALECT
from monoize.urp import Message, Role, Source, Text

__all__ = ["plain_content"]

_ROLES = {"user": Role.USER, "model": Role.ASSISTANT}
_BARE = 2  # fields: a role and parts


def plain_content(wire: Any) -> Message | None:
    """A content of a role and a list of `{"text": ...}`, none of them empty; None for every other."""
    if type(wire) is not dict or len(wire) != _BARE:
        return None
    said_by, parts = wire.get("role"), wire.get("parts")
    role = _ROLES.get(said_by) if type(said_by) is str else None
    if role is None or type(parts) is not list:
        return None
    texts = []
    for part in parts:
        words = part.get("text") if type(part) is dict and len(part) == 1 else None
        if type(words) is not str or not words:
            return None
        texts.append(Text(content=words, source=Source(DIALECT, part)))
    return Message(role=role, parts=tuple(texts), source=Source(DIALECT, wire))
