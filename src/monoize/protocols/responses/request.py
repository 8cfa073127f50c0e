"""Requests as callers write them: Responses wire -> URP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from monoize.protocols._reading import (
    boolean,
    integer,
    number,
    object_at,
    optional_object,
    refuse,
    text,
)
from monoize.protocols.responses.items import decode_item
from monoize.protocols.responses.plain import plain_item
from monoize.protocols.responses.tools import (
    decode_choice,
    decode_tools,
    flat_names,
    inner_tools,
    namespace_of,
)
from monoize.protocols.responses.vocabulary import (
    DIALECT,
    EFFORT_IN,
    KNOWN,
    LOGPROBS,
    MINTED_REASONING,
    NAMED,
    source_of,
)
from monoize.urp import (
    EMPTY,
    JsonObjectFormat,
    JsonSchemaFormat,
    Message,
    ReasoningSettings,
    ResponseFormat,
    Role,
    Seal,
    Text,
    TextFormat,
    Tool,
    ToolCall,
    UrpRequest,
    replace,
)
from monoize.urp.carrier import Carried, CarriedPart, CarriedSeal, unpack
from monoize.urp.extra_body import rest

__all__ = ["decode_request"]

_SERVER_SIDE = ("prompt", "previous_response_id", "conversation")  # may stand instead of an input
_FORMAT_FIELDS = ("type", "name", "description", "schema", "strict")


def decode_request(
    body: Mapping[str, Any], *, model: str | None = None, stream: bool | None = None
) -> UrpRequest:
    name = model or text(body, "model") or refuse("model", "is required")
    items = _items(body)
    tools = _tools(body, items)
    renamed = flat_names(tools or ())
    history = _History(renamed)
    for index, item in enumerate(items):
        history.add(item, index)
    settings = optional_object(body, "text") or EMPTY
    extra = _extra(body, settings)
    streams = boolean(body, "stream") if stream is None else stream
    messages = (*_instructions(body), *history.messages())
    named: dict[str, Any] = {}
    for key, read in _SETTINGS:
        if key in body and body[key] is not None:
            named[key] = read(body, key)
    if body.get("tool_choice") is not None:
        named["tool_choice"] = decode_choice(body["tool_choice"], renamed)
    return UrpRequest(
        model=name,
        messages=messages,
        stream=bool(streams),
        logprobs=_wants_logprobs(body) or None,
        tools=tools,
        response_format=_format(settings),
        origin=DIALECT,
        inherited=KNOWN.intersection(extra),
        extra_body=extra or EMPTY,
        # A carrier means nothing to a Responses provider: such a request is written anew.
        source=None if history.carried else source_of(body),
        **named,
    )


def _items(body: Mapping[str, Any]) -> Sequence[Any]:
    value = body.get("input")
    if value is None:
        if not any(body.get(key) for key in _SERVER_SIDE):
            refuse("input", "is required")
        return ()
    if isinstance(value, str):
        return ({"role": "user", "content": value},)
    if not isinstance(value, list):
        refuse("input", "must be a string or an array of items")
    return value


def _instructions(body: Mapping[str, Any]) -> tuple[Message, ...]:
    instructions = text(body, "instructions")
    if instructions is None:
        return ()
    return (Message(role=Role.SYSTEM, parts=(Text(content=instructions),)),)


def _extra(body: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What became no named field, and known fields that are null (T34)."""
    extra = {key: value for key, value in body.items() if value is None or key not in NAMED}
    if body.get("stream") is False:
        extra["stream"] = False  # false and absent differ in a request written anew (T34)
    if not settings:
        return extra
    if settings.get("verbosity") is not None:
        extra["verbosity"] = settings["verbosity"]  # Chat has it at the top level
    others = {
        key: value
        for key, value in settings.items()
        if key not in ("format", "verbosity") and value is not None
    }
    return {**extra, "text": others} if others else extra


def _wants_logprobs(body: Mapping[str, Any]) -> bool:
    include = body.get("include")
    return isinstance(include, list) and LOGPROBS in include


def _reasoning(body: Mapping[str, Any], key: str) -> ReasoningSettings:
    wire = object_at(body[key], key)
    effort = text(wire, "effort", "reasoning")
    # `generate_summary` is the old name of `summary`.
    summary_field = "summary" if wire.get("summary") is not None else "generate_summary"
    summary = text(wire, summary_field, "reasoning")
    named = {key for key in ("effort", summary_field) if wire.get(key) is not None}
    return ReasoningSettings(
        effort=None if effort is None else EFFORT_IN.get(effort, effort),
        summary=summary,
        extra_body=rest(wire, named),
        source=source_of(wire),
    )


# Fields of one name on both sides and how they are read, in the order in which mistakes are told.
_SETTINGS: tuple[tuple[str, Callable[[Mapping[str, Any], str], Any]], ...] = (
    ("temperature", number),
    ("top_p", number),
    ("max_output_tokens", integer),
    ("top_logprobs", integer),
    ("parallel_tool_calls", boolean),
    ("user", text),
    ("metadata", optional_object),
    ("service_tier", text),
    ("reasoning", _reasoning),
)


def _tools(body: Mapping[str, Any], items: Sequence[Any]) -> tuple[Tool, ...] | None:
    outer = None if body.get("tools") is None else decode_tools(body["tools"])
    inner = inner_tools(outer or (), items)
    return (*(outer or ()), *inner) if inner else outer


def _format(settings: Mapping[str, Any]) -> ResponseFormat | None:
    value = settings.get("format")
    if value is None:
        return None
    wire = object_at(value, "text.format")
    match wire.get("type"):
        case "text":
            return TextFormat(extra_body=rest(wire, ("type",)), source=source_of(wire))
        case "json_object":
            return JsonObjectFormat(extra_body=rest(wire, ("type",)), source=source_of(wire))
        case "json_schema":
            named = {key for key in _FORMAT_FIELDS if wire.get(key, "") is not None}
            return JsonSchemaFormat(
                name=text(wire, "name", "text.format"),
                description=text(wire, "description", "text.format"),
                schema=optional_object(wire, "schema", "text.format"),
                strict=boolean(wire, "strict", "text.format"),
                extra_body=rest(wire, named),
                source=source_of(wire),
            )
        case _:
            return refuse("text.format.type", "must be one of text, json_object, json_schema")


class _History:
    """The items of a request; carriers among them become what they carry (T19, T20)."""

    def __init__(self, renamed: Mapping[tuple[str | None, str], str]) -> None:
        self.carried = False
        self._renamed = renamed  # tools that other providers know under a longer name
        self._messages: list[Message] = []
        self._seals: dict[str, Seal] = {}

    def add(self, item: Any, index: int) -> None:
        plain = plain_item(item)
        if plain is not None:
            self._messages.append(plain)
            return
        path, carried = f"input[{index}]", _carried(item)
        if carried is None and not _is_minted(item):
            message = self._with_flat_name(decode_item(item, path))
            if message.role is Role.SYSTEM:  # its number tells it from `instructions` when changed
                message = msgspec.structs.replace(message, envelope=len(self._messages))
            self._messages.append(message)
            return
        self.carried = True
        match carried:
            case CarriedPart():
                self._messages.append(Message(role=Role.ASSISTANT, parts=(carried.part,)))
            case CarriedSeal(call_id=str(call_id)):
                self._seals[call_id] = carried.seal
            case CarriedSeal():
                self._seal_last_text(carried.seal)
            case None:
                # Monoize made this id: no server has the item, but its words may still travel.
                self._messages.append(replace(decode_item(item, path), id=None))

    def _with_flat_name(self, message: Message) -> Message:
        """A call under the name by which its tool is declared to providers of other protocols."""
        call = message.parts[0] if self._renamed and message.parts else None
        if not isinstance(call, ToolCall):
            return message
        name = self._renamed.get((namespace_of(call.extra_body), call.name), call.name)
        # not `replace`: for a Responses provider nothing has changed
        named = msgspec.structs.replace(call, name=name)
        return msgspec.structs.replace(message, parts=(named,))

    def messages(self) -> list[Message]:
        if not self._seals:
            return self._messages
        return [self._with_seals(message) for message in self._messages]

    def _with_seals(self, message: Message) -> Message:
        parts = tuple(
            replace(part, seal=self._seals[part.call_id])
            if isinstance(part, ToolCall) and part.call_id in self._seals
            else part
            for part in message.parts
        )
        return message if parts == message.parts else replace(message, parts=parts)

    def _seal_last_text(self, seal: Seal) -> None:
        """The carrier follows the text whose seal it holds."""
        for at in range(len(self._messages) - 1, -1, -1):
            message = self._messages[at]
            for place in range(len(message.parts) - 1, -1, -1):
                part = message.parts[place]
                if isinstance(part, Text) and message.role is Role.ASSISTANT:
                    parts = (
                        *message.parts[:place],
                        replace(part, seal=seal),
                        *message.parts[place + 1 :],
                    )
                    self._messages[at] = replace(message, parts=parts)
                    return


def _carried(item: Any) -> Carried | None:
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return None
    return unpack(item.get("encrypted_content"))


def _is_minted(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.get("type") == "reasoning"
        and str(item.get("id")).startswith(MINTED_REASONING)
    )
