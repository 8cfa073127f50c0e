"""Counts of agent runs that have ended: the five baseline figures, and how the runs came out (spec 5, phase 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from monoize.telemetry.requests import Histogram

__all__ = ["EndedRun", "Figures", "RunCounts", "figures"]

_INFERENCES = (1, 2, 3, 5, 8, 13, 25, 50, 100)
_SECONDS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
_NO_TOOLS = "FAILED_PROTOCOL_NO_TOOLS"
_MALFORMED = "FAILED_PROTOCOL_MALFORMED"
_MAX_INFERENCES = "max_inferences"


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as the figures see it."""

    policy: str
    profile: str
    outcome: str
    failure_code: str | None
    inferences: int
    format_retries: int
    seconds: float

    @property
    def is_talk(self) -> bool:
        """A tool was required and the model only talked."""
        return self.policy == "required" and self.outcome == _NO_TOOLS

    @property
    def parse_failures(self) -> int:
        """Replies that could not be used: those that were asked for again, and the one that ended the run."""
        return self.format_retries + (self.outcome == _MALFORMED)

    @property
    def ran_out(self) -> bool:
        return self.failure_code == _MAX_INFERENCES


class RunCounts:
    """Plain numbers while runs end, metrics when somebody asks."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str, str]] = Counter()  # policy, outcome, failure code
        self.no_tool_completions = 0
        self.parse_failures = 0
        self.max_step_exits = 0
        self.inferences = Histogram(_INFERENCES)
        self.seconds = Histogram(_SECONDS)

    def add(self, run: EndedRun) -> None:
        self.outcomes[run.policy, run.outcome, run.failure_code or ""] += 1
        self.no_tool_completions += run.is_talk
        self.parse_failures += run.parse_failures
        self.max_step_exits += run.ran_out
        self.inferences.add(run.inferences)
        self.seconds.add(run.seconds)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    runs: int
    required_runs: int
    no_tool_completions: int  # of required runs
    no_tool_rate: float
    inferences: int
    parse_failures: int
    parse_failure_rate: float  # of all inferences
    inferences_avg: float
    inferences_p95: float
    seconds_avg: float
    seconds_p95: float
    max_step_exits: int
    outcomes: dict[str, int]
    failure_codes: dict[str, int]


def figures(runs: Iterable[EndedRun]) -> Figures:
    ended = list(runs)
    required = sum(run.policy == "required" for run in ended)
    talk = sum(run.is_talk for run in ended)
    inferences = [run.inferences for run in ended]
    seconds = [run.seconds for run in ended]
    failures = sum(run.parse_failures for run in ended)
    return Figures(
        runs=len(ended),
        required_runs=required,
        no_tool_completions=talk,
        no_tool_rate=_ratio(talk, required),
        inferences=sum(inferences),
        parse_failures=failures,
        parse_failure_rate=_ratio(failures, sum(inferences)),
        inferences_avg=_ratio(sum(inferences), len(ended)),
        inferences_p95=_percentile(inferences),
        seconds_avg=_ratio(sum(seconds), len(ended)),
        seconds_p95=_percentile(seconds),
        max_step_exits=sum(run.ran_out for run in ended),
        outcomes=dict(Counter(run.outcome for run in ended).most_common()),
        failure_codes=dict(
            Counter(run.failure_code for run in ended if run.failure_code).most_common()
        ),
    )


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def _percentile(values: list[int] | list[float]) -> float:
    """The nearest rank."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return float(ordered[max(0, -(-len(ordered) * 95 // 100) - 1)])
