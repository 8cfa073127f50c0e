"""Which provider knows which model: exact names first, then globs in order (D49)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from monoize.globs import glob_matches, is_glob
from monoize.routing.capability import OF_TYPE, Capabilities
from monoize.settings import ChannelSettings, ModelSettings, ProviderSettings

__all__ = ["LOCAL_CHANNEL", "Candidate", "Catalog", "channels_of", "model_row", "upstream_name"]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that may answer a call, the channel to it, and its own name of the model."""

    provider: ProviderSettings
    channel: ChannelSettings
    upstream_model: str


LOCAL_CHANNEL = ChannelSettings(id="engine")
_LOCAL_CHANNELS = (LOCAL_CHANNEL,)


class Catalog:
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

    def capabilities(
        self, provider: ProviderSettings, row: ModelSettings | None = None
    ) -> Capabilities:
        """Of a provider of this catalog; `row`: for that model of it."""
        if row is None or row.capabilities is None:
            return self._usual[provider.id]
        return self._of_row[provider.id, id(row)]

    def offers(self, model: str) -> Iterator[tuple[ProviderSettings, ModelSettings]]:
        """Every enabled provider that has the model, with its row, in configured order (ROUT-1, ROUT-2)."""
        for provider in self.providers:
            row = model_row(provider.models, model)
            if row is not None:
                yield provider, row

    def candidates(self, model: str) -> Iterator[Candidate]:
        """Every enabled channel that could serve the model, in configured order, whatever its health."""
        for provider, row in self.offers(model):
            name = upstream_name(row, model)
            for channel in channels_of(provider):
                if channel.enabled and channel.weight > 0:
                    yield Candidate(provider=provider, channel=channel, upstream_model=name)

    def exists(self, model: str) -> bool:
        """Some enabled provider has the model by its very name."""
        return not is_glob(model) and any(model in p.models for p in self.providers)

    def covers(self, model: str) -> bool:
        """The model has a name here, or a glob that says more than `*` (D49)."""
        return self.exists(model) or any(
            glob.strip("*") and is_glob(glob) and glob_matches(glob, model)
            for provider in self.providers
            for glob in provider.models
        )

    def exact_models(self) -> tuple[tuple[str, ProviderSettings], ...]:
        """Every model with a name of its own, once, with the first provider that has it."""
        found: dict[str, ProviderSettings] = {}
        for provider in self.providers:
            for name in provider.models:
                if not is_glob(name):
                    found.setdefault(name, provider)
        return tuple(found.items())


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
