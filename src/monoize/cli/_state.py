"""The state that a server with this config and store would have, for commands that ask a provider or the price book."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from monoize.cli._desk import Desk
from monoize.clock import SystemDice
from monoize.limits.memory import MemoryLimiter
from monoize.routing.affinity import Affinity
from monoize.routing.budget import RetryBudget
from monoize.routing.health import HealthBoard
from monoize.server.state import Lasting, State, Stored, build, local_engines
from monoize.server.worker import Place, settings_for
from monoize.settings import Settings
from monoize.upstream.clients import Clients
from monoize.upstream.engine_client import EngineClient
from monoize.upstream.models import ProviderModels

__all__ = ["settings_in_force", "state_of"]

_NEVER_SEEN = -2  # no revision: everything is read


def settings_in_force(desk: Desk) -> Settings:
    """With the providers of the embedded default, where there is no file."""
    return desk.settings if desk.file is not None else settings_for(Place())


@asynccontextmanager
async def state_of(desk: Desk) -> AsyncIterator[State]:
    settings = settings_in_force(desk)
    work = partial(Stored.read, vault=desk.vault, known=_NEVER_SEEN)
    stored = await desk.read(work) or Stored()
    client = Clients(settings.server.limits, settings.server.timeouts)
    local = local_engines({p.engine: p.engine_options for p in settings.providers if p.engine})
    lasting = Lasting(
        clock=desk.clock,
        ids=desk.ids,
        dice=SystemDice(),
        client=client,
        engines=local,
        engine_client=EngineClient(local),
        board=HealthBoard(settings.settings.health),
        budget=RetryBudget(),
        affinity=Affinity(),
        limiter=MemoryLimiter(),
        provider_models=ProviderModels(client, desk.clock, settings.server.timeouts),
    )
    try:
        yield build(settings, stored, lasting)
    finally:
        await client.aclose()
        await lasting.engine_client.aclose()
