"""Prometheus metrics, read from the program's own counters when somebody asks: the way of a request pays nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from typing_extensions import override

from monoize.account import NANO
from monoize.routing.breaker import Health
from monoize.routing.health import ChannelHealth
from monoize.telemetry.agent_runs import RunCounts
from monoize.telemetry.reframing import ReframeCounts
from monoize.telemetry.requests import Histogram, RequestCounts

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_CHANNEL = ("provider", "channel", "model")
Family: TypeAlias = GaugeMetricFamily | CounterMetricFamily


def exposition(
    rows: Iterable[ChannelHealth],
    counts: RequestCounts,
    reframes: ReframeCounts,
    runs: RunCounts,
    *,
    charges: bool = True,
) -> bytes:
    """`charges`: with what everybody together spent, which is the operator's affair."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Channels(tuple(rows)))
    registry.register(_Requests(counts, charges=charges))
    registry.register(_Reframes(reframes))
    registry.register(_Runs(runs))
    return generate_latest(registry)


class _Requests(Collector):
    def __init__(self, counts: RequestCounts, *, charges: bool) -> None:
        self._charges = charges
        self._counts = counts

    @override
    def collect(self) -> Iterator[Metric]:
        yield _counter(
            "monoize_requests",
            "finished requests",
            ("protocol", "provider", "model", "status"),
            self._counts.requests,
        )
        yield _counter(
            "monoize_tokens",
            "tokens by class; cached ones are part of the input",
            ("provider", "model", "class"),
            self._counts.tokens,
        )
        if self._charges:
            dollars = {labels: nano / NANO for labels, nano in self._counts.charges.items()}
            yield _counter("monoize_charged_usd", "charged", ("provider", "model"), dollars)
        yield _histogram(
            "monoize_request_seconds",
            "from the first byte in to the last out",
            self._counts.duration,
        )
        yield _histogram(
            "monoize_first_byte_seconds",
            "until a provider began to answer",
            self._counts.first_byte,
        )


class _Reframes(Collector):
    def __init__(self, counts: ReframeCounts) -> None:
        self._counts = counts

    @override
    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        yield _counter(
            "monoize_reframe_documents",
            "documents that were reframed or refused",
            ("mode", "result"),
            counts.documents,
        )
        yield _counter(
            "monoize_reframe_findings",
            "errors and warnings about documents",
            ("code",),
            counts.findings,
        )
        yield _counter(
            "monoize_reframe_safety_restricted_messages",
            "messages tagged <safety:restricted>, of documents that were not refused",
            (),
            {(): counts.restricted_messages},
        )
        yield _counter(
            "monoize_reframe_unknown_tags",
            "protocol tags that no rule knows",
            (),
            {(): counts.unknown_tags},
        )
        yield _histogram("monoize_reframe_seconds", "of work on one document", counts.seconds)
        yield _histogram("monoize_reframe_batch_documents", "documents in one batch", counts.batch)


class _Runs(Collector):
    def __init__(self, counts: RunCounts) -> None:
        self._counts = counts

    @override
    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        yield _counter(
            "monoize_agent_runs",
            "agent runs that ended",
            ("policy", "outcome", "failure_code"),
            counts.outcomes,
        )
        for name, text, value in (
            (
                "no_tool_completions",
                "runs that had to call a tool and only talked",
                counts.no_tool_completions,
            ),
            ("parse_failures", "replies that could not be used", counts.parse_failures),
            ("max_step_exits", "runs that used up their inferences", counts.max_step_exits),
        ):
            yield _counter(f"monoize_agent_{name}", text, (), {(): value})
        yield _histogram("monoize_agent_inferences", "of one run", counts.inferences)
        yield _histogram("monoize_agent_run_seconds", "from begin to end", counts.seconds)


def _counter(
    name: str,
    text: str,
    labels: tuple[str, ...],
    values: Mapping[Any, float],  # by the labels
) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, text)
    family.add_metric((), list(histogram.cumulative()), histogram.total)
    return family


class _Channels(Collector):
    def __init__(self, rows: tuple[ChannelHealth, ...]) -> None:
        self._rows = rows

    @override
    def collect(self) -> Iterator[Family]:
        yield self._health()
        yield self._gauge(
            "monoize_channel_eligible",
            "1 while the channel may get traffic",
            [float(row.eligible) for row in self._rows],
        )
        yield self._gauge(
            "monoize_channel_cooldown_seconds",
            "seconds until the channel may be asked again",
            [max(row.cooldown_seconds_left, row.resting_seconds) for row in self._rows],
        )
        yield self._gauge(
            "monoize_channel_failure_rate",
            "share of failures within the health window",
            [row.failure_rate for row in self._rows],
        )
        yield self._attempts()

    def _health(self) -> Family:
        family = GaugeMetricFamily(
            "monoize_channel_health",
            "1 for the state that the channel is in",
            labels=(*_CHANNEL, "state"),
        )
        for row in self._rows:
            for state in Health:
                family.add_metric((*_labels(row), state.value), float(row.health is state))
        return family

    def _gauge(self, name: str, text: str, values: list[float]) -> Family:
        family = GaugeMetricFamily(name, text, labels=_CHANNEL)
        for row, value in zip(self._rows, values, strict=True):
            family.add_metric(_labels(row), value)
        return family

    def _attempts(self) -> Family:
        family = CounterMetricFamily(
            "monoize_channel_attempts",
            "attempts on the channel by their outcome",
            labels=(*_CHANNEL, "outcome"),
        )
        for row in self._rows:
            for outcome, count in row.totals.items():
                family.add_metric((*_labels(row), outcome), count)
        return family


def _labels(row: ChannelHealth) -> tuple[str, str, str]:
    return row.provider, row.channel, row.model or ""
