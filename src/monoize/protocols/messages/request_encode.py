"""URP -> a request for the vendor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.errors import UnsupportedByTarget
from monoize.protocol import Json
from monoize.protocols._custom_tools import as_function_tool
from monoize.protocols._extras import nested, refuse_server_state, top_level
from monoize.protocols.messages.cache_control import within_limit
from monoize.protocols.messages.calls import legal_name
from monoize.protocols.messages.dialect import COUNTED_FIELDS, DIALECT
from monoize.protocols.messages.history_encode import encode_history
from monoize.protocols.messages.models import ModelFacts, facts_of
from monoize.protocols.messages.request_blocks import TAKES
from monoize.protocols.messages.schema import constrained, tool_schema
from monoize.protocols.messages.thinking import Thinking, thinking_of
from monoize.urp import (
    JsonObjectFormat,
    JsonSchemaFormat,
    Losses,
    TextFormat,
    Tool,
    ToolCall,
    ToolChoice,
    UrpRequest,
)
from monoize.urp.extra_body import flattened

__all__ = ["encode_count", "encode_request"]

_USER_LIMIT = 512
_TIERS = {"auto": "auto", "default": "standard_only", "standard_only": "standard_only"}
# With thinking on, the vendor takes a top_p only in this range (T33).
_LEAST_TOP_P = 0.95
_ONLY_TOP_P = 0.99  # what newer models still put up with
_FORCED = ("any", "tool")


def encode_request(request: UrpRequest, losses: Losses) -> Json:
    if request.source is not None and request.source.protocol == DIALECT:
        return {**request.source.wire, "model": request.model}
    refuse_server_state(request)
    if request.n is not None and request.n > 1:
        raise UnsupportedByTarget("this provider gives one answer per request", param="n")
    return _Writer(request, losses).body()


def encode_count(request: UrpRequest, losses: Losses) -> Json:
    """The same request with only the fields that the counting call knows."""
    body = encode_request(request, losses)
    return {key: value for key, value in body.items() if key in COUNTED_FIELDS}


class _Writer:
    def __init__(self, request: UrpRequest, losses: Losses) -> None:
        self._request = request
        self._losses = losses
        self._same = request.origin == DIALECT
        self._facts: ModelFacts = facts_of(request.model)

    def body(self) -> Json:
        request = self._request
        system, messages = encode_history(request, self._losses)
        given = request.max_output_tokens
        max_tokens = self._facts.max_output if given is None else given
        body: Json = {"model": request.model, "max_tokens": max_tokens}
        if system is not None:
            body["system"] = system
        body["messages"] = messages
        tools = self._tools()
        choice = self._tool_choice(tools)
        thinking = self._thinking(max_tokens, choice, messages)
        form = self._format()
        named = {
            "tools": tools,
            "tool_choice": choice,
            "thinking": thinking.config,
            "output_config": self._output_config(thinking.effort, form),
            "output_format": form.get("output_format"),
            "metadata": self._metadata(),
            "service_tier": self._service_tier(),
            "stop_sequences": self._stop(),
            **self._sampling(thinking),
        }
        body.update({key: value for key, value in named.items() if value is not None})
        if request.stream:
            body["stream"] = True
        self._report_the_rest()
        return within_limit(flattened(body, self._extras()), self._losses)

    # --- thinking ---

    def _thinking(self, max_tokens: int, choice: Json | None, messages: list[Json]) -> Thinking:
        thinking = thinking_of(self._request, self._facts, max_tokens, self._losses)
        forced = choice is not None and choice.get("type") in _FORCED
        unsigned = thinking.config is not None and thinking.config["type"] == "enabled"
        if thinking.active and (forced or (unsigned and _continues_unthinking_turn(messages))):
            # The vendor refuses both at once; a demanded call is worth more than its reasons (T33).
            self._losses.drop("reasoning")
            return Thinking(effort=thinking.effort)
        return thinking

    def _sampling(self, thinking: Thinking) -> dict[str, float | None]:
        request, fixed = self._request, self._facts.sampling == "none" or thinking.active
        temperature, top_p, top_k = request.temperature, request.top_p, request.top_k
        if temperature is not None and temperature != 1 and fixed:
            self._losses.drop("temperature")
            temperature = None
        elif temperature is not None and temperature > 1:
            self._losses.drop("temperature")
            temperature = 1  # the vendor's scale ends here
        least = _LEAST_TOP_P if self._facts.sampling != "none" else _ONLY_TOP_P
        both = temperature is not None and self._facts.sampling == "either"
        if top_p is not None and (both or (fixed and top_p < least)):
            self._losses.drop("top_p")
            top_p = None
        if top_k is not None and fixed:
            self._losses.drop("top_k")
            top_k = None
        return {"temperature": temperature, "top_p": top_p, "top_k": top_k}

    # --- tools ---

    def _tools(self) -> list[Json] | None:
        if not self._request.tools and not self._same:
            return self._remembered_tools()
        if self._request.tools is None:
            return None
        written = (self._tool(tool, n) for n, tool in enumerate(self._request.tools))
        tools = [tool for tool in written if tool is not None]
        return tools if tools or self._same else None

    def _remembered_tools(self) -> list[Json] | None:
        """The vendor refuses earlier calls to tools that the request does not define; other protocols do not mind."""
        names: dict[str, None] = {}
        for message in self._request.messages:
            for part in message.parts:
                if isinstance(part, ToolCall):
                    names[legal_name(part.name)] = None
        if not names:
            return None
        schema, _ = tool_schema(None)
        return [{"name": name, "input_schema": schema} for name in names]

    def _tool(self, tool: Tool, place: int) -> Json | None:
        path = f"tools[{place}]"
        if tool.source is not None and tool.source.protocol == DIALECT:
            wire: Json = tool.source.wire
            return wire
        if tool.kind == "provider":
            if tool.protocol != DIALECT or not isinstance(tool.body, dict):
                self._losses.drop(path)
                return None
            return flattened(dict(tool.body), tool.extra_body)
        plain = tool
        if tool.kind == "custom":  # free text becomes one string, and its grammar only a hint
            plain = as_function_tool(tool)
            self._losses.drop(f"{path}.format")
        block: Json = {"name": legal_name(plain.name)}
        if plain.description is not None:
            block["description"] = plain.description
        block["input_schema"], widened = tool_schema(plain.parameters)
        if widened:
            self._losses.drop(f"{path}.parameters")
        if plain.strict and not self._facts.schemas:
            self._losses.drop(f"{path}.strict")
        elif plain.strict or (plain.strict is not None and self._same):
            block["strict"] = plain.strict
        extra = nested(plain.extra_body, path, self._losses, same=self._same, takes=TAKES)
        return flattened(block, extra)

    def _tool_choice(self, tools: list[Json] | None) -> Json | None:
        choice, parallel = self._request.tool_choice, self._request.parallel_tool_calls
        if not self._request.tools and tools:
            return {"type": "none"}  # remembered only: none of them may be called now
        if (
            not tools and not self._same
        ):  # this protocol's own callers may mean tools of an MCP server
            if choice is not None and choice.mode not in ("auto", "none"):
                self._losses.drop("tool_choice")
            return None
        written = None if choice is None else self._written_choice(choice)
        if parallel is False and written is None:
            written = {"type": "auto"}
        if parallel is not None and written is not None and written.get("type") != "none":
            written["disable_parallel_tool_use"] = not parallel
        return written

    def _written_choice(self, choice: ToolChoice) -> Json | None:
        extra = choice.extra_body if self._same else {}
        match choice.mode:
            case "auto" | "none":
                return flattened({"type": choice.mode}, extra)
            case "required":
                return flattened({"type": "any"}, extra)
            case "named":
                return flattened({"type": "tool", "name": legal_name(choice.names[0])}, extra)
            case "allowed":
                self._losses.drop("tool_choice.allowed_tools")
                return {"type": "any" if choice.required else "auto"}
            case _:
                if choice.protocol == DIALECT and isinstance(choice.body, dict):
                    return dict(choice.body)
                self._losses.drop("tool_choice")
                return None

    # --- other settings ---

    def _output_config(self, effort: str | None, form: Json) -> Json | None:
        config: Json = {}
        if effort is not None:
            config["effort"] = effort
        if "format" in form:
            config["format"] = form["format"]
        kept = self._request.extra_body.get("output_config")
        if isinstance(kept, Mapping):
            return flattened(config, kept)
        return config or None

    def _format(self) -> Json:
        """The wanted form of the answer, under the name that it was or will be written with."""
        form = self._request.response_format
        match form:
            case None | TextFormat():
                return {}
            case JsonSchemaFormat(schema=Mapping() as schema) if self._facts.schemas:
                if form.source is not None and form.source.protocol == DIALECT:
                    wire: Json = form.source.wire
                    return wire
                closed, lost = constrained(schema)
                if lost:
                    self._losses.drop("response_format.schema")
                return {"format": {"type": "json_schema", "schema": closed}}
            case JsonSchemaFormat() | JsonObjectFormat():
                self._losses.drop("response_format")
                return {}

    def _metadata(self) -> Json | None:
        request = self._request
        metadata: Json = {}
        if request.user is not None and len(request.user) > _USER_LIMIT:
            self._losses.drop("user")
        elif request.user is not None:
            metadata["user_id"] = request.user
        if request.metadata:
            self._losses.drop("metadata")
        kept = request.extra_body.get("metadata")
        if isinstance(kept, Mapping) and self._same:
            return flattened(metadata, kept)
        return metadata or None

    def _service_tier(self) -> str | None:
        tier = self._request.service_tier
        if tier is None or tier in _TIERS:
            return _TIERS.get(tier or "")
        if self._same:
            return tier
        self._losses.drop("service_tier")
        return None

    def _stop(self) -> list[str] | None:
        stop = self._request.stop
        if stop is None:
            return None
        kept = [words for words in stop if words.strip() or self._same]
        if len(kept) < len(stop):
            self._losses.drop("stop")  # the vendor refuses one that is only blanks
        return kept if kept or self._same else None

    def _report_the_rest(self) -> None:
        request = self._request
        for name in ("seed", "frequency_penalty", "presence_penalty"):
            if getattr(request, name) is not None:
                self._losses.drop(name)
        if request.logprobs:
            self._losses.drop("logprobs")
        if request.top_logprobs:
            self._losses.drop("top_logprobs")

    def _extras(self) -> Mapping[str, Any]:
        """Unknown fields; the gateway itself does what stream_options ask."""
        consumed = ("stream_options",)
        extra = top_level(self._request, DIALECT, self._losses, consumed=consumed)
        # null as the caller of this very protocol wrote it stays null (T34)
        return {key: value for key, value in extra.items() if value is not None or self._same}


def _continues_unthinking_turn(messages: list[Json]) -> bool:
    """Whether the assistant goes on with a turn that did not begin with thinking: it cannot begin there (T19).

    That is a turn whose calls have just been answered, and an answer that the caller began itself.
    """
    for ago, message in enumerate(reversed(messages)):
        content = message.get("content")
        kinds = [block.get("type") for block in content] if isinstance(content, list) else [None]
        if message.get("role") == "assistant":
            open_turn = ago == 0 or "tool_use" in kinds
            return open_turn and kinds[0] not in ("thinking", "redacted_thinking")
        if "tool_result" not in kinds:
            return False
    return False
