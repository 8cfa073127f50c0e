"""The gateway in the foreground, from its options to its end."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from monoize.errors import ConfigError
from monoize.server import worker
from monoize.server.state import local_engines
from monoize.settings import Settings
from monoize.telemetry import logs

__all__ = ["serve_gateway"]

log = logging.getLogger("monoize")


def serve_gateway(
    *,
    config: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    workers: int = 1,
) -> int:
    """The exit code, once it has ended."""
    logs.configure()
    try:
        place = worker.Place(config=config, host=host, port=port)
        settings = worker.settings_for(place)
    except ConfigError as error:
        print(f"monoize: {error.message}", file=sys.stderr)
        return 1
    worker.configure_logs(settings)
    problem = worker.address_problem(settings.server)
    if problem is not None:
        print(f"monoize: {problem}", file=sys.stderr)
        return 1
    _announce(settings, embedded=config is None)
    if workers > 1 and settings.redis is None:
        log.warning(
            "%d workers and no `redis`: budgets and balances hold for all of them together, calls and tokens "
            "per minute for each worker by itself",
            workers,
        )
    return worker.run(place, settings, workers)


def _announce(settings: Settings, *, embedded: bool) -> None:
    base = f"http://{settings.server.host}:{settings.server.port}"
    if embedded:
        print(worker.welcome(settings, base), flush=True)
        for engine in local_engines({}).values():
            status = engine.available()
            if not status.installed:
                log.warning(
                    "no local model %s: %s Mend it with: %s",
                    engine.id,
                    status.reason,
                    status.install,
                )
    if not settings.providers:
        log.warning(
            "no providers: set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or XAI_API_KEY, or write a "
            "config (docs/configuration.md)"
        )
