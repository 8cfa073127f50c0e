"""Reasoning effort and the form of the answer: settings that chat dialects spell in several ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from monoize.protocol import Json
from monoize.protocols._effort import effort_for
from monoize.protocols._reading import integer, object_at, refuse, text, typed
from monoize.protocols.chat_completion.fields import DIALECT, own_wire, source, spoken
from monoize.urp import (
    JsonObjectFormat,
    JsonSchemaFormat,
    Losses,
    ReasoningSettings,
    ResponseFormat,
    TextFormat,
    UrpRequest,
)
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "REASONING_KEYS",
    "decode_format",
    "decode_reasoning",
    "encode_format",
    "encode_reasoning",
]

REASONING_KEYS = (
    "reasoning_effort",
    "reasoning",
    "thinking",
    "enable_thinking",
    "thinking_budget",
)
_FORMAT_NAME = "response"  # OpenAI wants a name, other protocols have none
_URP_EFFORT = {"minimal": "minimum"}  # D8
_WIRE_EFFORT = {urp: wire for wire, urp in _URP_EFFORT.items()}
_UNSPECIFIED = "default"  # Groq: think, as much as the model likes
_SWITCHES = {"enabled": True, "disabled": False}


def decode_reasoning(wire: Mapping[str, Any]) -> ReasoningSettings | None:
    """OpenAI's word, OpenRouter's object, or the switches of DeepSeek, GLM and Qwen."""
    said = {key: wire[key] for key in REASONING_KEYS if wire.get(key) is not None}
    if not said:
        return None
    router = object_at(said.get("reasoning", {}), "reasoning")
    switch = object_at(said.get("thinking", {}), "thinking")
    effort = text(wire, "reasoning_effort") or text(router, "effort", "reasoning")
    budget = integer(router, "max_tokens", "reasoning")
    if budget is None:
        budget = integer(switch, "budget_tokens", "thinking")
    if budget is None:
        budget = integer(wire, "thinking_budget")
    taken = {key for key in ("effort", "max_tokens", "enabled", "summary") if key in router}
    return ReasoningSettings(
        effort=_URP_EFFORT.get(effort, effort) if effort and effort != _UNSPECIFIED else None,
        budget=budget,
        summary=text(router, "summary", "reasoning"),
        adaptive=switch.get("type") == "adaptive",
        enabled=True if effort == _UNSPECIFIED else _enabled(wire, router, switch),
        extra_body=rest(router, taken),
        source=source(said),
    )


def _enabled(
    wire: Mapping[str, Any], router: Mapping[str, Any], switch: Mapping[str, Any]
) -> bool | None:
    answers = (
        router.get("enabled"),
        _SWITCHES.get(spoken(switch.get("type"))),
        wire.get("enable_thinking"),
    )
    return next((answer for answer in answers if isinstance(answer, bool)), None)


def encode_reasoning(request: UrpRequest, losses: Losses) -> Json:
    settings = request.reasoning
    if settings is None:
        return {}
    wire = own_wire(settings)
    if isinstance(wire, dict):
        return dict(wire)
    same = request.origin == DIALECT
    out: Json = {"reasoning": dict(settings.extra_body)} if same and settings.extra_body else {}
    if settings.effort is not None:
        out["reasoning_effort"] = _WIRE_EFFORT.get(settings.effort, settings.effort)
    elif settings.budget is not None and same:  # a transform's budget: OpenRouter's way to say it
        out["reasoning"] = {**out.get("reasoning", {}), "max_tokens": settings.budget}
    elif settings.budget is not None:
        effort = effort_for(settings.budget)
        out["reasoning_effort"] = _WIRE_EFFORT.get(effort, effort)
    elif settings.enabled is not None or settings.adaptive:
        # no word for "on" or "off" is understood by every chat model, and a wrong one is refused
        losses.drop("reasoning")
    if not same and settings.summary in ("concise", "detailed"):
        losses.drop("reasoning.summary")
    return out


# --- the form of the answer ----------------------------------------------------------------------


def decode_format(wire: Mapping[str, Any]) -> ResponseFormat | None:
    """The three forms that OpenAI defines; a dialect's own form stays an extra field."""
    if not _is_known_format(wire.get("response_format")):
        return None
    form = wire["response_format"]
    if form["type"] == "text":
        return TextFormat(extra_body=rest(form, {"type"}), source=source(form))
    if form["type"] == "json_object":
        return JsonObjectFormat(extra_body=rest(form, {"type"}), source=source(form))
    path = "response_format.json_schema"
    inner = object_at(form.get("json_schema"), path)
    schema, strict = inner.get("schema"), inner.get("strict")
    return JsonSchemaFormat(
        name=text(inner, "name", path),
        description=text(inner, "description", path),
        schema=None if schema is None else object_at(schema, f"{path}.schema"),
        strict=None if strict is None else typed(strict, bool, f"{path}.strict"),
        extra_body=rest(inner, {k for k in _SCHEMA_FIELDS if inner.get(k) is not None}),
        source=source(form),
    )


_SCHEMA_FIELDS = ("name", "description", "schema", "strict")


def _is_known_format(form: Any) -> bool:
    if form is None:
        return False
    if not isinstance(form, dict):
        refuse("response_format", "must be an object")
    return form.get("type") in ("text", "json_object", "json_schema")


def encode_format(request: UrpRequest) -> Json:
    form = request.response_format
    if form is None:
        return {}
    wire = own_wire(form)
    if wire is not None:
        return {"response_format": wire}
    extra = form.extra_body if request.origin == DIALECT else {}
    match form:
        case TextFormat():
            return {"response_format": flattened({"type": "text"}, extra)}
        case JsonObjectFormat():
            return {"response_format": flattened({"type": "json_object"}, extra)}
        case JsonSchemaFormat():
            inner: Json = {"name": form.name or _FORMAT_NAME}
            inner |= {} if form.description is None else {"description": form.description}
            inner |= {} if form.schema is None else {"schema": form.schema}
            inner |= {} if form.strict is None else {"strict": form.strict}
            inner = flattened(inner, extra)
            return {"response_format": {"type": "json_schema", "json_schema": inner}}
        case _:
            assert_never(form)
