"""Hostile streams: no byte of text gets out before a validated call, however the stream is made and split (invariant F)."""

from __future__ import annotations

import os
import random

import pytest

from fakes.agent_replies import PROFILES, Said, reply
from monoize.agent.boundary.gate import CallComplete, StreamGate, TextReleased, Violated
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.machine.schema import value_problem
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.profile import profile

STREAMS = 20_000 if os.environ.get("MONOIZE_SOAK") == "1" else 1_000
SEED = 11

TOOLS = ToolManifest(
    tools=(
        ToolSpec(
            name="get_weather",
            parameters={
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 40}},
                "required": ["city"],
                "additionalProperties": False,
            },
        ),
        ToolSpec(name="list_files"),
    )
)
_TEXTS = (
    "",
    "Sure! ",
    "<tool_call>",
    "<tool_call",
    "```json",
    "``",
    "{",
    '{"name": "get_weather"',
    "</tool_call>",
    '{"name": "list_files", "arguments": {}}',
    '<tool_call>{"name": "list_files", "arguments": {}}</tool_call>',
    '```json\n{"arguments": {}, "name": "list_files"}\n```',
    "I called it already.",
    "é😀\u2028",
    "\n\n",
)
_ARGUMENTS = (
    '{"city": "Paris"}',
    ' { "city" : "\\u0041" } ',
    "{}",
    '{"city": 1}',
    '{"city": "x", "more": 1}',
    '{"city": "x", "city": "y"}',
    '{"city": "' + "x" * 41 + '"}',
    '{"city": "x"',
    '{"city": "x"}}',
    '{"city": "x"} ok',
    "[]",
    "",
    '{"city": "</tool_call>"}',
)
_NAMES = ("get_weather", "get_weather", "list_files", "rm_rf", "get_weather2", "")


def hostile(name: str, dice: random.Random) -> bytes:
    """Pieces of good replies, put together by somebody who wants words to get out."""
    good = dice.random() < 0.4
    names, arguments = (_NAMES[:1], _ARGUMENTS[:2]) if good else (_NAMES, _ARGUMENTS)
    calls = tuple(
        (f"c{n}", dice.choice(names), dice.choice(arguments)) for n in range(dice.randrange(3))
    )
    said = Said(
        text="".join(dice.choice(_TEXTS) for _ in range(dice.choice((0, 0, 1, 2, 3)))),
        calls=calls,
        reasoning=dice.choice(("", "hm")),
        finish=dice.choice((None, None, "stop", "length", "calls")),
    )
    raw = reply(name, said, streamed=True, cut=dice.choice((None, None, None, 1, 2)))
    if raw and dice.random() < 0.3:
        at = dice.randrange(len(raw))
        raw = raw[:at] + raw[at + dice.randrange(1, 30) :]
    if dice.random() < 0.2:  # the text after the call, or the call after the end
        events = raw.split(b"\n\n")
        dice.shuffle(events)
        raw = b"\n\n".join(events)
    return raw


def split(raw: bytes, dice: random.Random) -> list[bytes]:
    size = dice.choice((1, 3, 50, len(raw) or 1))
    return [raw[n : n + size] for n in range(0, len(raw), size)]


@pytest.mark.soak
@pytest.mark.spec("S5-F")
@pytest.mark.parametrize("name", PROFILES)
def test_no_text_before_a_validated_call(name):
    dice = random.Random(f"{SEED} {name}")
    kind = profile(name)
    seen = {"released": 0, "held": 0, "violated": 0, "agreed": 0}
    for _ in range(STREAMS // len(PROFILES) + 1):
        raw = hostile(name, dice)
        gate = StreamGate(TOOLS, kind, expects="call", gated=True, streamed=True)
        pieces = [piece for chunk in split(raw, dice) for piece in gate.feed(chunk)]
        pieces += gate.finish()
        calls, is_violated = [], False
        for piece in pieces:
            assert not is_violated, "nothing comes after a violation"
            match piece:
                case TextReleased():
                    assert calls, raw
                    seen["released"] += 1
                case CallComplete():
                    tool = TOOLS.get(piece.call.name)
                    assert tool is not None
                    assert value_problem(tool.parameters, piece.call.arguments) is None
                    calls.append(piece.call)
                case Violated():
                    is_violated = True
                    seen["violated"] += 1
                case _:
                    pass
        seen["held"] += not calls
        found = adapt(raw, profile=kind, streamed=True, strict=True)
        told = found.canonical_message.tool_calls if found.canonical_message else ()
        valid = all(
            (tool := TOOLS.get(call.name))
            and value_problem(tool.parameters, call.arguments) is None
            for call in told
        )
        if found.status == "native" and valid:  # what the run will go by, the gate let through
            # In a stream whose events were shuffled, calls may begin in another order than they stand.
            assert sorted((c.name, c.raw_arguments) for c in told) == sorted(
                (call.name, call.raw_arguments) for call in calls
            ), raw
            assert not is_violated
            seen["agreed"] += bool(told)
        elif found.status == "native":
            assert is_violated
    assert min(seen["held"], seen["violated"], seen["agreed"]) > 0
    if name != "local_grammar":
        assert seen["released"] > 0
