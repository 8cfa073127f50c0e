"""The gate, fed with wire bytes of every profile: what leaves it, and when."""

from __future__ import annotations

import json

import pytest

from fakes.agent_replies import PROFILES, Said, reply, text_syntax
from monoize.agent.boundary.gate import (
    CallComplete,
    CallStarted,
    ReasoningReleased,
    StreamGate,
    TextReleased,
    Violated,
)
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.boundary.strict_json import MAX_BYTES
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.outcome import FailureCode
from monoize.agent.profile import profile

TOOLS = ToolManifest(
    tools=(
        ToolSpec(
            name="get_weather",
            parameters={
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer", "minimum": 1},
                },
                "required": ["city"],
            },
        ),
        ToolSpec(name="list_files"),
    )
)
CALL = ("call_a", "get_weather", '{"days": 2, "city": "Par\\u00eds"}')
NO_TEXT = ("local_grammar",)  # there a call is the whole text
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["unary", "stream"])
EACH = pytest.mark.parametrize("name", PROFILES)
WITH_TEXT = pytest.mark.parametrize("name", [n for n in PROFILES if n not in NO_TEXT])
NATIVE = pytest.mark.parametrize("name", [n for n in PROFILES if not text_syntax(n)])


def passed(name, raw, *, streamed, size=None, gated=True, expects="call", **more):
    gate = StreamGate(TOOLS, profile(name), expects=expects, gated=gated, streamed=streamed, **more)
    pieces = []
    size = size or len(raw) or 1
    for start in range(0, len(raw), size):
        pieces += gate.feed(raw[start : start + size])
    return pieces + gate.finish()


def said_by(name, said, *, streamed, **more):
    return passed(name, reply(name, said, streamed=streamed), streamed=streamed, **more)


def text_of(pieces):
    return "".join(piece.text for piece in pieces if isinstance(piece, TextReleased))


@pytest.mark.spec("S5-F")
@BOTH
@WITH_TEXT
@pytest.mark.parametrize("size", [1, 13, None])
def test_text_waits_for_a_whole_valid_call(name, streamed, size):
    pieces = said_by(name, Said(text="I look. ", calls=(CALL,)), streamed=streamed, size=size)
    kinds = [type(piece) for piece in pieces]
    assert kinds == [CallStarted, CallComplete, TextReleased]
    assert pieces[1].call.arguments == {"days": 2, "city": "París"}
    assert pieces[1].position == 0
    assert text_of(pieces).strip() == "I look."


@pytest.mark.spec("S5-F")
@BOTH
@EACH
def test_a_call_alone_passes(name, streamed):
    pieces = said_by(name, Said(calls=(CALL,)), streamed=streamed, size=1)
    assert [type(piece) for piece in pieces] == [CallStarted, CallComplete]
    assert pieces[0].name in ("get_weather", None)


@pytest.mark.spec("S5-F")
@BOTH
@EACH
@pytest.mark.parametrize("size", [1, None])
def test_narration_never_leaves_and_is_no_violation(name, streamed, size):
    said = Said(text="Sure! I would call get_weather now. <tool", reasoning="hm")
    assert said_by(name, said, streamed=streamed, size=size) == []


@BOTH
@EACH
def test_without_a_gate_text_passes_as_it_comes(name, streamed):
    text = "Sure! <b>Paris</b> ``` {} <tool"
    pieces = said_by(name, Said(text=text), streamed=streamed, size=1, gated=False, expects="any")
    assert text_of(pieces) == text
    if streamed:
        assert len(pieces) > 1


@BOTH
@WITH_TEXT
def test_without_a_gate_calls_are_still_told_and_their_marks_are_no_text(name, streamed):
    pieces = said_by(
        name, Said(text="I look.", calls=(CALL,)), streamed=streamed, gated=False, expects="any"
    )
    assert text_of(pieces).strip() == "I look."
    assert [p.call.name for p in pieces if isinstance(p, CallComplete)] == ["get_weather"]


@BOTH
@EACH
@pytest.mark.spec("D34")
def test_a_call_where_none_may_be_is_left_to_the_adapter(name, streamed):
    pieces = said_by(name, Said(calls=(CALL,)), streamed=streamed, gated=False, expects="text")
    assert pieces == []


@BOTH
@EACH
def test_reasoning_passes_only_where_the_contract_exposes_it(name, streamed):
    said = Said(reasoning="hm, hm, hm", calls=(CALL,))
    pieces = said_by(name, said, streamed=streamed, expose_reasoning=True)
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningReleased)) == "hm, hm, hm"
    pieces = said_by(name, said, streamed=streamed)
    assert not any(isinstance(piece, ReasoningReleased) for piece in pieces)


BAD = {
    "a tool that nobody has": ("delete_all", "{}", FailureCode.UNKNOWN_TOOL),
    "a value of the wrong kind": ("get_weather", '{"city": 3}', FailureCode.INVALID_ARGUMENTS),
    "a field that is missing": ("get_weather", "{}", FailureCode.INVALID_ARGUMENTS),
    "a value out of range": ("get_weather", '{"city":"x","days":0}', FailureCode.INVALID_ARGUMENTS),
    "a field named twice": ("get_weather", '{"city":"x","city":"y"}', FailureCode.MALFORMED),
    "half a character": ("get_weather", '{"city":"\\ud83d"}', FailureCode.MALFORMED),
    "an array": ("get_weather", "[]", FailureCode.MALFORMED),
}


@pytest.mark.spec("S5-F")
@BOTH
@EACH
@pytest.mark.parametrize("case", BAD)
def test_an_invalid_call_lets_nothing_out(name, case, streamed):
    tool, arguments, code = BAD[case]
    said = Said(text="" if name in NO_TEXT else "I look.", calls=(("c", tool, arguments),))
    pieces = said_by(name, said, streamed=streamed, size=5)
    assert text_of(pieces) == ""
    assert isinstance(pieces[-1], Violated)
    if text_syntax(name) and code is FailureCode.UNKNOWN_TOOL:
        code = FailureCode.MALFORMED  # its name cannot even be written
    assert pieces[-1].code == code
    assert not any(isinstance(piece, CallComplete) for piece in pieces)


@pytest.mark.spec("S5-F")
@pytest.mark.parametrize("name", ["native_chat_completion", "native_messages", "native_responses"])
@pytest.mark.parametrize(
    "arguments", ['{"city":"x"} and', '{"city":x}', "Paris", '{"a":' + "[" * 70]
)
def test_the_first_wrong_byte_is_told_at_once(name, arguments):
    """Nothing after it is waited for: the provider can be cut off, and need not be paid for more."""
    said = Said(calls=(("c", "get_weather", arguments + " " * 5000),))
    raw = reply(name, said, streamed=True)
    gate = StreamGate(TOOLS, profile(name), expects="call", gated=True, streamed=True)
    read = 0
    for start in range(0, len(raw), 20):
        read = start + 20
        if any(isinstance(piece, Violated) for piece in gate.feed(raw[start:read])):
            break
    assert read < len(raw) / 2
    assert gate.feed(raw[read:]) == []
    assert gate.finish() == []


@pytest.mark.parametrize("name", ["local_xml", "local_json"])
def test_an_unknown_name_in_the_text_is_told_at_its_first_letter(name):
    raw = reply(name, Said(calls=(("", "nobody", "{}"),)), streamed=False)
    body = json.loads(raw)
    text = body["choices"][0]["message"]["content"]
    gate = StreamGate(TOOLS, profile(name), expects="call", gated=True, streamed=True)
    for place, letter in enumerate(text):
        chunk = {"choices": [{"index": 0, "delta": {"content": letter}}]}
        pieces = gate.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        if pieces and isinstance(pieces[-1], Violated):
            assert place == text.index("nobody")
            return
    pytest.fail("the unknown name passed")


@pytest.mark.spec("S5-F")
@pytest.mark.parametrize("name", ["local_xml", "local_json", "local_grammar"])
@pytest.mark.parametrize("tail", [" Done.", "<b>", "}", "<tool", "``"])
def test_text_after_a_call_of_the_text_is_a_violation(name, tail):
    call = reply(name, Said(calls=(CALL,)), streamed=False)
    text = json.loads(call)["choices"][0]["message"]["content"] + tail
    pieces = said_by(name, Said(text=text), streamed=True, size=1)
    assert isinstance(pieces[-1], Violated)
    assert text_of(pieces) == ""


@BOTH
@pytest.mark.parametrize("name", ["local_xml", "local_json"])
def test_marks_inside_of_a_string_are_part_of_it(name, streamed):
    arguments = json.dumps({"city": "</tool_call> ``` <tool_call> ```json"})
    pieces = said_by(name, Said(calls=(("", "get_weather", arguments),)), streamed=streamed, size=1)
    assert pieces[-1].call.arguments == json.loads(arguments)


@BOTH
@pytest.mark.parametrize("name", [n for n in PROFILES if n not in NO_TEXT])
def test_several_calls_are_told_in_their_order(name, streamed):
    second = ("call_b", "list_files", "{}")
    pieces = said_by(name, Said(calls=(CALL, second)), streamed=streamed, size=3)
    told = [(p.position, p.call.name) for p in pieces if isinstance(p, CallComplete)]
    assert told == [(0, "get_weather"), (1, "list_files")]


@pytest.mark.spec("S5-F")
@EACH
def test_a_stream_that_is_cut_anywhere_lets_no_text_out_before_a_call(name):
    said = Said(text="" if name in NO_TEXT else "I look.", calls=(CALL,))
    raw = reply(name, said, streamed=True)
    for end in range(0, len(raw), 11):
        pieces = passed(name, raw[:end], streamed=True)
        complete = [n for n, piece in enumerate(pieces) if isinstance(piece, CallComplete)]
        released = [n for n, piece in enumerate(pieces) if isinstance(piece, TextReleased)]
        assert not released or (complete and complete[0] < released[0])


@EACH
def test_a_bare_call_of_a_reply_that_was_cut_off_is_none(name):
    pieces = said_by(name, Said(calls=(CALL,), finish="length"), streamed=True)
    if name == "local_grammar":
        assert not any(isinstance(piece, CallComplete) for piece in pieces)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_without_end_is_stopped(streamed, monkeypatch):
    monkeypatch.setattr("monoize.agent.boundary.gate.MAX_REPLY_BYTES", 1000)
    name = "native_chat_completion"
    gate = StreamGate(TOOLS, profile(name), expects="call", gated=True, streamed=streamed)
    pieces = [piece for _ in range(50) for piece in gate.feed(b": keep-alive\n\n" * 5)]
    assert [type(piece) for piece in pieces] == [Violated]


def test_a_call_without_end_is_stopped():
    name = "native_chat_completion"
    long = '{"city": "' + "x" * (MAX_BYTES + 1000) + '"}'
    pieces = said_by(name, Said(calls=(("c", "get_weather", long),)), streamed=True)
    assert isinstance(pieces[-1], Violated)
    assert "larger" in pieces[-1].reason


@pytest.mark.parametrize("kind", ["custom", "web_search"])
def test_a_call_that_no_contract_offers(kind):
    body = json.loads(
        reply("native_chat_completion", Said(text="x", calls=(CALL,)), streamed=False)
    )
    call = {"id": "c", "type": kind, kind: {"name": "x", "input": "y"}}
    body["choices"][0]["message"]["tool_calls"] = [call]
    pieces = passed("native_chat_completion", json.dumps(body).encode(), streamed=False)
    assert isinstance(pieces[-1], Violated)
    assert text_of(pieces) == ""


def test_broken_characters_are_a_violation():
    raw = reply("native_chat_completion", Said(calls=(CALL,)), streamed=True)
    pieces = passed(
        "native_chat_completion", raw.replace(b"get_weather", b"get_\xff", 1), streamed=True
    )
    assert isinstance(pieces[-1], Violated)


@BOTH
@NATIVE
def test_the_gate_and_the_adapter_see_the_same_calls(name, streamed):
    raw = reply(name, Said(text="x", calls=(CALL, ("b", "list_files", "{}"))), streamed=streamed)
    pieces = passed(name, raw, streamed=streamed)
    found = adapt(raw, profile=profile(name), streamed=streamed, strict=True)
    told = [(p.call.name, p.call.raw_arguments) for p in pieces if isinstance(p, CallComplete)]
    assert told == [(c.name, c.raw_arguments) for c in found.canonical_message.tool_calls]
