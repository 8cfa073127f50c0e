"""What the routes share: settings, catalog, access, and the kit of the pipeline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from monoize.clock import RandomIds, SystemClock, SystemDice
from monoize.engine import ChatEngine, EngineSetup, engines
from monoize.errors import MonoizeError
from monoize.pipeline.admission import OpenDoor
from monoize.pipeline.kit import Kit
from monoize.pipeline.probe import Prober
from monoize.pipeline.rulebook import rulebook
from monoize.routing.affinity import Affinity
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.server.access import Access
from monoize.server.proxies import TrustedProxies
from monoize.settings import Settings
from monoize.upstream.aiohttp_client import AiohttpClient
from monoize.upstream.engine_client import EngineClient
from monoize.upstream.models import ProviderModels

log = logging.getLogger("monoize.server")

__all__ = ["DATA", "State", "build", "chat_engines"]


class State(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    access: Access
    proxies: TrustedProxies
    kit: Kit
    engines: Mapping[str, ChatEngine]
    provider_models: ProviderModels
    running: list[asyncio.Task[None]] = []  # what works beside the requests

    @property
    def catalog(self) -> Catalog:
        return self.kit.catalog

    async def start(self) -> None:
        """Load the models of local providers before the port opens: loading would hold up every other caller."""
        self.running.append(asyncio.ensure_future(Prober(self.kit).run()))
        for provider in self.catalog.providers:
            engine = self.engines.get(provider.engine or "")
            if engine is not None:
                try:
                    await engine.start()
                except MonoizeError as error:
                    log.warning("local engine %s: %s", provider.engine, error)

    async def aclose(self) -> None:
        for task in self.running:
            task.cancel()
        if self.running:
            await asyncio.wait(self.running)
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
    server, tuning = settings.server, settings.settings
    client, clock = AiohttpClient(server.limits, server.timeouts), SystemClock()
    local = chat_engines({p.engine: p.engine_options for p in settings.providers if p.engine})
    rules = rulebook(settings)
    return State(
        settings=settings,
        access=Access(server, settings.keys, rules.keys),
        proxies=TrustedProxies(server.trusted_proxies),
        kit=Kit(
            client=client,
            engines=EngineClient(local),
            clock=clock,
            dice=SystemDice(),
            ids=RandomIds(),
            limits=server.limits,
            timeouts=server.timeouts,
            catalog=Catalog(settings.providers),
            board=HealthBoard(tuning.health),
            budget=RetryBudget(),
            affinity=Affinity(),
            admission=OpenDoor(),
            provider_rules=rules.providers,
            suffixes=tuning.reasoning_suffix_map,
        ),
        engines=local,
        provider_models=ProviderModels(client, clock, server.timeouts),
    )
