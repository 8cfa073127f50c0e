"""Chat reply -> URP: tolerant of everything that compatible providers leave out, add or spell their own way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.clock import IdSource
from monoize.protocols.chat_completion.content import citation, native_item, part_from
from monoize.protocols.chat_completion.fields import DIALECT, present, source, spoken
from monoize.protocols.chat_completion.thoughts import PLAIN_KEYS, read_thoughts
from monoize.protocols.chat_completion.tools import argument_text, call_seal, decode_call
from monoize.protocols.chat_completion.usage import decode_finish, decode_usage
from monoize.urp import (
    Audio,
    Base64,
    Choice,
    Message,
    Part,
    Refusal,
    Role,
    Text,
    ToolCall,
    UrpResponse,
)
from monoize.urp.extra_body import rest

__all__ = [
    "CHOICE_FIELDS",
    "MESSAGE_FIELDS",
    "REPLY_FIELDS",
    "audio_part",
    "content_parts",
    "decode_response",
    "image_parts",
    "token_lists",
]

# `object` and the padding fields against traffic analysis are bookkeeping.
REPLY_FIELDS = frozenset(
    {"id", "model", "created", "object", "choices", "usage", "service_tier", "obfuscation", "p"}
)
CHOICE_FIELDS = frozenset(
    {"index", "message", "delta", "finish_reason", "logprobs", "usage", "error"}
)
MESSAGE_FIELDS = frozenset(
    {
        "role",
        "content",
        "refusal",
        "annotations",
        "audio",
        "images",
        "tool_calls",
        "function_call",
        "reasoning_details",
        *PLAIN_KEYS,
    }
)
_PART_FIELDS = MESSAGE_FIELDS - {"role", "content"}
_NUMBERS = (int, float)


def decode_response(body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
    choices = body.get("choices")
    created = body.get("created")
    usage = body.get("usage")
    if not usage and isinstance(body.get("x_groq"), dict):
        usage = body["x_groq"].get("usage")
    return UrpResponse(
        id=spoken(body.get("id")) or ids.new("chatcmpl-"),
        model=spoken(body.get("model")),
        created=int(created) if isinstance(created, _NUMBERS) else None,
        choices=tuple(
            [
                _choice(choice, n, ids)
                for n, choice in enumerate(choices if isinstance(choices, list) else ())
                if isinstance(choice, dict)
            ]
        ),
        usage=decode_usage(usage),
        service_tier=spoken(body.get("service_tier")) or None,
        origin=DIALECT,
        extra_body=present(body, REPLY_FIELDS),
        source=source(body),
    )


def _choice(wire: Mapping[str, Any], position: int, ids: IdSource) -> Choice:
    message = wire.get("message")
    if not isinstance(message, dict):  # some write a finished reply as one delta
        message = wire["delta"] if isinstance(wire.get("delta"), dict) else {}
    parts, extra = _parts(message, ids), present(wire, CHOICE_FIELDS)
    if wire.get("logprobs"):
        tokens, other_tokens = token_lists(wire["logprobs"])
        parts, left = _with_logprobs(parts, tokens)
        if left:
            other_tokens = {"content": left, **other_tokens}
        if other_tokens:
            extra = {**extra, "logprobs": other_tokens}
    index = wire.get("index")
    return Choice(
        index=index if isinstance(index, int) else position,
        messages=_messages(message, parts),
        finish=decode_finish(wire),
        extra_body=extra,
        source=source(wire),
    )


def _messages(message: Mapping[str, Any], parts: tuple[Part, ...]) -> tuple[Message, ...]:
    if not parts:
        return ()
    extra = present(message, MESSAGE_FIELDS)
    return (Message(role=Role.ASSISTANT, parts=parts, extra_body=extra, source=source(message)),)


def token_lists(logprobs: Any) -> tuple[list[Any], dict[str, Any]]:
    """The tokens of the text, and other lists: of a refusal, of the reasoning, or in an older form."""
    if not isinstance(logprobs, dict):
        return [], {}
    content = logprobs.get("content")
    tokens = (
        [token for token in content if isinstance(token, dict)] if isinstance(content, list) else []
    )
    others = {k: v for k, v in logprobs.items() if k != "content" and v is not None}
    return tokens, others


def _with_logprobs(
    parts: tuple[Part, ...], tokens: list[Any]
) -> tuple[tuple[Part, ...], list[Any]]:
    """The tokens on the text they belong to; what is left when there is no text."""
    for n, part in enumerate(parts if tokens else ()):
        if isinstance(part, Text):
            text = msgspec.structs.replace(part, logprobs=tuple(tokens))
            return (*parts[:n], text, *parts[n + 1 :]), []
    return parts, tokens


def _parts(message: Mapping[str, Any], ids: IdSource) -> tuple[Part, ...]:
    content = content_parts(message.get("content"))
    if not _says_more(message):
        return tuple(content)
    thoughts = read_thoughts(message, carriers=False)
    parts: list[Part] = [*thoughts.parts, *_cited(content, message)]
    refusal = spoken(message.get("refusal"))
    parts += [Refusal(content=refusal)] if refusal else []
    audio = audio_part(message.get("audio"), "audio/wav")
    parts += [audio] if audio else []
    parts += image_parts(message.get("images"))
    return (*parts, *_calls(message, ids))


def _says_more(message: Mapping[str, Any]) -> bool:
    """Whether a message may hold parts beside its content; most providers write the empty fields too."""
    return bool([key for key, value in message.items() if value and key in _PART_FIELDS])


def content_parts(content: Any) -> list[Part]:
    """A string, or the list of parts that some dialects write; nothing for what is empty."""
    if isinstance(content, str):
        return [Text(content=content)] if content else []
    if not isinstance(content, list):
        return []
    parts: list[Part] = []
    for wire in content:
        if isinstance(wire, str):
            parts.append(Text(content=wire))
        elif isinstance(wire, dict):
            parts.append(part_from(wire) or native_item(wire))
    return [part for part in parts if not (isinstance(part, Text) and not part.content)]


def _cited(parts: list[Part], message: Mapping[str, Any]) -> list[Part]:
    annotations = message.get("annotations")
    if not isinstance(annotations, list) or not annotations:
        return parts
    cited = tuple(citation(entry) for entry in annotations if isinstance(entry, dict))
    for n, part in enumerate(parts):
        if isinstance(part, Text):
            parts[n] = msgspec.structs.replace(part, citations=cited)
            return parts
    return [*parts, Text(content="", citations=cited)]


def audio_part(wire: Any, media_type: str) -> Audio | None:
    """The reply does not name the format that the caller asked for: unary replies default to wav, streams to pcm."""
    if not isinstance(wire, dict) or not any(wire.get(key) for key in ("id", "data", "transcript")):
        return None
    return Audio(
        media=Base64(data=spoken(wire.get("data")), media_type=media_type),
        transcript=spoken(wire.get("transcript")) or None,
        id=spoken(wire.get("id")) or None,
        extra_body=present(wire, frozenset({"id", "data", "transcript"})),
    )


def image_parts(images: Any) -> list[Part]:
    """Pictures that a model drew, as OpenRouter writes them; their number only orders a stream."""
    if not isinstance(images, list):
        return []
    wires = [dict(rest(wire, {"index"})) for wire in images if isinstance(wire, dict)]
    return [part_from(wire) or native_item(wire) for wire in wires]


def _calls(message: Mapping[str, Any], ids: IdSource) -> list[Part]:
    calls: list[Part] = []
    entries = message.get("tool_calls")
    for wire in entries if isinstance(entries, list) else ():
        if not isinstance(wire, dict):
            continue
        call = decode_call(wire, spoken(wire.get("id")) or ids.new("call_"))
        if call is None:
            calls.append(native_item(wire, "tool_calls."))
            continue
        seal = call_seal(wire, from_caller=False)
        calls.append(msgspec.structs.replace(call, seal=seal) if seal else call)
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and legacy.get("name"):
        calls.append(
            ToolCall(
                call_id=ids.new("call_"),
                name=spoken(legacy["name"]),
                arguments=argument_text(legacy.get("arguments")),
            )
        )
    return calls
