"""A caller's request -> URP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monoize.protocols._reading import (
    boolean,
    integer,
    items,
    number,
    object_at,
    optional_object,
    refuse,
    text,
    text_list,
)
from monoize.protocols.messages.dialect import DIALECT, KNOWN_FIELDS, NAMED_FIELDS
from monoize.protocols.messages.history_decode import history_of
from monoize.urp import (
    EMPTY,
    JsonSchemaFormat,
    ReasoningSettings,
    ResponseFormat,
    Source,
    Tool,
    ToolChoice,
    UrpRequest,
)
from monoize.urp.extra_body import rest

__all__ = ["decode_request"]

# This protocol's word for "no better than the default" and everybody else's.
_TIERS = {"standard_only": "default"}
# Values that ask for nothing: written again for this protocol as the caller wrote them (T34).
_SAYING_NOTHING: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("stream", (False,)),
    ("system", ("", [])),
)
# Settings with objects of their own; most requests have none of them.
_NESTED = frozenset({"output_config", "output_format", "thinking", "metadata"})
_TOOL_FIELDS = frozenset({"type", "name", "description", "input_schema", "strict"})
_NULLABLE = ("description", "input_schema", "strict")
_CHOICES = {"auto": "auto", "any": "required", "none": "none", "tool": "named"}


def decode_request(
    body: Mapping[str, Any], model: str | None = None, stream: bool | None = None
) -> UrpRequest:
    name = model or text(body, "model")
    if not name:
        refuse("model", "is required")
    extra = {key: value for key, value in body.items() if value is None or key not in NAMED_FIELDS}
    for key, said in _SAYING_NOTHING:
        if key in body and body[key] in said:
            extra[key] = body[key]
    history = history_of(body)
    named = {} if _NESTED.isdisjoint(body) else _Settings(body, extra).named()
    tier = text(body, "service_tier")
    if tier is not None:
        named["service_tier"] = _TIERS.get(tier, tier)
    named["stream"] = bool(boolean(body, "stream")) if stream is None else stream
    for key, field, read in _FIELDS:
        if key in body and body[key] is not None:
            named[field] = read(body, key)
    return UrpRequest(
        model=name,
        messages=history.messages,
        origin=DIALECT,
        inherited=KNOWN_FIELDS.intersection(extra),
        extra_body=extra or EMPTY,
        source=Source(DIALECT, body) if history.replayable else None,
        **named,
    )


class _Settings:
    """Reads the nested settings; what has no URP field stays under its own name in `extra`."""

    def __init__(self, body: Mapping[str, Any], extra: dict[str, Any]) -> None:
        self._body = body
        self._extra = extra
        self._output = dict(optional_object(body, "output_config") or {})
        self._format = self._take_format()
        self._effort = self._take_effort()
        if self._output or body.get("output_config") == {}:
            extra["output_config"] = self._output

    def _take_format(self) -> ResponseFormat | None:
        found = _json_schema("format", self._output.get("format"))
        if found is not None:
            del self._output["format"]
            return found
        older = self._body.get("output_format")
        found = _json_schema("output_format", older)
        if found is None and older is not None:
            self._extra["output_format"] = older
        return found

    def _take_effort(self) -> str | None:
        effort = text(self._output, "effort", "output_config")
        if effort is not None:
            del self._output["effort"]
        return effort

    def named(self) -> dict[str, Any]:
        return {
            "reasoning": self._reasoning(),
            "user": self._user(),
            "response_format": self._format,
        }

    def _reasoning(self) -> ReasoningSettings | None:
        thinking = optional_object(self._body, "thinking")
        kind = None if thinking is None else thinking.get("type")
        if thinking is None or kind not in ("enabled", "adaptive", "disabled"):
            if thinking is not None:
                self._extra["thinking"] = thinking  # a kind that is new: only the vendor knows it
            return self._only_effort()
        hidden = thinking.get("display") == "omitted"
        return ReasoningSettings(
            effort=self._effort,
            budget=integer(thinking, "budget_tokens", "thinking"),
            summary=None if kind == "disabled" else "none" if hidden else "auto",
            adaptive=kind == "adaptive",
            enabled=kind != "disabled",
            extra_body=rest(thinking, ("type", "budget_tokens")),
            source=Source(DIALECT, {"thinking": thinking, "effort": self._effort}),
        )

    def _only_effort(self) -> ReasoningSettings | None:
        if self._effort is None:
            return None
        source = Source(DIALECT, {"thinking": None, "effort": self._effort})
        return ReasoningSettings(effort=self._effort, source=source)

    def _user(self) -> str | None:
        metadata = optional_object(self._body, "metadata")
        if metadata is None:
            return None
        user = text(metadata, "user_id", "metadata")
        others = metadata if user is None else rest(metadata, ("user_id",))
        if others or not metadata:
            self._extra["metadata"] = dict(others)
        return user


def _json_schema(field: str, wire: Any) -> JsonSchemaFormat | None:
    """Its source remembers under which of the two names it was written."""
    match wire:
        case {"type": "json_schema", "schema": dict(schema)}:
            return JsonSchemaFormat(
                schema=schema,
                extra_body=rest(wire, ("type", "schema")),
                source=Source(DIALECT, {field: wire}),
            )
        case _:
            return None


def _tool_choice(body: Mapping[str, Any], key: str) -> ToolChoice:
    choice = object_at(body[key], key)
    mode = _CHOICES.get(str(choice.get("type")))
    extra = rest(choice, ("type", "name", "disable_parallel_tool_use"))
    match mode:
        case "auto" | "required" | "none":
            return ToolChoice(mode=mode, extra_body=extra)
        case "named":
            tool = text(choice, "name", "tool_choice")
            if tool is None:
                refuse("tool_choice.name", "is required")
            return ToolChoice(mode="named", names=(tool,), extra_body=extra)
        case _:
            return ToolChoice(mode="provider", body=choice, protocol=DIALECT)


def _parallel_tool_calls(body: Mapping[str, Any], key: str) -> bool | None:
    disabled = boolean(body[key], "disable_parallel_tool_use", key)
    return None if disabled is None else not disabled


def _tools(body: Mapping[str, Any], key: str) -> tuple[Tool, ...]:
    return tuple(
        [
            _tool(object_at(wire, f"{key}[{place}]"), f"{key}[{place}]")
            for place, wire in enumerate(items(body, key))
        ]
    )


def _tool(wire: Mapping[str, Any], path: str) -> Tool:
    kind = text(wire, "type", path) or "custom"
    name = text(wire, "name", path)
    if kind != "custom":
        return Tool(
            kind="provider",
            name=name or kind,
            body=wire,
            protocol=DIALECT,
            source=Source(DIALECT, wire),
        )
    if name is None:
        refuse(f"{path}.name", "is required")
    return Tool(
        name=name,
        description=text(wire, "description", path),
        parameters=_schema(wire, path),
        strict=boolean(wire, "strict", path),
        extra_body=_tool_extras(wire),
        source=Source(DIALECT, wire),
    )


def _tool_extras(wire: Mapping[str, Any]) -> Mapping[str, Any]:
    """Unknown fields, and the known ones that are null: they are not the same as absent (T34)."""
    extra = rest(wire, _TOOL_FIELDS)
    nulls = {key: None for key in _NULLABLE if wire.get(key, "") is None}
    return {**extra, **nulls} if nulls else extra


def _schema(wire: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """JSON Schema may also be a bare `true`: anything goes, and whether it may is for the vendor to say."""
    if isinstance(wire.get("input_schema"), bool):
        return None
    return optional_object(wire, "input_schema", path)


# Wire field, URP field, how it is read, in the order in which mistakes are told.
_FIELDS: tuple[tuple[str, str, Callable[[Mapping[str, Any], str], Any]], ...] = (
    ("temperature", "temperature", number),
    ("top_p", "top_p", number),
    ("top_k", "top_k", integer),
    ("max_tokens", "max_output_tokens", integer),
    ("stop_sequences", "stop", text_list),
    ("tools", "tools", _tools),
    ("tool_choice", "tool_choice", _tool_choice),
    ("tool_choice", "parallel_tool_calls", _parallel_tool_calls),
)
