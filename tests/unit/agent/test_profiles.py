"""Profiles are data: what each says must be true of the protocols and of the contract."""

from __future__ import annotations

import pytest

from monoize.agent.boundary.grammar import DECODER_GRAMMARS
from monoize.agent.profile import GateLevel, profile, profiles
from monoize.protocol import protocol_ids

PROVIDER_TYPES = ("chat_completion", "responses", "messages", "gemini", "grok", "local")


@pytest.mark.spec("S5-2a")
def test_the_catalogue():
    assert {name: found.gate_level for name, found in profiles().items()} == {
        "local_grammar": GateLevel.DECODED,
        "local_json": GateLevel.VERIFIED,
        "local_xml": GateLevel.VERIFIED,
        "native_chat_completion": GateLevel.FORCED,
        "native_gemini": GateLevel.FORCED,
        "native_grok": GateLevel.VERIFIED,
        "native_local": GateLevel.DECODED,
        "native_messages": GateLevel.FORCED,
        "native_responses": GateLevel.FORCED,
    }


@pytest.mark.parametrize("kind", PROVIDER_TYPES)
def test_every_type_of_provider_has_one_usual_profile(kind):
    assert len([found for found in profiles().values() if kind in found.provider_types]) == 1


@pytest.mark.parametrize("name", profiles())
def test_a_profile_speaks_a_protocol_that_there_is(name):
    found = profile(name)
    assert found.protocol in protocol_ids()
    assert set(found.grammar_profiles) == {"call", "any", "text"}
    if found.strict:
        assert found.format_retries <= 1  # D40


@pytest.mark.spec("D40")
def test_only_what_takes_grammars_names_ours():
    for found in profiles().values():
        ours = set(found.grammar_profiles.values()) & set(DECODER_GRAMMARS)
        assert bool(ours) == found.takes_grammar
