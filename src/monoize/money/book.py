"""Which price holds for a call: the operator's own first, then the public one (D16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from monoize.globs import glob_matches, is_glob
from monoize.money import public
from monoize.money.rates import FREE, Rates, parse_rates
from monoize.money.units import PUBLIC

__all__ = ["PRICED_SECONDS", "PriceBook", "Priced"]

PRICED_SECONDS = public.SECONDS  # counted from the epoch: within them no price changes


_BY_UNIT = {name: parse_rates(form) for name, form in PUBLIC.items()}


class Priced(msgspec.Struct, frozen=True, kw_only=True):
    rates: Rates
    source: Literal["override", "public", "local"]
    name: str  # of the override, or of the public row


class PriceBook:
    """Overrides by model name or glob; a change of prices is a new book."""

    def __init__(self, overrides: Mapping[str, Rates] | None = None) -> None:
        overrides = overrides or {}
        self._exact = {name: rates for name, rates in overrides.items() if not is_glob(name)}
        self._globs = tuple((name, rates) for name, rates in overrides.items() if is_glob(name))

    def rates(
        self,
        requested_model: str,
        upstream_model: str,
        provider_type: str,
        base_url: str | None = None,
        *,
        now: float,
        service_tier: str | None = None,
    ) -> Priced | None:
        """`service_tier`: what the provider says that it served, else what was asked for. None: unpriced."""
        own = self.override(requested_model) or self.override(upstream_model)
        if own is not None:
            return own
        if provider_type == "local":
            return Priced(rates=FREE, source="local", name=upstream_model)
        row = public.row(upstream_model, provider_type, base_url, now, service_tier)
        if row is not None:
            return Priced(rates=row.rates, source="public", name=row.name)
        by_unit = _BY_UNIT.get(upstream_model)
        return (
            None if by_unit is None else Priced(rates=by_unit, source="public", name=upstream_model)
        )

    def override(self, model: str) -> Priced | None:
        """Exact names first, then globs in order (D49)."""
        rates = self._exact.get(model)
        if rates is not None:
            return Priced(rates=rates, source="override", name=model)
        for glob, priced in self._globs:
            if glob_matches(glob, model):
                return Priced(rates=priced, source="override", name=glob)
        return None
