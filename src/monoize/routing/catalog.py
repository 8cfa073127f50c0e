"""Which provider knows which model: exact names first, then globs in order (D49)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from monoize.globs import glob_matches, is_glob
from monoize.settings import ChannelSettings, ModelSettings, ProviderSettings

__all__ = ["Candidate", "Catalog"]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that may answer a call, the channel to it, and its own name of the model."""

    provider: ProviderSettings
    channel: ChannelSettings
    upstream_model: str


LOCAL_CHANNEL = ChannelSettings(id="engine")


class Catalog:
    def __init__(self, providers: tuple[ProviderSettings, ...]) -> None:
        self.providers = tuple(p for p in providers if p.enabled)

    def candidates(self, model: str) -> Iterator[Candidate]:
        """Every enabled channel that could serve the model, in configured order (ROUT-1, ROUT-2)."""
        for provider in self.providers:
            row = model_row(provider.models, model)
            if row is None:
                continue
            channels = provider.channels or (LOCAL_CHANNEL,)
            for channel in channels:
                if channel.enabled and channel.weight > 0:
                    name = (row.redirect or "").strip() or model
                    yield Candidate(provider=provider, channel=channel, upstream_model=name)

    def exact_models(self) -> tuple[tuple[str, ProviderSettings], ...]:
        """Every model with a name of its own, once, with the first provider that has it."""
        found: dict[str, ProviderSettings] = {}
        for provider in self.providers:
            for name in provider.models:
                if not is_glob(name):
                    found.setdefault(name, provider)
        return tuple(found.items())


def model_row(models: Mapping[str, ModelSettings], model: str) -> ModelSettings | None:
    exact = models.get(model)
    if exact is not None and not is_glob(model):
        return exact
    return next((row for glob, row in models.items() if glob_matches(glob, model)), None)
