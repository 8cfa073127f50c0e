"""Which provider knows which model: exact names first, then globs in order (D49)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

import msgspec

from monoize.globs import glob_matches, is_glob
from monoize.routing.capability import OF_TYPE, Capabilities
from monoize.settings import ChannelSettings, ModelSettings, ProviderSettings

__all__ = [
    "LOCAL_CHANNEL",
    "Candidate",
    "Catalog",
    "Listing",
    "Terms",
    "channels_of",
    "model_row",
    "upstream_name",
]

_LONGEST_NAME = 256  # a caller may choose the name: longer ones are looked for each time
_TERMS_KEPT = 8192  # of all names together, and one more for each name


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that may answer a call, the channel to it, and its own name of the model."""

    provider: ProviderSettings
    channel: ChannelSettings
    upstream_model: str


class Terms(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one provider has to say about one model, worked out once: every request asks."""

    provider: ProviderSettings
    row: ModelSettings
    upstream_model: str
    multiplier: Decimal
    capabilities: Capabilities
    candidates: tuple[Candidate, ...]  # every channel, switched on or not


class Listing(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Every enabled provider that has a model, in configured order (ROUT-1, ROUT-2)."""

    terms: tuple[Terms, ...]
    by_provider: Mapping[str, Terms]


LOCAL_CHANNEL = ChannelSettings(id="engine")
_LOCAL_CHANNELS = (LOCAL_CHANNEL,)


class Catalog:
    """Of one configuration; what it has found for a name it remembers, so that providers without it cost nothing."""

    def __init__(
        self,
        providers: tuple[ProviderSettings, ...],
        engines: Mapping[str, Capabilities] = {},
    ) -> None:
        """`engines`: what each local engine can do, by its id."""
        self.configured = providers
        self.providers = tuple(p for p in providers if p.enabled)
        # Worked out once: every request asks.
        self._usual = {p.id: _of_provider(p, engines) for p in providers}
        self._of_row = {
            (p.id, id(row)): self._usual[p.id].overlaid(row.capabilities)
            for p in providers
            for row in p.models.values()
            if row.capabilities is not None
        }
        self._by_name: dict[str, list[int]] = {}  # places of those that have an exact name
        self._with_globs: list[int] = []  # places of those that may have any name
        for place, provider in enumerate(self.providers):
            for name in provider.models:
                if not is_glob(name):
                    self._by_name.setdefault(name, []).append(place)
            if any(map(is_glob, provider.models)):
                self._with_globs.append(place)
        globs = (name for place in self._with_globs for name in self.providers[place].models)
        self._globs = tuple(dict.fromkeys(g for g in globs if is_glob(g) and g.strip("*")))
        # Who has a model. Every request asks several times: what is known is found without a function of ours.
        self._listings = _Listings(self._listed)
        self.listing: Callable[[str], Listing] = self._listings.__getitem__

    def capabilities(
        self, provider: ProviderSettings, row: ModelSettings | None = None
    ) -> Capabilities:
        """Of a provider of this catalog; `row`: for that model of it."""
        if row is None or row.capabilities is None:
            return self._usual[provider.id]
        return self._of_row[provider.id, id(row)]

    def terms_of(self, provider: ProviderSettings, model: str) -> Terms | None:
        """Of any configured provider; None: it does not have the model."""
        row = model_row(provider.models, model)
        if row is None:
            return None
        name = upstream_name(row, model)
        return Terms(
            provider=provider,
            row=row,
            upstream_model=name,
            multiplier=row.exact_multiplier(),
            capabilities=self.capabilities(provider, row),
            candidates=tuple(
                Candidate(provider=provider, channel=channel, upstream_model=name)
                for channel in channels_of(provider)
            ),
        )

    def offers(self, model: str) -> Iterator[tuple[ProviderSettings, ModelSettings]]:
        """Every enabled provider that has the model, with its row, in configured order (ROUT-1, ROUT-2)."""
        for terms in self.listing(model).terms:
            yield terms.provider, terms.row

    def candidates(self, model: str) -> Iterator[Candidate]:
        """Every enabled channel that could serve the model, in configured order, whatever its health."""
        for terms in self.listing(model).terms:
            for candidate in terms.candidates:
                if candidate.channel.enabled and candidate.channel.weight > 0:
                    yield candidate

    def exists(self, model: str) -> bool:
        """Some enabled provider has the model by its very name."""
        return model in self._by_name

    def covers(self, model: str) -> bool:
        """The model has a name here, or a glob that says more than `*` (D49)."""
        return model in self._by_name or any(glob_matches(glob, model) for glob in self._globs)

    def exact_models(self) -> tuple[tuple[str, ProviderSettings], ...]:
        """Every model with a name of its own, once, with the first provider that has it."""
        found: dict[str, ProviderSettings] = {}
        for provider in self.providers:
            for name in provider.models:
                if not is_glob(name):
                    found.setdefault(name, provider)
        return tuple(found.items())

    def _listed(self, model: str) -> Listing:
        places = sorted({*self._by_name.get(model, ()), *self._with_globs})
        found = (self.terms_of(self.providers[place], model) for place in places)
        terms = tuple(one for one in found if one is not None)
        return Listing(terms=terms, by_provider={one.provider.id: one for one in terms})


class _Listings(dict[str, Listing]):
    """By model; what is asked for first is listed, and remembered while there is room."""

    def __init__(self, listed: Callable[[str], Listing]) -> None:
        super().__init__()
        self.terms_kept = 0
        self._listed = listed

    def __missing__(self, model: str) -> Listing:
        found = self._listed(model)
        if len(model) > _LONGEST_NAME:
            return found
        size = len(found.terms) + 1
        if self.terms_kept + size > _TERMS_KEPT:
            self.clear()
            self.terms_kept = 0
        self[model] = found
        self.terms_kept += size
        return found


def _of_provider(provider: ProviderSettings, engines: Mapping[str, Capabilities]) -> Capabilities:
    usual = OF_TYPE[provider.type]
    if provider.type == "local":
        usual = engines.get(provider.engine or "", usual)
    return usual.overlaid(provider.capabilities)


def channels_of(provider: ProviderSettings) -> tuple[ChannelSettings, ...]:
    """A local provider without channels has one, its engine."""
    return provider.channels or _LOCAL_CHANNELS


def model_row(models: Mapping[str, ModelSettings], model: str) -> ModelSettings | None:
    exact = models.get(model)
    if exact is not None and not is_glob(model):
        return exact
    globs = ((glob, row) for glob, row in models.items() if is_glob(glob))
    return next((row for glob, row in globs if glob_matches(glob, model)), None)


def upstream_name(row: ModelSettings, model: str) -> str:
    return (row.redirect or "").strip() or model
