"""A request in its one internal form: every default said, every tag applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.reframer.codes import found
from monoize.reframer.constraints import Constraints, normalised
from monoize.reframer.content import Content, content_of, note_ignored
from monoize.reframer.diagnostics import subject
from monoize.reframer.finding import Finding, Notes
from monoize.reframer.privacy import quoted
from monoize.reframer.schemas import SCHEMA_VERSION
from monoize.reframer.tags import UNKNOWN_COUNTER, Role, TagEffects, TagPlace, TagTable, is_tag

__all__ = [
    "NO_METADATA",
    "UNTAGGED",
    "Attachment",
    "Channel",
    "Drawn",
    "Normalized",
    "NormalizedMessage",
    "Payload",
    "Tally",
    "normalised_request",
    "note_tag_mistakes",
]

_ATTACHMENT_FIELDS = frozenset({"id", "media_type", "uri", "hash"})
_MESSAGES = ("payload", "messages")
NO_METADATA: Mapping[str, str | int | float | bool] = {}


class Channel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    channel_id: str
    role: Role
    priority: int | None


class NormalizedMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    role: Role  # after the tags
    declared_role: Role  # before them
    content: Content
    protocol_tags: tuple[str, ...]
    tools: tuple[str, ...]  # registered for the tool budget
    marks: tuple[str, ...]  # safety_review, retrieval_context, and what flags add
    metadata: Mapping[str, str | int | float | bool]


class Attachment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    media_type: str
    uri: str
    hash: str | None


class Payload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    messages: tuple[NormalizedMessage, ...]
    attachments: tuple[Attachment, ...]
    context_window: int | None


class Normalized(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    schema_version: str
    request_id: str
    created_at: str
    tenant: str | None
    channels: tuple[Channel, ...]
    payload: Payload
    constraints: Constraints | None  # None: unconstrained


class Drawn(msgspec.Struct, frozen=True, gc=False):
    """What comes out of one request: its form, what the tags of each message do, and what was counted."""

    normalized: Normalized
    effects: tuple[TagEffects, ...]
    counts: dict[str, int]
    tools: dict[str, int]  # tool -> messages that are tagged with it


def normalised_request(document: Any, original: Any, table: TagTable, notes: Notes) -> Drawn:
    """Of a document that the schema accepts; mistakes that only its meaning shows go into `notes`."""
    payload = document["payload"]
    tally = Tally(table)
    messages = _MessageDesk(document, table, notes, tally).messages(payload["messages"])
    normalized = Normalized(
        schema_version=SCHEMA_VERSION,
        request_id=document["request_id"],
        created_at=document["created_at"],
        tenant=document.get("tenant"),
        channels=tuple(_channel(raw) for raw in document["channels"]),
        payload=Payload(
            messages=messages,
            attachments=tuple(
                _attachment(number, raw, document, notes)
                for number, raw in enumerate(payload.get("attachments", ()))
            ),
            context_window=_whole(payload.get("context_window")),
        ),
        constraints=normalised(document, original, notes),
    )
    return Drawn(normalized, tuple(tally.effects), tally.counts, tally.tools)


def note_tag_mistakes(document: Any, table: TagTable, notes: Notes) -> None:
    """Of a document that the schema refuses: tags that are well-formed are looked at all the same."""
    payload = document.get("payload") if isinstance(document, dict) else None
    messages = payload.get("messages") if isinstance(payload, dict) else None
    for number, raw in enumerate(messages if isinstance(messages, list) else ()):
        tags = raw.get("protocol_tags") if isinstance(raw, dict) else None
        if isinstance(tags, list) and tags and all(map(is_tag, tags)):
            path = (*_MESSAGES, number)
            role = _ROLES.get(raw["role"]) if isinstance(raw.get("role"), str) else None
            place = TagPlace((*path, "protocol_tags"), lambda: subject(path, document))  # noqa: B023
            table.apply(tags, role, place, notes)


_ROLES = {role.value: role for role in Role}
UNTAGGED: Mapping[Role, TagEffects] = {role: TagEffects(role) for role in Role}


class Tally:
    """What the tags of all messages do and add up to."""

    def __init__(self, table: TagTable) -> None:
        self.effects: list[TagEffects] = []
        self.counts = dict.fromkeys((*table.counters, UNKNOWN_COUNTER), 0)
        self.tools: dict[str, int] = {}

    def add(self, effects: TagEffects) -> None:
        """Of the next message."""
        self.effects.append(effects)
        for counter in effects.counters:
            self.counts[counter] += 1
        for tool in effects.tools:
            self.tools[tool] = self.tools.get(tool, 0) + 1
        self.counts[UNKNOWN_COUNTER] += effects.unknown


class _MessageDesk:
    """Messages one after the other."""

    def __init__(self, document: Any, table: TagTable, notes: Notes, tally: Tally) -> None:
        self._document = document
        self._table = table
        self._notes = notes
        self._tally = tally

    def messages(self, raw: list[dict[str, Any]]) -> tuple[NormalizedMessage, ...]:
        if len({message["id"] for message in raw}) < len(raw):
            self._note_repeated_ids(raw)
        return tuple([self._message(*item) for item in enumerate(raw)])

    def _message(self, number: int, raw: dict[str, Any]) -> NormalizedMessage:
        declared, content, tags = _ROLES[raw["role"]], raw["content"], raw.get("protocol_tags")
        effects = self._effects(tags, declared, number) if tags else UNTAGGED[declared]
        self._tally.add(effects)
        return NormalizedMessage(
            id=raw["id"],
            role=effects.role or declared,
            declared_role=declared,
            content=(
                Content(type="text", value=content, encoding="utf-8")
                if isinstance(content, str)
                else content_of(
                    content, (*_MESSAGES, number, "content"), self._document, self._notes
                )
            ),
            protocol_tags=tuple(tags) if tags else (),
            tools=effects.tools,
            marks=effects.marks,
            metadata=raw.get("metadata", NO_METADATA),
        )

    def _effects(self, tags: Any, role: Role, number: int) -> TagEffects:
        effects = self._table.usual(tags, role)
        if effects is None:
            path = (*_MESSAGES, number)
            place = TagPlace((*path, "protocol_tags"), lambda: subject(path, self._document))
            effects = self._table.apply(tags, role, place, self._notes)
        return effects

    def _note_repeated_ids(self, raw: list[dict[str, Any]]) -> None:
        seen: set[str] = set()
        for number, message in enumerate(raw):
            id_ = message["id"]
            if id_ in seen:
                self._notes.add("warning", lambda: _repeated_id(id_, number))  # noqa: B023
            seen.add(id_)


def _repeated_id(id_: str, number: int) -> Finding:
    sentence = f"Message {quoted(id_)} has the id of an earlier message"
    return found("DUPLICATE_MESSAGE_ID", sentence, (*_MESSAGES, number, "id"))


def _channel(raw: dict[str, Any]) -> Channel:
    return Channel(
        channel_id=raw["channel_id"], role=_ROLES[raw["role"]], priority=_whole(raw.get("priority"))
    )


def _attachment(number: int, raw: dict[str, Any], document: Any, notes: Notes) -> Attachment:
    note_ignored(raw, _ATTACHMENT_FIELDS, ("payload", "attachments", number), document, notes)
    return Attachment(
        id=raw["id"], media_type=raw["media_type"], uri=raw["uri"], hash=raw.get("hash")
    )


def _whole(value: float | None) -> int | None:
    """`3.0` is an integer to the schema."""
    return None if value is None else int(value)
