"""One entry of LiteLLM's model_list: what it becomes here, or why it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from monoize.errors import ConfigError
from monoize.globs import is_glob
from monoize.litellm_import.report import LeftOut, Report, listed, number
from monoize.litellm_import.vendors import UNSUPPORTED, VENDORS, Vendor, inferred, not_a_chat_model
from monoize.money.rates import parse_rates
from monoize.settings import RuleSettings
from monoize.settings.checks import can_be_sent
from monoize.transform import compiled

__all__ = ["Channel", "Deployment", "deployments"]

_VERSION = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")
_ADDRESS = re.compile(r"^https?://[^/\s?#@]+(/[^\s?#]*)?$")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_CALLED_PATHS = ("/chat/completions", "/v1/messages", "/responses")
_CHAT_MODES = (None, "chat", "responses")

# Carried over, or of no consequence here.
_CARRIED = frozenset(
    (
        "model",
        "api_key",
        "api_base",
        "base_url",
        "timeout",
        "stream_timeout",
        "weight",
        "rpm",
        "tpm",
        "order",
        "extra_headers",
        "headers",
        "organization",
        "custom_llm_provider",
        "extra_body",
        "additional_drop_params",
        "litellm_credential_name",
        "max_retries",
        "num_retries",
        "drop_params",
        "use_litellm_proxy",
        "merge_reasoning_content_in_choices",
    )
)
_REASONS = {
    "api_version": "Azure's v1 address is used, which needs none",
    "tags": "channels are not chosen by tags",
    "region_name": "channels are not chosen by region",
    "max_parallel_requests": "channels have no limits of their own; a key's limits hold for all of them",
    "max_budget": "channels have no budgets; keys and users have",
    "budget_duration": "channels have no budgets; keys and users have",
    "mock_response": "a reply that nobody gave; test with a provider of your own",
    "configurable_clientside_auth_params": "a caller never chooses an address or a provider's key here",
    "cache_control_injection_points": "use the transforms auto_cache_system and auto_cache_tool_use",
}
_PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_read",
    "cache_creation_input_token_cost": "cache_write",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "audio_input",
    "output_cost_per_audio_token": "audio_output",
}
_DEFAULT = "a default that callers may overrule has no counterpart; override_max_tokens and other transforms force one"
_DEFAULTS = frozenset(
    (
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "max_completion_tokens",
        "seed",
        "stop",
        "n",
        "presence_penalty",
        "frequency_penalty",
        "reasoning_effort",
        "thinking",
        "response_format",
        "tools",
        "tool_choice",
        "stream",
        "user",
        "logit_bias",
        "parallel_tool_calls",
    )
)


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str
    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    name: str  # as callers ask for it; may be a glob
    names: tuple[str, ...]  # the globs that stand for a vendor's whole offer, else just the name
    vendor: str
    type: str
    upstream: str | None  # None: whatever was asked for
    channel: Channel
    id: str | None = None
    share: float | None = None  # its weight among those of the same name
    order: float = 0.0
    timeout_ms: int | None = None
    idle_ms: int | None = None
    retries: int | None = None
    rules: tuple[tuple[str, str, Any], ...] = ()  # transform, path, value
    prices: tuple[tuple[str, str], ...] = ()  # USD per million tokens by class


def deployments(source: Mapping[str, Any], report: Report) -> Iterator[Deployment]:
    credentials = {
        str(row.get("credential_name")): row["credential_values"]
        for row in listed(source, "credential_list")
        if isinstance(row, dict) and isinstance(row.get("credential_values"), dict)
    }
    for index, entry in enumerate(listed(source, "model_list")):
        path = f"model_list[{index}]"
        try:
            yield _deployment(entry, path, credentials, report)
        except LeftOut as reason:
            name = entry.get("model_name") if isinstance(entry, dict) else None
            report.note(path, f"{name or 'the entry'}: {reason}")


def _deployment(
    entry: Any, path: str, credentials: Mapping[str, Mapping[str, Any]], report: Report
) -> Deployment:
    """Raises LeftOut."""
    if not isinstance(entry, dict) or not isinstance(entry.get("litellm_params"), dict):
        raise LeftOut("has no litellm_params")
    params = dict(entry["litellm_params"])
    params = {**credentials.get(str(params.get("litellm_credential_name")), {}), **params}
    told = entry.get("model_info")
    info: Mapping[str, Any] = told if isinstance(told, dict) else {}
    name = str(entry.get("model_name") or "")
    if not name:
        raise LeftOut("has no model_name")
    vendor_name, vendor, model = _vendor(params)
    if "${" in name + model:
        raise LeftOut("its name holds ${, which here begins the name of an environment variable")
    mode = info.get("mode")
    if mode not in _CHAT_MODES or (mode is None and not_a_chat_model(model)):
        raise LeftOut(f"is not a chat model ({mode or model})")
    kind = vendor.type
    if vendor_name in ("openai", "azure") and (
        mode == "responses" or model.startswith("responses/")
    ):
        kind, model = "responses", model.removeprefix("responses/")
    names, upstream = _names(name, vendor_name, vendor, model)
    if names != (name,):
        report.note(
            f"{path}.model_name",
            f"models are asked for without {vendor_name}/ here: {', '.join(names)}",
        )
    where = f"{path}.litellm_params"
    made = Deployment(
        path=path,
        name=name,
        names=names,
        vendor=vendor_name,
        type=kind,
        upstream=upstream,
        channel=_channel(params, vendor_name, vendor, where, report),
        id=_id(info.get("id")),
        share=_share(params, entry),
        order=number(params.get("order")) or 0.0,
        timeout_ms=_milliseconds(params.get("timeout"), f"{where}.timeout", report),
        idle_ms=_milliseconds(params.get("stream_timeout"), f"{where}.stream_timeout", report),
        retries=_count(params.get("num_retries", params.get("max_retries"))),
        rules=_rules(params, where, report),
        prices=_prices({**info, **params}, path, report),
    )
    _note_the_rest(params, entry, info, path, report)
    return made


def _note_the_rest(
    params: Mapping[str, Any],
    entry: Mapping[str, Any],
    info: Mapping[str, Any],
    path: str,
    report: Report,
) -> None:
    rest = {k: v for k, v in params.items() if k not in _CARRIED | _PRICES.keys()}
    report.left(rest, f"{path}.litellm_params", {**dict.fromkeys(_DEFAULTS, _DEFAULT), **_REASONS})
    if params.get("rpm") or params.get("tpm") or entry.get("rpm") or entry.get("tpm"):
        report.note(
            f"{path}.litellm_params",
            "rpm and tpm become the channel's weight, not a limit; keys have limits",
        )
    if info.get("access_groups"):
        report.note(f"{path}.model_info.access_groups", "a key lists the models that it may use")
    if info.get("base_model"):
        report.note(
            f"{path}.model_info.base_model", "the price is looked up by the upstream's name"
        )


# --- who it is ---


def _vendor(params: Mapping[str, Any]) -> tuple[str, Vendor, str]:
    model = params.get("model")
    if not isinstance(model, str) or not model.strip("/ "):
        raise LeftOut("names no model")
    prefix, slash, rest = model.partition("/")
    told = params.get("custom_llm_provider")
    named = str(told) if told else prefix if slash and prefix in VENDORS | UNSUPPORTED else None
    bare = rest if named == prefix and slash else model
    has_address = bool(params.get("api_base") or params.get("base_url"))
    if named is None:
        named = inferred(bare) or ("openai_like" if has_address else None)
    if named is None:
        raise LeftOut(f"nobody is known who has {model!r}; name its provider and its api_base")
    if not bare:
        raise LeftOut("names no model")
    if named in VENDORS:
        return named, VENDORS[named], bare
    if named in UNSUPPORTED:
        raise LeftOut(f"{named} {UNSUPPORTED[named]}")
    if not has_address:
        raise LeftOut(f"no address is known for {named}")
    return named, Vendor(), bare


def _names(
    name: str, vendor_name: str, vendor: Vendor, model: str
) -> tuple[tuple[str, ...], str | None]:
    """What callers ask for, and what the provider is asked for (None: the same)."""
    if "*" not in model:
        return (name,), None if name == model else model
    if not is_glob(name):
        raise LeftOut("its model is a pattern, its name is not")
    if name == model or (name == "*" and model == "*"):
        return (name,), None
    prefix = f"{vendor_name}/"
    if name != prefix + model:
        raise LeftOut(
            f"asks {vendor_name} for {model!r} under other names; a pattern keeps the name"
        )
    if model != "*":
        return (model,), None
    if not vendor.globs:
        raise LeftOut(f"takes every model of {vendor_name}, whose names are not known here")
    return vendor.globs, None


# --- where it is ---


def _channel(
    params: Mapping[str, Any], vendor_name: str, vendor: Vendor, where: str, report: Report
) -> Channel:
    field = "api_base" if params.get("api_base") else "base_url"
    given = report.text(params.get(field), f"{where}.{field}")
    base = given or vendor.base_url
    if not base:
        raise LeftOut("has no api_base")
    key = report.text(params.get("api_key"), f"{where}.api_key")
    if key is None and not params.get("api_key") and vendor.variable:
        key = f"${{{vendor.variable}}}"
    return Channel(
        base_url=_address(base, vendor_name, vendor, f"{where}.{field}", report),
        api_key=key or None,
        headers=_headers(params, where, report),
    )


def _address(base: str, vendor_name: str, vendor: Vendor, path: str, report: Report) -> str:
    address = base.strip().rstrip("/")
    if vendor_name in ("azure", "azure_ai"):  # some name the whole path of a deployment
        address = re.split(r"/(?:openai|models)(?:/|$)", address)[0].partition("?")[0]
    for called in _CALLED_PATHS:
        address = address.removesuffix(called)
    if vendor.below and not address.endswith(vendor.below):
        address += vendor.below
    if address.startswith("${"):
        if vendor.below:
            report.note(
                path, f"{vendor.below} follows the variable, so it must not end with a slash"
            )
        return address
    plain = _REFERENCE.sub("x", address)
    if not _ADDRESS.match(plain):
        raise LeftOut("its address is not an http or https URL without user, query or fragment")
    if vendor.type == "chat_completion" and not _VERSION.search(plain, plain.find("://") + 3):
        report.note(path, "names no version: /v1 is added to it when it is called")
    return address


def _headers(params: Mapping[str, Any], where: str, report: Report) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for field in ("headers", "extra_headers"):
        section = params.get(field)
        if isinstance(section, dict):
            for name, value in section.items():
                text = report.text(value, f"{where}.{field}.{name}")
                if text is not None:
                    found[str(name).lower()] = text
    organization = report.text(params.get("organization"), f"{where}.organization")
    if organization:
        found["openai-organization"] = organization
    sendable = {name: value for name, value in found.items() if can_be_sent(name, value)}
    for name in found.keys() - sendable.keys():
        report.note(where, f"{name!r} cannot be sent as a header, so it is left out")
    return tuple(sorted(sendable.items()))


# --- how it is asked ---


def _rules(
    params: Mapping[str, Any], where: str, report: Report
) -> tuple[tuple[str, str, Any], ...]:
    body = params.get("extra_body")
    dropped = params.get("additional_drop_params")
    wanted: list[tuple[str, str, str, Any]] = []
    if isinstance(body, dict):
        wanted += [("set_field", f"extra_body.{k}", str(k), v) for k, v in body.items()]
    if isinstance(dropped, list):
        wanted += [("remove_field", "additional_drop_params", str(k), None) for k in dropped]
    rules = []
    for transform, source, path, value in wanted:
        config = {"path": path, **({"value": value} if transform == "set_field" else {})}
        if "${" in repr(value):
            report.note(f"{where}.{source}", "holds ${, which here begins the name of a variable")
            continue
        try:
            compiled((RuleSettings(transform=transform, phase="request", config=config),), "$")
        except ConfigError:
            report.note(f"{where}.{source}", f"{path} is a field that no rule may set or remove")
            continue
        rules.append((transform, path, value))
    return tuple(rules)


def _prices(told: Mapping[str, Any], path: str, report: Report) -> tuple[tuple[str, str], ...]:
    found = {name: told[field] for field, name in _PRICES.items() if told.get(field) is not None}
    if not found:
        return ()
    try:
        form = {name: f"{Decimal(str(value)).scaleb(6):f}" for name, value in found.items()}
        parse_rates(form)
    except (ValueError, InvalidOperation) as error:
        report.note(
            f"{path}.litellm_params", f"its price is left out: {str(error) or 'no numbers'}"
        )
        return ()
    return tuple(form.items())


def _share(params: Mapping[str, Any], entry: Mapping[str, Any]) -> float | None:
    """LiteLLM draws by weight, else by requests, else by tokens per minute."""
    for field in ("weight", "rpm", "tpm"):
        for section in (params, entry):
            found = number(section.get(field))
            if found is not None:
                return found
    return None


def _milliseconds(value: Any, path: str, report: Report) -> int | None:
    if value is None:
        return None
    seconds = number(value)
    if not seconds:
        report.note(path, "is not a number of seconds")
        return None
    return max(1, round(seconds * 1000))


def _count(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _id(value: Any) -> str | None:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if re.fullmatch(r"[A-Za-z0-9][\w.\-]{0,63}", text) else None
