"""Grouping messages for an encoder: what can be replayed whole, and what is to be written anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from monoize.urp import Message, Role, Source

__all__ = ["Envelope", "envelopes", "turns"]

Envelope: TypeAlias = Source | tuple[Message, ...]


def envelopes(messages: Sequence[Message], dialect: str) -> Iterator[Envelope]:
    """A Source where an envelope of this dialect is untouched, else a run of messages to encode anew.

    An envelope that became several messages (D48) is untouched only when all of them still stand together.
    """
    anew: list[Message] = []
    position = 0
    while position < len(messages):
        source = messages[position].source
        if (
            source is not None
            and source.protocol == dialect
            and _complete(messages, position, source)
        ):
            if anew:
                yield tuple(anew)
                anew = []
            yield source
            position += source.span
        else:
            anew.append(messages[position])
            position += 1
    if anew:
        yield tuple(anew)


def _complete(messages: Sequence[Message], start: int, source: Source) -> bool:
    run = messages[start : start + source.span]
    return len(run) == source.span and all(message.source is source for message in run)


def turns(messages: Sequence[Message]) -> Iterator[tuple[Role, tuple[Message, ...]]]:
    """Neighbours that belong to one turn, for protocols that want a whole turn in one envelope.

    Assistant messages join (a Responses turn is many items). Tool results join, with the user's words of the
    same envelope (D48). Everything else stands alone.
    """
    run: list[Message] = []
    for message in messages:
        if run and _joins(run[-1], message):
            run.append(message)
            continue
        if run:
            yield run[0].role, tuple(run)
        run = [message]
    if run:
        yield run[0].role, tuple(run)


def _joins(before: Message, after: Message) -> bool:
    same_envelope = before.envelope is not None and before.envelope == after.envelope
    same_role = before.role is after.role and after.role in (Role.ASSISTANT, Role.TOOL)
    return same_role or same_envelope
