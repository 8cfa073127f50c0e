"""A guardrail of another gateway wrote whole requests into its log, Authorization and all (LiteLLM, 2026-03-18).

Here: all headers that carry a key, in the log, the request log, kept bodies, spans and errors.
"""

from __future__ import annotations

import http.server
import io
import json
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from fakes.caller import CALLERS, Caller, Reply
from fakes.gateway import GatewayProcess, configured
from fakes.pair import UNMOVED, Actor, good, status
from fakes.speakers import SPEAKERS
from monoize.server import model_calls
from monoize.telemetry.logs import JsonLines, TextLines
from monoize.telemetry.scrub import ScrubbingFilter

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

# No vendor's prefix: a pattern that knows `sk-` does not find them.
MARK = "w4tchm4n"
KEYS = {
    name: f"{MARK}/{name}/0123456789" for name in ("authorization", "x-api-key", "x-goog-api-key")
}
ADMIN = "an-admin-of-the-tests-0123456789"
CHANNEL = f"{MARK}+channel+0123456789"
STRANGE = {
    "authorization": f"Bearer {MARK}-strange-bearer",
    "x-api-key": f"{MARK}-strange-x",
    "x-goog-api-key": f"{MARK}-strange-goog",
}
BESIDE = {
    "proxy-authorization": f"Basic {MARK}-proxy",
    "cookie": f"session={MARK}-cookie",
    "x-auth-token": f"{MARK}-token",
    "x-amz-security-token": f"{MARK}-amz",
}


class Collector(http.server.ThreadingHTTPServer):
    """Where spans and metrics are sent."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        super().__init__(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def _handler(collector) -> type[http.server.BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                collector.got.append(str(self.headers).encode() + self.rfile.read(size))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        return Handler


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def provider() -> Iterator[Actor]:
    with Actor(good) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(collector, provider, tmp_path_factory) -> Iterator[GatewayProcess]:
    rows = [
        {
            "id": kind,
            "type": kind,
            "models": {f"{kind}-m": {}},
            "channels": [{"id": "c", "base_url": provider.base_url(kind), "api_key": CHANNEL}],
        }
        for kind in SPEAKERS
    ]
    config = configured(rows, UNMOVED)
    config["keys"] = [
        {"name": f"of {name}", "key": key, "capture": "all"} for name, key in KEYS.items()
    ]
    config["keys"].append({"name": "admin", "key": ADMIN, "role": "admin"})
    config["settings"]["logs"] = {"format": "json"}
    with pytest.MonkeyPatch.context() as environment:
        port = collector.server_address[1]
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        process = GatewayProcess(tmp_path_factory.mktemp("secret"), config)
    yield process
    process.stop()


def headers_with(name: str) -> dict[str, str]:
    """The key in one header, something that looks like a key in those that are then passed over."""
    order = ("authorization", "x-api-key", "x-goog-api-key")
    after = {other: STRANGE[other] for other in order[order.index(name) + 1 :]}
    key = f"Bearer {KEYS[name]}" if name == "authorization" else KEYS[name]
    return {**BESIDE, **after, name: key}


def _clean(reply: Reply) -> None:
    assert MARK not in reply.raw.decode("utf-8", "replace")
    assert MARK not in str(reply.headers)


def _captured(admin: Caller, request_id: str) -> Reply:
    """Bodies are kept a moment after their call."""
    deadline = time.monotonic() + 30
    while True:
        reply = admin.get(f"/api/logs/{request_id}/capture")
        if reply.status != 404 or time.monotonic() > deadline:
            return reply
        time.sleep(0.05)


@pytest.mark.spec("D18")
def test_litellm_2026_03_18_no_header_with_a_key_is_written_or_told(gateway, provider, collector):
    admin = Caller(gateway.port, {"x-api-key": ADMIN})
    asked = []
    for act in (good, status(500), status(400), status(401)):
        provider.play(act)
        for number, (name, kind) in enumerate((n, k) for n in KEYS for k in SPEAKERS):
            caller = Caller(gateway.port, headers_with(name))
            protocol = CALLERS[number % 4]
            reply = caller.ask(protocol, f"{kind}-m", stream=number % 2 == 0)
            assert reply.status != 401 or act is not good
            _clean(reply)
            asked.append(reply.headers["x-request-id"])
    for name, value in STRANGE.items():
        for protocol in CALLERS:
            reply = Caller(gateway.port, {**BESIDE, name: value}).ask(protocol, "gemini-m")
            assert reply.status == 401
            _clean(reply)
    kept = 0
    for request_id in asked:
        capture = _captured(admin, request_id)
        _clean(capture)
        kept += b"proxy-authorization" in capture.raw and b"***" in capture.raw
    assert kept == len(asked)  # headers are kept, and only their names
    for target in ("/api/logs?limit=200", "/api/logs.csv", "/api/audit", "/api/health/channels"):
        _clean(admin.get(target))
    gateway.stop()  # what is left of the spans is sent now
    spans = b"".join(collector.got)
    assert b"gen_ai" in spans  # there were some
    assert MARK.encode() not in spans
    assert MARK not in gateway.log_text()
    files = [f for f in gateway.log.parent.rglob("*") if f.is_file() and f.name != "monoize.yaml"]
    assert any(f.name == "monoize.db" for f in files)
    for file in files:
        assert MARK.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("lines", [TextLines, JsonLines])
@pytest.mark.parametrize("shape", [dict, lambda h: list(h.items()), lambda h: json.dumps(dict(h))])
async def test_litellm_2026_03_18_a_guardrail_that_fails_and_tells_the_headers_tells_no_key(
    storeless, monkeypatch, lines, shape
):
    """The worst that code on the way of a call can do: put what it was given into its error."""

    async def guardrail(incoming, *_):
        logging.getLogger("guardrail").warning("checking %s", shape(incoming.headers))
        raise RuntimeError(f"blocked: {shape(incoming.headers)}")

    monkeypatch.setattr(model_calls, "run", guardrail)
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(ScrubbingFilter())
    handler.setFormatter(lines())
    logging.getLogger().addHandler(handler)
    try:
        said = {**BESIDE, "x-api-key": STRANGE["x-api-key"], "x-goog-api-key": f"{MARK}-strange"}
        wire = {"model": "gpt-4o", "messages": []}
        answer = await storeless.call("POST", "/v1/chat/completions", wire, headers=said)
    finally:
        logging.getLogger().removeHandler(handler)
    assert answer.status == 500
    for text in (answer.raw.decode(), written.getvalue()):
        assert MARK not in text
        assert "sk-admin" not in text
    assert "guardrail" in written.getvalue()
    assert "blocked" in written.getvalue()
    assert b"blocked" not in answer.raw
