"""Findings: paths, sentences, order, and a table of codes that is the same in the program and on its page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from monoize.reframer import Refused, reframe
from monoize.reframer.codes import CODES
from monoize.reframer.diagnostics import RULES, subject
from monoize.reframer.finding import MAX_FINDINGS, Finding, existing, field_path, in_document_order
from monoize.reframer.schemas import inlined
from monoize.reframer.validate import findings, is_acceptable

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reframer.md").read_text("utf-8")


def request(**changes: Any) -> dict[str, Any]:
    return {
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user"}],
        "payload": {"messages": [{"id": "m1", "role": "user", "content": "hello"}]},
        **changes,
    }


def routing(**tool_budget: Any) -> dict[str, Any]:
    return {
        "routing": {
            "tool_budget": {"total": 16, "per_tool": [], **tool_budget},
            "retrieval": {"precision_threshold": 0.8, "sources": []},
        }
    }


def refused(document: Any, **options: Any) -> Refused:
    result = reframe(document, **options)
    assert isinstance(result, Refused)
    return result


# --- the examples of the specification -----------------------------------------------------------


@pytest.mark.spec("S3-3.1", "D22")
def test_the_sentence_of_the_specifications_example():
    tools = [{"tool_name": "search", "budget": 1}, {"tool_name": "code_search", "budget": 9}]
    (finding,) = refused(request(constraints=routing(per_tool=tools))).findings
    assert finding.field_path == "constraints.routing.tool_budget.per_tool[1].budget"
    assert finding.message == 'Tool "code_search" budget exceeds limit (max=8)'
    assert finding.code == "TOOL_BUDGET_EXCEEDED"
    assert finding.details == {"keyword": "maximum", "limit": 8, "value": 9}


@pytest.mark.spec("S3-3.1", "D22")
def test_the_body_of_a_refusal_is_the_first_finding_with_the_rest_in_its_details():
    body = refused({}).as_json()
    assert body["error_code"] == "MISSING_FIELD"
    assert body["field_path"] == ""
    assert body["message"] == 'The request lacks the required field "request_id"'
    assert body["details"]["missing"] == "request_id"
    rest = body["details"]["diagnostics"]
    assert [one["details"]["missing"] for one in rest] == ["created_at", "channels", "payload"]
    assert all(set(one) == {"error_code", "message", "field_path", "details"} for one in rest)
    json.dumps(body)


# --- codes ---------------------------------------------------------------------------------------


def page_codes() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| (error|warning) \| (.+?) \|$", PAGE, re.MULTILINE)
    assert len({code for code, _, _ in rows}) == len(rows)
    return {code: (severity, meaning) for code, severity, meaning in rows}


@pytest.mark.spec("D22")
def test_the_page_lists_every_code_with_its_meaning():
    assert page_codes() == {code: (row.severity, row.meaning) for code, row in CODES.items()}


@pytest.mark.spec("D22")
def test_codes_are_stable_words():
    assert all(re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", code) for code in CODES)


def test_every_code_is_used():
    sources = (ROOT / "src" / "monoize" / "reframer").glob("*.py")
    text = "".join(p.read_text("utf-8") for p in sources if p.name != "codes.py")
    used = set(re.findall(r'"([A-Z0-9]+(?:_[A-Z0-9]+)+)"', text))
    assert set(CODES) - used == set()


@pytest.mark.spec("S3-3.1")
def test_every_rule_of_the_table_names_a_place_and_a_keyword_of_the_schema():
    for (shape, keyword), (code, _) in RULES.items():
        node = inlined("request")
        for step in re.findall(r"\[\]|[^.\[\]]+", shape):
            node = node["oneOf"][1] if "oneOf" in node else node
            if step == "[]":
                node = node["items"]
            elif step == "*":
                node = node["additionalProperties"]
            else:
                node = node["properties"][step]
        assert keyword in node, (shape, keyword)
        assert code in CODES


# --- sentences and paths -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ((), ""),
        (("payload", "messages", 1, "role"), "payload.messages[1].role"),
        (("a b",), '["a b"]'),
        (("x", "a.b", 0), 'x["a.b"][0]'),
        (("x", ""), 'x[""]'),
        (("x", 'q"'), 'x["q\\""]'),
        (("ü",), '["ü"]'),
    ],
)
@pytest.mark.spec("D22")
def test_field_paths(path, written):
    assert field_path(path) == written


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ((), "The request"),
        (("request_id",), "Request id"),
        (("payload",), "payload"),
        (("payload", "messages", 0), 'Message "m1"'),
        (("payload", "messages", 0, "content"), 'Message "m1" content'),
        (("channels", 0, "role"), 'Channel "main" role'),
        (("constraints", "routing", "tool_budget", "total"), "Total tool budget"),
        (("constraints", "routing", "tool_budget", "per_tool", 0), "Tool number 1"),
    ],
)
def test_sentences_call_things_by_their_names(path, words):
    document = request(constraints=routing(per_tool=[{"budget": 1}]))
    assert subject(path, document) == words


@pytest.mark.spec("S3-3.1")
def test_content_is_explained_by_the_branch_that_was_meant():
    message = {"id": "m1", "role": "user", "content": {"type": "txt", "value": 1}}
    found = refused(request(payload={"messages": [message]})).findings
    assert [(f.code, f.path[-1]) for f in found] == [
        ("UNKNOWN_CONTENT_TYPE", "type"),
        ("WRONG_TYPE", "value"),
    ]


def test_a_value_of_the_wrong_type_is_not_also_an_unknown_one():
    found = refused(request(schema_version=1)).findings
    assert [f.code for f in found] == ["WRONG_TYPE"]


def test_a_missing_field_is_found_at_the_object_that_lacks_it():
    (finding,) = refused(request(payload={"messages": [{"id": "x", "role": "user"}]})).findings
    assert finding.field_path == "payload.messages[0]"
    assert finding.message == 'Message "x" lacks the required field "content"'
    assert finding.details["missing"] == "content"


def test_an_unknown_field_is_found_at_itself_and_the_known_ones_are_named():
    (finding,) = refused(request(payload={**request()["payload"], "stream": True})).findings
    assert finding.field_path == "payload.stream"
    assert finding.details["limit"] == ["attachments", "context_window", "messages"]


@pytest.mark.spec("S3-3.1")
def test_what_the_schema_accepts_is_judged_by_its_meaning_in_the_same_go():
    document = request(
        request_id="x",
        constraints={
            **routing(total=1, per_tool=[{"tool_name": "a", "budget": 2}]),
            "safety": {"content_filters": ["spam"]},
        },
    )
    document["payload"]["messages"][0]["protocol_tags"] = ["<tool:a>", "<role:user>", "<x:y>"]
    result = refused(document)
    assert [f.code for f in result.findings] == [
        "INVALID_REQUEST_ID",
        "FORBIDDEN_ROLE_OVERRIDE",
        "BUDGET_SUM_EXCEEDS_TOTAL",
        "UNKNOWN_CONTENT_FILTER",
    ]
    assert [w.code for w in result.warnings] == ["UNKNOWN_PROTOCOL_TAG"]


@pytest.mark.spec("D22")
def test_findings_stand_in_the_order_of_the_document():
    document = {"zzz": 1, **request(tenant=""), "aaa": 2}
    turned = dict(reversed(document.items()))
    assert [f.field_path for f in refused(document).findings] == ["zzz", "tenant", "aaa"]
    assert [f.field_path for f in refused(turned).findings] == ["aaa", "tenant", "zzz"]


def test_at_one_place_findings_stand_by_keyword():
    made = [
        Finding(code="B", message="", path=("a",), details={"keyword": "type"}),
        Finding(code="A", message="", path=("a",), details={"keyword": "enum"}),
        Finding(code="C", message="", path=()),
    ]
    assert [f.code for f in in_document_order(made, {"a": 1})] == ["C", "A", "B"]


def test_as_much_of_a_path_as_there_is():
    assert existing(("a", 1, "b"), {"a": [0]}) == ("a",)
    assert existing(("a", 0), {"a": [0]}) == ("a", 0)
    assert existing(("a", "x"), {"a": "xyz"}) == ("a",)
    assert existing(("a", -1), {"a": [0]}) == ("a",)


# --- bounds --------------------------------------------------------------------------------------


def test_a_long_name_is_cut_and_its_path_is_that_of_the_object():
    (finding,) = refused(request(**{"k" * 500: 1})).findings
    assert finding.field_path == ""
    assert len(finding.message) < 400
    assert "(500 characters)" in finding.message


def test_a_long_value_is_cut():
    (finding,) = refused(request(request_id="x" * 5000)).findings
    assert finding.details["value"] == "x" * 80 + "… (5000 characters)"
    assert len(finding.message) < 300


def test_no_more_than_a_thousand_are_listed_and_the_rest_is_admitted():
    result = refused(request(payload={"messages": [{}] * 1000}))
    assert len(result.findings) == MAX_FINDINGS
    assert result.has_more
    assert result.as_json()["details"]["has_more"] is True
    assert not refused({}).has_more


def test_objects_and_arrays_are_not_repeated():
    (finding,) = refused(request(tenant={"password": "hunter2-hunter2"})).findings
    assert finding.details["value"] == "an object with 1 field"
    assert "hunter2" not in json.dumps(finding.as_json())


def test_places_of_the_schema_can_be_asked_one_by_one():
    assert is_acceptable("constraints.safety", {"content_filters": ["x"]})
    assert not is_acceptable("constraints.safety", {"content_filters": [1]})


def test_findings_come_one_by_one():
    """The first costs no more than itself: nothing of a million others is worded."""
    document = request(payload={"messages": [{}] * 200_000})
    assert next(findings(document)).field_path == "payload.messages[0]"
