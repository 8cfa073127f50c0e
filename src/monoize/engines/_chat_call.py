"""A chat_completion request -> what llama.cpp is asked: text turns, known fields, a grammar (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from monoize import wirejson
from monoize.engines import _caller_grammar as caller_grammar
from monoize.engines import _tool_prompt as tool_prompt
from monoize.errors import InvalidRequest

__all__ = ["SYSTEM_PROMPT", "ChatCall", "chat_call"]

# The template's own default makes the small model ramble; of six that were tried, this one rambles least.
SYSTEM_PROMPT = "You give short, correct answers."

_Number: TypeAlias = float | None
_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)] | None
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32 - 1)] | None
# By token, as OpenAI writes it, or as pairs, as llama.cpp does; `false` there means never.
_Bias: TypeAlias = dict[str, float] | list[tuple[int, float | bool]] | None


class _Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that reach llama.cpp as they are: it knows many more, and some never let it stop."""

    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    top_p: _Share = None
    min_p: _Share = None
    top_k: _Whole = None
    seed: _Whole = None
    frequency_penalty: _Number = None
    presence_penalty: _Number = None
    repeat_penalty: Annotated[float, msgspec.Meta(gt=0)] | None = None
    logit_bias: _Bias = None
    cache_prompt: bool | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None


_DEFAULTS: Mapping[str, Any] = {"temperature": 0.2, "top_p": 0.9}  # the model card's advice
_REPEAT_PENALTY = 1.1  # without it free text ends in loops; JSON must repeat its quotes

_CONTROL_WORDS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


class ChatCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request, ready to run, and what its reply must know."""

    model: str
    body: Mapping[str, Any]
    tools: tool_prompt.ToolPlan
    include_usage: bool
    promises_json: bool  # response_format: the text is JSON or the request is refused
    has_stops: bool
    grammar: str | None = (
        None  # the caller's own: the text is one of its sentences, or the request is refused
    )


def chat_call(body: Mapping[str, Any], *, max_tokens: int, context: int) -> ChatCall:
    """Read a request. Raises InvalidRequest with the path of what this engine cannot do."""
    if body.get("n") not in (None, 1):
        raise InvalidRequest("The local engine gives one choice per request", param="n")
    if body.get("functions"):
        raise InvalidRequest("functions is not supported; use tools", param="functions")
    tools = tool_prompt.plan(body.get("tools"), body.get("tool_choice"))
    schema = _response_schema(body.get("response_format"))
    stops = _stops(body.get("stop"))
    asked: dict[str, Any] = {
        **_DEFAULTS,
        **_sampling(body),
        "messages": _turns(body.get("messages"), tools),
        "max_tokens": _limit(body, max_tokens, context),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,  # a callback per batch: reading a long prompt can be cancelled too
    }
    if stops:
        asked["stop"] = stops
    if body.get("seed") is not None:
        # A cache hit may change the text, and a seed asks for the same one, unless the caller says otherwise.
        asked.setdefault("cache_prompt", False)
    grammar = caller_grammar.read(body)
    if grammar is not None:
        asked["grammar"] = grammar
    elif tools.must_call:
        asked["grammar"] = _grammar(tool_prompt.call_schema(tools.tools))
    elif schema is not None:
        asked["grammar"] = _grammar(tool_prompt.closed(schema))
    else:
        asked.setdefault("repeat_penalty", _REPEAT_PENALTY)
    options = body.get("stream_options")
    return ChatCall(
        model=str(body.get("model") or ""),
        body=asked,
        tools=tools,
        include_usage=isinstance(options, Mapping) and bool(options.get("include_usage")),
        promises_json=schema is not None and not tools.must_call,
        has_stops=bool(stops),
        grammar=grammar,
    )


def _sampling(body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        fields = msgspec.structs.asdict(msgspec.convert(body, _Sampling))
    except msgspec.ValidationError as mistake:
        sentence, _, place = str(mistake).partition(" - at ")
        name = place.strip("`").removeprefix("$.")
        raise InvalidRequest(f"{name}: {sentence}", param=name) from None
    return {name: value for name, value in fields.items() if value is not None}


def _limit(body: Mapping[str, Any], default: int, context: int) -> int:
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidRequest(f"{name} must be a whole number of at least 1", param=name)
        return min(value, context)
    return default


def _stops(stop: Any) -> list[str]:
    match stop:
        case None:
            return []
        case str():
            return [stop] if stop else []
        case [*words] if all(isinstance(word, str) for word in words):
            return [word for word in words if word]
        case _:
            raise InvalidRequest("stop must be a string or an array of strings", param="stop")


def _response_schema(response_format: Any) -> Mapping[str, Any] | None:
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            raise InvalidRequest(
                "response_format must be text, json_object or a json_schema with its schema",
                param="response_format",
            )


def _grammar(schema: Mapping[str, Any]) -> str:
    # llama.cpp's own reading of response_format lets white space run on; with separators given here it cannot.
    # Lenient: what llguidance cannot enforce (uniqueItems, if/then) it passes over instead of dropping the whole grammar.
    style = {
        "whitespace_flexible": False,
        "item_separator": ", ",
        "key_separator": ": ",
        "lenient": True,
    }
    written = wirejson.dumps({**schema, "x-guidance": style}).decode()
    return f"%llguidance {{}}\nstart: %json {written}"


# --- messages ------------------------------------------------------------------------------------


def _turns(messages: Any, tools: tool_prompt.ToolPlan) -> list[dict[str, str]]:
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("messages must be an array with at least one", param="messages")
    called: dict[str, str] = {}
    turns = [_turn(message, f"messages[{index}]", called) for index, message in enumerate(messages)]
    if turns[-1] == {"role": "assistant", "content": ""}:
        turns.pop()  # a reply that has not begun yet; the template would open it twice
    if not turns or turns[0]["role"] != "system":
        turns.insert(0, {"role": "system", "content": SYSTEM_PROMPT})
    answers_a_result = messages[-1].get("role") in ("tool", "function")
    # Told of its tools again, the model would repeat the call whose result it was just given.
    words = "" if answers_a_result and not tools.must_call else tool_prompt.description(tools)
    if words:
        turns[0]["content"] = f"{turns[0]['content']}\n\n{_harmless(words)}"
    return turns


def _turn(message: Any, path: str, called: dict[str, str]) -> dict[str, str]:
    """One message as a turn of text; `called` remembers which call had which name."""
    if not isinstance(message, Mapping):
        raise InvalidRequest("A message must be an object", param=path)
    text = _text(message.get("content"), f"{path}.content")
    match message.get("role"):
        case "system" | "developer":
            role = "system"
        case "user":
            role = "user"
        case "assistant":
            role = "assistant"
            calls = _calls(message.get("tool_calls"), f"{path}.tool_calls", called)
            text = "\n".join(piece for piece in (text, *calls) if piece)
        case "tool" | "function":
            # The template has no turn for a tool; its result is news from outside, like a user's.
            role = "user"
            name = message.get("name") or called.get(str(message.get("tool_call_id")))
            text = tool_prompt.result_text(name if isinstance(name, str) else None, text)
        case other:
            raise InvalidRequest(f"The role {other!r} is not known", param=f"{path}.role")
    return {"role": role, "content": _harmless(text)}


def _calls(calls: Any, path: str, called: dict[str, str]) -> list[str]:
    texts = []
    for index, call in enumerate(calls or ()):
        match call:
            case {"function": {"name": str(name), **rest}}:
                called[str(call.get("id"))] = name
                texts.append(tool_prompt.call_text(name, rest.get("arguments")))
            case _:
                raise InvalidRequest(
                    "A tool call needs a function with a name", param=f"{path}[{index}]"
                )
    return texts


def _text(content: Any, path: str) -> str:
    match content:
        case None:
            return ""
        case str():
            return content
        case [*parts]:
            return "\n".join(_part(part, f"{path}[{index}]") for index, part in enumerate(parts))
        case _:
            raise InvalidRequest("content must be text or an array of parts", param=path)


def _part(part: Any, path: str) -> str:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind)}:
            raise InvalidRequest(f'The local engine reads text only, not "{kind}"', param=path)
        case _:
            raise InvalidRequest("A content part needs a type", param=path)


def _harmless(text: str) -> str:
    """Text that cannot open a turn of its own, and that is valid UTF-8."""
    for word in _CONTROL_WORDS:
        text = text.replace(word, f"{word[:-2]} |>")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
