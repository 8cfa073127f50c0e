"""Requests as providers get them: URP -> Responses wire."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, assert_never

from monoize.errors import UnsupportedByTarget
from monoize.protocols._effort import effort_for
from monoize.protocols._extras import nested, top_level
from monoize.protocols.responses.input import encode_input, leading_instructions
from monoize.protocols.responses.tools import encode_choice, encode_tools
from monoize.protocols.responses.vocabulary import (
    CONSUMED,
    DIALECT,
    EFFORT_OUT,
    ENCRYPTED_REASONING,
    LOGPROBS,
    NOT_THINKING_MODELS,
    SERVICE_TIERS,
    SWITCHABLE_MODELS,
    TAKES,
    THINKING_MODELS,
)
from monoize.urp import (
    JsonObjectFormat,
    JsonSchemaFormat,
    Losses,
    Message,
    ReasoningEncrypted,
    ReasoningSettings,
    TextFormat,
    UrpRequest,
)
from monoize.urp.extra_body import flattened

__all__ = ["encode_request", "encode_settings"]

_UNSAYABLE = ("top_k", "stop", "seed", "frequency_penalty", "presence_penalty")
_FEWEST_TOKENS = 16  # the vendor refuses a lower limit
_THINKS = "medium"
_UNSAID = ReasoningSettings()
_OFF = "none"
_ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def encode_request(request: UrpRequest, losses: Losses) -> dict[str, Any]:
    if request.source is not None and request.source.protocol == DIALECT:
        return {**request.source.wire, "model": request.model}
    if request.n is not None and request.n > 1:
        raise UnsupportedByTarget("n: a Responses provider gives one answer at a time", param="n")
    instructions, position = leading_instructions(request.messages)
    body: dict[str, Any] = {"model": request.model}
    if instructions is not None:
        body["instructions"] = instructions
    items = encode_input(request, position, losses)
    if items or "prompt" not in request.extra_body:
        body["input"] = items
    flattened(body, encode_settings(request, losses))  # named fields win (URP-7)
    if not request.stream:
        body.pop(
            "stream_options", None
        )  # a rule made this call unary: OpenAI refuses the two together
    return body


def encode_settings(request: UrpRequest, losses: Losses) -> dict[str, Any]:
    """Everything but the conversation; a reply repeats these fields to its caller."""
    same = request.origin == DIALECT
    extra = dict(top_level(request, DIALECT, losses, takes=TAKES, consumed=CONSUMED))
    tools = encode_tools(request, losses)
    named = {
        "stream": request.stream or None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_output_tokens": _limit(request, losses, same=same),
        "top_logprobs": request.top_logprobs,
        "reasoning": _reasoning(request, losses, same=same),
        "tools": tools,
        "tool_choice": encode_choice(request, tools, losses),
        "parallel_tool_calls": request.parallel_tool_calls,
        "text": _text(request, extra, losses, same=same),
        "user": request.user,
        "metadata": _metadata(request, losses, same=same),
        "service_tier": _tier(request, losses, same=same),
        "include": _include(request, extra, same=same),
    }
    if not same:
        # The next turn must work without anything kept by the provider (URP-8).
        named["store"] = extra.pop("store", None) or False
        extra = {key: value for key, value in extra.items() if value is not None}
    for field in _UNSAYABLE:
        if getattr(request, field):
            losses.drop(field)
    return flattened({key: value for key, value in named.items() if value is not None}, extra)


def _limit(request: UrpRequest, losses: Losses, *, same: bool) -> int | None:
    limit = request.max_output_tokens
    if limit is None or same or limit >= _FEWEST_TOKENS:
        return limit
    losses.drop("max_output_tokens")
    return _FEWEST_TOKENS


def _reasoning(request: UrpRequest, losses: Losses, *, same: bool) -> dict[str, Any] | None:
    settings = request.reasoning
    if settings is None:
        return None
    if settings.source is not None and settings.source.protocol == DIALECT:
        return dict(settings.source.wire)
    wire: dict[str, Any] = {}
    effort = _effort(settings)
    if effort is not None:
        wire["effort"] = EFFORT_OUT.get(effort, effort)
    elif _is_switched_off(settings) and _matches(request.model, SWITCHABLE_MODELS):
        wire["effort"] = _OFF
    elif _is_switched_off(settings):
        losses.drop("reasoning")
    if settings.effort is None and settings.budget:
        losses.drop("reasoning.budget")
    if settings.summary not in (None, _OFF):
        wire["summary"] = settings.summary
    extra = nested(settings.extra_body, "reasoning", losses, same=same)
    return flattened(wire, extra) or None


def _is_switched_off(settings: ReasoningSettings) -> bool:
    return settings.enabled is False or settings.budget == 0


def _effort(settings: ReasoningSettings) -> str | None:
    if settings.effort is not None or _is_switched_off(settings):
        return settings.effort
    if settings.budget is not None:
        return effort_for(settings.budget)
    # "think", without a word on how hard: some models here do not by themselves
    return _THINKS if settings.enabled else None


def _text(
    request: UrpRequest, extra: dict[str, Any], losses: Losses, *, same: bool
) -> dict[str, Any] | None:
    wire: dict[str, Any] = {}
    shape = _format(request, losses, same=same)
    if shape is not None:
        wire["format"] = shape
    verbosity = extra.pop("verbosity", None)
    if verbosity is not None:
        wire["verbosity"] = verbosity
    others = extra.get("text")
    if isinstance(others, Mapping):
        extra.pop("text")
        flattened(wire, others)
    return wire or None


def _format(request: UrpRequest, losses: Losses, *, same: bool) -> dict[str, Any] | None:
    shape = request.response_format
    if shape is None:
        return None
    if shape.source is not None and shape.source.protocol == DIALECT:
        return dict(shape.source.wire)
    extra = nested(shape.extra_body, "response_format", losses, same=same)
    match shape:
        case TextFormat():
            return flattened({"type": "text"}, extra)
        case JsonObjectFormat():
            return flattened({"type": "json_object"}, extra)
        case JsonSchemaFormat():
            wire: dict[str, Any] = {
                "type": "json_schema",
                "name": _ILLEGAL_IN_NAME.sub("_", shape.name or "")[:64] or "response",
                "schema": shape.schema if shape.schema is not None else {"type": "object"},
            }
            if shape.description is not None:
                wire["description"] = shape.description
            if shape.strict is not None:
                wire["strict"] = shape.strict
            return flattened(wire, extra)
        case _:
            assert_never(shape)


def _metadata(request: UrpRequest, losses: Losses, *, same: bool) -> Mapping[str, Any] | None:
    """Values are strings here; what a caller of another protocol put there beyond that has no place."""
    if request.metadata is None or same:
        return request.metadata
    kept = {key: value for key, value in request.metadata.items() if isinstance(value, str)}
    for key in request.metadata:
        if key not in kept:
            losses.drop(f"metadata.{key}")
    return kept or None


def _tier(request: UrpRequest, losses: Losses, *, same: bool) -> str | None:
    tier = request.service_tier
    if tier is None or same or tier in SERVICE_TIERS:
        return tier
    losses.drop("service_tier")
    return None


def _include(request: UrpRequest, extra: dict[str, Any], *, same: bool) -> list[Any] | None:
    asked = extra.get("include") if same else None
    include = list(asked) if isinstance(asked, list) else []
    if not same and _thinks(request):
        include.append(ENCRYPTED_REASONING)
    wants_logprobs = request.logprobs or (request.top_logprobs and not same)
    if wants_logprobs and LOGPROBS not in include:
        include.append(LOGPROBS)
    return include or None


def _thinks(request: UrpRequest) -> bool:
    """Whether the model thinks: the caller asks for it, it has done so before, or it is known for it."""
    settings = request.reasoning or _UNSAID
    effort = _effort(settings)
    if effort == _OFF or (effort is None and _is_switched_off(settings)):
        return False
    if effort is not None or settings.summary not in (None, _OFF):
        return True
    if _holds_sealed_thoughts(request.messages):
        return True
    is_family = _matches(request.model, THINKING_MODELS)
    return is_family and not _matches(request.model, NOT_THINKING_MODELS)


def _holds_sealed_thoughts(messages: Sequence[Message]) -> bool:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ReasoningEncrypted) and part.protocol == DIALECT:
                return True
    return False


@lru_cache(maxsize=256)
def _matches(model: str, globs: tuple[str, ...]) -> bool:
    """Whether a model is of one of the families, also fine-tuned or with its vendor before its name."""
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    return any(fnmatchcase(name, glob) for glob in globs)
