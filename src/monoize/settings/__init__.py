"""File and environment -> one frozen Settings; every limit of the program is here with its default."""

from __future__ import annotations

from monoize.settings.accounts import BudgetSettings, KeySettings
from monoize.settings.agent import AgentCeilings, AgentSettings
from monoize.settings.checks import check_provider, is_loopback
from monoize.settings.file import Settings, load, parse, schema
from monoize.settings.media import HttpUrlSettings, MediaSettings
from monoize.settings.operations import (
    CapabilitySettings,
    OperationId,
    OperationSettings,
    PolicyName,
    PolicySettings,
    Transport,
)
from monoize.settings.providers import (
    AffinitySettings,
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    ProviderSettings,
    ProviderType,
    RuleSettings,
)
from monoize.settings.realtime import RealtimeSettings
from monoize.settings.reframer import ReframerSettings
from monoize.settings.section import Exact
from monoize.settings.server import LimitSettings, ServerSettings, TimeoutSettings
from monoize.settings.tuning import LedgerSettings, LogSettings, TuningSettings

__all__ = [
    "AffinitySettings",
    "AgentCeilings",
    "AgentSettings",
    "BudgetSettings",
    "CapabilitySettings",
    "ChannelSettings",
    "Exact",
    "HealthSettings",
    "HttpUrlSettings",
    "KeySettings",
    "LedgerSettings",
    "LimitSettings",
    "LogSettings",
    "MediaSettings",
    "ModelSettings",
    "OperationId",
    "OperationSettings",
    "PolicyName",
    "PolicySettings",
    "ProviderSettings",
    "ProviderType",
    "RealtimeSettings",
    "ReframerSettings",
    "RuleSettings",
    "ServerSettings",
    "Settings",
    "TimeoutSettings",
    "Transport",
    "TuningSettings",
    "check_provider",
    "is_loopback",
    "load",
    "parse",
    "schema",
]
