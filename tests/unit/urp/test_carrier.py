import base64
import zlib

import pytest

from monoize.urp import Reasoning, ReasoningEncrypted, Seal, Text, ToolCall, bare
from monoize.urp.carrier import CarriedPart, CarriedSeal, is_carrier, pack_part, pack_seal, unpack

SEAL = Seal(protocol="messages", data="EqoBCkgIAxABGAIiQL==")
PARTS = {
    "signed thought": Reasoning(content="think 你好", seal=SEAL),
    "summary": Reasoning(content="short", kind="summary", seal=SEAL),
    "unsigned thought": Reasoning(content="plain"),
    "encrypted": ReasoningEncrypted(
        protocol="responses", data={"id": "rs_1", "encrypted_content": "gAAA"}
    ),
    "empty text": Text(content="", seal=Seal(protocol="gemini", data="CiQB")),
}


@pytest.mark.spec("T19", "T21")
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_part_comes_out_as_it_went_in(part):
    carrier = pack_part(part)
    assert is_carrier(carrier)
    carried = unpack(carrier)
    assert isinstance(carried, CarriedPart)
    assert bare(carried.part) == bare(part)


@pytest.mark.spec("T20")
def test_a_seal_knows_its_call():
    call = ToolCall(
        call_id="call_1", name="f", arguments="{}", seal=Seal(protocol="gemini", data="x")
    )
    carried = unpack(pack_seal(call))
    assert carried == CarriedSeal(Seal(protocol="gemini", data="x"), "call_1")


def test_a_seal_of_a_text_has_no_call():
    carried = unpack(pack_seal(Text(content="hi", seal=SEAL)))
    assert carried == CarriedSeal(SEAL, None)


@pytest.mark.spec("T20")
def test_a_carrier_is_plain_base64():
    carrier = pack_part(PARTS["signed thought"])
    assert base64.b64encode(base64.b64decode(carrier, validate=True)).decode() == carrier


@pytest.mark.spec("T20")
@pytest.mark.parametrize("count", range(8))
def test_a_carrier_survives_the_alphabet_for_urls_and_lost_padding(count):
    part = Reasoning(content="?>" * count + "~", seal=SEAL)
    changed = pack_part(part).translate(str.maketrans("+/", "-_")).rstrip("=")
    assert bare(unpack(changed).part) == bare(part)


@pytest.mark.parametrize("value", [None, 3, "", "EqoBCkgIAxAB", "gAAAAA"])
def test_a_providers_own_blob_is_no_carrier(value):
    assert not is_carrier(value)
    assert unpack(value) is None


def forged(payload: bytes) -> str:
    return base64.b64encode(b"monoize1:" + payload).decode()


@pytest.mark.parametrize(
    "value",
    [
        forged(b"not deflated"),
        forged(zlib.compress(b"not json")),
        forged(zlib.compress(b'["unknown"]')),
        forged(zlib.compress(b'{"a":1}')),
        forged(zlib.compress(b'["seal",1,2,3]')),
        forged(zlib.compress(b'["reasoning","m","s","c","other"]')),
        base64.b64encode(b"monoize1:").decode() + "!!!",
        forged(zlib.compress(b'["text", "a", "b", "' + b"x" * (20 * 1024**2) + b'"]')),
    ],
)
def test_a_forged_carrier_is_nothing(value):
    assert unpack(value) is None


def test_what_has_no_seal_needs_no_carrier():
    with pytest.raises(ValueError, match="seal"):
        pack_part(Text(content="x"))
    with pytest.raises(ValueError, match="seal"):
        pack_seal(Text(content="x"))
