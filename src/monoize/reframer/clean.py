"""The short way for a request about which there is nothing to say: read, judged and normalised in one go.

Whatever the types below accept, the published schema accepts as well; the reverse need not hold. What they refuse and
what calls for a finding takes the long way, which alone decides what is said of it.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, TypeAlias

import jsonschema_rs
import msgspec
from msgspec import UNSET, Meta, UnsetType

from monoize.reframer.constraints import (
    DEFAULT_TTL,
    Constraints,
    ContentFilter,
    Policies,
    Retrieval,
    RetrievalSource,
    Safety,
    ToolBudget,
    ToolLimit,
    in_filter_order,
)
from monoize.reframer.content import Content, Encoding, Kind, doubt
from monoize.reframer.formats import is_date_time
from monoize.reframer.normalized import (
    NO_METADATA,
    UNTAGGED,
    Attachment,
    Channel,
    Drawn,
    Normalized,
    NormalizedMessage,
    Payload,
    Tally,
)
from monoize.reframer.reader import keeps_every_name
from monoize.reframer.repair import MAX_PER_TOOL, MAX_TOTAL
from monoize.reframer.schemas import SCHEMA_VERSION
from monoize.reframer.tags import Role, TagEffects, TagTable

__all__ = ["clean_request"]

_LARGEST = 2**63 - 1  # larger integers are rare enough for the long way
_Name: TypeAlias = Annotated[str, Meta(min_length=1)]
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Metadata: TypeAlias = dict[str, str | Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)] | float | bool]  # fmt: skip


# What is absent is UNSET and not a default: written again, a request must have the names that it came with and no others.
class _Strict(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    pass


class _Channel(_Strict):
    channel_id: _Name
    role: Role
    priority: Annotated[int, Meta(ge=0, le=10)] | UnsetType = UNSET


class _Content(_Strict):
    type: Kind
    value: str
    encoding: Encoding | UnsetType = UNSET


class _Message(_Strict):
    id: _Name
    role: Role
    content: str | _Content
    protocol_tags: tuple[str, ...] | UnsetType = UNSET
    metadata: _Metadata | UnsetType = UNSET


class _Attachment(_Strict):
    id: _Name
    media_type: str
    uri: str
    hash: Annotated[str, Meta(pattern=r"\A[A-Fa-f0-9]{64}\Z")] | UnsetType = UNSET


class _Payload(_Strict):
    messages: Annotated[tuple[_Message, ...], Meta(min_length=1)]
    attachments: tuple[_Attachment, ...] | UnsetType = UNSET
    context_window: _Number | UnsetType = UNSET


class _Tool(_Strict):
    tool_name: _Name
    budget: Annotated[int, Meta(ge=0, le=MAX_PER_TOOL)]


class _ToolBudget(_Strict):
    total: Annotated[int, Meta(ge=0, le=MAX_TOTAL)]
    per_tool: tuple[_Tool, ...]


class _Source(_Strict):
    source_id: _Name
    allow: bool
    ttl_s: _Number | UnsetType = UNSET


class _Retrieval(_Strict):
    precision_threshold: Annotated[float, Meta(ge=0, le=1)]
    sources: tuple[_Source, ...]


class _Routing(_Strict):
    tool_budget: _ToolBudget
    retrieval: _Retrieval


class _Safety(_Strict):
    content_filters: tuple[ContentFilter, ...] | UnsetType = UNSET
    requires_human_review: bool | UnsetType = UNSET


class _Policies(_Strict):
    allow_copy: bool | UnsetType = UNSET
    allow_schema_mutation: bool | UnsetType = UNSET


class _Constraints(_Strict):
    routing: _Routing
    safety: _Safety | UnsetType = UNSET
    policies: _Policies | UnsetType = UNSET


class _Request(_Strict):
    request_id: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{8,64}\Z")]
    created_at: str
    channels: Annotated[tuple[_Channel, ...], Meta(min_length=1)]
    payload: _Payload
    schema_version: Literal["1.0.0"] | UnsetType = UNSET
    tenant: _Name | UnsetType = UNSET
    constraints: _Constraints | UnsetType = UNSET


_DECODER = msgspec.json.Decoder(_Request)
_ENCODER = msgspec.json.Encoder()


class _RemarkableError(Exception):
    """Something has to be said of this request, or might have to be."""


def clean_request(raw: bytes, table: TagTable) -> Drawn | None:
    """None: take the long way."""
    try:
        request = _DECODER.decode(raw)
        if not keeps_every_name(raw, _ENCODER.encode(request)):
            return None
        return _drawn(request, table)
    except (msgspec.DecodeError, UnicodeError, RecursionError, _RemarkableError):
        return None


def _drawn(request: _Request, table: TagTable) -> Drawn:
    if not is_date_time(request.created_at):
        raise _RemarkableError
    payload, attachments = request.payload, request.payload.attachments
    tally = Tally(table)
    normalized = Normalized(
        schema_version=SCHEMA_VERSION,
        request_id=request.request_id,
        created_at=request.created_at,
        tenant=request.tenant or None,
        channels=tuple([_channel(channel) for channel in request.channels]),
        payload=Payload(
            messages=_messages(payload.messages, table, tally),
            attachments=tuple([_attachment(one) for one in attachments]) if attachments else (),
            context_window=None if payload.context_window is UNSET else payload.context_window,
        ),
        constraints=_constraints(request.constraints) if request.constraints else None,
    )
    return Drawn(normalized, tuple(tally.effects), tally.counts, tally.tools)


def _channel(channel: _Channel) -> Channel:
    priority = None if channel.priority is UNSET else channel.priority
    return Channel(channel_id=channel.channel_id, role=channel.role, priority=priority)


def _attachment(one: _Attachment) -> Attachment:
    if not _uri().is_valid(one.uri):
        raise _RemarkableError
    return Attachment(id=one.id, media_type=one.media_type, uri=one.uri, hash=one.hash or None)


@cache
def _uri() -> jsonschema_rs.Validator:
    """The judge of the long way, for one text."""
    return jsonschema_rs.Draft202012Validator({"format": "uri"}, validate_formats=True)


# --- messages ------------------------------------------------------------------------------------


def _messages(
    messages: tuple[_Message, ...], table: TagTable, tally: Tally
) -> tuple[NormalizedMessage, ...]:
    _check_unique([message.id for message in messages])
    out = []
    for message in messages:
        role, tags = message.role, message.protocol_tags or ()
        effects = _effects(tags, role, table) if tags else UNTAGGED[role]
        tally.add(effects)
        content = message.content
        out.append(
            NormalizedMessage(
                id=message.id,
                role=effects.role or role,
                declared_role=role,
                content=Content(type="text", value=content, encoding="utf-8")
                if isinstance(content, str)
                else _content(content),
                protocol_tags=tags,
                tools=effects.tools,
                marks=effects.marks,
                metadata=message.metadata or NO_METADATA,
            )
        )
    return tuple(out)


def _effects(tags: tuple[str, ...], role: Role, table: TagTable) -> TagEffects:
    effects = table.usual(tags, role)
    if effects is None:
        raise _RemarkableError
    return effects


def _content(raw: _Content) -> Content:
    usual: Encoding = "base64" if raw.type == "binary" else "utf-8"
    content = Content(type=raw.type, value=raw.value, encoding=raw.encoding or usual)
    if doubt(content) is not None:
        raise _RemarkableError
    return content


# --- constraints ---------------------------------------------------------------------------------


def _constraints(raw: _Constraints) -> Constraints:
    safety, policies = raw.safety or _Safety(), raw.policies or _Policies()
    return Constraints(
        tool_budget=_tool_budget(raw.routing.tool_budget),
        retrieval=_retrieval(raw.routing.retrieval),
        safety=Safety(
            content_filters=in_filter_order(safety.content_filters or ()),
            requires_human_review=safety.requires_human_review is True,
        ),
        policies=Policies(
            allow_copy=policies.allow_copy is not False,
            allow_schema_mutation=policies.allow_schema_mutation is True,
        ),
    )


def _tool_budget(raw: _ToolBudget) -> ToolBudget:
    _check_unique([tool.tool_name for tool in raw.per_tool])
    limits = [ToolLimit(tool_name=tool.tool_name, budget=tool.budget) for tool in raw.per_tool]
    if sum([limit.budget for limit in limits]) > raw.total:
        raise _RemarkableError
    return ToolBudget(total=raw.total, per_tool=tuple(limits))


def _retrieval(raw: _Retrieval) -> Retrieval:
    _check_unique([source.source_id for source in raw.sources])
    sources = [
        RetrievalSource(
            source_id=source.source_id,
            allow=source.allow,
            ttl_s=DEFAULT_TTL if source.ttl_s is UNSET else source.ttl_s,
        )
        for source in raw.sources
    ]
    return Retrieval(precision_threshold=raw.precision_threshold, sources=tuple(sources))


def _check_unique(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise _RemarkableError
