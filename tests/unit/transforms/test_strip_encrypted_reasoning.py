"""Replies whose reasoning can be read or is not there."""

from __future__ import annotations

from fakes.streams import applied, broken_grammar, chain, reply
from monoize.urp import (
    Delta,
    EncryptedDelta,
    PartDone,
    PartStart,
    Reasoning,
    ReasoningEncrypted,
    ResponseStart,
    Seal,
    Text,
    unfold,
)

THOUGHT = Reasoning(content="hm", seal=Seal(protocol="messages", data="c2ln"))
SECRET = ReasoningEncrypted(protocol="responses", data={"type": "reasoning"})
ANSWER = Text(content="hello")


def test_encrypted_reasoning_goes_and_signed_reasoning_stays() -> None:
    after = chain("strip_encrypted_reasoning").response(reply(SECRET, THOUGHT, ANSWER))
    assert after.choices[0].messages[0].parts == (THOUGHT, ANSWER)
    assert after.choices[0].messages[0].id == "msg_1"


def test_what_arrives_late_for_a_stripped_part_goes_with_it() -> None:
    events = [
        ResponseStart(id="r", model="m"),
        PartStart(part_index=0, part=SECRET),
        Delta(part_index=0, delta=EncryptedDelta(data={"type": "reasoning", "id": "x"})),
        PartDone(part_index=0),
    ]
    assert applied(chain("strip_encrypted_reasoning"), events) == events[:1]


def test_the_stream_keeps_its_grammar() -> None:
    out = applied(
        chain("strip_encrypted_reasoning"), unfold(reply(SECRET, THOUGHT, SECRET, ANSWER))
    )
    assert broken_grammar(out) == []
