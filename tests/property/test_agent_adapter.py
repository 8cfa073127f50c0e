"""Mutated replies: whatever the bytes, there is one verdict, the same every time, and strict mode never recovers."""

from __future__ import annotations

import os
import random

import pytest

from fakes.agent_replies import PROFILES, Said, reply
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.boundary.strict_json import object_of
from monoize.agent.canonical_json import canonical
from monoize.agent.profile import profile

CASES = 100_000 if os.environ.get("MONOIZE_SOAK") == "1" else 5_000  # over all profiles
SEED = 7

_WORDS = (
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"null",
    b"NaN",
    b"1e999",
    b"-1",
    b"true",
    b"\\ud83d",
    b"\xff",
    b"\x00",
    b"\n\n",
    b"data: ",
    b"[DONE]",
    b"<tool_call>",
    b"</tool_call>",
    b"```json",
    b'{"name":"get_weather","arguments":{}}',
    b'"tool_calls"',
    b'"type":"custom"',
    b"event: error\n",
    b"[" * 500,
    b"9" * 5000,
)
SAYINGS = (
    Said(text="Paris is nice."),
    Said(text="I look.", calls=(("a", "get_weather", '{"city": "Paris"}'),)),
    Said(calls=(("a", "get_weather", '{"city": "x"}'), ("b", "list_files", "{}"))),
    Said(reasoning="hm", calls=(("", "list_files", "{}"),), usage=None),
    Said(text='```json\n{"name":"get_weather","arguments":{"city":"y"}}\n``` ok', finish="length"),
)


def mutated(raw: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(len(raw) + 1)
        end = min(len(raw), at + dice.choice((0, 1, 1, 3, 20)))
        match dice.randrange(5):
            case 0:  # put in
                raw = raw[:at] + dice.choice(_WORDS) + raw[at:]
            case 1:  # take out
                raw = raw[:at] + raw[end:]
            case 2:  # say twice
                raw = raw[:end] + raw[at:]
            case 3:  # cut off
                raw = raw[: max(at, len(raw) // 2)]
            case _:  # one byte for another
                raw = raw[:at] + bytes([dice.randrange(256)]) + raw[at + 1 :]
    return raw


@pytest.mark.soak
@pytest.mark.spec("S5-4.2", "S5-2a")
@pytest.mark.parametrize("name", PROFILES)
def test_whatever_comes_has_one_verdict(name):
    dice = random.Random(f"{SEED} {name}")
    kind = profile(name)
    seen = {"native": 0, "rejected": 0, "recovered": 0}
    for _ in range(CASES // len(PROFILES)):
        streamed = dice.random() < 0.5
        raw = mutated(reply(name, dice.choice(SAYINGS), streamed=streamed), dice)
        found = adapt(raw, profile=kind, streamed=streamed, strict=True, salt="s")
        assert found.status in ("native", "rejected")
        assert found == adapt(raw, profile=kind, streamed=streamed, strict=True, salt="s")
        loose = adapt(raw, profile=kind, streamed=streamed, strict=False, salt="s")
        for verdict in (found, loose):
            seen[verdict.status] += 1
            canonical(verdict.as_json())  # it goes into the transcript
            canonical(verdict.model_fingerprint)
            assert (verdict.canonical_message is None) == (verdict.status == "rejected")
            assert (verdict.failure_code is None) == (verdict.status == "native")
            if verdict.canonical_message is not None:
                for call in verdict.canonical_message.tool_calls:
                    assert object_of(call.raw_arguments) == call.arguments  # never mended
        if found.status == "native" and found.canonical_message.tool_calls:
            assert loose == found  # what is native needs no recovery
    assert min(seen["native"], seen["rejected"]) > 0
