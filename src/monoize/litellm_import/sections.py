"""The sections of LiteLLM's file beside its models: what they become here, and why the rest does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from monoize.litellm_import.deployments import Deployment
from monoize.litellm_import.report import Report, number, section

__all__ = ["database", "keys", "note_the_rest", "redis", "retries", "server", "settings"]

_SHORTEST_KEY = 8

_TOP = {
    "include": "other files are not read; import each",
    "guardrails": "there are no guardrails here",
    "mcp_servers": "there is no MCP gateway here",
    "finetune_settings": "there are no fine-tuning endpoints here",
    "files_settings": "there are no file endpoints here",
    "vector_store_registry": "there are no vector stores here",
    "callback_settings": "metrics are at /metrics, traces go where the OTEL_ variables say",
}
_ROUTER = {
    "routing_strategy": "channels are drawn by weight, and one that fails rests (docs/routing.md)",
    "routing_strategy_args": "channels are drawn by weight, and one that fails rests (docs/routing.md)",
    "retry_after": "the pause that a provider asks for is kept",
    "enable_pre_call_checks": "there are no checks of context windows before a call",
    "context_window_fallbacks": "the next provider is asked on failures, not on one kind of refusal",
    "content_policy_fallbacks": "the next provider is asked on failures, not on one kind of refusal",
    "retry_policy": "which failures are tried again is fixed (docs/routing.md)",
    "model_group_retry_policy": "which failures are tried again is fixed (docs/routing.md)",
    "allowed_fails_policy": "every failure counts alike; settings.health has the thresholds",
    "enable_tag_filtering": "channels are not chosen by tags",
    "cache_responses": "replies are not cached",
}
_LITELLM = {
    "cache": "replies are not cached",
    "cache_params": "replies are not cached; a Redis named here serves the limits of several replicas",
    "context_window_fallbacks": _ROUTER["context_window_fallbacks"],
    "content_policy_fallbacks": _ROUTER["content_policy_fallbacks"],
    "callbacks": "metrics are at /metrics, traces go where the OTEL_ variables say, requests are in the log",
    "success_callback": "requests are in the log",
    "failure_callback": "requests are in the log",
    "service_callback": "requests are in the log",
    "default_team_settings": "there are no teams; users have keys",
    "max_budget": "budgets belong to keys and users",
    "budget_duration": "budgets belong to keys and users",
    "set_verbose": "there is one level of detail",
    "turn_off_message_logging": "messages are not logged unless a key asks for it",
    "public_model_groups": "GET /v1/models needs a key",
}
_LITELLM_FINE = frozenset(
    (
        "json_logs",
        "drop_params",
        "telemetry",
        "modify_params",
        "redact_user_api_key_info",
        "request_timeout",
    )
)  # as here, or of no consequence
_GENERAL = {
    "database_connection_pool_limit": "the pool has its own bounds",
    "store_model_in_db": "the file and the database live together by another rule (docs/configuration.md)",
    "store_prompts_in_spend_logs": "bodies are kept only for keys that ask for it",
    "pass_through_endpoints": "a caller reaches no address but the providers'",
    "custom_auth": "keys are the only way in",
    "enable_jwt_auth": "keys are the only way in",
    "litellm_jwtauth": "keys are the only way in",
    "ui_access_mode": "users have roles",
    "alerting": "watch /metrics",
    "max_parallel_requests": "keys have requests and tokens per minute",
    "global_max_parallel_requests": "server.limits.connections bounds all callers together",
    "allowed_ips": "a key lists the addresses that it may be used from",
    "allowed_routes": "every key may use every model endpoint",
    "background_health_checks": "channels that failed are probed, others are not",
    "health_check_interval": "channels that failed are probed; see settings.health",
    "key_management_system": "secrets come from the environment or from files",
}
_GENERAL_FINE = frozenset(
    (
        "proxy_batch_write_at",
        "disable_spend_logs",
        "allow_requests_on_db_unavailable",
        "database_type",
        "proxy_budget_rescheduler_min_time",
        "proxy_budget_rescheduler_max_time",
    )
)
_PRISMA = frozenset(("connection_limit", "pool_timeout", "schema", "pgbouncer", "connect_timeout"))


def retries(router: Mapping[str, Any], tuning: Mapping[str, Any]) -> int | None:
    found = number(router.get("num_retries", tuning.get("num_retries")))
    return None if found is None else int(found)


def server(
    router: Mapping[str, Any],
    tuning: Mapping[str, Any],
    general: Mapping[str, Any],
    report: Report,
) -> dict[str, Any]:
    made: dict[str, Any] = {}
    seconds = number(router.get("timeout", tuning.get("request_timeout")))
    if seconds:
        made["timeouts"] = {"first_byte": _short(seconds)}
    megabytes = number(general.get("max_request_size_mb"))
    if megabytes:
        made["limits"] = {"body_bytes": max(1, round(megabytes * 1024**2))}
    report.note(
        "server",
        "LiteLLM listens on 0.0.0.0:4000, Monoize on 127.0.0.1:8080; see server.host and server.port",
    )
    return made


def _short(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds


def settings(
    deployments: Iterable[Deployment],
    router: Mapping[str, Any],
    tuning: Mapping[str, Any],
    report: Report,
) -> dict[str, Any]:
    fails = number(router.get("allowed_fails", tuning.get("allowed_fails")))
    rest = number(router.get("cooldown_time", tuning.get("cooldown_time")))
    made: dict[str, Any] = {
        "logs": {"format": "json"} if tuning.get("json_logs") is True else {},
        "prices": _prices(deployments, report),
        "health": {
            **({"failure_threshold": int(fails) + 1} if fails is not None else {}),
            **({"cooldown_seconds": _short(rest)} if rest else {}),
        },
    }
    return {name: value for name, value in made.items() if value}


def _prices(deployments: Iterable[Deployment], report: Report) -> dict[str, dict[str, str]]:
    """By the upstream's name of the model: other names may lead to it."""
    found: dict[str, dict[str, str]] = {}
    for one in deployments:
        name = one.upstream or one.name
        if one.prices and found.setdefault(name, dict(one.prices)) != dict(one.prices):
            report.note(
                f"{one.path}.litellm_params", f"{name} has one price here: the first is taken"
            )
    return found


def database(general: Mapping[str, Any], report: Report) -> str | None:
    path = "general_settings.database_url"
    url = report.text(general.get("database_url"), path)
    if not url:
        return None
    if not url.startswith(("${", "postgres://", "postgresql://")):
        report.note(path, "is not a PostgreSQL address")
        return None
    report.note(
        path,
        "the tables are Monoize's own: users, keys and spending in LiteLLM's tables are not read",
    )
    address, _, query = url.partition("?")
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in _PRISMA]
    return "?".join((address, "&".join(kept))) if kept else address


def redis(router: Mapping[str, Any], tuning: Mapping[str, Any], report: Report) -> str | None:
    cache = section(tuning, "cache_params")
    cached = {
        f"redis_{k}": v for k, v in cache.items() if str(cache.get("type", "redis")) == "redis"
    }
    for place, told in (("router_settings", router), ("litellm_settings.cache_params", cached)):
        parts = {
            name: report.text(told.get(f"redis_{name}"), f"{place}.{name}")
            for name in ("url", "host", "port", "username", "password")
        }
        if parts["url"]:
            return parts["url"]
        if parts["host"]:
            scheme = "rediss" if told.get("redis_ssl") else "redis"
            return f"{scheme}://{_login(parts)}{parts['host']}:{parts['port'] or 6379}"
    return None


def _login(parts: Mapping[str, str | None]) -> str:
    if not parts["password"]:
        return ""
    user, password = (
        text if text.startswith("${") else quote(text, safe="")
        for text in (parts["username"] or "", parts["password"])
    )
    return f"{user}:{password}@"


def keys(general: Mapping[str, Any], report: Report) -> list[dict[str, Any]]:
    path = "general_settings.master_key"
    key = report.text(general.get("master_key"), path)
    if not key:
        report.note(path, "is not set: without keys only callers on the same machine are served")
        return []
    report.note(
        path,
        "becomes an administrator's key; keys that LiteLLM made are in its database and are not read",
    )
    if len(key) < _SHORTEST_KEY:
        report.note(
            path, f"is shorter than {_SHORTEST_KEY} letters: put a new one into MONOIZE_MASTER_KEY"
        )
        key = "${MONOIZE_MASTER_KEY}"
    return [{"name": "master", "key": key, "role": "admin"}]


def note_the_rest(
    source: Mapping[str, Any],
    router: Mapping[str, Any],
    tuning: Mapping[str, Any],
    general: Mapping[str, Any],
    report: Report,
) -> None:
    sections = "model_list router_settings litellm_settings general_settings environment_variables credential_list"
    carried = "fallbacks default_fallbacks num_retries allowed_fails cooldown_time timeout model_group_alias"
    shared = "redis_url redis_host redis_port redis_username redis_password redis_ssl"
    for name in sections.split():
        if source.get(name) and not isinstance(source[name], list if "list" in name else dict):
            report.note(name, "is not what it should be: a list or a mapping")
    report.left(_without(source, sections.split()), "$", _TOP)
    if router.get("routing_strategy") == "simple-shuffle":
        router = _without(router, ["routing_strategy"])
    report.left(_without(router, f"{carried} {shared}".split()), "router_settings", _ROUTER)
    report.left(_without(tuning, [*_LITELLM_FINE, *carried.split()]), "litellm_settings", _LITELLM)
    known = ["master_key", "database_url", "max_request_size_mb", *_GENERAL_FINE]
    report.left(_without(general, known), "general_settings", _GENERAL)


def _without(section: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    gone = set(names)
    return {str(name): value for name, value in section.items() if name not in gone}
