"""What the types of the settings cannot say: each mistake becomes one sentence with its place."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from monoize.errors import ConfigError
from monoize.settings.accounts import BudgetSettings, KeySettings
from monoize.settings.providers import ProviderSettings

__all__ = [
    "can_be_sent",
    "check_engines",
    "check_key",
    "check_provider",
    "check_ranges",
    "is_loopback",
    "unique",
]


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def check_provider(provider: ProviderSettings, where: str) -> None:
    unique((c.id for c in provider.channels), f"{where}.channels", "id")
    if not provider.models:
        raise ConfigError(f'{where}: models is empty; use {{"*": {{}}}} to take every model')
    if provider.type == "local" and not provider.engine:
        raise ConfigError(f"{where}: a local provider needs an engine, such as engine: smollm2")
    if provider.type != "local" and not provider.channels:
        raise ConfigError(f"{where}: channels is empty; a provider needs at least one")
    for model, row in provider.models.items():
        _check_multiplier(row.multiplier, f"{where}.models[{model}].multiplier")
    for channel in provider.channels:
        place = f"{where}.channels[{channel.id}]"
        _check_url(channel.base_url, provider.type, f"{place}.base_url")
        for header, value in channel.headers.items():
            if not can_be_sent(header, value):
                raise ConfigError(f"{place}.headers: {header!r} cannot be sent as a header")


def can_be_sent(header: str, value: str) -> bool:
    return bool(_HEADER_NAME.fullmatch(header) and _HEADER_VALUE.fullmatch(value))


def check_key(key: KeySettings, where: str, *, counted: bool = True) -> None:
    """`counted`: there is a database, without which nobody counts what a key uses."""
    if not counted:
        limits = (key.requests_per_minute, key.tokens_per_minute, key.budgets, key.capture)
        if limits != (None, None, BudgetSettings(), "off"):
            raise ConfigError(f"{where}: limits, budgets and capture need a database")
    _check_multiplier(key.max_multiplier, f"{where}.max_multiplier")
    for window in ("day", "month", "total"):
        _check_multiplier(getattr(key.budgets, window), f"{where}.budgets.{window}")
    check_ranges(key.addresses or (), f"{where}.addresses")


def check_ranges(ranges: tuple[str, ...], where: str) -> None:
    for text in ranges:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ConfigError(f"{where}: {text!r} is no IP address or range") from None


def check_engines(providers: tuple[ProviderSettings, ...], name: str) -> None:
    options: dict[str, Mapping[str, Any]] = {}
    for provider in providers:
        if (
            provider.engine
            and options.setdefault(provider.engine, provider.engine_options)
            != provider.engine_options
        ):
            raise ConfigError(
                f"{name}: two providers run engine {provider.engine} with different engine_options"
            )


def unique(values: Any, where: str, what: str, *, secret: bool = False) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise ConfigError(
                f"{where}: {what} {'(hidden)' if secret else repr(value)} appears twice"
            )
        seen.add(value)


def _check_multiplier(value: str | float | None, where: str) -> None:
    if value is None:
        return
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number <= 0:
        raise ConfigError(f"{where}: must be a number above 0, not {value!r}")


def _check_url(url: str | None, kind: str, where: str) -> None:
    if kind == "local":
        return
    if not url or not re.match(r"^https?://[^/\s?#@]+(/[^\s?#]*)?$", url):
        raise ConfigError(f"{where}: must be an http or https URL without user, query or fragment")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
