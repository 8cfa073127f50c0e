"""Random calls against the document that the gateway gives of itself: no 5xx, and nothing that it does not say."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from fakes.behaviours import BEHAVIOURS
from fakes.gateway import GatewayThread
from fakes.upstream import FakeUpstream
from monoize.server.api.openapi import document
from monoize.server.api.table import ENDPOINTS

ADMIN = "sk-admin-0123456789abcdef"
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]
DOCUMENT = document(ENDPOINTS)
SOAK = (
    os.environ.get("MONOIZE_SOAK") == "1"
)  # then every corner of every schema, some thousand calls

api = schemathesis.openapi.from_dict(
    DOCUMENT,
    config=schemathesis.Config.from_dict(
        {"seed": 20261115, "phases": {"coverage": {"enabled": SOAK}}}
    ),
).exclude(path="/api/logs/stream")  # it does not end; test_management.py reads it


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A provider that answers every model well; what the calls add to the database comes after it."""
    with FakeUpstream(BEHAVIOURS) as upstream:
        provider = {
            "id": "first",
            "type": "chat_completion",
            "models": {"*": {"redirect": "text"}},
            "channels": [{"id": "only", "base_url": upstream.base_url("chat_completion")}],
        }
        gateway = GatewayThread(
            {
                "server": {"host": "127.0.0.1"},
                "providers": [provider],
                "keys": [{"name": "admin", "key": ADMIN, "role": "admin"}],
            }
        )
        yield gateway.port
        gateway.stop()


# How a message is cut from its connection: with these wrong it is no request, and nothing that the document tells of.
FRAMING = ("content-length", "transfer-encoding", "connection", "upgrade")


@pytest.mark.soak
@api.parametrize()
@settings(
    max_examples=8 if SOAK else 5,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_no_call_breaks_what_the_document_says(case, port):
    for name in FRAMING:
        (case.headers or {}).pop(name, None)
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{port}",
        headers={"authorization": f"Bearer {ADMIN}"},
        checks=CHECKS,
    )


def test_the_document_is_served_to_everybody(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/openapi.json")
    assert json.loads(connection.getresponse().read()) == json.loads(json.dumps(DOCUMENT))
    connection.close()
