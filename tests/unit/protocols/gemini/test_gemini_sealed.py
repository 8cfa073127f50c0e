"""What other providers sealed rides through Google's clients and comes back (URP-8, T19-T21)."""

from __future__ import annotations

import base64
import json

import pytest

from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.gemini import PROTOCOL
from monoize.urp import (
    Choice,
    Frame,
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

SIGNED = Seal(protocol="messages", data="sig")
SHOWN = Reasoning(content="shown", kind="summary")
ITEM = ReasoningEncrypted(
    protocol="responses", data={"type": "reasoning", "encrypted_content": "e"}
)
CALL = ToolCall(call_id="c1", name="f", arguments="{}")

CASES = {
    "signed reasoning": ((Reasoning(content="hm", seal=SIGNED), CALL), None),
    "two signed": (
        (Reasoning(content="a", seal=SIGNED), Reasoning(content="b", seal=SIGNED), CALL),
        None,
    ),
    "encrypted item": ((ITEM, CALL), None),
    "encrypted item with its summary": ((SHOWN, ITEM, CALL), (ITEM, CALL)),
    "sealed call": ((ToolCall(call_id="c1", name="f", arguments="{}", seal=SIGNED),), None),
    "sealed text": ((Text(content="a", seal=SIGNED), CALL), None),
    "sealed nothing": ((Reasoning(content="plain"), Text(content="", seal=SIGNED), CALL), None),
}


def reply_to():
    return Reply(
        request=UrpRequest(model="m"), model="m", ids=SequentialIds(), created=1, losses=Losses()
    )


def response_of(parts):
    message = Message(role=Role.ASSISTANT, parts=parts)
    return UrpResponse(id="r", model="m", origin="messages", choices=(Choice(messages=(message,)),))


def unary(parts):
    return PROTOCOL.encode_response(response_of(parts), reply_to())["candidates"][0]["content"]


def streamed(parts):
    encoder = PROTOCOL.stream_encoder(reply_to())
    wires = [w for event in unfold(response_of(parts)) for w in encoder.frame(Frame((event,)))]
    found = [
        part
        for wire in wires
        for part in json.loads(wire.data)["candidates"][0]["content"]["parts"]
    ]
    return {"role": "model", "parts": found}


@pytest.mark.spec("T19", "T20", "T21", "URP-8", "D47")
@pytest.mark.parametrize("write", [unary, streamed])
@pytest.mark.parametrize("case", CASES)
def test_what_was_sealed_comes_back_on_the_same_thing(case, write):
    parts, expected = CASES[case]
    request = PROTOCOL.decode_request({"contents": ["Hi", write(parts)]}, model="m")
    assert bare(request.messages[1].parts) == bare(expected or parts)
    # a carrier must never be replayed to Google
    assert request.messages[1].source is None
    assert request.source is None
    assert request.messages[0].parts[0].content == "Hi"


@pytest.mark.parametrize("case", CASES)
def test_carriers_are_base64_and_hidden_in_thoughts(case):
    for part in unary(CASES[case][0])["parts"]:
        if "thoughtSignature" in part:
            base64.b64decode(part["thoughtSignature"], validate=True)
            assert part["thought"] is True


def test_a_seal_finds_its_call_though_the_client_lost_the_id():
    sealed = ToolCall(call_id="c1", name="f", arguments="{}", seal=SIGNED)
    content = unary((sealed, CALL))
    for part in content["parts"]:
        part.get("functionCall", {}).pop("id", None)
    request = PROTOCOL.decode_request({"contents": [content]}, model="m")
    assert [part.seal for part in request.messages[0].parts] == [SIGNED, None]


def test_a_seal_goes_by_its_id_past_other_calls():
    other = ToolCall(call_id="c0", name="f", arguments="{}")
    sealed = ToolCall(call_id="c1", name="f", arguments="{}", seal=SIGNED)
    carrier, call = unary((sealed,))["parts"]
    content = {"role": "model", "parts": [carrier, unary((other,))["parts"][0], call]}
    request = PROTOCOL.decode_request({"contents": [content]}, model="m")
    assert [part.seal for part in request.messages[0].parts] == [None, SIGNED]


def test_a_seal_without_a_text_to_sit_on_is_passed_over():
    carrier = unary((Text(content="a", seal=SIGNED),))["parts"][1]
    request = PROTOCOL.decode_request(
        {"contents": [{"role": "model", "parts": [carrier]}]}, model="m"
    )
    assert request.messages[0].parts == ()


def test_google_gets_the_rest_of_a_history_that_held_carriers():
    content = unary((Reasoning(content="hm", seal=SIGNED), Text(content="Hello")))
    earlier = {"role": "user", "parts": [{"text": "Hi", "mediaResolution": {"level": "LOW"}}]}
    request = PROTOCOL.decode_request({"contents": [earlier, content]}, model="m")
    losses = Losses()
    body = PROTOCOL.encode_request(request, losses).body
    assert body["contents"] == [earlier, {"role": "model", "parts": [{"text": "Hello"}]}]
    assert losses.dropped == ("messages[1].parts[0]",)


def test_a_seal_skips_what_is_no_text():
    carrier = unary((Text(content="a", seal=SIGNED),))["parts"][1]
    content = {"role": "model", "parts": [{"text": "a"}, {"executableCode": {}}, carrier]}
    request = PROTOCOL.decode_request({"contents": [content]}, model="m")
    assert request.messages[0].parts[0].seal == SIGNED


def test_reasoning_without_words_is_only_its_carrier():
    silent = Reasoning(content="", seal=SIGNED)
    (part,) = unary((silent,))["parts"]
    request = PROTOCOL.decode_request({"contents": [{"role": "model", "parts": [part]}]}, model="m")
    assert bare(request.messages[0].parts) == bare((silent,))
