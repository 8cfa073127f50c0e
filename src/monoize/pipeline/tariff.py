"""What a call may cost before it is sent, and what it did cost: prices of those who may be asked, and who was."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from monoize.clock import Clock
from monoize.errors import Forbidden
from monoize.money.book import PriceBook, Priced
from monoize.money.charge import MOST_NANO, charge
from monoize.money.meter import Metered
from monoize.pipeline.call import Errand, HedgedLeg, Trace
from monoize.routing.catalog import Catalog, channels_of, upstream_name
from monoize.routing.policy import policy_of
from monoize.routing.survey import objection
from monoize.settings import ModelSettings, ProviderSettings

__all__ = ["Bill", "Tariff"]


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    amount: int = 0  # nano-USD
    detail: Mapping[str, Any] | None = None
    multiplier: Decimal = Decimal(1)
    estimated: bool = False
    unpriced: bool = False


class Tariff(msgspec.Struct, frozen=True, kw_only=True):
    """Of one configuration."""

    clock: Clock
    catalog: Catalog
    book: PriceBook
    output_cap: int  # tokens that are reserved for an answer at most

    def reserved(self, call: Errand) -> int:
        """The most that any provider that may be asked would cost; unpriced ones only for keys without a budget (D16)."""
        caller, most, asks = call.incoming.caller, 0, call.asks
        for provider, row in self.catalog.offers(call.model):
            can = self.catalog.capabilities(provider, row)
            if asks is not None and objection(asks, provider.id, can) is not None:
                continue  # it will not be asked, so its price is no matter
            multiplier = row.exact_multiplier()
            if call.ceiling is not None and multiplier > call.ceiling:
                continue
            priced = self._price(call, provider, row)
            if priced is None and (caller.policy.budgets or caller.prepaid):
                raise Forbidden(
                    f"the model {call.requested_model!r} has no price at {provider.id}, and this key has a budget",
                    param="model",
                    code="model_not_priced",
                )
            if priced is not None:
                amount = call.reserved(priced.rates, multiplier, self.output_cap)
                most = max(most, amount * _legs(call, provider))
        return min(most, MOST_NANO)

    def billed(self, call: Errand, trace: Trace, metered: Metered | None) -> Bill:
        """None: it cost nothing."""
        offers = {p.id: (p, row) for p, row in self.catalog.offers(call.model)}
        if metered is None or trace.provider not in offers:
            return Bill(unpriced=metered is not None, estimated=_is_estimate(metered))
        provider, row = offers[trace.provider]
        multiplier = row.exact_multiplier()
        priced = self._price(
            call, provider, row, trace.channel, trace.upstream_model, metered.service_tier
        )
        legs = [self._leg(call, leg, offers) for leg in trace.legs]
        beside = sum(leg["charge"] for leg in legs)
        estimated = metered.estimated or bool(legs)
        if priced is None:
            return Bill(
                amount=min(beside, MOST_NANO),
                detail={"legs": legs} if legs else None,
                multiplier=multiplier,
                estimated=estimated,
                unpriced=True,
            )
        bill = charge(metered.usage, priced.rates, multiplier, metered.units)
        if metered.units and not (priced.rates.input or priced.rates.output):
            estimated = bool(
                legs
            )  # tokens were guessed, but pieces are paid for, and they were counted
        return Bill(
            amount=min(bill.amount + beside, MOST_NANO),
            detail={**bill.detail(), "price": _shown(priced), **({"legs": legs} if legs else {})},
            multiplier=multiplier,
            estimated=estimated,
        )

    def _leg(
        self,
        call: Errand,
        leg: HedgedLeg,
        offers: Mapping[str, tuple[ProviderSettings, ModelSettings]],
    ) -> dict[str, Any]:
        """A channel that was cut off: nobody tells what it charges, so what it was asked is paid for."""
        told: dict[str, Any] = {"provider": leg.provider, "channel": leg.channel, "charge": 0}
        if leg.provider not in offers:
            return told
        provider, row = offers[leg.provider]
        priced = self._price(call, provider, row, leg.channel, leg.upstream_model)
        if priced is None:
            return {**told, "unpriced": True}
        asked = call.metered(None)
        bill = charge(asked.usage, priced.rates, row.exact_multiplier(), asked.units)
        return {**told, "charge": bill.amount, **bill.detail(), "price": _shown(priced)}

    def _price(
        self,
        call: Errand,
        provider: ProviderSettings,
        row: ModelSettings,
        channel: str | None = None,
        upstream_model: str | None = None,
        service_tier: str | None = None,
    ) -> Priced | None:
        """The override for the name that was asked for, else the upstream model's row (D16)."""
        places = {c.id: c.base_url for c in channels_of(provider)}
        base_url = places.get(channel or "", next(iter(places.values()), None))
        for name in (call.requested_model, call.model):
            own = self.book.override(name)
            if own is not None:
                return own
        upstream = upstream_model or upstream_name(row, call.model)
        return self.book.rates(
            upstream,
            upstream,
            provider.type,
            base_url,
            now=self.clock.now(),
            service_tier=service_tier or call.service_tier,
        )


def _legs(call: Errand, provider: ProviderSettings) -> int:
    """How many channels may be asked at once."""
    asks = call.asks
    policy = (
        (asks.policy if asks is not None else None)
        or policy_of(provider.policy)
        or (asks.default_policy if asks is not None else None)
    )
    return policy.legs if policy is not None and policy.name == "hedged" else 1


def _is_estimate(metered: Metered | None) -> bool:
    return metered is not None and metered.estimated


def _shown(priced: Priced) -> dict[str, str]:
    return {"source": priced.source, "name": priced.name}
