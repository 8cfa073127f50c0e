"""A finished call as spans and metrics, read back from the SDK's own exporters; and sent to a real collector's port."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monoize.telemetry import scrub
from monoize.telemetry.tracing import SILENT, AttemptReport, CallReport, Silent, from_environment
from monoize.urp import Usage

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

from monoize.telemetry.otel import OpenTelemetryTracer, _vendor

SOURCE = Path(__file__).parents[3] / "src"
FAILED = AttemptReport(
    provider="claude",
    channel="main",
    model="claude-sonnet-4-5",
    base_url="https://api.anthropic.com/v1",
    started=1_700_000_000.25,
    seconds=0.5,
    status=529,
    error="upstream_error",
)
ANSWERED = AttemptReport(
    provider="mine",
    channel="gpu-1",
    model="qwen3",
    base_url="http://10.0.0.7:8000/v1",
    started=1_700_000_000.75,
    seconds=2.0,
    status=200,
)
CALL = CallReport(
    request_id="req_1",
    protocol="messages",
    model="claude-sonnet",
    stream=True,
    started=1_700_000_000.0,
    seconds=3.0,
    first_chunk_seconds=1.5,
    status=200,
    attempts=(FAILED, ANSWERED),
    response_id="resp_1",
    response_model="qwen3-32b",
    finish_reasons=("stop",),
    usage=Usage(input_tokens=1200, output_tokens=34, cached_read=1000, cache_write=5, reasoning=7),
    charge=123,
    key="team",
)
REFUSED = CallReport(
    request_id="req_2",
    protocol="chat_completion",
    model="made-up",
    started=1.0,
    seconds=0.01,
    status=404,
    error="model_not_found",
)


class Told:
    """A tracer whose spans and metrics can be read."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OpenTelemetryTracer(provider, MeterProvider([self._reader]))

    def spans(self) -> list[ReadableSpan]:
        """The call's span first, then its attempts."""
        return sorted(
            self._exporter.get_finished_spans(), key=lambda s: (s.start_time, -s.end_time)
        )

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return [p for metric in found if metric.name == name for p in metric.data.data_points]


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.tracer.close()


def test_a_call_is_a_span_with_the_names_of_the_conventions(told: Told) -> None:
    told.tracer.record(CALL)
    call = told.spans()[0]
    assert call.name == "chat claude-sonnet"
    assert call.kind is SpanKind.SERVER
    assert (call.start_time, call.end_time) == (1_700_000_000 * 10**9, 1_700_000_003 * 10**9)
    assert dict(call.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mine",
        "gen_ai.request.model": "claude-sonnet",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.model": "qwen3-32b",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 1.5,
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 34,
        "gen_ai.usage.cache_read.input_tokens": 1000,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "http.response.status_code": 200,
        "server.address": "10.0.0.7",
        "server.port": 8000,
        "monoize.request_id": "req_1",
        "monoize.protocol": "messages",
        "monoize.key": "team",
        "monoize.attempts": 2,
        "monoize.charge_nano_usd": 123,
        "monoize.provider": "mine",
        "monoize.channel": "gpu-1",
    }


def test_every_name_of_ours_is_one_of_the_conventions(told: Told) -> None:
    told.tracer.record(CALL)
    known = {v for k, v in vars(gen_ai_attributes).items() if k.startswith("GEN_AI")}
    used = {name for span in told.spans() for name in span.attributes if "gen_ai" in name}
    assert used <= known
    assert told.points(gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE)
    assert told.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION)


def test_each_attempt_is_a_span_below_without_the_tokens(told: Told) -> None:
    told.tracer.record(CALL)
    call, failed, answered = told.spans()
    assert failed.parent.span_id == answered.parent.span_id == call.context.span_id
    assert dict(failed.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "http.response.status_code": 529,
        "error.type": "upstream_error",
        "server.address": "api.anthropic.com",
        "server.port": 443,
        "monoize.provider": "claude",
        "monoize.channel": "main",
    }
    assert failed.kind is SpanKind.CLIENT
    assert failed.status.status_code is StatusCode.ERROR
    assert answered.status.status_code is StatusCode.UNSET
    assert not any("usage" in name for name in answered.attributes)


def test_an_engine_of_this_process_has_no_address(told: Told) -> None:
    local = msgspec.structs.replace(ANSWERED, base_url=None)
    told.tracer.record(msgspec.structs.replace(CALL, attempts=(local,)))
    _, attempt = told.spans()
    assert attempt.kind is SpanKind.INTERNAL
    assert "server.address" not in attempt.attributes


def test_an_address_that_no_port_fits_is_no_reason_to_fail(told: Told) -> None:
    odd = msgspec.structs.replace(ANSWERED, base_url="http://host:99999/v1")
    told.tracer.record(msgspec.structs.replace(CALL, attempts=(odd,)))
    assert told.spans()[0].attributes["server.address"] == "host"


def test_a_failed_call_says_why(told: Told) -> None:
    told.tracer.record(REFUSED)
    (call,) = told.spans()
    assert call.status.status_code is StatusCode.ERROR
    assert call.attributes["error.type"] == "model_not_found"
    assert call.attributes["http.response.status_code"] == 404


def test_a_caller_that_traces_finds_the_call_in_its_own_trace(told: Told) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    told.tracer.record(msgspec.structs.replace(CALL, headers={"traceparent": parent}))
    call = told.spans()[0]
    assert f"{call.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{call.parent.span_id:016x}" == "b7ad6b7169203331"


def test_a_caller_that_does_not_want_to_be_traced_leaves_only_its_metrics(told: Told) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    told.tracer.record(msgspec.structs.replace(CALL, headers={"traceparent": parent}))
    assert not told.spans()
    assert told.points("gen_ai.client.operation.duration")


@pytest.mark.parametrize("parent", ["", "nonsense", "00-" + "f" * 4000, "\x00"])
def test_a_parent_that_cannot_be_read_is_passed_over(told: Told, parent: str) -> None:
    told.tracer.record(msgspec.structs.replace(CALL, headers={"traceparent": parent}))
    assert told.spans()[0].parent is None


def test_tokens_are_measured_by_kind_provider_and_model(told: Told) -> None:
    told.tracer.record(CALL)
    points = told.points("gen_ai.client.token.usage")
    assert {p.attributes["gen_ai.token.type"]: p.sum for p in points} == {
        "input": 1200,
        "output": 34,
    }
    labels = {k: v for k, v in points[0].attributes.items() if k != "gen_ai.token.type"}
    assert labels == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mine",
        "gen_ai.request.model": "claude-sonnet",
        "gen_ai.response.model": "qwen3-32b",
        "server.address": "10.0.0.7",
        "server.port": 8000,
    }
    assert points[0].explicit_bounds[:4] == (1, 4, 16, 64)
    assert points[0].explicit_bounds[-1] == 67108864


def test_durations_are_measured_with_their_errors(told: Told) -> None:
    told.tracer.record(CALL)
    told.tracer.record(REFUSED)
    points = told.points("gen_ai.client.operation.duration")
    by_error = {p.attributes.get("error.type"): p for p in points}
    assert by_error[None].sum == 3.0
    assert by_error[None].explicit_bounds[0] == 0.01
    assert by_error[None].explicit_bounds[-1] == 81.92
    # A name that a caller made up would be a new time series for every typing mistake.
    assert dict(by_error["model_not_found"].attributes) == {
        "gen_ai.operation.name": "chat",
        "error.type": "model_not_found",
    }


@pytest.mark.parametrize(
    ("host", "vendor"),
    [
        ("api.openai.com", "openai"),
        ("mine.openai.azure.com", "azure.ai.openai"),
        ("europe-west1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        ("api.x.ai", "x_ai"),
        ("evilapi.x.ai", None),
        ("localhost", None),
        ("", None),
    ],
)
def test_vendors_are_known_by_their_hosts(host: str, vendor: str | None) -> None:
    assert _vendor(host) == vendor


# --- which tracer ---


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "True"},
    ],
)
def test_without_a_collector_nobody_listens(environment: dict[str, str]) -> None:
    assert from_environment(environment) is SILENT


def test_silence_takes_everything() -> None:
    silent = Silent()
    assert not silent.active
    silent.record(CALL)
    silent.close()


def test_a_collector_without_the_extra_is_said_and_not_fatal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "monoize.telemetry.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    assert from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) is SILENT
    assert "monoize[otel]" in caplog.text


class _Collector(http.server.BaseHTTPRequestHandler):
    got: list[tuple[str, str | None, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.got.append((self.path, self.headers.get("x-token"), body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_spans_and_metrics_reach_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "_known", ())
    got: list[tuple[str, str | None, bytes]] = []
    kind = type("Collector", (_Collector,), {"got": got})
    server = http.server.HTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-token=c4n4ry-collector",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    try:
        tracer = from_environment(environment)
        assert tracer.active
        tracer.record(CALL)
        tracer.close()
    finally:
        server.shutdown()
        server.server_close()
    by_path = {path: body for path, token, body in got if token == "c4n4ry-collector"}
    assert b"chat claude-sonnet" in by_path["/v1/traces"]
    assert b"gen_ai.client.token.usage" in by_path["/v1/metrics"]
    for body in by_path.values():
        assert b"\x07monoize" in body  # service.name
        assert b"deployment.environment.name" in body
        assert b"service.instance.id" in body  # workers of one gateway are told apart
    assert scrub.scrubbed("c4n4ry-collector") == "***"


AWAY = """
import os, time
from monoize.telemetry.tracing import CallReport, from_environment

tracer = from_environment(os.environ)
report = CallReport(
    request_id="req_1", protocol="messages", model="m", started=1.0, seconds=1.0, status=200
)
started = time.monotonic()
for _ in range(5000):  # more than the exporter's queue holds
    tracer.record(report)
tracer.close()
print(time.monotonic() - started)
"""


def test_a_collector_that_is_away_holds_nobody_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AWAY],
        env={"PYTHONPATH": str(SOURCE), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert float(done.stdout) < 20  # the exporter's own patience is 45 s
