"""Every transform rule, price and tag of the settings, checked once, before the first request (D3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.errors import ConfigError
from monoize.money.rates import Rates, parse_rates
from monoize.reframer.tags import TagTable, tag_table
from monoize.settings import Settings
from monoize.transform import Rule, compiled

__all__ = ["RuleBook", "check_rules", "overrides", "rulebook", "tags"]


class RuleBook(msgspec.Struct, frozen=True):
    providers: Mapping[str, tuple[Rule, ...]]  # by provider id, those that have any
    keys: Mapping[str, tuple[Rule, ...]]  # by the key's name


def check_rules(settings: Settings, name: str) -> Settings:
    """The same settings; ConfigError names the file and the place in it."""
    try:
        rulebook(settings)
        overrides(settings.settings.prices)
        tags(settings)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.message}") from None
    return settings


def overrides(prices: Mapping[str, Any]) -> Mapping[str, Rates]:
    """The operator's own prices; ConfigError with the place of the mistake."""
    found = {}
    for model, form in prices.items():
        try:
            found[model] = parse_rates(form)
        except ValueError as error:
            raise ConfigError(f"$.settings.prices[{model}]: {error}") from None
    return found


def tags(settings: Settings) -> TagTable:
    """The protocol tags with what the operator's flags add to them; ConfigError names a bad flag."""
    try:
        return tag_table(settings.settings.reframer.tags)
    except ConfigError as error:
        raise ConfigError(f"$.settings.reframer.tags: {error.message}") from None


def rulebook(settings: Settings) -> RuleBook:
    """Raises ConfigError with the place of the mistake."""
    return RuleBook(
        providers={
            provider.id: rules
            for index, provider in enumerate(settings.providers)
            if (rules := compiled(provider.transforms, f"$.providers[{index}].transforms"))
        },
        keys={
            key.name: compiled(key.transforms, f"$.keys[{index}].transforms")
            for index, key in enumerate(settings.keys)
        },
    )
