"""What the API refuses, how it says so, and what it does without a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monoize.server.api.table import ENDPOINTS


@pytest.fixture
def database_url(tmp_path):
    """One database is enough: what is refused here never gets near it."""
    return f"sqlite:///{tmp_path}/store/monoize.db"


@pytest.mark.parametrize(
    ("method", "target", "body", "param"),
    [
        ("POST", "/api/users", {"username": 5}, "username"),
        ("POST", "/api/users", {"username": "a", "colour": "red"}, "colour"),
        ("POST", "/api/users", {}, "username"),
        ("POST", "/api/users", {"username": "a", "balance": 2**63}, "balance"),
        ("POST", "/api/users", {"username": " a"}, "username"),
        ("POST", "/api/users", {"username": "a\u0000b"}, "username"),
        ("POST", "/api/users", [], None),
        (
            "POST",
            "/api/keys",
            {"name": "k", "policy": {"budgets": {"day": -1}}},
            "policy.budgets.day",
        ),
        ("POST", "/api/keys", {"name": "k", "policy": {"modles": []}}, "policy.modles"),
        (
            "POST",
            "/api/providers",
            {"id": "p", "type": "chat_completion", "channels": [{"id": "c", "wieght": 1}]},
            "channels[0].wieght",
        ),
        ("PUT", "/api/prices/m", {"rates": {"input": 1}}, "rates.output"),
        ("PUT", "/api/prices/m", {"rates": {"input": "-1", "output": 0}}, "rates"),
        ("PUT", "/api/settings/reasoning_suffix_map", {"value": [1]}, "value"),
        ("GET", "/api/logs?limit=0", None, "limit"),
        ("GET", "/api/logs?limit=many", None, "limit"),
        ("GET", "/api/logs?before=null", None, "before"),
        ("GET", "/api/logs?colour=red", None, "colour"),
        ("GET", "/api/logs?status=odd", None, "status"),
        ("GET", "/api/logs?model=a*b", None, "models"),
        ("GET", "/api/usage?by=moon", None, "by"),
    ],
)
async def test_a_mistake_is_named_by_its_path(api, method, target, body, param):
    answer = await api.call(method, target, body)
    assert answer.status == 400, answer.raw
    assert answer.error["code"] == "invalid_request"
    assert answer.error["type"] == "invalid_request_error"
    assert answer.error["param"] == param
    assert answer.headers["x-request-id"] == answer.json["request_id"]


@pytest.mark.parametrize("raw", [b"", b"{", b'"text"', b"\xff", b"[" * 5000])
async def test_a_body_that_is_no_json_object_is_refused(api, raw):
    answer = await api.call("POST", "/api/users", raw=raw)
    assert (answer.status, answer.error["code"]) == (400, "invalid_request")


async def test_a_body_has_the_limit_of_every_other(api):
    answer = await api.call("POST", "/api/users", {"username": "a" * 200_000})
    assert (answer.status, answer.error["code"]) == (413, "payload_too_large")


async def test_a_wrong_method_is_told_the_right_ones(api):
    answer = await api.call("PUT", "/api/users")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
    assert (await api.call("GET", "/api/nothing")).status == 404


async def test_errors_have_openais_shape_whatever_the_caller_speaks(api):
    headers = {"anthropic-version": "2023-06-01"}
    answer = await api.call("GET", "/api/users/nobody", headers=headers)
    assert answer.status == 404
    assert set(answer.error) == {"message", "type", "param", "code"}


async def test_a_page_from_elsewhere_is_not_served(api):
    answer = await api.call("GET", "/api/me", headers={"origin": "https://evil.example"})
    assert answer.status == 403


async def test_without_a_database_it_says_so(storeless):
    for target in (
        "/api/users",
        "/api/logs",
        "/api/usage",
        "/api/audit",
        "/api/logs.csv",
        "/api/logs/stream",
    ):
        answer = await storeless.call("GET", target)
        assert (answer.status, answer.error["code"]) == (409, "no_database")
    assert (await storeless.good("GET", "/api/me"))["spend"] is None
    providers = await storeless.good("GET", "/api/providers")
    assert [provider["id"] for provider in providers["data"]] == ["of-file"]
    price = await storeless.good("GET", "/api/prices/gpt-4o")
    assert price["offers"][0]["origin"] == "public"


async def test_the_documents_are_for_everybody(api):
    answer = await api.call("GET", "/docs", key=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"://" not in answer.raw  # nothing is fetched from elsewhere
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    described = json.loads((await api.call("GET", "/openapi.json", key=None)).raw)
    assert described["openapi"] == "3.1.0"
    for endpoint in ENDPOINTS:
        operation = described["paths"][endpoint.path][endpoint.method.lower()]
        assert operation["x-monoize-role"] == endpoint.role
        assert operation["summary"]
        assert (operation.get("security") == []) is (endpoint.role is None)


async def test_the_document_names_every_operation_once(api):
    described = json.loads((await api.call("GET", "/openapi.json", key=None)).raw)
    names = [op["operationId"] for verbs in described["paths"].values() for op in verbs.values()]
    assert len(set(names)) == len(names)
    text = json.dumps(described)
    for reference in {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert reference in described["components"]["schemas"]


def test_every_endpoint_is_on_the_page_about_management():
    page = (Path(__file__).parents[4] / "docs" / "management.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for endpoint in ENDPOINTS:
        assert any(f"{endpoint.path}`" in row and f"`{endpoint.method}" in row for row in rows), (
            f"{endpoint.method} {endpoint.path}"
        )
