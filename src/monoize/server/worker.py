"""A server process: settings from their place, the application, uvicorn around it."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import uvicorn

from monoize.clock import RandomIds
from monoize.embedded import embedded_settings, first_key, local_provider
from monoize.engine import engines
from monoize.errors import ConfigError
from monoize.pipeline.rulebook import check_rules
from monoize.server.app import App
from monoize.server.connection import Connection
from monoize.server.house import House
from monoize.server.state import DATA, local_engines
from monoize.settings import ServerSettings, Settings, is_loopback, load
from monoize.telemetry import logs, scrub

__all__ = [
    "Place",
    "address_problem",
    "begin_to_collect",
    "checked",
    "create",
    "run",
    "settings_for",
    "welcome",
]

# Longer than callers and proxies keep an idle connection: who closes first must not be us, or a request that is just being
# sent on it is lost (httpx keeps 5 s, aiohttp 15 s, nginx 60 s).
_IDLE_SECONDS = 75
# A request under way is a few thousand objects that are gone after it, nearly all without the collector. Looking at every
# 700 new ones (as Python does) finds them all alive: with 64 callers one look in eight requests; now one in hundreds.
_YOUNG_OBJECTS = 10_000
_VARIABLE = "MONOIZE_WORKER_PLACE"  # how worker processes learn what the parent was told


_CHAT = "chat_completions"
_WORDS_BYTES = 64 * 1024


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the settings come from, and what the command line put over them."""

    config: Path | None = None
    host: str | None = None
    port: int | None = None


def settings_for(place: Place, environment: Mapping[str, str] | None = None) -> Settings:
    environment = os.environ if environment is None else environment
    if place.config is not None:
        settings = checked(load(place.config, environment), place.config)
    else:
        installed = [e for e in local_engines({}).values() if e.available().installed]
        installed.sort(key=lambda engine: engine.operation != _CHAT)  # who chats comes first
        local = [local_provider(engine.id, engine.models()) for engine in installed]
        settings = embedded_settings(first_key(DATA, RandomIds()), local, environment)
    changes: dict[str, Any] = {}
    if place.host is not None:
        changes["host"] = place.host
    if place.port is not None:
        changes["port"] = place.port
    server = msgspec.structs.replace(settings.server, **changes)
    if not settings.keys and not is_loopback(server.host):  # the file's own address was checked
        raise ConfigError(
            f"--host {server.host}: there are no keys, and without keys the gateway serves loopback only"
        )
    return msgspec.structs.replace(settings, server=server)


def checked(settings: Settings, file: Path) -> Settings:
    """What can be wrong with a file beyond its form."""
    tools = settings.settings.agent.tools
    if tools:
        from monoize.agent.runs.configured_tools import check_tools  # noqa: PLC0415 - only where there are tools

        try:
            check_tools(tools)
        except ConfigError as error:
            raise ConfigError(f"{file}: {error.message}") from None
    return check_rules(settings, str(file))


def run(place: Place, settings: Settings, workers: int) -> int:
    server = settings.server
    os.environ[_VARIABLE] = msgspec.json.encode(
        {
            "config": str(place.config) if place.config else None,
            "host": place.host,
            "port": place.port,
        }
    ).decode()
    several = workers > 1
    uvicorn.run(
        "monoize.server.worker:create" if several else application(place),
        factory=several,
        host=server.host,
        port=server.port,
        workers=workers,
        http=Connection,
        ws=cast("type[asyncio.Protocol]", late_web_sockets),
        # A little more than we take: so that a message that is too large gets an answer in words.
        ws_max_size=settings.settings.realtime.frame_bytes + _WORDS_BYTES,
        ws_per_message_deflate=False,  # sound does not shrink
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # nobody outside says who the caller is
        limit_concurrency=server.limits.connections,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(server.timeouts.drain),
    )
    return 0


def late_web_sockets(**given: Any) -> asyncio.Protocol:
    """The protocol of uvicorn, imported for the first voice session: most gateways have none."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import (  # noqa: PLC0415
        WebSocketsSansIOProtocol,
    )

    return WebSocketsSansIOProtocol(**given)


def address_problem(server: ServerSettings) -> str | None:
    """Why the address cannot be listened on, found out before anything is promised."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, number) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return f"cannot listen on {server.host}:{server.port}: {error.strerror or error}"
    return None


def create() -> App:
    """The application of one of several workers."""
    told = msgspec.json.decode(os.environ[_VARIABLE])
    place = Place(
        config=Path(told["config"]) if told["config"] else None,
        host=told["host"],
        port=told["port"],
    )
    settings = settings_for(place)
    configure_logs(settings)
    return application(place)


def configure_logs(settings: Settings) -> None:
    """The program's own log, without the secrets that the settings hold."""
    scrub.register(*scrub.secrets_of(settings))
    logs.configure(settings.settings.logs.format)


def application(place: Place) -> App:
    """Relative paths of the settings lie below the folder of the file, or here where there is none."""
    folder = place.config.resolve().parent if place.config is not None else Path.cwd()
    load = partial(settings_for, place)
    return App(House(load, folder=folder, file=place.config, when_settled=begin_to_collect))


def begin_to_collect() -> None:
    """What the start has made stays until the end: the collector, off until now, will not look through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
    gc.enable()


def welcome(settings: Settings, base: str) -> str:
    """What a newcomer needs: the key, and a first call in each protocol to copy."""
    key = settings.keys[0].key
    chatting = [p for p in settings.providers if p.engine is None or _chats(p.engine)]
    model = next((name for p in chatting for name in p.models if "*" not in name), None)
    lines = [
        f"Monoize listens on {base}",
        f"  console  {base}/   (open it in a browser)",
        f"  key  {key}   (kept in {DATA / 'first-key'})",
        f"  providers  {', '.join(p.id for p in settings.providers) or 'none yet'}",
        "",
    ]
    if model is not None:
        lines += ["A first call in each protocol:", "", *_curls(base, key, model)]
    return "\n".join(lines)


def _chats(engine: str) -> bool:
    return engine in engines() and engines()[engine].operation == _CHAT


def _curls(base: str, key: str, model: str) -> list[str]:
    said = '"messages":[{"role":"user","content":"What is the capital of France?"}]'
    text = "What is the capital of France?"
    calls = (
        ("/v1/chat/completions", f'{{"model":"{model}",{said}}}'),
        ("/v1/responses", f'{{"model":"{model}","input":"{text}"}}'),
        ("/v1/messages", f'{{"model":"{model}","max_tokens":64,{said}}}'),
        (
            f"/v1beta/models/{model}:generateContent",
            f'{{"contents":[{{"role":"user","parts":[{{"text":"{text}"}}]}}]}}',
        ),
    )
    return [
        f"curl -s {base}{path} -H 'authorization: Bearer {key}' \\\n"
        f"  -H 'content-type: application/json' -d '{body}'\n"
        for path, body in calls
    ]
