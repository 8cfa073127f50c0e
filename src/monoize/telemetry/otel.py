"""OpenTelemetry, with the names of its GenAI conventions: a span for each call, one below it for each attempt, two metrics.

The conventions are still in development; these are the names of version 1.42, which collectors know.
Tokens stand on the call's span only: sums over all spans count nothing twice.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk import metrics as sdk_metrics
from opentelemetry.sdk import trace as sdk_trace
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from typing_extensions import override

from monoize import __version__
from monoize.telemetry.scrub import register
from monoize.telemetry.tracing import AttemptReport, CallReport, Tracer
from monoize.urp import Usage

__all__ = ["OpenTelemetryTracer", "exporting"]

Attributes = dict[str, str | bool | int | float | tuple[str, ...]]

_CLOSING_SECONDS = 2  # for the spans, and for the metrics
_PORTS = {"http": 80, "https": 443}

# Bounds that the conventions ask for.
_TOKEN_BOUNDS = tuple(4**power for power in range(14))
_SECOND_BOUNDS = tuple(0.01 * 2**power for power in range(14))

# By the end of the host's name; who is not here goes by its id in the config.
_VENDORS = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.x.ai": "x_ai",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral_ai",
    "api.groq.com": "groq",
    "api.cohere.com": "cohere",
    "api.perplexity.ai": "perplexity",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
    "api.moonshot.ai": "moonshot_ai",
    "api.moonshot.cn": "moonshot_ai",
}


class OpenTelemetryTracer(Tracer):
    active = True

    def __init__(self, spans: TracerProvider, metrics: MeterProvider) -> None:
        self._spans = spans
        self._metrics = metrics
        self._tracer = spans.get_tracer("monoize", __version__)
        meter = metrics.get_meter("monoize", __version__)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECOND_BOUNDS,
        )
        self._propagator = TraceContextTextMapPropagator()

    @override
    def record(self, report: CallReport) -> None:
        span = self._tracer.start_span(
            f"{report.operation} {report.model}",
            context=self._propagator.extract(report.headers, Context()),
            kind=SpanKind.SERVER,
            attributes=_call_attributes(report),
            start_time=_nanoseconds(report.started),
        )
        below = set_span_in_context(span, Context())
        if span.is_recording():
            for attempt in report.attempts:
                self._record_attempt(report, attempt, below)
            if report.error is not None:
                span.set_status(Status(StatusCode.ERROR, report.error))
        span.end(_nanoseconds(report.started + report.seconds))
        self._measure(report, below)

    def _record_attempt(self, report: CallReport, attempt: AttemptReport, context: Context) -> None:
        span = self._tracer.start_span(
            f"{report.operation} {attempt.model}",
            context=context,
            kind=SpanKind.INTERNAL if attempt.base_url is None else SpanKind.CLIENT,
            attributes=_attempt_attributes(report, attempt),
            start_time=_nanoseconds(attempt.started),
        )
        if attempt.error is not None:
            span.set_status(Status(StatusCode.ERROR, attempt.error))
        span.end(_nanoseconds(attempt.started + attempt.seconds))

    def _measure(self, report: CallReport, context: Context) -> None:
        labels = _metric_attributes(report)
        errors: Attributes = {} if report.error is None else {"error.type": report.error}
        self._duration.record(report.seconds, {**labels, **errors}, context)
        if report.usage is None:
            return
        counts = {"input": report.usage.input_tokens, "output": report.usage.output_tokens}
        for kind, count in counts.items():
            self._tokens.record(count, {**labels, "gen_ai.token.type": kind}, context)

    @override
    def close(self) -> None:
        """A collector that is away would be tried again and again: after a while what is left is given up."""
        closing = [
            threading.Thread(target=provider.shutdown, daemon=True)
            for provider in (self._spans, self._metrics)
            if isinstance(provider, sdk_trace.TracerProvider | sdk_metrics.MeterProvider)
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(_CLOSING_SECONDS)


def exporting(environment: Mapping[str, str]) -> OpenTelemetryTracer:
    """Sends to the collector that the OTEL_… variables name (the exporters read them themselves)."""
    for pair in environment.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(","):
        register(pair.partition("=")[2].strip())
    resource = _resource()
    spans = sdk_trace.TracerProvider(resource=resource, shutdown_on_exit=False)
    readers = []
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") != "none":
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if environment.get("OTEL_METRICS_EXPORTER", "otlp") != "none":
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    metrics = sdk_metrics.MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    return OpenTelemetryTracer(spans, metrics)


def _resource() -> Resource:
    """What the operator says in OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES wins."""
    told = Resource.create()
    ours = {"service.version": __version__}
    if str(told.attributes.get("service.name", "")).startswith("unknown_service"):
        told = told.merge(Resource({"service.name": "monoize"}))
    return Resource(ours).merge(told)


def _call_attributes(report: CallReport) -> Attributes:
    return {
        **_known(
            {
                "gen_ai.operation.name": report.operation,
                "gen_ai.request.model": report.model,
                "gen_ai.request.stream": report.stream,
                "gen_ai.response.id": report.response_id,
                "gen_ai.response.model": report.response_model,
                "gen_ai.response.finish_reasons": report.finish_reasons or None,
                "gen_ai.response.time_to_first_chunk": report.first_chunk_seconds,
                "http.response.status_code": report.status,
                "error.type": report.error,
                "monoize.request_id": report.request_id,
                "monoize.protocol": report.protocol,
                "monoize.key": report.key,
                "monoize.attempts": len(report.attempts),
                "monoize.usage.estimated": report.estimated or None,
                "monoize.charge_nano_usd": report.charge,
            }
        ),
        **(_usage_attributes(report.usage) if report.usage is not None else {}),
        **(_place(report.last) if report.last is not None else {}),
    }


def _usage_attributes(usage: Usage) -> Attributes:
    return _known(
        {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        }
    )


def _attempt_attributes(report: CallReport, attempt: AttemptReport) -> Attributes:
    return {
        **_known(
            {
                "gen_ai.operation.name": report.operation,
                "gen_ai.request.model": attempt.model,
                "http.response.status_code": attempt.status,
                "error.type": attempt.error,
            }
        ),
        **_place(attempt),
    }


def _metric_attributes(report: CallReport) -> Attributes:
    labels: Attributes = {"gen_ai.operation.name": report.operation}
    if report.last is None:  # nobody was asked: a name that a caller made up is no label
        return labels
    place = _place(report.last)
    names = ("gen_ai.provider.name", "server.address", "server.port")
    return {
        **labels,
        **{name: place[name] for name in names if name in place},
        **_known(
            {
                "gen_ai.request.model": report.model,
                "gen_ai.response.model": report.response_model,
            }
        ),
    }


def _place(attempt: AttemptReport) -> Attributes:
    url = urlsplit(attempt.base_url or "")
    host = url.hostname
    return _known(
        {
            "gen_ai.provider.name": _vendor(host or "") or attempt.provider,
            "server.address": host,
            "server.port": _port(url) if host else None,
            "monoize.provider": attempt.provider,
            "monoize.channel": attempt.channel,
        }
    )


def _port(url: SplitResult) -> int | None:
    try:
        return url.port or _PORTS.get(url.scheme)
    except ValueError:
        return None


def _vendor(host: str) -> str | None:
    for ending, name in _VENDORS.items():
        if host == ending or host.endswith((f".{ending}", f"-{ending}")):
            return name
    return None


def _known(values: Mapping[str, str | bool | int | float | tuple[str, ...] | None]) -> Attributes:
    return {name: value for name, value in values.items() if value is not None}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
