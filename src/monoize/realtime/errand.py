"""A provider's session as routing, admission and the log see it: turn by turn."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec
from typing_extensions import override

from monoize.errors import MonoizeError
from monoize.money.charge import MOST_NANO, charge
from monoize.money.meter import Meter, Metered
from monoize.money.rates import Rates
from monoize.pipeline.admission import Ending, Ticket
from monoize.pipeline.call import Incoming, Trace
from monoize.pipeline.kit import Kit
from monoize.realtime.turns import Reservation
from monoize.routing.survey import Wanted
from monoize.urp import Usage

__all__ = ["TurnErrand", "TurnTicket", "Turnstile"]


class TurnErrand:
    """One response of a session. It begins when the provider does, not when it was reserved."""

    service_tier: str | None = None
    effort: str | None = None
    wants_stream = True

    def __init__(
        self, incoming: Incoming, asks: Wanted, ceiling: Decimal | None, expected: Usage
    ) -> None:
        self.incoming = incoming
        self.ceiling = ceiling
        self.asks = asks
        self._expected = expected

    @property
    def requested_model(self) -> str:
        return self.asks.model

    @property
    def model(self) -> str:
        return self.asks.model

    def wanted(self) -> Wanted:
        return msgspec.structs.replace(self.asks, ceiling=self.ceiling)

    def reserved(self, rates: Rates, multiplier: Decimal, output_cap: int) -> int:
        """As if it spoke as long as it may."""
        most = msgspec.structs.replace(
            self._expected, output_tokens=output_cap, audio_output=output_cap
        )
        amount = charge(most, rates, multiplier).amount
        return min(amount + 1, MOST_NANO) if amount else 0

    def token_bound(self, output_cap: int) -> int:
        return self._expected.input_tokens + output_cap

    def metered(self, meter: Meter | None) -> Metered:
        """Nobody counted, and nothing is known to have been used."""
        del meter
        return Metered(usage=Usage(), estimated=True)


class TurnTicket(Reservation):
    def __init__(self, errand: TurnErrand, ticket: Ticket, trace: Trace, kit: Kit) -> None:
        self.errand = errand
        self.ticket = ticket
        self._trace = trace
        self._kit = kit

    def serve(self, route: Trace) -> None:
        """Who holds the session is known now."""
        trace = self._trace
        trace.provider, trace.channel = route.provider, route.channel
        trace.upstream_model = route.upstream_model
        trace.tried, trace.asked = route.tried, route.asked

    @override
    def begin(self) -> None:
        now = self._kit.clock.monotonic()
        self._trace.attempts = 1
        self._trace.first_byte = now
        self.errand.incoming = msgspec.structs.replace(self.errand.incoming, started=now)

    @override
    async def settle(
        self,
        status: Literal["success", "error", "cancelled"],
        usage: Usage | None = None,
        *,
        estimated: bool = False,
        error: MonoizeError | None = None,
    ) -> None:
        metered = None if usage is None else Metered(usage=usage, estimated=estimated)
        await self.ticket.settle(Ending(status=status, metered=metered, error=error))


class Turnstile:
    """Lets the turns of one session in, one after the other; each has an id of its own in ledger and log."""

    def __init__(self, incoming: Incoming, asks: Wanted, ceiling: Decimal | None, kit: Kit) -> None:
        self._incoming = incoming
        self._asks = asks
        self._ceiling = ceiling
        self._kit = kit
        self._route: Trace | None = None

    def serve(self, route: Trace) -> None:
        """The provider that all further turns are with."""
        self._route = Trace(
            provider=route.provider, channel=route.channel, upstream_model=route.upstream_model
        )

    async def open(self, expected: Usage) -> TurnTicket:
        """Raises Forbidden, RateLimited, BudgetExceeded or DatabaseAway."""
        kit = self._kit
        incoming = self._incoming
        if self._route is not None:
            incoming = msgspec.structs.replace(
                incoming, request_id=kit.ids.new("req_"), started=kit.clock.monotonic()
            )
        errand = TurnErrand(incoming, self._asks, self._ceiling, expected)
        trace = Trace()
        try:
            ticket = await kit.admission.admit(errand, trace)
        except MonoizeError as error:
            kit.admission.refused(incoming, error)
            raise
        turn = TurnTicket(errand, ticket, trace, kit)
        if self._route is not None:
            turn.serve(self._route)
        return turn
