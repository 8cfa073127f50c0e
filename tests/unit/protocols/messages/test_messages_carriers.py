"""Sealed things of other providers on their way through a caller of this protocol and back."""

from __future__ import annotations

import pytest

from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.messages import PROTOCOL
from monoize.urp import (
    Choice,
    Citation,
    Losses,
    Message,
    Reasoning,
    ReasoningEncrypted,
    Role,
    Seal,
    Text,
    ToolCall,
    UrpRequest,
    UrpResponse,
    bare,
    unfold,
)
from monoize.urp.carrier import is_carrier, pack_seal

GEMINI = Seal(protocol="gemini", data="c2lnbg==")
CALL = ToolCall(call_id="call/1", name="f", arguments="{}")

TURNS = [
    (Reasoning(content="Hm", seal=GEMINI),),
    (Reasoning(content="A summary", kind="summary"),),
    (Reasoning(content="Nobody sealed this"),),
    (ReasoningEncrypted(protocol="responses", data={"type": "reasoning", "id": "rs_1"}),),
    (ToolCall(call_id="call/1", name="f", arguments="{}", seal=GEMINI),),
    (Text(content="Hello", seal=GEMINI),),
    (Text(content="", seal=GEMINI),),
    (
        Reasoning(content="One", seal=GEMINI),
        Text(content="Then"),
        ToolCall(call_id="a", name="f", arguments='{"x":1}', seal=GEMINI),
        ToolCall(call_id="b", name="g", arguments="{}"),
    ),
]


def reply():
    return Reply(
        request=UrpRequest(model="m"), model="m", ids=SequentialIds(), created=1, losses=Losses()
    )


def response(parts):
    message = Message(role=Role.ASSISTANT, parts=parts)
    return UrpResponse(id="1", model="x", choices=(Choice(messages=(message,)),), origin="gemini")


def unary(parts):
    return PROTOCOL.encode_response(response(parts), reply())["content"]


def streamed(parts):
    """The blocks that a client puts together from the stream."""
    from monoize import wirejson

    encoder = PROTOCOL.stream_encoder(reply())
    blocks = []
    for event in unfold(response(parts)):
        for wire in encoder.event(event):
            said = wirejson.loads(wire.data)
            if said["type"] == "content_block_start":
                blocks.append(dict(said["content_block"]))
            elif said["type"] == "content_block_delta":
                grow(blocks[-1], said["delta"], wirejson)
    return blocks


def grow(block, delta, wirejson):
    for key in ("text", "thinking", "signature"):
        if key in delta:
            block[key] += delta[key]
    if "partial_json" in delta:
        block["input"] = wirejson.loads(delta["partial_json"])


def next_turn(content):
    return PROTOCOL.decode_request(
        {
            "model": "m",
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": content},
                {"role": "user", "content": "Go on"},
            ],
        }
    )


@pytest.mark.spec("T19", "T20", "T21")
@pytest.mark.parametrize("parts", TURNS)
@pytest.mark.parametrize("shown", [unary, streamed])
def test_what_another_provider_sealed_comes_back_to_the_very_same_parts(parts, shown):
    request = next_turn(shown(parts))
    assert [bare(part) for part in request.messages[1].parts] == [bare(part) for part in parts]


@pytest.mark.spec("T19")
@pytest.mark.parametrize("parts", TURNS)
def test_a_carrier_never_reaches_the_vendor(parts):
    """A conversation that began elsewhere goes on here: what is ours is taken out and reported."""
    losses = Losses()
    body = PROTOCOL.encode_request(next_turn(unary(parts)), losses).body
    signed = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if is_carrier(block.get("signature")) or is_carrier(block.get("data"))
    ]
    assert signed == []
    assert losses.dropped


def test_other_envelopes_of_such_a_conversation_are_replayed():
    request = next_turn(unary(TURNS[0]))
    assert request.source is None
    assert [m.source is None for m in request.messages] == [False, True, False]


def test_a_seal_may_come_after_its_call():
    call = ToolCall(call_id="t1", name="f", arguments="{}", seal=GEMINI)
    request = next_turn(
        [
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
            {"type": "redacted_thinking", "data": pack_seal(call)},
        ]
    )
    assert request.messages[1].parts[0].seal == GEMINI


def test_a_seal_without_its_owner_is_let_go():
    for owner in (CALL, Text(content="x")):
        sealed = pack_seal(type(owner)(**{**bare_fields(owner), "seal": GEMINI}))
        request = next_turn(
            [{"type": "redacted_thinking", "data": sealed}, {"type": "thinking", "thinking": "a"}]
        )
        assert len(request.messages[1].parts) == 1


def bare_fields(value):
    return {name: getattr(value, name) for name in value.__struct_fields__}


def test_the_vendors_own_seals_are_left_as_they_are():
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "Eo0B"},
    ]
    request = next_turn(content)
    assert request.source is not None
    assert PROTOCOL.encode_request(request, Losses()).body["messages"][1]["content"] == content


@pytest.mark.spec("T30")
def test_a_web_citation_of_another_provider_comes_back_and_stays_from_the_vendor():
    citation = Citation(url="https://x", title="X", quote="q")
    request = next_turn(unary((Text(content="a", citations=(citation,)),)))
    assert bare(request.messages[1].parts[0].citations[0]) == bare(citation)
    losses = Losses()
    body = PROTOCOL.encode_request(request, losses).body
    assert body["messages"][1]["content"] == "a"
    assert losses.dropped == ("messages[1].parts[0].citations",)
