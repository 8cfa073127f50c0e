"""Keys of the config file, and what they may do."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from monoize.settings.providers import RuleSettings
from monoize.settings.section import Exact, PositiveInt, Section

__all__ = ["BudgetSettings", "KeySettings"]


class BudgetSettings(Section, frozen=True, kw_only=True):
    """The most that a key may spend, in USD (UTC days and months); write it as a string."""

    day: Exact | None = None
    month: Exact | None = None
    total: Exact | None = None


class KeySettings(Section, frozen=True, kw_only=True):
    name: str
    key: Annotated[str, Meta(min_length=8)]
    username: str | None = None
    role: Literal["admin", "user"] = "user"  # admins may use /api
    enabled: bool = True
    models: tuple[str, ...] | None = None  # globs of the models it may use
    addresses: tuple[str, ...] | None = None  # IP addresses and ranges it may come from
    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None
    budgets: BudgetSettings = BudgetSettings()
    capture: Literal["off", "all", "abnormal"] = "off"  # whether bodies are kept
    max_multiplier: str | int | float | None = None  # the dearest multiplier it may use (PIPE-2)
    transforms: tuple[RuleSettings, ...] = ()

    def exact_ceiling(self) -> Decimal | None:
        return None if self.max_multiplier is None else Decimal(str(self.max_multiplier))
