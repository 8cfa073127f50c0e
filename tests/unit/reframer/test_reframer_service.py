"""The whole of it: one request, or many of which none costs another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monoize.reframer import Reframed, Refused, reframe, reframe_batch

GOLDEN = Path(__file__).parents[2] / "golden" / "reframer" / "requests"


def request(id: str = "request-0001", **changes: Any) -> dict[str, Any]:
    return {
        "request_id": id,
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user", "priority": 2.0}],
        "payload": {"messages": [{"id": "m1", "role": "user", "content": "hello"}]},
        **changes,
    }


def outcome(result: Reframed | Refused) -> Any:
    return [f.code for f in result.findings] if isinstance(result, Refused) else result.request_id


@pytest.mark.spec("S3-1", "S3-6.2")
def test_a_request_comes_back_in_one_form():
    result = reframe(json.dumps(request()).encode())
    assert isinstance(result, Reframed)
    assert json.loads(json.dumps(result.as_json()))["normalized"] == {
        "schema_version": "1.0.0",
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "tenant": None,
        "channels": [{"channel_id": "main", "role": "user", "priority": 2}],
        "payload": {
            "messages": [
                {
                    "id": "m1",
                    "role": "user",
                    "declared_role": "user",
                    "content": {"type": "text", "value": "hello", "encoding": "utf-8"},
                    "protocol_tags": [],
                    "tools": [],
                    "marks": [],
                    "metadata": {},
                }
            ],
            "attachments": [],
            "context_window": None,
        },
        "constraints": None,
    }


@pytest.mark.spec("S3-6.2")
def test_the_reply_has_the_fields_of_the_contract():
    reply = reframe(request()).as_json()
    assert {"request_id", "normalized", "mask_hints", "tokenizer", "warnings"} <= set(reply)
    assert {"token_range", "mask_bits"} <= set(reply["mask_hints"][0])


def test_bytes_and_value_get_the_same_answer():
    for fixture in sorted(GOLDEN.glob("*.json")):
        raw = fixture.read_bytes()
        assert outcome(reframe(raw)) == outcome(reframe(json.loads(raw)))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_a_text(kind):
    assert outcome(reframe(kind(json.dumps(request()).encode()))) == "request-0001"


@pytest.mark.parametrize("number", [10**308, -(10**308), 10**20, 1e308], ids=lambda n: f"{n:.0e}")
def test_large_numbers_are_judged_like_small_ones(number):
    raw = json.dumps(request(channels=[{"channel_id": "a", "role": "user", "priority": number}]))
    assert outcome(reframe(raw.encode())) == ["PRIORITY_OUT_OF_RANGE"]


@pytest.mark.parametrize("value", [None, 1, "text", [], True])
def test_what_is_no_object_is_refused(value):
    assert outcome(reframe(value)) == ["NOT_AN_OBJECT"]
    assert outcome(reframe(json.dumps(value).encode())) == ["NOT_AN_OBJECT"]


def test_a_refusal_names_the_request_where_it_can():
    assert reframe(request(tenant="")).request_id == "request-0001"
    assert reframe(request(id="x" * 65)).request_id is None
    assert reframe([]).request_id is None


def test_defects_of_the_text_and_of_the_request_are_told_together():
    raw = json.dumps(request(tenant="")).encode().replace(b'"priority": 2.0', b'"priority": NaN')
    result = reframe(raw)
    assert [(f.code, f.field_path) for f in result.findings] == [
        ("JSON_NOT_A_NUMBER", "channels[0].priority"),
        ("EMPTY_VALUE", "tenant"),
    ]


def test_two_messages_of_one_id_are_a_warning():
    messages = [{"id": "m1", "role": "user", "content": "x"}] * 2
    result = reframe(request(payload={"messages": messages}))
    assert [(w.code, w.field_path) for w in result.warnings] == [
        ("DUPLICATE_MESSAGE_ID", "payload.messages[1].id")
    ]


def test_other_fields_of_attachments_are_named():
    attachment = {"id": "a", "media_type": "x/y", "uri": "http://a", "name": "n"}
    result = reframe(request(payload={**request()["payload"], "attachments": [attachment]}))
    assert [(w.code, w.field_path) for w in result.warnings] == [
        ("IGNORED_FIELD", "payload.attachments[0].name")
    ]


def test_numbers_that_json_programs_write_with_a_point_or_without_end():
    payload = {**request()["payload"], "context_window": 10**30}
    assert reframe(request(payload=payload)).normalized.payload.context_window == 10**30
    payload["context_window"] = 8192.0
    assert repr(reframe(request(payload=payload)).normalized.payload.context_window) == "8192"


# --- batches -------------------------------------------------------------------------------------


def batch(*items: bytes) -> bytes:
    return b"[" + b",".join(items) + b"]"


GOOD = [json.dumps(request(f"request-000{n}")).encode() for n in range(3)]


@pytest.mark.spec("S3-6.3", "D25")
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"{}", "MISSING_FIELD"),
        (b"7", "NOT_AN_OBJECT"),
        (b'{"a":1,"a":2}', "JSON_DUPLICATE_KEY"),
        (b'{"a": NaN}', "JSON_NOT_A_NUMBER"),
        (b'{"a": "\\ud800"}', "JSON_LONE_SURROGATE"),
        (b'{"a": }', "JSON_SYNTAX"),
        (b"{'a': 1}", "JSON_SYNTAX"),
        (b"", "JSON_SYNTAX"),
        (b"[" * 300 + b"]" * 300, "JSON_TOO_DEEP"),
        (b"[" * 5000 + b"]" * 5000, "JSON_TOO_DEEP"),
        (b'{"a": 1e999}', "JSON_NUMBER_TOO_LARGE"),
    ],
)
def test_one_bad_item_costs_no_other(bad, code):
    results = reframe_batch(batch(GOOD[0], bad, GOOD[1], GOOD[2]))
    first, refused, *rest = results
    assert outcome(first) == "request-0000"
    assert code in outcome(refused)
    assert [outcome(result) for result in rest] == ["request-0001", "request-0002"]


@pytest.mark.spec("D25")
def test_items_are_answered_in_order_and_in_the_mode_asked_for():
    wild = request(constraints={})
    assert [outcome(r) for r in reframe_batch([wild, request()])][1] == "request-0001"
    lenient = reframe_batch([wild, request()], mode="lenient")
    assert [outcome(r) for r in lenient] == ["request-0001", "request-0001"]


@pytest.mark.parametrize("raw", [b"[]", b" [ ] ", b"[\n]"])
def test_an_empty_batch_has_no_answers(raw):
    assert reframe_batch(raw) == []


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{}", "BATCH_NOT_AN_ARRAY"),
        (b'"x"', "BATCH_NOT_AN_ARRAY"),
        (b"", "JSON_SYNTAX"),
        (b"[{}", "JSON_SYNTAX"),
        (b"[{}] x", "JSON_SYNTAX"),
        (b"[{}]]", "JSON_SYNTAX"),
        (b'["\xff"]x', "JSON_NOT_UTF8"),
        (b"\xef\xbb\xbf[]", "JSON_BYTE_ORDER_MARK"),
    ],
)
def test_a_batch_that_cannot_be_cut_is_refused_whole(raw, code):
    result = reframe_batch(raw)
    assert isinstance(result, Refused)
    assert outcome(result) == [code]


def test_bytes_that_are_not_utf8_cost_only_their_item():
    results = reframe_batch(batch(GOOD[0], b'{"a": "\xff"}'))
    assert [outcome(r) for r in results] == ["request-0000", ["JSON_NOT_UTF8"]]
    results = reframe_batch(bytearray(batch(b"NaN", GOOD[0], b'{"a": "\xff"}')))
    assert [outcome(r) for r in results][1:] == ["request-0000", ["JSON_NOT_UTF8"]]
