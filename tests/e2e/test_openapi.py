"""Random calls against the document that the gateway gives of itself: no 5xx, and nothing that it does not say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from fakes.behaviours import BEHAVIOURS
from fakes.gateway import GatewayThread
from fakes.upstream import FakeUpstream
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import load_all_checks

ADMIN = "sk-admin-0123456789abcdef"


@pytest.fixture(scope="module")
def api() -> Iterator[object]:
    config = {
        "server": {"host": "127.0.0.1"},
        "providers": [],
        "keys": [{"name": "admin", "key": ADMIN, "role": "admin"}],
    }
    gateway = GatewayThread(config)
    yield schemathesis.openapi.from_url(f"http://127.0.0.1:{gateway.port}/openapi.json")
    gateway.stop()
