"""The short way for what nearly every input item is: a role and words, and nothing else.

It takes exactly what the JSON reader makes of such an item and leaves the rest to the long way, which would come
to the same result with many times the work.
"""

from __future__ import annotations

from typing import Any

from monoize.protocols._plain import bare_texts
from monoize.protocols.responses.vocabulary import DIALECT
from monoize.urp import Message, Role, Source, Text

__all__ = ["plain_item"]

# The place of a system message among the items is remembered, which is not the business of this module.
_ROLES = {"developer": Role.DEVELOPER, "user": Role.USER, "assistant": Role.ASSISTANT}
_TEXTS = ("input_text", "output_text")
_BARE = 2  # fields: a role and a content


def plain_item(wire: Any) -> Message | None:
    """A role and a content of text or of bare text parts, perhaps said to be a message; None for every other."""
    if type(wire) is not dict:
        return None
    if len(wire) != _BARE + (wire.get("type") == "message"):
        return None
    said_by, content = wire.get("role"), wire.get("content")
    role = _ROLES.get(said_by) if type(said_by) is str else None
    if role is None:
        return None
    if type(content) is str:
        parts: tuple[Text, ...] = (Text(content=content),)
    else:
        texts = bare_texts(content, _TEXTS, DIALECT)
        if texts is None:
            return None
        parts = texts
    return Message(role=role, parts=parts, source=Source(DIALECT, wire))
