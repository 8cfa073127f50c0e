"""Grouping messages for an encoder: what can be replayed whole, and what is to be written anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from monoize.urp import Losses, Message, ProviderItem, Role, Source, ToolCall, ToolResult

__all__ = ["Envelope", "answerable", "answered", "envelopes", "turns"]

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


def answerable(messages: Sequence[Message], dialect: str, losses: Losses) -> tuple[Message, ...]:
    """Without the results of native calls that stay behind: a result without its call is refused (T25).

    Codex answers a `local_shell_call`, which only its own protocol can say, with an ordinary output.
    """
    parts = [part for message in messages for part in message.parts]
    called = {part.call_id for part in parts if isinstance(part, ToolCall)}
    foreign = [p for p in parts if isinstance(p, ProviderItem) and p.origin_protocol != dialect]
    named = [p.body.get("call_id") for p in foreign if isinstance(p.body, Mapping)]
    stays_behind = {call_id for call_id in named if isinstance(call_id, str)} - called
    kept: list[Message] = []
    for number, message in enumerate(messages):
        answers = {part.call_id for part in message.parts if isinstance(part, ToolResult)}
        if answers and answers <= stays_behind:
            losses.drop(f"messages[{number}]")
        else:
            kept.append(message)
    return tuple(kept)


def answered(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Every tool result behind the turn that made its call: some providers take it nowhere else (T25).

    Responses callers may put words between a call and its result, or between the results of parallel calls.
    """
    groups: list[list[Message]] = []  # an assistant's turn with its answers, or one other message
    caller: dict[str, list[Message]] = {}
    for message in messages:
        group = _own_group(message, groups, caller)
        if group is None:
            group = []
            groups.append(group)
        group.append(message)
        for part in message.parts:
            if isinstance(part, ToolCall):
                caller[part.call_id] = group
    return tuple(message for group in groups for message in group)


def _own_group(
    message: Message, groups: Sequence[list[Message]], caller: Mapping[str, list[Message]]
) -> list[Message] | None:
    """The turn that a result answers, or the turn that an assistant is still in."""
    if message.role is Role.ASSISTANT:
        in_turn = groups and groups[-1][-1].role is Role.ASSISTANT
        return groups[-1] if in_turn else None
    results = (part for part in message.parts if isinstance(part, ToolResult))
    return next((caller[part.call_id] for part in results if part.call_id in caller), None)
