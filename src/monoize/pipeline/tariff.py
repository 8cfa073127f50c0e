"""What a call may cost before it is sent, and what it did cost: prices of those who may be asked, and who was."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec

from monoize.clock import Clock
from monoize.errors import Forbidden
from monoize.money.book import PRICED_SECONDS, PriceBook, Priced
from monoize.money.charge import MOST_NANO, charge
from monoize.money.meter import Metered
from monoize.pipeline.call import Errand, HedgedLeg, Trace
from monoize.routing.catalog import Catalog, Terms
from monoize.routing.policy import policy_of
from monoize.routing.survey import objection
from monoize.settings import ProviderSettings

__all__ = ["Bill", "Tariff"]

# Who asked for which name at which provider and channel, its name there, and the tier of service.
_Question: TypeAlias = tuple[str, str, str, str | None, str, str | None]
_KNOWN = 4096  # answers at a time
_LONGEST_QUESTION = 1024  # letters: callers may choose the names


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
    # What was found at some minute: prices change between minutes, and the book never does.
    known: dict[_Question, tuple[float, Priced | None]] = {}

    def reserved(self, call: Errand) -> int:
        """The most that any provider that may be asked would cost; unpriced ones only for keys without a budget (D16)."""
        asks, ceiling, most = call.asks, call.ceiling, 0
        held: dict[tuple[int, Decimal], int] = {}  # many providers have one price
        for terms in self.catalog.listing(call.model).terms:
            provider, multiplier = terms.provider, terms.multiplier
            if asks is not None and objection(asks, provider.id, terms.capabilities) is not None:
                continue  # it will not be asked, so its price is no matter
            if ceiling is not None and multiplier > ceiling:
                continue
            priced = self._price(call, terms)
            if priced is None:
                _refuse_unpriced(call, provider)
                continue
            price = id(priced.rates), multiplier
            if price not in held:
                held[price] = call.reserved(priced.rates, multiplier, self.output_cap)
            most = max(most, held[price] * _legs(call, provider))
        return min(most, MOST_NANO)

    def billed(self, call: Errand, trace: Trace, metered: Metered | None) -> Bill:
        """None: it cost nothing."""
        offers = self.catalog.listing(call.model).by_provider
        terms = offers.get(trace.provider or "")
        if metered is None or terms is None:
            return Bill(unpriced=metered is not None, estimated=_is_estimate(metered))
        priced = self._price(call, terms, trace.channel, trace.upstream_model, metered.service_tier)
        legs = [self._leg(call, leg, offers) for leg in trace.legs] if trace.legs else []
        beside = sum(leg["charge"] for leg in legs) if legs else 0
        estimated = metered.estimated or bool(legs)
        if priced is None:
            return Bill(
                amount=min(beside, MOST_NANO),
                detail={"legs": legs} if legs else None,
                multiplier=terms.multiplier,
                estimated=estimated,
                unpriced=True,
            )
        bill = charge(metered.usage, priced.rates, terms.multiplier, metered.units)
        if metered.units and not (priced.rates.input or priced.rates.output):
            estimated = bool(
                legs
            )  # tokens were guessed, but pieces are paid for, and they were counted
        detail = bill.detail()
        detail["price"] = _shown(priced)
        if legs:
            detail["legs"] = legs
        return Bill(
            amount=min(bill.amount + beside, MOST_NANO),
            detail=detail,
            multiplier=terms.multiplier,
            estimated=estimated,
        )

    def _leg(self, call: Errand, leg: HedgedLeg, offers: Mapping[str, Terms]) -> dict[str, Any]:
        """A channel that was cut off: nobody tells what it charges, so what it was asked is paid for."""
        told: dict[str, Any] = {"provider": leg.provider, "channel": leg.channel, "charge": 0}
        terms = offers.get(leg.provider)
        if terms is None:
            return told
        priced = self._price(call, terms, leg.channel, leg.upstream_model)
        if priced is None:
            return {**told, "unpriced": True}
        asked = call.metered(None)
        bill = charge(asked.usage, priced.rates, terms.multiplier, asked.units)
        return {**told, "charge": bill.amount, **bill.detail(), "price": _shown(priced)}

    def _price(
        self,
        call: Errand,
        terms: Terms,
        channel: str | None = None,
        upstream_model: str | None = None,
        service_tier: str | None = None,
    ) -> Priced | None:
        now, tier = self.clock.now(), service_tier or call.service_tier
        upstream = upstream_model or terms.upstream_model
        question = (call.requested_model, call.model, terms.provider.id, channel, upstream, tier)
        minute = now // PRICED_SECONDS
        known = self.known.get(question)
        if known is not None and known[0] == minute:
            return known[1]
        found = self._looked_up(call, terms, channel, upstream, tier)
        self._remember(question, minute, found)
        return found

    def _looked_up(
        self, call: Errand, terms: Terms, channel: str | None, upstream: str, tier: str | None
    ) -> Priced | None:
        """The override for the name that was asked for, else the upstream model's row (D16)."""
        for name in (call.requested_model, call.model):
            own = self.book.override(name)
            if own is not None:
                return own
        places = {c.channel.id: c.channel.base_url for c in terms.candidates}
        base_url = places.get(channel or "", next(iter(places.values()), None))
        return self.book.rates(
            upstream,
            upstream,
            terms.provider.type,
            base_url,
            now=self.clock.now(),
            service_tier=tier,
        )

    def _remember(self, question: _Question, minute: float, found: Priced | None) -> None:
        if sum(len(word) for word in question if word is not None) > _LONGEST_QUESTION:
            return
        if len(self.known) >= _KNOWN:
            self.known.clear()
        self.known[question] = minute, found


def _refuse_unpriced(call: Errand, provider: ProviderSettings) -> None:
    caller = call.incoming.caller
    if caller.policy.budgets or caller.prepaid:
        raise Forbidden(
            f"the model {call.requested_model!r} has no price at {provider.id}, and this key has a budget",
            param="model",
            code="model_not_priced",
        )


def _legs(call: Errand, provider: ProviderSettings) -> int:
    """How many channels may be asked at once."""
    policy, asks = policy_of(provider.policy), call.asks
    if asks is not None:
        policy = asks.policy or policy or asks.default_policy
    return policy.legs if policy is not None and policy.name == "hedged" else 1


def _is_estimate(metered: Metered | None) -> bool:
    return metered is not None and metered.estimated


def _shown(priced: Priced) -> dict[str, str]:
    return {"source": priced.source, "name": priced.name}
