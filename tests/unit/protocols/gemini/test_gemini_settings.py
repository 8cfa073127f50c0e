"""Settings, thinking, tools, tool choice and schemas."""

from __future__ import annotations

import pytest

from monoize.protocols.gemini import PROTOCOL
from monoize.protocols.gemini.models import thinking_of, wants_signatures
from monoize.protocols.gemini.schema import for_google, from_google
from monoize.urp import (
    JsonObjectFormat,
    JsonSchemaFormat,
    Losses,
    Message,
    ReasoningSettings,
    Role,
    Text,
    TextFormat,
    Tool,
    ToolChoice,
    UrpRequest,
    bare,
    replace,
)

HI = (Message(role=Role.USER, parts=(Text(content="Hi"),)),)


def encode(model="gemini-x", **fields):
    losses = Losses()
    request = UrpRequest(model=model, messages=HI, **{"origin": "chat_completion", **fields})
    return PROTOCOL.encode_request(request, losses).body, losses.dropped


def decode(**fields):
    return PROTOCOL.decode_request({"contents": "Hi", **fields}, model="m")


# --- generationConfig -----------------------------------------------------------------------------

SETTINGS = {
    "temperature": ("temperature", 0.5),
    "top_p": ("topP", 0.9),
    "top_k": ("topK", 40),
    "max_output_tokens": ("maxOutputTokens", 100),
    "stop": ("stopSequences", ["a", "b"]),
    "seed": ("seed", 7),
    "n": ("candidateCount", 2),
    "frequency_penalty": ("frequencyPenalty", 0.1),
    "presence_penalty": ("presencePenalty", 0.2),
    "logprobs": ("responseLogprobs", True),
    "top_logprobs": ("logprobs", 3),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_both_ways(name):
    google, value = SETTINGS[name]
    urp = tuple(value) if isinstance(value, list) else value
    assert getattr(decode(generationConfig={google: value}), name) == urp
    assert encode(**{name: urp})[0]["generationConfig"] == {google: value}


def test_settings_in_snake_case():
    request = decode(
        generation_config={"max_output_tokens": 5, "stop_sequences": "x", "top_k": 4.0}
    )
    assert (request.max_output_tokens, request.stop, request.top_k) == (5, ("x",), 4)


@pytest.mark.spec("DEC-2", "T34")
def test_members_without_a_name_survive_and_are_known_as_googles():
    request = decode(generationConfig={"temperature": 1, "speechConfig": {"a": 1}, "topK": None})
    assert request.extra_body == {"generationConfig": {"speechConfig": {"a": 1}, "topK": None}}
    assert request.inherited == {"generationConfig"}
    body = PROTOCOL.encode_request(replace(request), Losses()).body
    assert body["generationConfig"] == {"temperature": 1, "speechConfig": {"a": 1}, "topK": None}


def test_nothing_but_nulls_is_no_loss_elsewhere():
    assert decode(generationConfig={"topK": None}).extra_body == {}
    assert decode(generationConfig=None).extra_body == {"generationConfig": None}
    assert decode(toolConfig={"retrievalConfig": None}).extra_body == {}


def test_a_seed_that_google_cannot_hold_is_reported():
    body, lost = encode(seed=2**40)
    assert "generationConfig" not in body
    assert lost == ("seed",)


# --- response formats -----------------------------------------------------------------------------

GOOGLE = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
JSON = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"responseMimeType": "application/json"}, JsonObjectFormat()),
        (
            {"response_mime_type": "application/json", "response_schema": GOOGLE},
            JsonSchemaFormat(schema=JSON),
        ),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": JSON},
            JsonSchemaFormat(schema=JSON),
        ),
        ({"_responseJsonSchema": JSON}, JsonSchemaFormat(schema=JSON)),
        (
            {"responseMimeType": "text/plain"},
            TextFormat(extra_body={"responseMimeType": "text/plain"}),
        ),
        (
            {
                "responseMimeType": "text/x.enum",
                "responseSchema": {"type": "STRING", "enum": ["a"]},
            },
            JsonSchemaFormat(
                schema={"type": "string", "enum": ["a"]},
                extra_body={"responseMimeType": "text/x.enum"},
            ),
        ),
        ({}, None),
    ],
)
def test_response_formats_decoded(config, expected):
    assert bare(decode(generationConfig=config).response_format) == bare(expected)


@pytest.mark.parametrize(
    ("chosen", "config", "lost"),
    [
        (TextFormat(), None, ()),
        (JsonObjectFormat(), {"responseMimeType": "application/json"}, ()),
        (
            JsonSchemaFormat(name="x", schema=JSON, strict=True),
            {"responseMimeType": "application/json", "responseJsonSchema": JSON},
            (),
        ),
        (
            JsonSchemaFormat(name="x"),
            {"responseMimeType": "application/json"},
            ("response_format.json_schema",),
        ),
    ],
)
def test_response_formats_encoded(chosen, config, lost):
    body, dropped = encode(response_format=chosen)
    assert body.get("generationConfig") == config
    assert dropped == lost


def test_googles_own_mime_types_survive_a_rebuild():
    for config in (
        {"responseMimeType": "text/plain"},
        {
            "responseMimeType": "text/x.enum",
            "responseJsonSchema": {"type": "string", "enum": ["a"]},
        },
    ):
        request = decode(generationConfig=config)
        assert (
            PROTOCOL.encode_request(replace(request), Losses()).body["generationConfig"] == config
        )


# --- thinking -------------------------------------------------------------------------------------


@pytest.mark.spec("D8", "T33")
@pytest.mark.parametrize(
    ("wire", "settings"),
    [
        ({"thinkingLevel": "LOW"}, {"effort": "low"}),
        ({"thinking_level": "minimal"}, {"effort": "minimum"}),
        ({"thinkingLevel": "ULTRA"}, {"effort": "ultra"}),
        ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, {}),
        ({"thinkingBudget": 1024}, {"budget": 1024}),
        ({"thinkingBudget": 0}, {"budget": 0, "effort": "none", "enabled": False}),
        ({"thinkingBudget": -1}, {"adaptive": True}),
        ({"includeThoughts": True}, {"summary": "auto"}),
        ({"include_thoughts": False}, {"summary": "none"}),
        ({"future": 1}, {"extra_body": {"future": 1}}),
    ],
)
def test_thinking_decoded(wire, settings):
    found = decode(generationConfig={"thinkingConfig": wire}).reasoning
    assert bare(found) == bare(ReasoningSettings(**settings))


BUDGETS = {
    "minimum": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}


@pytest.mark.spec("D8", "T33")
@pytest.mark.parametrize("effort", BUDGETS)
def test_every_effort_has_its_own_budget_where_the_model_says_nothing(effort):
    body, lost = encode(reasoning=ReasoningSettings(effort=effort))
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": BUDGETS[effort]}
    assert lost == ()


EFFORT = ("reasoning.effort",)


@pytest.mark.spec("D8", "T33")
@pytest.mark.parametrize(
    ("model", "settings", "config", "lost"),
    [
        ("gemini-3-flash", {"effort": "minimum"}, {"thinkingLevel": "MINIMAL"}, ()),
        ("gemini-3-flash", {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}, ()),
        ("gemini-3-flash", {"effort": "max"}, {"thinkingLevel": "HIGH"}, EFFORT),
        ("gemini-3-flash", {"effort": "none"}, {"thinkingLevel": "MINIMAL"}, EFFORT),
        ("gemini-3-flash", {"effort": "dreamy"}, {"thinkingLevel": "DREAMY"}, ()),
        ("gemini-3-flash", {"budget": 2000}, {"thinkingLevel": "LOW"}, ("reasoning.budget",)),
        ("gemini-3-flash", {"adaptive": True}, None, ()),
        ("gemini-3-pro-preview", {"effort": "low"}, {"thinkingLevel": "LOW"}, ()),
        ("gemini-3-pro-preview", {"effort": "medium"}, {"thinkingLevel": "HIGH"}, EFFORT),
        ("models/gemini-3.1-pro", {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}, ()),
        ("gemini-3.1-pro", {"effort": "minimum"}, {"thinkingLevel": "LOW"}, EFFORT),
        ("gemini-2.5-flash", {"effort": "none"}, {"thinkingBudget": 0}, ()),
        ("gemini-2.5-flash", {"enabled": False}, {"thinkingBudget": 0}, ()),
        ("gemini-2.5-flash", {"enabled": False, "effort": "high"}, {"thinkingBudget": 0}, EFFORT),
        ("gemini-2.5-flash", {"effort": "max"}, {"thinkingBudget": 24576}, EFFORT),
        ("gemini-2.5-flash-lite", {"budget": 100}, {"thinkingBudget": 512}, ("reasoning.budget",)),
        ("gemini-2.5-pro", {"effort": "none"}, {"thinkingBudget": 128}, EFFORT),
        ("gemini-2.5-pro", {"adaptive": True}, {"thinkingBudget": -1}, ()),
        ("gemini-x", {"effort": "dreamy"}, None, EFFORT),
        ("gemini-x", {"effort": "low", "budget": 5000}, {"thinkingBudget": 5000}, ()),
        ("gemini-x", {"summary": "detailed"}, {"includeThoughts": True}, ()),
        ("gemini-x", {"summary": "none"}, {"includeThoughts": False}, ()),
        ("gemini-x", {"extra_body": {"exclude": True}}, None, ("reasoning.exclude",)),
        ("gemini-2.0-flash", {"effort": "high"}, None, ("reasoning",)),
        ("gemini-2.0-flash", {"effort": "none"}, None, ()),
    ],
)
def test_thinking_by_the_row_of_the_model(model, settings, config, lost):
    body, dropped = encode(model, reasoning=ReasoningSettings(**settings))
    assert body.get("generationConfig", {}).get("thinkingConfig") == config
    assert dropped == lost


def test_a_budget_that_a_caller_of_google_gave_is_not_rounded():
    settings = ReasoningSettings(budget=6400, extra_body={"future": 1})
    body, lost = encode("gemini-3-pro", reasoning=settings, origin="gemini")
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 6400, "future": 1}
    assert lost == ()


# --- tools ----------------------------------------------------------------------------------------


def test_tools_decoded():
    tools = decode(
        tools=[
            {
                "function_declarations": [
                    {"name": "f", "description": "d", "parameters": GOOGLE, "behavior": "BLOCKING"},
                    {
                        "name": "g",
                        "parametersJsonSchema": {"$ref": "#/$defs/x", "$defs": {"x": {}}},
                    },
                    {"name": "h"},
                ],
                "googleSearch": {},
            },
            {"url_context": {"a": 1}},
            {"codeExecution": None},
        ]
    ).tools
    assert [(t.kind, t.name) for t in tools] == [
        ("function", "f"),
        ("function", "g"),
        ("function", "h"),
        ("provider", "googleSearch"),
        ("provider", "urlContext"),
        ("provider", "codeExecution"),
    ]
    assert (tools[0].description, tools[0].parameters) == ("d", JSON)
    assert tools[0].extra_body == {"behavior": "BLOCKING"}
    assert tools[1].parameters == {"$ref": "#/$defs/x", "$defs": {"x": {}}}
    assert tools[2].parameters is None
    assert tools[4].body == {"url_context": {"a": 1}}


def test_a_lone_tool_and_a_lone_declaration():
    (tool,) = decode(tools={"functionDeclarations": {"name": "f"}}).tools
    assert tool.name == "f"
    assert decode().tools is None
    assert decode(tools=[]).tools == ()


def test_tools_written_anew():
    body, lost = encode(
        tools=(
            Tool(name="f", description="d", parameters=JSON, strict=True),
            Tool(name="g", parameters={}),
            Tool(name="h", parameters={"properties": {}}, extra_body={"cache_control": {}}),
            Tool(name="r", parameters={"$ref": "#/$defs/x"}),
            Tool(kind="custom", name="c", body={"type": "text"}),
            Tool(
                kind="provider", name="googleSearch", body={"googleSearch": {}}, protocol="gemini"
            ),
            Tool(
                kind="provider",
                name="codeExecution",
                body={"codeExecution": None},
                protocol="gemini",
            ),
            Tool(kind="provider", name="web_search", body={}, protocol="responses"),
        )
    )
    declarations = body["tools"][0]["functionDeclarations"]
    assert declarations[0] == {"name": "f", "description": "d", "parametersJsonSchema": JSON}
    assert declarations[1] == {"name": "g"}
    assert declarations[2] == {
        "name": "h",
        "parametersJsonSchema": {"properties": {}, "type": "object"},
    }
    assert declarations[3]["parametersJsonSchema"] == {"$ref": "#/$defs/x"}
    assert declarations[4]["parametersJsonSchema"]["required"] == ["input"]
    assert body["tools"][1:] == [{"googleSearch": {}}]
    assert lost == ("tools[0].strict", "tools[2].cache_control", "tools[4].type", "tools[7]")


def test_an_empty_list_of_tools_is_not_an_absent_one():
    assert encode(tools=())[0]["tools"] == []
    assert "tools" not in encode()[0]


# --- tool choice ----------------------------------------------------------------------------------

CHOICES = [
    ({"mode": "AUTO"}, {"mode": "auto"}),
    ({"mode": "auto"}, {"mode": "auto"}),
    ({}, {"mode": "auto"}),
    ({"mode": 1}, {"mode": "auto"}),
    ({"mode": "NONE"}, {"mode": "none"}),
    ({"mode": "ANY"}, {"mode": "required"}),
    ({"mode": "ANY", "allowedFunctionNames": ["f"]}, {"mode": "named", "names": ("f",)}),
    (
        {"mode": "any", "allowed_function_names": ["f", "g"]},
        {"mode": "allowed", "names": ("f", "g"), "required": True},
    ),
    ({"mode": "VALIDATED"}, {"mode": "auto"}),
    ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, {"mode": "allowed", "names": ("f",)}),
]


@pytest.mark.parametrize(("wire", "choice"), CHOICES)
def test_tool_choice_decoded(wire, choice):
    found = decode(toolConfig={"functionCallingConfig": wire}).tool_choice
    assert bare(found) == bare(ToolChoice(**choice))


def test_an_unheard_of_mode_is_googles_own():
    choice = decode(toolConfig={"functionCallingConfig": {"mode": "MAYBE"}}).tool_choice
    assert (choice.mode, choice.protocol, choice.body) == ("provider", "gemini", {"mode": "MAYBE"})
    config = encode(tools=(Tool(name="f"),), tool_choice=replace(choice))[0]["toolConfig"]
    assert config == {"functionCallingConfig": {"mode": "MAYBE"}}


def test_a_tool_config_may_hold_no_choice():
    request = decode(tool_config={"includeServerSideToolInvocations": True})
    assert request.tool_choice is None
    assert request.extra_body == {"toolConfig": {"includeServerSideToolInvocations": True}}


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ({"mode": "auto"}, {"mode": "AUTO"}),
        ({"mode": "none"}, {"mode": "NONE"}),
        ({"mode": "required"}, {"mode": "ANY"}),
        ({"mode": "named", "names": ("f",)}, {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        (
            {"mode": "allowed", "names": ("f", "g"), "required": True},
            {"mode": "ANY", "allowedFunctionNames": ["f", "g"]},
        ),
        (
            {"mode": "allowed", "names": ("f",)},
            {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
        ),
    ],
)
def test_tool_choice_encoded(choice, written):
    body, lost = encode(tools=(Tool(name="f"),), tool_choice=ToolChoice(**choice))
    assert body["toolConfig"] == {"functionCallingConfig": written}
    assert lost == ()


def test_a_choice_that_cannot_be_made_is_reported():
    foreign = ToolChoice(mode="provider", body={"type": "web_search"}, protocol="responses")
    body, lost = encode(tools=(Tool(name="f"),), tool_choice=foreign)
    assert "toolConfig" not in body
    assert lost == ("tool_choice",)
    assert encode(tool_choice=ToolChoice(mode="required"))[1] == ("tool_choice",)
    assert encode(tool_choice=ToolChoice(mode="none"))[1] == ()


# --- schemas --------------------------------------------------------------------------------------


@pytest.mark.spec("T28")
@pytest.mark.parametrize(
    ("google", "json"),
    [
        ({"type": "STRING"}, {"type": "string"}),
        (
            {"type": 6, "properties": {"type": {"type": 1}}},
            {"type": "object", "properties": {"type": {"type": "string"}}},
        ),
        ({"type": "TYPE_UNSPECIFIED", "title": "t"}, {"title": "t"}),
        ({"type": "custom"}, {"type": "custom"}),
        ({"type": ["STRING", "NULL", 3]}, {"type": ["string", "null", 3]}),
        ({"type": "STRING", "format": "enum", "enum": ["A"]}, {"type": "string", "enum": ["A"]}),
        (
            {"type": "STRING", "enum": ["A"], "nullable": True},
            {"type": ["string", "null"], "enum": ["A", None]},
        ),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "NULL", "nullable": True}, {"type": "null"}),
        (
            {"anyOf": [{"type": "STRING"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        ({"any_of": [{"type": "STRING"}, 5]}, {"anyOf": [{"type": "string"}, 5]}),
        (
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "max_items": "3"},
            {"type": "array", "items": {"type": "number"}, "maxItems": 3},
        ),
        ({"type": "ARRAY", "minItems": "x"}, {"type": "array", "minItems": "x"}),
        ({"type": "STRING", "example": "e"}, {"type": "string", "examples": ["e"]}),
        ({"items": [{"type": "STRING"}]}, {"items": [{"type": "string"}]}),
        ({"properties": {"a": True}, "propertyOrdering": 5}, {"properties": {"a": True}}),
        (
            {"enum": ["STRING"], "default": {"type": "STRING"}},
            {"enum": ["STRING"], "default": {"type": "STRING"}},
        ),
    ],
)
def test_googles_schema_as_json_schema(google, json):
    assert from_google(google) == json


def test_the_order_of_properties_is_kept_by_their_order():
    schema = {"properties": {"a": {}, "b": {}, "c": {}}, "propertyOrdering": ["c", "a", "gone", 1]}
    assert list(from_google(schema)["properties"]) == ["c", "a", "b"]


@pytest.mark.spec("T28")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False, "$schema": "x"},
        {
            "$ref": "#/$defs/node",
            "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
        },
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": ["string", "null"], "propertyNames": {"pattern": "x"}},
        {"properties": {"const": {"type": "string"}, "enum": {"type": "integer"}}},
        {"type": "integer", "minimum": 1, "exclusiveMinimum": 5},
        {"type": "number", "exclusiveMinimum": 0},
        {"const": {"a": 1}},
        {"allOf": [{"type": "string"}, {"maxLength": 3}]},
    ],
)
def test_json_schema_that_google_takes_goes_as_it_is(schema):
    assert for_google(schema) == schema


@pytest.mark.spec("T28")
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"const": "a"}, {"enum": ["a"]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 10}, {"type": "integer", "maximum": 9}),
        (
            {"allOf": [{"type": "string", "title": "a"}], "title": "b"},
            {"type": "string", "title": "b"},
        ),
        (
            {"properties": {"a": {"items": {"const": 1}}}},
            {"properties": {"a": {"items": {"enum": [1]}}}},
        ),
    ],
)
def test_what_google_reads_past_is_said_in_words_that_it_reads(schema, said):
    assert for_google(schema) == said


def test_a_schema_nested_beyond_reason_is_passed_on():
    schema: dict = {"type": "STRING"}
    for _ in range(400):
        schema = {"items": schema}
    assert for_google(schema) == schema
    assert from_google(schema) == schema


@pytest.mark.spec("T33")
@pytest.mark.parametrize(
    ("model", "style", "signed"),
    [
        ("gemini-4-flash", "level", True),
        ("google/Gemini-3.5-Pro", "level", True),
        ("gemini-flash-latest", "budget", True),
        ("gemini-2.5-flash", "budget", False),
        ("my-gemini-3-clone", "budget", False),  # no substring of a name means anything
        ("anything", "budget", False),
    ],
)
def test_a_model_is_known_by_the_whole_of_its_name(model, style, signed):
    assert (thinking_of(model).style, wants_signatures(model)) == (style, signed)
