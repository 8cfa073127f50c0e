"""Random URP values that a given protocol can carry, and their meaning without bookkeeping."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from monoize import wirejson
from monoize.urp import (
    Base64,
    Choice,
    Finish,
    FinishReason,
    Image,
    JsonObjectFormat,
    JsonSchemaFormat,
    Message,
    Reasoning,
    ReasoningEncrypted,
    Role,
    Seal,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    UrpRequest,
    UrpResponse,
    Usage,
    bare,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OBJECT = {"messages": False}  # protocols without a plain JSON mode

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40).filter(
    str.strip
)
# One protocol refuses text that is nothing but blanks, another trims nothing: real texts begin and end with a letter.
texts = words.map(lambda t: f"a{t}z")
names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
blobs = st.binary(min_size=3, max_size=30).map(lambda b: __import__("base64").b64encode(b).decode())
values = st.one_of(st.booleans(), st.integers(-(10**6), 10**6), words, st.none())
arguments = st.dictionaries(names, values, max_size=3).map(lambda d: wirejson.dumps(d).decode())


def images() -> st.SearchStrategy[Image]:
    inline = blobs.map(lambda b: Image(media=Base64(data=b, media_type="image/png")))
    linked = names.map(
        lambda n: Image(media=Url(url=f"https://example.org/{n}.png", media_type=None))
    )
    return st.one_of(inline, linked)


def thoughts(dialect: str) -> st.SearchStrategy[Any]:
    """Reasoning as this protocol's own provider would have written it."""
    if dialect == "messages":
        return st.builds(
            lambda t, b: Reasoning(content=t, seal=Seal(protocol=dialect, data=b)), texts, blobs
        )
    if dialect == "gemini":
        return st.builds(lambda t: Reasoning(content=t), texts)
    if dialect == "responses":
        return st.builds(
            lambda b, n: ReasoningEncrypted(
                protocol=dialect,
                data={"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": b},
            ),
            blobs,
            names,
        )
    return st.builds(lambda t: Reasoning(content=t), texts)


@st.composite
def calls(draw: Any, many: int = 3, turn: int = 0) -> list[ToolCall]:
    """`turn`: no id comes twice in a conversation."""
    count = draw(st.integers(1, many))
    tag = f"{turn}x{draw(st.integers(0, 10**9))}"
    return [
        ToolCall(call_id=f"call_{tag}_{n}", name=draw(names), arguments=draw(arguments))
        for n in range(count)
    ]


@st.composite
def assistant_parts(draw: Any, dialect: str, turn: int = 0) -> tuple[Any, ...]:
    parts: list[Any] = []
    if draw(st.booleans()):
        parts.append(draw(thoughts(dialect)))
    if draw(st.booleans()):
        parts.append(Text(content=draw(texts)))
    if not parts or draw(st.booleans()):
        parts += draw(calls(turn=turn))
    return tuple(parts)


@st.composite
def conversations(draw: Any, dialect: str) -> tuple[Message, ...]:
    out: list[Message] = []
    if draw(st.booleans()):
        out.append(Message(role=Role.SYSTEM, parts=(Text(content=draw(texts)),)))
    for turn in range(draw(st.integers(1, 3))):
        media = [draw(images())] if draw(st.booleans()) else []
        out.append(Message(role=Role.USER, parts=(Text(content=draw(texts)), *media)))
        parts = draw(assistant_parts(dialect, turn))
        out.append(Message(role=Role.ASSISTANT, parts=parts))
        out += [
            Message(
                role=Role.TOOL, parts=(ToolResult(call_id=p.call_id), Text(content=draw(texts)))
            )
            for p in parts
            if isinstance(p, ToolCall)
        ]
    return tuple(out)


def tools() -> st.SearchStrategy[tuple[Tool, ...]]:
    tool = st.builds(lambda n, d: Tool(name=n, description=d, parameters=SCHEMA), names, texts)
    return st.lists(tool, min_size=1, max_size=3, unique_by=lambda t: t.name).map(tuple)


@st.composite
def requests(draw: Any, dialect: str) -> UrpRequest:
    offered = draw(tools())
    choice = draw(
        st.sampled_from(
            [
                None,
                ToolChoice(mode="auto"),
                ToolChoice(mode="required"),
                ToolChoice(mode="none"),
                ToolChoice(mode="named", names=(offered[0].name,)),
            ]
        )
    )
    formats = [None, JsonSchemaFormat(name="answer", schema=SCHEMA)]
    if OBJECT.get(dialect, True):
        formats.append(JsonObjectFormat())
    only_chat_and_gemini = dialect in ("chat_completion", "gemini")
    return UrpRequest(
        model="some-model",
        messages=draw(conversations(dialect)),
        temperature=draw(st.sampled_from([None, 0.5, 1])),
        top_p=draw(st.sampled_from([None, 0.9])),
        max_output_tokens=draw(st.integers(2000, 9000)),
        stop=draw(st.sampled_from([None, ("END",)])) if dialect != "responses" else None,
        seed=draw(st.sampled_from([None, 7])) if only_chat_and_gemini else None,
        tools=offered,
        tool_choice=choice,
        response_format=draw(st.sampled_from(formats)),
    )


@st.composite
def responses(draw: Any, dialect: str) -> UrpResponse:
    parts = draw(assistant_parts(dialect))
    called = any(isinstance(p, ToolCall) for p in parts)
    reason = (
        FinishReason.TOOL_CALLS
        if called
        else draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))
    )
    return UrpResponse(
        id="resp_1",
        model="some-model",
        choices=(
            Choice(
                messages=(Message(role=Role.ASSISTANT, parts=parts),), finish=Finish(reason=reason)
            ),
        ),
        usage=Usage(
            input_tokens=draw(st.integers(20, 99)),
            output_tokens=draw(st.integers(1, 99)),
            cached_read=draw(st.sampled_from([None, 5])),
        ),
    )


# --- meaning --------------------------------------------------------------------------------------


def meaning_of_parts(messages: tuple[Message, ...]) -> list[tuple[str, Any]]:
    """Every part with its role, in order, however messages are cut into envelopes."""
    return [(m.role.value, _plain(part)) for m in messages for part in m.parts]


def _plain(part: Any) -> Any:
    value = bare(part)
    if isinstance(value, ToolCall):
        value = msgspec.structs.replace(
            value, arguments=wirejson.loads(value.arguments or "{}"), extra_body={}
        )
    if isinstance(value, ToolResult):
        value = msgspec.structs.replace(value, name=None, extra_body={})
    if isinstance(value, Image):  # a protocol that requires `detail` writes its default word
        value = msgspec.structs.replace(value, detail=None)
    if isinstance(value, Image) and isinstance(value.media, Url):
        value = msgspec.structs.replace(value, media=Url(url=value.media.url, extra_body={}))
    if isinstance(value, Text | Reasoning):
        value = (
            msgspec.structs.replace(value, extra_body={}, logprobs=None)
            if isinstance(value, Text)
            else msgspec.structs.replace(value, extra_body={}, kind="text")
        )
    return value


def _closed(schema: Any) -> Any:
    """One vendor insists on `additionalProperties: false`, so its encoder writes it."""
    return schema and {key: value for key, value in schema.items() if key != "additionalProperties"}


def meaning_of_request(request: UrpRequest) -> dict[str, Any]:
    form = request.response_format
    return {
        "parts": meaning_of_parts(request.messages),
        "tools": [(t.name, t.description, t.parameters) for t in request.tools or ()],
        "choice": (request.tool_choice.mode, request.tool_choice.names)
        if request.tool_choice
        else ("auto", ()),
        "format": (type(form).__name__, _closed(getattr(form, "schema", None))),
        "settings": (
            request.temperature,
            request.top_p,
            request.max_output_tokens,
            request.stop,
            request.seed,
        ),
    }


def meaning_of_response(response: UrpResponse) -> dict[str, Any]:
    choice = response.choices[0]
    usage = response.usage or Usage()
    calls_made = any(isinstance(p, ToolCall) for m in choice.messages for p in m.parts)
    reason = choice.finish.reason if choice.finish else None
    if reason in (FinishReason.STOP, FinishReason.TOOL_CALLS):
        reason = FinishReason.TOOL_CALLS if calls_made else FinishReason.STOP
    return {
        "parts": meaning_of_parts(choice.messages),
        "finish": reason,
        "usage": (usage.input_tokens, usage.output_tokens, usage.cached_read or 0),
    }
