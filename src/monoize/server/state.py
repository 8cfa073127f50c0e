"""What the routes share: one configuration, on top of what lasts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection

from monoize.clock import Clock, Dice, OrderedIdSource, RandomIds
from monoize.engine import Engine, EngineSetup, LocalEngines, engines
from monoize.limiter import Limiter
from monoize.media.desk import MediaDesk
from monoize.media.late_fetch import LateFetcher
from monoize.media.shelf import Shelf
from monoize.media.store import MediaStore
from monoize.money.book import PriceBook
from monoize.pipeline.admission import Admission, OpenDoor
from monoize.pipeline.charging import Captures, Desk, LedgerAdmission
from monoize.pipeline.kit import Kit
from monoize.pipeline.rulebook import overrides, rulebook, tags
from monoize.pipeline.tariff import Tariff
from monoize.reframer.tags import TagTable
from monoize.routing.affinity import Affinity
from monoize.routing.budget import RetryBudget
from monoize.routing.capability import of_engines
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.policy import LoadBoard
from monoize.server.access import Access
from monoize.server.agents import Agents
from monoize.server.checkup import Checkup
from monoize.server.keyring import Keyring
from monoize.server.proxies import TrustedProxies
from monoize.server.reframer_bench import Bench
from monoize.server.session_keeper import Lobby, Sessions
from monoize.settings import ProviderSettings, Settings
from monoize.store import keys, prices, providers, users
from monoize.store import settings as stored_settings
from monoize.store.capture_writer import CaptureWriter
from monoize.store.database import Database
from monoize.store.journal import Journal
from monoize.store.vault import Vault
from monoize.telemetry.agent_runs import RunCounts
from monoize.telemetry.reframing import ReframeCounts
from monoize.telemetry.requests import RequestCounts
from monoize.telemetry.tracing import SILENT, Tracer
from monoize.upstream.client import UpstreamClient
from monoize.upstream.engine_client import EngineClient
from monoize.upstream.models import ProviderModels

log = logging.getLogger("monoize.server")

__all__ = ["DATA", "Lasting", "State", "Stored", "build", "local_engines"]

DATA = Path("data")


class Lasting(msgspec.Struct, frozen=True, kw_only=True):
    """What outlives every configuration: connections, memories, the store."""

    clock: Clock
    ids: OrderedIdSource
    dice: Dice
    client: UpstreamClient
    engines: Mapping[str, Engine]
    engine_client: EngineClient
    board: HealthBoard
    budget: RetryBudget
    affinity: Affinity
    load: LoadBoard = msgspec.field(default_factory=LoadBoard)
    limiter: Limiter
    provider_models: ProviderModels
    counts: RequestCounts = msgspec.field(default_factory=RequestCounts)
    reframes: ReframeCounts = msgspec.field(default_factory=ReframeCounts)
    run_counts: RunCounts = msgspec.field(default_factory=RunCounts)
    bench: Bench = msgspec.field(default_factory=Bench)
    checkup: Checkup = msgspec.field(default_factory=Checkup)
    lobby: Lobby = msgspec.field(default_factory=Lobby)
    tracer: Tracer = SILENT
    database: Database | None = None
    vault: Vault | None = None
    journal: Journal | None = None
    keyring: Keyring | None = None
    capture_writer: CaptureWriter | None = None
    media_store: MediaStore | None = None
    agents: Agents | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that lies in the database."""

    revision: int = -1
    providers: tuple[ProviderSettings, ...] = ()
    prices: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    has_keys: bool = False

    @classmethod
    def read(cls, connection: Connection, *, vault: Vault, known: int) -> Stored | None:
        """None: nothing changed since the revision that is known."""
        revision = stored_settings.revision(connection)
        if revision == known:
            return None
        return cls(
            revision=revision,
            providers=providers.opened(connection, vault),
            prices={price.model: price.rates for price in prices.everything(connection)},
            settings=stored_settings.everything(connection),
            # Whoever gave somebody a password wants people to sign in.
            has_keys=bool(keys.page(connection, limit=1)) or users.any_password(connection),
        )


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration. A request keeps the one that it began with."""

    settings: Settings
    own_settings: Settings  # of the file alone: what the database added is not in it
    access: Access
    proxies: TrustedProxies
    kit: Kit
    tags: TagTable  # of the Reframer
    lasting: Lasting
    shelf: Shelf | None = None

    @property
    def catalog(self) -> Catalog:
        return self.kit.catalog

    @property
    def provider_models(self) -> ProviderModels:
        return self.lasting.provider_models


def local_engines(options: Mapping[str, Mapping[str, Any]]) -> LocalEngines:
    """Every engine, installed or not; building one is cheap, its model loads on the first call."""
    return LocalEngines(EngineSetup(folder=DATA / "engines", ids=RandomIds()), options)


def build(settings: Settings, stored: Stored, lasting: Lasting) -> State:
    """The file's providers come first and win over the database's of the same id; so do its prices (docs/store.md)."""
    server, tuning = settings.server, settings.settings
    own_settings = settings
    own = {provider.id for provider in settings.providers}
    others = tuple(provider for provider in stored.providers if provider.id not in own)
    settings = msgspec.structs.replace(settings, providers=(*settings.providers, *others))
    rules = rulebook(settings)
    used = {p.engine for p in settings.providers if p.engine} & engines().keys()
    catalog = Catalog(settings.providers, of_engines({name: engines()[name] for name in used}))
    suffixes = stored.settings.get("reasoning_suffix_map")
    shelf = _shelf(settings, lasting)
    return State(
        settings=settings,
        own_settings=own_settings,
        access=Access(
            server,
            settings.keys,
            rules.keys,
            lasting.keyring,
            has_keys=stored.has_keys,
            sessions=Sessions(server, lasting.lobby, lasting.clock, lasting.database),
        ),
        proxies=TrustedProxies(server.trusted_proxies),
        tags=tags(settings),
        lasting=lasting,
        shelf=shelf,
        kit=Kit(
            client=lasting.client,
            engines=lasting.engine_client,
            clock=lasting.clock,
            dice=lasting.dice,
            ids=lasting.ids,
            limits=server.limits,
            timeouts=server.timeouts,
            catalog=catalog,
            board=lasting.board,
            budget=lasting.budget,
            affinity=lasting.affinity,
            load=lasting.load,
            admission=_admission(settings, stored, lasting, catalog),
            local=lasting.engines,
            operations=tuning.operations,
            media=MediaDesk(shelf, settings.media, LateFetcher(settings.media.http_urls)),
            inline_bytes=settings.media.inline_bytes,
            provider_rules=rules.providers,
            suffixes={
                **(suffixes if isinstance(suffixes, dict) else {}),
                **tuning.reasoning_suffix_map,
            },
        ),
    )


def _shelf(settings: Settings, lasting: Lasting) -> Shelf | None:
    if lasting.media_store is None or lasting.database is None:
        return None
    return Shelf(lasting.media_store, lasting.database, lasting.clock, settings.media)


def _admission(settings: Settings, stored: Stored, lasting: Lasting, catalog: Catalog) -> Admission:
    if lasting.journal is None:
        return OpenDoor()
    own = overrides(settings.settings.prices)  # first: of the globs that fit the first holds (D49)
    rates = {**own, **{m: r for m, r in overrides(stored.prices).items() if m not in own}}
    writer = lasting.capture_writer
    return LedgerAdmission(
        Desk(
            clock=lasting.clock,
            journal=lasting.journal,
            limiter=lasting.limiter,
            counts=lasting.counts,
            tracer=lasting.tracer,
            captures=None
            if writer is None
            else Captures(writer, settings.settings.logs.capture_bytes),
            tariff=Tariff(
                clock=lasting.clock,
                catalog=catalog,
                book=PriceBook(rates),
                output_cap=settings.settings.ledger.output_cap_tokens,
            ),
        )
    )
