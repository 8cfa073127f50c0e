"""What is shown of a refused request: short, and nobody's secret."""

from __future__ import annotations

import json

import pytest

from monoize.reframer import Refused, reframe
from monoize.reframer.finding import Finding
from monoize.reframer.privacy import discreet, quoted, shown
from monoize.telemetry import scrub


@pytest.mark.spec("S3-3.1")
@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("write to ada.lovelace+x@example.co.uk now", "write to [email] now"),
        ("ünal@exämple.com", "[email]"),
        ("card 4111 1111 1111 1111.", "card [card]."),
        ("4111-1111-1111-1111", "[card]"),
        ("378282246310005", "[card]"),
        ("4111 1111 1111 1112", "4111 1111 1111 1112"),  # no card: its check digit is wrong
        ("call +49 (0)30 901820-0 today", "call [phone] today"),
        ("call (030) 901820 today", "call [phone] today"),
        ("call 030/901 8200", "call [phone]"),
        ("555-123-4567", "[phone]"),
        ("from 192.168.0.254 port 80", "from [ip] port 80"),
        ("from 2001:db8::8a2e:370:7334 on", "from [ip] on"),
        ("sk-abcdefghijklmnop", "sk-***"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        # what only looks like it
        ("2025-03-01T09:30:00Z", "2025-03-01T09:30:00Z"),
        ("12:30:45", "12:30:45"),
        ("version 1.0.0", "version 1.0.0"),
        ("999.1.1.1", "999.1.1.1"),
        ("request-0000-1111", "request-0000-1111"),
        ("std::vector", "std::vector"),
    ],
)
def test_keys_and_personal_data_are_masked(text, safe):
    assert discreet(text) == safe


def test_secrets_of_the_gateway_itself_are_masked():
    scrub.register("the-gateways-own-secret")
    try:
        assert discreet("x the-gateways-own-secret y") == "x *** y"
    finally:
        scrub.forget("the-gateways-own-secret")


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (None, None),
        (True, True),
        (12, 12),
        (4111111111111111, "[card]"),
        (12345678901234, 12345678901234),
        (10**500, "an integer of 1661 bits"),
        (0.5, 0.5),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 80 + "… (81 characters)"),
        ({"a": 1, "b": 2}, "an object with 2 fields"),
        ([1], "an array of 1 item"),
    ],
)
def test_values_are_shown_short(value, seen):
    assert shown(value) == seen


def test_a_secret_that_the_cut_would_halve_is_masked_before():
    assert shown("x" * 70 + " sk-" + "a" * 40) == "x" * 70 + " sk-***"


def test_values_are_quoted_in_sentences():
    assert quoted('a "b"') == '"a \\"b\\""'
    assert quoted([1, 2]) == "an array of 2 items"


@pytest.mark.spec("S3-3.1", "S3-7")
def test_no_finding_repeats_personal_data():
    document = {
        "request_id": "ada@example.com",
        "created_at": "4111 1111 1111 1111",
        "tenant": 4111111111111111,
        "channels": [{"channel_id": "10.0.0.1", "role": "sk-abcdefghijklmnop"}],
        "payload": {
            "messages": [
                {"id": "+49 30 901820", "role": "x", "content": "y", "protocol_tags": ["a@b.de"]}
            ]
        },
    }
    result = reframe(document)
    assert isinstance(result, Refused)
    told = json.dumps(result.as_json())
    secrets = ("ada@", "4111", "10.0.0.1", "sk-abc", "901820", "a@b.de")
    assert [secret for secret in secrets if secret in told] == []


def test_for_a_log_the_path_is_masked_too():
    finding = Finding(code="X_Y", message="m", path=("metadata", "ada@example.com"))
    assert finding.field_path == 'metadata["ada@example.com"]'
    assert finding.for_log()["field_path"] == 'metadata["[email]"]'
