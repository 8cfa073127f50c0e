"""File and environment -> one frozen Settings; every limit of the program is here with its default."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from monoize.errors import ConfigError

__all__ = [
    "AffinitySettings",
    "BudgetSettings",
    "ChannelSettings",
    "HealthSettings",
    "KeySettings",
    "LedgerSettings",
    "LimitSettings",
    "LogSettings",
    "ModelSettings",
    "ProviderSettings",
    "RuleSettings",
    "ServerSettings",
    "Settings",
    "TimeoutSettings",
    "TuningSettings",
    "check_provider",
    "load",
    "parse",
    "schema",
]

ProviderType = Literal["chat_completion", "responses", "messages", "gemini", "grok", "local"]
PositiveInt = Annotated[int, Meta(ge=1)]
Exact = Annotated[str | int | float, Meta(description="an exact decimal: write it as a string")]
Seconds = Annotated[float, Meta(gt=0)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the config file; a key that nobody knows is a mistake and is named."""


class LimitSettings(_Section, frozen=True, kw_only=True):
    """Sizes. Reaching one gives a clear error, never an endless buffer."""

    body_bytes: PositiveInt = 64 * 1024**2  # a caller's request
    header_bytes: PositiveInt = 64 * 1024
    reply_bytes: PositiveInt = 256 * 1024**2  # a provider's unary reply
    event_bytes: PositiveInt = 16 * 1024**2  # one server-sent event of a provider
    connections: PositiveInt = 4096  # callers at a time
    upstream_connections: PositiveInt = 1024  # to all providers together


class TimeoutSettings(_Section, frozen=True, kw_only=True):
    """Seconds."""

    body: Seconds = 60  # until a caller's request has arrived
    connect: Seconds = 10  # to a provider
    first_byte: Seconds = 600  # until a provider answers; a provider's request_timeout_ms wins
    idle: Seconds = 300  # between two chunks of a provider's stream
    keep_alive: Seconds = 15  # silence on a caller's stream before a keep-alive goes out (D10, T13)
    drain: Seconds = 30  # streams that still run when the program is told to stop


class ServerSettings(_Section, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    # Names beside the address itself under which callers reach the gateway; checked against Host and Origin.
    hosts: tuple[str, ...] = ()
    # Proxies in front whose X-Forwarded-For is believed: addresses and ranges.
    trusted_proxies: tuple[str, ...] = ()
    limits: LimitSettings = LimitSettings()
    timeouts: TimeoutSettings = TimeoutSettings()


class RuleSettings(_Section, frozen=True, kw_only=True):
    """One transform rule (TF-2)."""

    transform: str
    phase: Literal["request", "response"]
    enabled: bool = True
    models: tuple[str, ...] | None = None
    config: Mapping[str, Any] = {}


class HealthSettings(_Section, frozen=True, kw_only=True):
    """When a channel rests and how it comes back; what is left out is inherited (HEALTH-1a).

    A channel's own value wins, then its provider's, then `settings.health`, then the default in routing/breaker.py.
    """

    failure_threshold: PositiveInt | None = None  # failures in a row
    cooldown_seconds: Seconds | None = None
    window_seconds: Seconds | None = None
    min_samples: PositiveInt | None = None
    failure_rate_threshold: Annotated[float, Meta(ge=0.01, le=1.0)] | None = None
    rate_limit_cooldown_seconds: Seconds | None = None
    retry_after_limit_seconds: Seconds | None = None  # no provider may ask for a longer rest
    per_model: bool | None = None  # one breaker for each model of a channel (D11)
    probe_enabled: bool | None = None
    probe_interval_seconds: Seconds | None = None
    probe_model: str | None = None  # else the first exact name, else what last succeeded (D49)
    probe_success_threshold: PositiveInt | None = None


class AffinitySettings(_Section, frozen=True, kw_only=True):
    """A conversation stays on its channel: prompt caches and sealed reasoning live there (D12)."""

    idle_seconds: Seconds = 1800
    conversations: PositiveInt = 4096  # remembered at a time


class ModelSettings(_Section, frozen=True, kw_only=True):
    redirect: str | None = None  # the provider's own name of the model (ENC-4)
    multiplier: Annotated[
        str | int | float | None, Meta(description="price factor, exact: write it as a string")
    ] = None

    def exact_multiplier(self) -> Decimal:
        return Decimal(1) if self.multiplier is None else Decimal(str(self.multiplier))


class ChannelSettings(_Section, frozen=True, kw_only=True):
    id: str
    base_url: str | None = None  # what the vendor's SDK would be given; a local provider has none
    api_key: str | None = None
    weight: Annotated[int, Meta(ge=0)] = 1
    enabled: bool = True
    proxy: str | None = None  # http://host:port
    headers: Mapping[str, str] = {}  # sent with every call on this channel
    forward_headers: tuple[str, ...] = ()  # caller headers that may reach this provider
    health: HealthSettings = HealthSettings()


class ProviderSettings(_Section, frozen=True, kw_only=True):
    id: str
    type: ProviderType
    enabled: bool = True
    max_retries: Annotated[int, Meta(ge=-1)] = -1  # further channels to try; -1: all (ROUT-4)
    channel_retries: Annotated[int, Meta(ge=0)] = 0  # repeats on a channel already tried (D9)
    fail_forward_on: tuple[Annotated[int, Meta(ge=400, le=499)], ...] = ()  # statuses beside D9's
    request_timeout_ms: PositiveInt | None = None  # until the first byte
    idle_timeout_ms: PositiveInt | None = None  # between two chunks of a reply
    models: Mapping[str, ModelSettings] = {}
    channels: tuple[ChannelSettings, ...] = ()
    transforms: tuple[RuleSettings, ...] = ()
    health: HealthSettings = HealthSettings()
    affinity: AffinitySettings | None = None
    engine: str | None = None  # of a local provider: the name of a module in engines/
    engine_options: Mapping[str, Any] = {}


class BudgetSettings(_Section, frozen=True, kw_only=True):
    """The most that a key may spend, in USD (UTC days and months); write it as a string."""

    day: Exact | None = None
    month: Exact | None = None
    total: Exact | None = None


class KeySettings(_Section, frozen=True, kw_only=True):
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


class MediaSettings(_Section, frozen=True, kw_only=True):
    store: str = "./data/media"


class LedgerSettings(_Section, frozen=True, kw_only=True):
    """How money is kept safe (docs/ledger.md)."""

    durability: Literal["full", "relaxed"] = "full"
    output_cap_tokens: PositiveInt = 4096  # reserved for an answer without max_tokens, or with more
    grace_seconds: Seconds = 300  # keys and budgets last known serve so long without the database
    queue: PositiveInt = 10_000  # entries that wait to be written


class LogSettings(_Section, frozen=True, kw_only=True):
    """The log of requests, and the program's own log."""

    format: Literal["text", "json"] = "text"
    keep_days: PositiveInt | None = 90
    keep_rows: PositiveInt | None = None
    capture_bytes: PositiveInt = 256 * 1024  # of each body that is kept


class TuningSettings(_Section, frozen=True, kw_only=True):
    ledger: LedgerSettings = LedgerSettings()
    logs: LogSettings = LogSettings()
    prices: Mapping[str, Mapping[str, Any]] = {}  # by model or glob (docs/money.md)
    reasoning_suffix_map: Mapping[str, str] = {}  # suffix of a model name -> effort (MSUF-3)
    health: HealthSettings = HealthSettings()


class Settings(_Section, frozen=True, kw_only=True):
    server: ServerSettings = ServerSettings()
    database: str | None = "sqlite:///./data/monoize.db"  # null: no accounts, no ledger, no log
    redis: str | None = None
    media: MediaSettings = MediaSettings()
    providers: tuple[ProviderSettings, ...] = ()  # order = waterfall order (ROUT-1)
    keys: tuple[KeySettings, ...] = ()
    settings: TuningSettings = TuningSettings()


# --- reading -------------------------------------------------------------------------------------

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def load(file: Path, environment: Mapping[str, str] | None = None) -> Settings:
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text ({error.reason})") from None
    return parse(text, os.environ if environment is None else environment, str(file))


def parse(text: str, environment: Mapping[str, str], name: str = "config") -> Settings:
    """Settings from YAML; a mistake becomes one sentence with its place."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{name}{place}: {getattr(error, 'problem', None) or error}") from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}: must be a mapping of settings")
    try:
        settings = msgspec.convert(_resolved(raw, environment, "$"), Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}") from None
    _check(settings, name)
    return settings


def schema() -> dict[str, Any]:
    """The JSON Schema of the config file."""
    return msgspec.json.schema(Settings)


def _resolved(value: Any, environment: Mapping[str, str], path: str) -> Any:
    """`${NAME}` and `${NAME:-default}` in any string, from the environment."""
    if isinstance(value, dict):
        return {str(k): _resolved(v, environment, f"{path}.{k}") for k, v in value.items()}
    if isinstance(value, list):
        return [_resolved(v, environment, f"{path}[{i}]") for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match[str]) -> str:
        found = environment.get(match[1], match[2])
        if found is None:
            raise ConfigError(f"{path}: the environment variable {match[1]} is not set")
        return found

    return _REFERENCE.sub(lookup, value)


def _check(settings: Settings, name: str) -> None:
    _unique((p.id for p in settings.providers), f"{name}: providers", "id")
    _unique((k.name for k in settings.keys), f"{name}: keys", "name")
    _unique((k.key for k in settings.keys), f"{name}: keys", "key", secret=True)
    for index, provider in enumerate(settings.providers):
        check_provider(provider, f"{name}: $.providers[{index}] ({provider.id})")
    _check_engines(settings.providers, name)
    for index, key in enumerate(settings.keys):
        _check_key(key, f"{name}: $.keys[{index}]")
    _check_ranges(settings.server.trusted_proxies, f"{name}: $.server.trusted_proxies")
    for suffix, effort in settings.settings.reasoning_suffix_map.items():
        if not suffix.strip() or not effort.strip():
            raise ConfigError(
                f"{name}: $.settings.reasoning_suffix_map: neither a suffix nor its effort may be empty"
            )
    if not settings.keys and not is_loopback(settings.server.host):
        raise ConfigError(
            f"{name}: server.host is {settings.server.host} but there are no keys; "
            "without keys the gateway serves loopback only"
        )


def check_provider(provider: ProviderSettings, where: str) -> None:
    _unique((c.id for c in provider.channels), f"{where}.channels", "id")
    if not provider.models:
        raise ConfigError(f'{where}: models is empty; use {{"*": {{}}}} to take every model')
    if provider.type == "local" and not provider.engine:
        raise ConfigError(f"{where}: a local provider needs an engine, such as engine: smollm2")
    if provider.type != "local" and not provider.channels:
        raise ConfigError(f"{where}: channels is empty; a provider needs at least one")
    for model, row in provider.models.items():
        _check_multiplier(row.multiplier, f"{where}.models[{model}].multiplier")
    for channel in provider.channels:
        _check_url(channel.base_url, provider.type, f"{where}.channels[{channel.id}].base_url")


def _check_key(key: KeySettings, where: str) -> None:
    _check_multiplier(key.max_multiplier, f"{where}.max_multiplier")
    for window in ("day", "month", "total"):
        _check_multiplier(getattr(key.budgets, window), f"{where}.budgets.{window}")
    _check_ranges(key.addresses or (), f"{where}.addresses")


def _check_ranges(ranges: tuple[str, ...], where: str) -> None:
    for text in ranges:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ConfigError(f"{where}: {text!r} is no IP address or range") from None


def _check_engines(providers: tuple[ProviderSettings, ...], name: str) -> None:
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


def _unique(values: Any, where: str, what: str, *, secret: bool = False) -> None:
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
