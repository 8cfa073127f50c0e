"""Chat inside the envelope: its payload becomes a chat completion, and goes the way of every other call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from typing_extensions import override

from monoize.errors import InvalidRequest
from monoize.media.ref import HttpUrl, InlineBase64, MediaRef, SmsFile
from monoize.operation import Needs, Operation, Payload

__all__ = ["OPERATION", "ChatCompletionsPayload", "chat_wire"]

Json = dict[str, Any]


class ChatCompletionsPayload(Payload, frozen=True, kw_only=True):
    """Messages as roles and `content_parts`; `content` as chat completions write it is taken, too."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] | None = None
    tool_choice: str | dict[str, Any] | None = None
    generation: Mapping[str, Any] = {}  # temperature, top_p, max_tokens, stop, seed, stream, …
    response_format: dict[str, Any] | None = None


class ChatCompletions(Operation[ChatCompletionsPayload]):
    id = "chat_completions"
    payload_type = ChatCompletionsPayload

    @override
    def needs(self, payload: ChatCompletionsPayload) -> Needs:
        features = set()
        if payload.tools:
            features.add("supports_tools")
        if (payload.response_format or {}).get("type") == "json_schema":
            features.add("supports_json_schema")
        if payload.generation.get("stream"):
            features.add("supports_stream")
        if any(message.get("role") in ("system", "developer") for message in payload.messages):
            features.add("supports_system_role")
        return Needs(features=frozenset(features))

    @override
    def downgraded(
        self, payload: ChatCompletionsPayload, missing: frozenset[str]
    ) -> tuple[ChatCompletionsPayload, tuple[str, ...]] | None:
        """Only a missing system role can be done without: its words go before the first user message."""
        if missing != {"supports_system_role"}:
            return None
        merged = _without_system(payload.messages)
        if merged is None:
            return None
        told = (
            "system messages were put before the first user message: the backend has no system role"
        )
        return msgspec.structs.replace(payload, messages=merged), (told,)

    @override
    def media(self, payload: ChatCompletionsPayload) -> Mapping[str, MediaRef]:
        """By path, so that what is stored or fetched finds its way back."""
        found: dict[str, MediaRef] = {}
        for i, message in enumerate(payload.messages):
            for j, part in enumerate(message.get("content_parts") or ()):
                kind = part.get("type") if isinstance(part, Mapping) else None
                if kind in _MEDIA and part.get(kind) is not None:
                    path = f"messages[{i}].content_parts[{j}].{kind}"
                    found[path] = _reference(part[kind], path)
        return found


_MEDIA = ("image", "audio", "file")
OPERATION = ChatCompletions()


def chat_wire(payload: ChatCompletionsPayload, media: Mapping[str, MediaRef]) -> Json:
    """The chat completion that this payload means; `media`: its references as the media policy left them."""
    wire: Json = {"model": payload.model, "messages": []}
    for i, message in enumerate(payload.messages):
        if "content_parts" not in message:
            wire["messages"].append(message)
            continue
        parts = [
            _part(part, f"messages[{i}].content_parts[{j}]", media)
            for j, part in enumerate(message["content_parts"] or ())
        ]
        others = {name: value for name, value in message.items() if name != "content_parts"}
        wire["messages"].append({**others, "content": parts})
    named = {
        "tools": list(payload.tools) if payload.tools is not None else None,
        "tool_choice": payload.tool_choice,
        "response_format": payload.response_format,
    }
    wire |= {name: value for name, value in named.items() if value is not None}
    return {**payload.extra, **payload.generation, **wire}  # named fields win (URP-7)


def _part(part: Any, path: str, media: Mapping[str, MediaRef]) -> Json:
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise InvalidRequest(f"{path} must be an object with a type", param=f"payload.{path}")
    kind = part["type"]
    reference = media.get(f"{path}.{kind}")
    if reference is None:
        return dict(part)
    others = {name: value for name, value in part.items() if name not in ("type", kind)}
    match kind:
        case "image":
            return {"type": "image_url", "image_url": {"url": _url(reference), **others}}
        case "audio":
            form = reference.mime.rpartition("/")[2].removeprefix("x-")
            sound = {
                "data": _data(reference),
                "format": {"mpeg": "mp3", "wave": "wav"}.get(form, form),
            }
            return {"type": "input_audio", "input_audio": {**sound, **others}}
        case _:
            return {"type": "file", "file": {"file_data": _url(reference), **others}}


def _url(reference: MediaRef) -> str:
    match reference:
        case SmsFile(uri=uri):
            return uri
        case HttpUrl(url=url):
            return url
        case InlineBase64(mime=mime, data=data):
            return f"data:{mime};base64,{data}"


def _data(reference: MediaRef) -> str:
    return reference.data if isinstance(reference, InlineBase64) else _url(reference)


def _reference(wire: Any, path: str) -> MediaRef:
    try:
        found: MediaRef = msgspec.convert(wire, MediaRef)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise InvalidRequest(f"{path}: {error}", param=f"payload.{path}") from None
    return found


def _without_system(messages: tuple[Json, ...]) -> tuple[Json, ...] | None:
    said: list[Json] = []
    others: list[Json] = []
    for message in messages:
        (said if message.get("role") in ("system", "developer") else others).append(message)
    at = next((i for i, message in enumerate(others) if message.get("role") == "user"), None)
    if at is None:
        return None
    parts = [part for message in (*said, others[at]) for part in _parts(message)]
    rest = {k: v for k, v in others[at].items() if k not in ("content", "content_parts")}
    others[at] = {**rest, "content_parts": parts}
    return tuple(others)


def _parts(message: Json) -> list[Any]:
    parts = message.get("content_parts", message.get("content"))
    if isinstance(parts, str):
        return [{"type": "text", "text": parts}]
    return list(parts or ())
