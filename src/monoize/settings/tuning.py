"""Money, logs and health: what an operator may turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from monoize.settings.agent import AgentSettings
from monoize.settings.operations import OperationId, OperationSettings
from monoize.settings.providers import HealthSettings
from monoize.settings.realtime import RealtimeSettings
from monoize.settings.reframer import ReframerSettings
from monoize.settings.section import PositiveInt, Seconds, Section

__all__ = ["LedgerSettings", "LogSettings", "TuningSettings"]


class LedgerSettings(Section, frozen=True, kw_only=True):
    """How money is kept safe (docs/ledger.md)."""

    durability: Literal["full", "relaxed"] = "full"
    output_cap_tokens: PositiveInt = 4096  # reserved for an answer without max_tokens, or with more
    grace_seconds: Seconds = 300  # keys and budgets last known serve so long without the database
    queue: PositiveInt = 10_000  # entries that wait to be written


class LogSettings(Section, frozen=True, kw_only=True):
    """The log of requests, and the program's own log."""

    format: Literal["text", "json"] = "text"
    keep_days: PositiveInt | None = 90
    keep_rows: PositiveInt | None = None
    capture_bytes: PositiveInt = 256 * 1024  # of each body that is kept


class TuningSettings(Section, frozen=True, kw_only=True):
    ledger: LedgerSettings = LedgerSettings()
    logs: LogSettings = LogSettings()
    prices: Mapping[str, Mapping[str, Any]] = {}  # by model or glob (docs/money.md)
    reasoning_suffix_map: Mapping[str, str] = {}  # suffix of a model name -> effort (MSUF-3)
    health: HealthSettings = HealthSettings()
    operations: Mapping[OperationId, OperationSettings] = {}
    realtime: RealtimeSettings = RealtimeSettings()
    reframer: ReframerSettings = ReframerSettings()
    agent: AgentSettings = AgentSettings()
