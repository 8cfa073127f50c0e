"""The way on: a normalised request as a call of a model, in the wire form of any protocol (D50)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec

from monoize.errors import InvalidRequest
from monoize.protocol import protocol
from monoize.reframer.content import Content, decoded
from monoize.reframer.finding import Path, field_path
from monoize.reframer.normalized import Attachment, Normalized, NormalizedMessage
from monoize.reframer.tags import Role
from monoize.urp import (
    Audio,
    Base64,
    File,
    Image,
    Losses,
    Message,
    Part,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Url,
    UrpRequest,
)
from monoize.urp import Role as UrpRole

__all__ = ["TARGETS", "Converted", "Remark", "converted", "urp_request"]

TARGETS = ("chat_completion", "responses", "messages", "gemini")

_BINARY = "application/octet-stream"
_MESSAGES = ("payload", "messages")
_ROLES = {
    Role.SYSTEM: UrpRole.SYSTEM,
    Role.USER: UrpRole.USER,
    Role.ASSISTANT: UrpRole.ASSISTANT,
    Role.TOOL: UrpRole.TOOL,
    Role.CODE: UrpRole.USER,  # fenced and labelled
    Role.DATA: UrpRole.USER,
}
_TICKS = re.compile("`+")
_URP_PATH = re.compile(r"messages\[(\d+)\](?:\.parts\[(\d+)\])?(.*)", re.DOTALL)
_APPLIED = ("<role:", "<tool:")  # tags that are done with once a message has its role


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Something of the request that did not go over as it was."""

    field_path: str
    reason: str


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    protocol: str
    path: str  # where to send it, below a provider's base URL
    body: dict[str, Any]
    dropped: tuple[Remark, ...]
    added: tuple[Remark, ...]

    def as_json(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self), "lossless": not self.dropped}


def converted(normalized: Normalized, *, target: str, model: str) -> Converted:
    """Raises InvalidRequest for a target that is none, and what the target's encoder raises."""
    if target not in TARGETS:
        raise InvalidRequest(f"into: must be one of {', '.join(TARGETS)}", param="into")
    if not model:
        raise InvalidRequest("model: into needs the name of a model", param="model")
    draft = _Draft(normalized)
    losses = Losses()
    wire = protocol(target).encode_request(draft.request(model), losses)
    lost = [
        Remark(field_path=draft.origin(path), reason=f"{target} has no place for it")
        for path in losses.dropped
    ]
    return Converted(
        protocol=target,
        path=wire.path,
        body=wire.body,
        dropped=(*draft.dropped, *lost),
        added=tuple(draft.added),
    )


def urp_request(normalized: Normalized, model: str) -> UrpRequest:
    """The same as a value, for whoever calls the pipeline from inside."""
    return _Draft(normalized).request(model)


class _Draft:
    """Messages of a request as URP messages, and for each of them the path that it came from."""

    def __init__(self, normalized: Normalized) -> None:
        self.dropped = list(_unmapped(normalized))
        self.added: list[Remark] = []
        self._messages: list[Message] = []
        self._origins: list[list[Path]] = []  # of a message: its own, then those of its parts
        self._tools: dict[str, None] = {}
        numbered = enumerate(normalized.payload.messages)
        for is_result, run in groupby(numbered, lambda pair: pair[1].role is Role.TOOL):
            if is_result:
                self._results(list(run))
            else:
                for number, message in run:
                    self._spoken(message, (*_MESSAGES, number))
        self._attach(normalized.payload.attachments)

    def request(self, model: str) -> UrpRequest:
        # Some providers take no calls, not even in a history, of tools that they were not told of.
        tools = tuple(
            Tool(name=name, parameters={"type": "object", "properties": {}}) for name in self._tools
        )
        return UrpRequest(model=model, messages=tuple(self._messages), tools=tools or None)

    def origin(self, path: str) -> str:
        """The request's own path for one of a URP request."""
        match = _URP_PATH.fullmatch(path)
        if match is None:
            return path
        origins = self._origins[int(match[1])]
        place = origins[0] if match[2] is None else origins[1 + int(match[2])]
        return field_path(place) + match[3]

    # --- messages ---

    def _spoken(self, message: NormalizedMessage, path: Path) -> None:
        part = self._part(message, path)
        parts = [] if part is None else [part]
        self._put(_ROLES[message.role], parts, path, [(*path, "content")])

    def _results(self, run: list[tuple[int, NormalizedMessage]]) -> None:
        """No provider takes a result without the call that it answers, so calls are put before a run of them."""
        calls: list[Part] = []
        for number, message in run:
            name = _tool(message)
            self._tools[name] = None
            calls.append(ToolCall(call_id=f"call_{number}", name=name, arguments="{}"))
            reason = f"a call of {name} was put before this result, and {name} was declared"
            place = field_path((*_MESSAGES, number))
            self.added.append(Remark(field_path=place, reason=reason))
        paths: list[Path] = [(*_MESSAGES, number) for number, _ in run]
        self._put(UrpRole.ASSISTANT, calls, paths[0], paths)
        for (number, message), path in zip(run, paths, strict=True):
            result = ToolResult(call_id=f"call_{number}", name=_tool(message))
            part = self._part(message, path)
            parts: list[Part] = [result] if part is None else [result, part]
            self._put(UrpRole.TOOL, parts, path, [path, (*path, "content")])

    def _put(self, role: UrpRole, parts: list[Part], path: Path, inside: list[Path]) -> None:
        self._messages.append(Message(role=role, parts=tuple(parts)))
        self._origins.append([path, *inside])

    # --- content ---

    def _part(self, message: NormalizedMessage, path: Path) -> Part | None:
        content = message.content
        text = content.text()
        if text is not None:
            fences = message.role in (Role.CODE, Role.DATA)
            return Text(content=_fenced(message.role, content, text) if fences else text)
        data = _base64(content)
        if content.type == "binary" and data is not None:
            return _file(Base64(data=data, media_type=_media_type(message)))
        reason = "it is not base64" if data is None else "it is not UTF-8 inside"
        self.dropped.append(Remark(field_path=field_path((*path, "content")), reason=reason))
        return None

    def _attach(self, attachments: tuple[Attachment, ...]) -> None:
        """To the last words of the user, or in a message of its own."""
        parts = [_file(Url(url=one.uri, media_type=one.media_type)) for one in attachments]
        paths: list[Path] = [("payload", "attachments", number) for number in range(len(parts))]
        said = [n for n, message in enumerate(self._messages) if message.role is UrpRole.USER]
        if parts and said:
            message = self._messages[said[-1]]
            self._messages[said[-1]] = Message(role=message.role, parts=(*message.parts, *parts))
            # what the message holds may be less than what it came from
            del self._origins[said[-1]][1 + len(message.parts) :]
            self._origins[said[-1]] += paths
        elif parts:
            self._put(UrpRole.USER, [*parts], paths[0], paths)


def _unmapped(normalized: Normalized) -> Iterator[Remark]:
    """What a call of a model has no place for, whatever the protocol."""
    yield Remark(field_path="channels", reason="a call has no channels")
    if normalized.tenant is not None:
        yield Remark(field_path="tenant", reason="a call has no tenant")
    payload = normalized.payload
    if payload.context_window is not None:
        reason = "the size of the context is the model's"
        yield Remark(field_path="payload.context_window", reason=reason)
    for number, message in enumerate(payload.messages):
        path = f"payload.messages[{number}]"
        if any(not tag.startswith(_APPLIED) for tag in message.protocol_tags):
            yield Remark(field_path=f"{path}.protocol_tags", reason="a call has no masks")
        if message.metadata.keys() - _used_metadata(message):
            yield Remark(field_path=f"{path}.metadata", reason="a message has no metadata")
    for number, attachment in enumerate(payload.attachments):
        if attachment.hash is not None:
            path = f"payload.attachments[{number}].hash"
            yield Remark(field_path=path, reason="nobody checks it")
    if normalized.constraints is not None:
        reason = "whoever makes the calls has to keep them"
        yield Remark(field_path="constraints", reason=reason)


def _fenced(role: Role, content: Content, text: str) -> str:
    """Labelled, and inside a fence that is longer than any in the text."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    language = "json" if content.type == "json" else ""
    return f"[{role.value}]\n{fence}{language}\n{text}\n{fence}"


def _base64(content: Content) -> str | None:
    if content.encoding == "utf-8":
        return base64.b64encode(content.value.encode()).decode()
    return content.value if decoded(content.value) is not None else None


def _tool(message: NormalizedMessage) -> str:
    return message.tools[-1] if message.tools else "tool"


def _used_metadata(message: NormalizedMessage) -> set[str]:
    return {"media_type"} if message.content.type == "binary" else set()


def _media_type(message: NormalizedMessage) -> str:
    """The schema has no place for it; `metadata.media_type` is one that people find."""
    named = message.metadata.get("media_type")
    return named if isinstance(named, str) and "/" in named else _BINARY


def _file(media: Base64 | Url) -> Image | Audio | File:
    kind = (media.media_type or "").partition("/")[0].lower()
    if kind == "image":
        return Image(media=media)
    if kind == "audio":
        return Audio(media=media)
    return File(media=media)
