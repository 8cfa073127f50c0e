"""What a call may cost before it is sent, and what it did cost: prices of those who may be asked, and who was."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec

from monoize.clock import Clock
from monoize.errors import Forbidden
from monoize.money.book import PRICED_SECONDS, PriceBook, Priced
from monoize.money.charge import MOST_NANO, NO_UNITS, charge
from monoize.money.classes import plain
from monoize.money.meter import Metered
from monoize.money.quote import Quote, quoted
from monoize.pipeline.call import Errand, HedgedLeg, Trace
from monoize.routing.catalog import Catalog, Terms
from monoize.routing.policy import policy_of
from monoize.routing.survey import objection
from monoize.settings import ProviderSettings

__all__ = ["Bill", "Tariff"]

# Which provider and model, the name that was asked for, channel and name there, and the tier of service.
_Question: TypeAlias = tuple[Terms, str, str | None, str | None, str | None]
_KNOWN = 4096  # answers at a time
_LONGEST_QUESTION = 512  # letters: callers may choose the names


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    amount: int = 0  # nano-USD
    detail: Mapping[str, Any] | msgspec.Raw | None = None  # JSON
    multiplier: str = "1"  # an exact decimal
    estimated: bool = False
    unpriced: bool = False


class Tariff(msgspec.Struct, frozen=True, kw_only=True):
    """Of one configuration."""

    clock: Clock
    catalog: Catalog
    book: PriceBook
    output_cap: int  # tokens that are reserved for an answer at most
    # What was found at some minute: prices change between minutes, and the book never does.
    known: dict[_Question, tuple[float, Quote | None]] = {}

    def reserved(self, call: Errand) -> int:
        """The most that any provider that may be asked would cost; unpriced ones only for keys without a budget (D16)."""
        offers = self.catalog.listing(call.model).terms
        if len(offers) == 1 and call.ceiling is None and call.asks is None:  # as of most models
            terms = offers[0]
            quote = self._quote(call, terms)
            if quote is not None and terms.provider.policy is None:
                return min(call.reserved(quote.rates, quote.multiplier, self.output_cap), MOST_NANO)
        return self._most(call, offers)

    def _most(self, call: Errand, offers: tuple[Terms, ...]) -> int:
        asks, ceiling, most = call.asks, call.ceiling, 0
        held: dict[tuple[int, Decimal], int] = {}  # many providers have one price
        for terms in offers:
            provider, multiplier = terms.provider, terms.multiplier
            if asks is not None and objection(asks, provider.id, terms.capabilities) is not None:
                continue  # it will not be asked, so its price is no matter
            if ceiling is not None and multiplier > ceiling:
                continue
            quote = self._quote(call, terms)
            if quote is None:
                _refuse_unpriced(call, provider)
                continue
            price = id(quote.rates), multiplier
            if price not in held:
                held[price] = call.reserved(quote.rates, multiplier, self.output_cap)
            most = max(most, held[price] * _legs(call, provider))
        return min(most, MOST_NANO)

    def billed(self, call: Errand, trace: Trace, metered: Metered | None) -> Bill:
        """None: it cost nothing."""
        offers = self.catalog.listing(call.model).by_provider
        terms = offers.get(trace.provider or "")
        if metered is None or terms is None:
            return Bill(unpriced=metered is not None, estimated=_is_estimate(metered))
        quote = self._quote(call, terms, trace.channel, trace.upstream_model, metered.service_tier)
        if quote is not None and metered.units is NO_UNITS and not trace.legs:
            counts = metered.plain or plain(metered.usage)
            charged = None if counts is None else quote.charged(counts)
            if charged is not None:  # as of nearly every chat
                amount, detail = charged
                return Bill(
                    amount=amount,
                    detail=detail,
                    multiplier=quote.factor,
                    estimated=metered.estimated,
                )
        legs = [self._leg(call, leg, offers) for leg in trace.legs]
        return _bill(metered, quote, str(terms.multiplier), legs)

    def _leg(self, call: Errand, leg: HedgedLeg, offers: Mapping[str, Terms]) -> dict[str, Any]:
        """A channel that was cut off: nobody tells what it charges, so what it was asked is paid for."""
        told: dict[str, Any] = {"provider": leg.provider, "channel": leg.channel, "charge": 0}
        terms = offers.get(leg.provider)
        if terms is None:
            return told
        quote = self._quote(call, terms, leg.channel, leg.upstream_model)
        if quote is None:
            return {**told, "unpriced": True}
        asked = call.metered(None)
        bill = charge(asked.usage, quote.rates, quote.multiplier, asked.units)
        return {**told, "charge": bill.amount, **bill.detail(), "price": quote.named}

    def _quote(
        self,
        call: Errand,
        terms: Terms,
        channel: str | None = None,
        upstream_model: str | None = None,
        service_tier: str | None = None,
    ) -> Quote | None:
        """None: unpriced."""
        tier = service_tier or call.service_tier
        question = (terms, call.requested_model, channel, upstream_model, tier)
        minute = self.clock.now() // PRICED_SECONDS
        known = self.known.get(question)
        if known is not None and known[0] == minute:
            return known[1]
        priced = self._looked_up(call, terms, channel, upstream_model or terms.upstream_model, tier)
        quote = None if priced is None else quoted(priced, terms.multiplier)
        self._remember(call, question, minute, quote)
        return quote

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

    def _remember(
        self, call: Errand, question: _Question, minute: float, found: Quote | None
    ) -> None:
        words = (call.model, *question[1:])
        if sum(len(word) for word in words if word is not None) > _LONGEST_QUESTION:
            return
        if len(self.known) >= _KNOWN:
            self.known.clear()
        self.known[question] = minute, found


def _bill(
    metered: Metered, quote: Quote | None, multiplier: str, legs: list[dict[str, Any]]
) -> Bill:
    """Of anything that was used, and of those that were asked in vain."""
    beside = sum(leg["charge"] for leg in legs)
    estimated = metered.estimated or bool(legs)
    if quote is None:
        return Bill(
            amount=min(beside, MOST_NANO),
            detail={"legs": legs} if legs else None,
            multiplier=multiplier,
            estimated=estimated,
            unpriced=True,
        )
    rates = quote.rates
    bill = charge(metered.usage, rates, quote.multiplier, metered.units)
    if metered.units and not (rates.input or rates.output):
        estimated = bool(
            legs
        )  # tokens were guessed, but pieces are paid for, and they were counted
    detail = bill.detail()
    detail["price"] = quote.named
    if legs:
        detail["legs"] = legs
    return Bill(
        amount=min(bill.amount + beside, MOST_NANO),
        detail=detail,
        multiplier=multiplier,
        estimated=estimated,
    )


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
