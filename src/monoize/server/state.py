"""What the routes share: settings, catalog, access, and the kit of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from monoize.clock import RandomIds, SystemClock
from monoize.engine import ChatEngine, EngineSetup, engines
from monoize.pipeline.attempt import Kit
from monoize.routing.catalog import Catalog
from monoize.server.access import Access
from monoize.settings import Settings
from monoize.upstream.aiohttp_client import AiohttpClient
from monoize.upstream.engine_client import EngineClient
from monoize.upstream.models import ProviderModels

__all__ = ["DATA", "State", "build", "chat_engines"]


class State(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    catalog: Catalog
    access: Access
    kit: Kit
    provider_models: ProviderModels

    async def aclose(self) -> None:
        await self.kit.client.aclose()
        await self.kit.engines.aclose()


DATA = Path("data")


def chat_engines(options: Mapping[str, Mapping[str, Any]]) -> dict[str, ChatEngine]:
    """Every chat engine, installed or not; building one is cheap, its model loads on the first call."""
    return {
        name: engine(
            EngineSetup(folder=DATA / "engines", ids=RandomIds(), options=options.get(name, {}))
        )
        for name, engine in engines().items()
        if issubclass(engine, ChatEngine)
    }


def build(settings: Settings) -> State:
    server = settings.server
    client, clock = AiohttpClient(server.limits, server.timeouts), SystemClock()
    return State(
        settings=settings,
        catalog=Catalog(settings.providers),
        access=Access(server, settings.keys),
        kit=Kit(
            client=client,
            engines=EngineClient(
                chat_engines({p.engine or "": p.engine_options for p in settings.providers})
            ),
            clock=clock,
            ids=RandomIds(),
            limits=server.limits,
            timeouts=server.timeouts,
        ),
        provider_models=ProviderModels(client, clock, server.timeouts),
    )
