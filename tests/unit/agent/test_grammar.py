"""What the runtime allows, compiled: for the verifier, for the local model's decoder, or refused in words."""

from __future__ import annotations

import json

import jsonschema_rs
import llguidance
import pytest

from monoize.agent.boundary.decoding_schema import call_schema
from monoize.agent.boundary.grammar import (
    COMPILER_VERSION,
    DECODER_GRAMMARS,
    MAX_GRAMMAR_BYTES,
    decoder_grammar,
    grammar_problem,
    mask_digest,
    schema_refusals,
    verifier_grammar,
)
from monoize.agent.boundary.strict_json import MAX_DEPTH
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.profile import profile

BYTES = llguidance.LLTokenizer("byte")
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"$ref": "#/$defs/Unit"},
        "days": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "$defs": {"Unit": {"enum": ["celsius", "fahrenheit"]}},
}
TOOLS = ToolManifest(
    tools=(ToolSpec(name="get_weather", parameters=WEATHER), ToolSpec(name="list_files"))
)


def speaks(grammar, text):
    matcher = llguidance.LLMatcher(BYTES, grammar.text, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    written = list(text.encode("utf-8", "surrogatepass"))
    return matcher.try_consume_tokens(written) == len(written) and matcher.is_accepting()


def tools(schema):
    return ToolManifest(tools=(ToolSpec(name="t", parameters=schema),))


# --- the decoder's ---------------------------------------------------------------------------------


@pytest.mark.spec("S5-F")
@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        ('{"name": "get_weather", "arguments": {"city": "Paris"}}', True),
        ('{"name": "list_files", "arguments": {}}', True),
        ('{"name": "get_weather", "arguments": {"city": "x", "days": 3, "unit": "celsius"}}', True),
        ('{"name": "get_weather", "arguments": {}}', False),
        ('{"name": "get_weather", "arguments": {"city": 1}}', False),
        ('{"name": "get_weather", "arguments": {"city": "x", "unit": "kelvin"}}', False),
        ('{"name": "get_weather", "arguments": {"city": "x", "more": 1}}', False),
        ('{"name": "rm", "arguments": {}}', False),
        ('{"name": "list_files", "arguments": {}} ok', False),
        ("Sure!", False),
        ("", False),
    ],
)
def test_a_decoder_can_write_a_valid_call_and_nothing_else(text, is_call):
    assert speaks(decoder_grammar(TOOLS, "tool_call"), text) is is_call
    if is_call:
        assert speaks(decoder_grammar(TOOLS, "tool_call_or_text"), text)


def test_a_text_is_allowed_where_it_may_be_and_never_begins_like_a_call():
    grammar = decoder_grammar(TOOLS, "tool_call_or_text")
    assert speaks(grammar, "Paris is {nice}.\nVery.")
    assert not speaks(grammar, '{"name": "rm", "arguments": {}}')
    assert not speaks(grammar, ' {"name": "rm"')


@pytest.mark.parametrize("limit", [64, 512, 4096])
def test_what_a_decoder_may_write_fits_the_tool_and_the_tokens(limit):
    schema = call_schema("get_weather", WEATHER, limit)
    arguments = schema["$defs"]["arguments"]
    longest = arguments["properties"]["city"]["maxLength"]
    assert 16 <= longest <= limit
    assert arguments["properties"]["tags"]["maxItems"] == 8
    assert arguments["additionalProperties"] is False
    grammar = decoder_grammar(TOOLS, "tool_call", limit)
    call = '{"name": "get_weather", "arguments": {"city": "%s"}}'
    assert speaks(grammar, call % ("x" * longest))
    assert not speaks(grammar, call % ("x" * (longest + 1)))


def test_bounds_of_the_tool_itself_stand():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 50, "maxLength": 60},
            "b": {"type": "string", "maxLength": 3},
            "c": {"enum": ["x" * 99]},
            "d": {"type": "array", "minItems": 20},
            "e": {"type": "integer", "minimum": 5},
            "f": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "g": {"type": "object", "properties": {"h": {"type": ["string", "null"]}}},
            "i": {"type": "object"},
            "j": True,
        },
    }
    found = call_schema("t", schema, 64)["$defs"]["arguments"]["properties"]
    assert found["a"]["maxLength"] == 50
    assert found["b"]["maxLength"] == 3
    assert found["c"] == schema["properties"]["c"]
    assert found["d"]["maxItems"] == 20
    assert found["e"] == {"type": "integer", "minimum": 5, "maximum": 2**53 - 1}
    assert found["f"]["anyOf"][0]["maxLength"] == 16
    assert found["g"]["additionalProperties"] is False
    assert found["g"]["properties"]["h"]["maxLength"] == 16
    assert (found["i"], found["j"]) == ({"type": "object"}, True)


def test_the_grammar_follows_from_the_manifest_and_has_a_digest():
    again = ToolManifest(
        tools=tuple(
            ToolSpec(name=tool.name, parameters=dict(reversed(tool.parameters.items())))
            for tool in TOOLS.tools
        )
    )
    for kind in DECODER_GRAMMARS:
        assert decoder_grammar(TOOLS, kind) == decoder_grammar(again, kind)
    digests = {decoder_grammar(TOOLS, kind).digest for kind in DECODER_GRAMMARS}
    assert len(digests | {verifier_grammar(TOOLS, None).digest}) == 4
    assert llguidance.__version__ in COMPILER_VERSION


def test_compiled_grammars_are_kept():
    assert decoder_grammar(TOOLS, "tool_call") is decoder_grammar(TOOLS, "tool_call")
    assert verifier_grammar(TOOLS, "xml") is verifier_grammar(TOOLS, "xml")


def test_there_is_no_other_grammar():
    with pytest.raises(ValueError, match="no grammar"):
        decoder_grammar(TOOLS, "gbnf")


# --- the verifier's --------------------------------------------------------------------------------

CALLS = {
    '{"name":"get_weather","arguments":{"city":"Paris"}}': True,
    ' {\n"arguments" : {} , "name":"list_files" }\t': True,
    '{"name":"get_weather","arguments":{"zz":[1,-2.5e3,true,null,"\\ud83d\\ude00é"],"o":{}}}': True,
    '{"name":"rm","arguments":{}}': False,
    '{"name":"get_weather","arguments":"{}"}': False,
    '{"name":"get_weather","arguments":{},"x":1}': False,
    '{"name":"get_weather"}': False,
    '{"name":"get_weather","arguments":{"a":01}}': False,
    '{"name":"get_weather","arguments":{"a":1,}}': False,
    '{"name":"get_weather","arguments":{"a":NaN}}': False,
    '{"name":"get_weather","arguments":{"a":"\n"}}': False,
    "Sure!": False,
}


@pytest.mark.spec("S5-F")
@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize(
    ("syntax", "end"), [(None, ""), ("xml", "</tool_call>"), ("json_block", "```")]
)
def test_the_verifier_takes_every_way_to_write_a_call(text, syntax, end):
    assert speaks(verifier_grammar(TOOLS, syntax), text + end) is CALLS[text]


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH])
def test_the_verifier_knows_how_deep_arguments_may_be(depth):
    inner = "[" * depth + "]" * depth
    text = f'{{"name":"list_files","arguments":{{"a":{inner}}}}}'
    assert speaks(verifier_grammar(TOOLS, None), text) is (depth < MAX_DEPTH)


def test_without_tools_no_call_is_one():
    assert not speaks(verifier_grammar(ToolManifest(), None), '{"name":"","arguments":{}}')


def test_a_hundred_tools():
    many = ToolManifest(
        tools=tuple(ToolSpec(name=f"tool_{n}", parameters=WEATHER) for n in range(100))
    )
    assert speaks(verifier_grammar(many, None), '{"name":"tool_99","arguments":{}}')
    assert not speaks(verifier_grammar(many, None), '{"name":"tool_100","arguments":{}}')


# --- what PRECHECK refuses -------------------------------------------------------------------------

DEEP = {"type": "object"}
for _ in range(40):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
REFUSED = {
    "a reference to elsewhere": ({"$ref": "https://example.com/x.json"}, "leads outside"),
    "a dynamic one": (
        {"type": "object", "properties": {"a": {"$dynamicRef": "x"}}},
        "leads outside",
    ),
    "a file": ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "outside"),
    "no object": ({"type": "array"}, "object"),
    "no schema": (
        {"type": "object", "properties": {"a": {"type": "nothing"}}},
        "cannot be enforced",
    ),
    "too deep": (DEEP, "deeper"),
    "too large": ({"type": "object", "description": "x" * 70_000}, "larger"),
    "look-around": (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)y"}}},
        "pattern",
    ),
}
# Every validator takes these, and no decoder can keep to them.
UNDECODABLE = {
    "unique items": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
    "not": {"type": "object", "properties": {"a": {"not": {"type": "string"}}}},
    "if": {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
}


@pytest.mark.spec("S5-2b")
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ["native_messages", "local_grammar"])
def test_refuses_in_words_a_schema_that_cannot_be_held_to(case, name):
    schema, word = REFUSED[case]
    (refusal,) = schema_refusals(tools(schema), profile(name))
    assert refusal.startswith("the parameters of t cannot be enforced")
    assert word in refusal


@pytest.mark.spec("S5-2b")
@pytest.mark.parametrize("case", UNDECODABLE)
def test_a_decoder_refuses_what_it_would_have_to_pass_over(case):
    assert schema_refusals(tools(UNDECODABLE[case]), profile("native_messages")) == ()
    (refusal,) = schema_refusals(tools(UNDECODABLE[case]), profile("local_grammar"))
    assert "Unimplemented" in refusal
    with pytest.raises(ValueError, match="Unimplemented"):
        decoder_grammar(tools(UNDECODABLE[case]), "tool_call")


@pytest.mark.parametrize("name", ["native_messages", "local_xml", "local_grammar"])
def test_takes_ordinary_schemas(name):
    assert schema_refusals(TOOLS, profile(name)) == ()
    assert schema_refusals(ToolManifest(), profile(name)) == ()


def test_there_is_a_limit_to_the_number_of_tools_and_to_all_of_them_together():
    many = ToolManifest(tools=tuple(ToolSpec(name=f"t{n}") for n in range(129)))
    assert "128" in schema_refusals(many, profile("native_chat_completion"))[0]
    large = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(1000)}}
    many = ToolManifest(tools=tuple(ToolSpec(name=f"t{n}", parameters=large) for n in range(12)))
    assert schema_refusals(many, profile("native_chat_completion")) == ()
    (refusal,) = schema_refusals(many, profile("local_grammar"))
    assert str(MAX_GRAMMAR_BYTES) in refusal


@pytest.mark.parametrize(
    "grammar", ["", "nonsense", "%llguidance {}\nstart: nobody", "%llguidance {"]
)
def test_a_grammar_that_llguidance_does_not_take_has_a_problem(grammar):
    assert grammar_problem(grammar)
    assert grammar_problem(decoder_grammar(TOOLS, "tool_call").text) is None


def test_a_mask_is_known_by_its_numbers():
    assert mask_digest((0.0, -1.5)) == mask_digest((0, -1.5))
    assert mask_digest((0.0, -1.5)) != mask_digest((-1.5, 0.0))


def test_the_narrower_schema_takes_only_what_the_tool_takes():
    arguments = {"city": "x", "tags": ["a"], "days": 2}
    narrow = call_schema("get_weather", WEATHER, 100)
    jsonschema_rs.validate(narrow, {"name": "get_weather", "arguments": arguments})
    jsonschema_rs.validate(WEATHER, arguments)
    assert json.dumps(narrow)
