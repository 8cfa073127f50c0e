"""The generated Python client against the running gateway."""

from __future__ import annotations

import http.server
import importlib.util
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fakes.gateway import KEY, GatewayThread
from monoize.reframer.schemas import FILES, schema

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "artifacts"
GOLDEN = ROOT / "tests" / "golden" / "reframer" / "requests"
HAPPY: dict[str, Any] = json.loads((GOLDEN / "happy_path.json").read_text("utf-8"))

pytestmark = pytest.mark.spec("S3-7")


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    found = importlib.util.spec_from_file_location(
        "monoize_client", FOLDER / "python" / "monoize_client.py"
    )
    assert found
    assert found.loader
    loaded = importlib.util.module_from_spec(found)
    sys.modules["monoize_client"] = loaded
    found.loader.exec_module(loaded)
    yield loaded
    del sys.modules["monoize_client"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    gateway = GatewayThread(
        {
            "server": {"host": "127.0.0.1"},
            "keys": [{"name": "tests", "key": KEY, "username": "tests"}],
        }
    )
    yield gateway.port
    gateway.stop()


@pytest.fixture
def client(module: ModuleType, port: int) -> Any:
    return module.Client(f"http://127.0.0.1:{port}/", KEY)


def test_a_request_is_reframed(client):
    done = client.reframe(HAPPY)
    assert done["request_id"] == HAPPY["request_id"]
    assert done["normalized"]["payload"]["messages"][2]["role"] == "tool"
    assert done["mask_hints"][2]["mask_bits"] == ["CAUSAL", "TOOL_SCOPE"]
    assert [warning["code"] for warning in done["warnings"]] == [
        "UNKNOWN_PROTOCOL_TAG",
        "DUPLICATE_TOOL",
        "DUPLICATE_SOURCE",
    ]
    assert "into" not in done


@pytest.mark.spec("D50")
def test_the_way_on(client):
    done = client.reframe(HAPPY, into="gemini", model="models with blanks & such")
    assert done["into"]["protocol"] == "gemini"
    assert done["into"]["body"]["contents"]


@pytest.mark.spec("D20", "D22")
def test_a_refusal_carries_every_mistake(client, module):
    request = {**HAPPY, "request_id": "short", "channels": []}
    with pytest.raises(module.Refused) as refused:
        client.reframe(request)
    assert refused.value.status == 400
    assert refused.value.error["error_code"] == "INVALID_REQUEST_ID"
    codes = [mistake["error_code"] for mistake in refused.value.mistakes]
    assert codes == ["INVALID_REQUEST_ID", "NO_CHANNELS"]
    assert "request_id: " in str(refused.value)
    assert "channels: " in str(refused.value)
    budget = json.loads(json.dumps(HAPPY))
    budget["constraints"]["routing"]["tool_budget"]["total"] = 99
    with pytest.raises(module.Refused):
        client.reframe(budget)
    assert client.reframe(budget, mode="lenient")["normalized"]["constraints"]


@pytest.mark.spec("D25")
def test_a_batch_tells_item_by_item(client):
    good = client.reframe_batch([HAPPY])
    assert good["counts"] == {"passed": 1, "failed": 0}
    mixed = client.reframe_batch((HAPPY, {**HAPPY, "channels": []}))
    assert mixed["counts"] == {"passed": 1, "failed": 1}
    first, second = mixed["results"]
    assert (first["index"], first["status"]) == (0, 200)
    assert first["response"]["request_id"] == HAPPY["request_id"]
    assert (second["index"], second["status"]) == (1, 400)
    assert second["error"]["error_code"] == "NO_CHANNELS"


@pytest.mark.parametrize("name", FILES)
def test_the_schemas_are_served(client, name):
    assert client.schema(name) == schema(name)


def test_health_is_told(client):
    health = client.health()
    assert health["service"] == "reframer"
    assert health["dependencies"]["schema_registry"]["status"] == "ok"


def test_a_wrong_key_is_no_mistake_of_the_request(module, port):
    with pytest.raises(module.CallError) as failed:
        module.Client(f"http://127.0.0.1:{port}", "sk-wrong-0123456789").reframe(HAPPY)
    assert failed.value.status == 401
    assert not isinstance(failed.value, module.Refused)


def test_an_unknown_schema_is_told(client, module):
    with pytest.raises(module.CallError) as failed:
        client.schema("nonsense")
    assert failed.value.status == 404


def test_a_gateway_that_is_away_is_an_error_of_the_system(module):
    with pytest.raises(OSError):
        module.Client("http://127.0.0.1:1", KEY, timeout=2).health()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:8080", "ftp://example.org"])
def test_only_gateways_have_addresses(module, url):
    with pytest.raises(ValueError, match="http"):
        module.Client(url, KEY)


class Elsewhere(http.server.BaseHTTPRequestHandler):
    seen: list[str] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(302)
        self.send_header("location", "/stolen")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


def test_the_key_is_not_sent_on(module):
    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(module.CallError) as failed:
            module.Client(f"http://127.0.0.1:{server.server_port}", KEY).health()
        server.shutdown()
    assert failed.value.status == 302
    assert Elsewhere.seen == ["/v1/health"]


def test_the_example_of_the_page_works(module, port, capsys):
    page = (FOLDER / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{port}").replace("sk-…", KEY)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "[0, 7] /v1/messages\n"
