"""What the routes share: settings, catalog, access, and the kit of the pipeline."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from monoize.clock import RandomIds, SystemClock
from monoize.engine import ChatEngine, EngineSetup, engines
from monoize.errors import MonoizeError
from monoize.pipeline.attempt import Kit
from monoize.routing.catalog import Catalog
from monoize.server.access import Access
from monoize.settings import Settings
from monoize.upstream.aiohttp_client import AiohttpClient
from monoize.upstream.engine_client import EngineClient
from monoize.upstream.models import ProviderModels

log = logging.getLogger("monoize.server")

__all__ = ["DATA", "State", "build", "chat_engines"]


class State(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    catalog: Catalog
    access: Access
    kit: Kit
    engines: Mapping[str, ChatEngine]
    provider_models: ProviderModels

    async def start(self) -> None:
        """Load the models of local providers before the port opens: loading would hold up every other caller."""
        for provider in self.catalog.providers:
            engine = self.engines.get(provider.engine or "")
            if engine is not None:
                try:
                    await engine.start()
                except MonoizeError as error:
                    log.warning("local engine %s: %s", provider.engine, error)

    async def aclose(self) -> None:
        await self.kit.client.aclose()
        await self.kit.engines.aclose()


DATA = Path("data")


def chat_engines(options: Mapping[str, Mapping[str, Any]]) -> dict[str, ChatEngine]:
    """Every chat engine, installed or not; building one is cheap, its model loads on the first call."""
    return {
        name: kind(
            EngineSetup(folder=DATA / "engines", ids=RandomIds(), options=options.get(name, {}))
        )
        for name, kind in engines().items()
        if issubclass(kind, ChatEngine)
    }


def build(settings: Settings) -> State:
    server = settings.server
    client, clock = AiohttpClient(server.limits, server.timeouts), SystemClock()
    local = chat_engines({p.engine: p.engine_options for p in settings.providers if p.engine})
    return State(
        settings=settings,
        catalog=Catalog(settings.providers),
        access=Access(server, settings.keys),
        kit=Kit(
            client=client,
            engines=EngineClient(local),
            clock=clock,
            ids=RandomIds(),
            limits=server.limits,
            timeouts=server.timeouts,
        ),
        engines=local,
        provider_models=ProviderModels(client, clock, server.timeouts),
    )
