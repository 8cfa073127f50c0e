"""A request for a reply: what was said, with which tools, under which settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.urp.message import Message
from monoize.urp.value import Value

__all__ = [
    "USERNAME_FIELD",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "ReasoningSettings",
    "ResponseFormat",
    "TextFormat",
    "Tool",
    "ToolChoice",
    "UrpRequest",
    "renamed",
]


# Who calls, for transforms only: put into extra_body before the first rule, taken out after the last (DEF-4).
USERNAME_FIELD = "__monoize_username"


class Tool(Value, frozen=True, kw_only=True):
    kind: Literal["function", "custom", "provider"] = "function"
    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None  # JSON Schema of a function's arguments
    strict: bool | None = None
    body: Any = None  # custom: its `format`; provider: the native tool as its protocol wrote it
    protocol: str | None = None  # of a provider tool


class ToolChoice(Value, frozen=True, kw_only=True):
    mode: Literal["auto", "none", "required", "named", "allowed", "provider"]
    names: tuple[str, ...] = ()  # one for `named`, the permitted ones for `allowed`
    required: bool = False  # `allowed` only: one of the names must be called
    body: Any = None  # `provider` only: the native choice
    protocol: str | None = None


class ReasoningSettings(Value, frozen=True, kw_only=True):
    effort: str | None = (
        None  # none minimum low medium high xhigh max, or a word of the provider's own (D8)
    )
    budget: int | None = None  # tokens
    summary: str | None = None  # auto concise detailed none: whether and how thoughts are shown
    adaptive: bool = False  # the model decides how long to think
    enabled: bool | None = None  # False: thinking switched off in so many words


class TextFormat(Value, frozen=True, kw_only=True):
    pass


class JsonObjectFormat(Value, frozen=True, kw_only=True):
    pass


class JsonSchemaFormat(Value, frozen=True, kw_only=True):
    name: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None


ResponseFormat: TypeAlias = TextFormat | JsonObjectFormat | JsonSchemaFormat


class UrpRequest(Value, frozen=True, kw_only=True):
    model: str
    messages: tuple[Message, ...] = ()
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning: ReasoningSettings | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    user: str | None = None
    metadata: Mapping[str, Any] | None = None
    service_tier: str | None = None
    # The protocol that the caller spoke, and which keys of extra_body that protocol itself knows:
    # those mean nothing elsewhere and are reported there, the others travel (URP-5).
    origin: str = ""
    inherited: frozenset[str] = frozenset()


def renamed(request: UrpRequest, model: str) -> UrpRequest:
    """Another model name, the source kept: every encoder writes the model anew (PIPE-1 step 5)."""
    return msgspec.structs.replace(request, model=model)
