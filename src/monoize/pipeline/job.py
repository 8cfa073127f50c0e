"""One operation on its way: what routing, admission and the attempts know of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from monoize.media.blob import Blob
from monoize.money.charge import MOST_NANO, charge
from monoize.money.meter import Meter, Metered
from monoize.money.rates import Rates
from monoize.operation import UnaryOperation
from monoize.pipeline.call import Incoming
from monoize.routing.survey import Wanted

__all__ = ["Job"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """An errand that is no chat."""

    incoming: Incoming
    operation: UnaryOperation[Any]
    payload: Any
    media: Mapping[str, Blob] = {}
    asks: Wanted  # what it needs and prefers, whoever has the model
    ceiling: Decimal | None = None
    dialect: str | None = None  # whose words the caller spoke; None: the envelope's

    @property
    def requested_model(self) -> str:
        return str(self.payload.model)

    @property
    def model(self) -> str:
        return str(self.payload.model)

    @property
    def wants_stream(self) -> bool:
        return False

    @property
    def service_tier(self) -> str | None:
        return None

    @property
    def effort(self) -> str | None:
        return None

    def wanted(self) -> Wanted:
        return msgspec.structs.replace(self.asks, model=self.model, ceiling=self.ceiling)

    def reserved(self, rates: Rates, multiplier: Decimal, output_cap: int) -> int:
        """Rounded up, so that nothing is reserved for free."""
        del output_cap
        usage, units = self.operation.expected(self.payload, self.media)
        amount = charge(usage, rates, multiplier, units).amount
        return min(amount + 1, MOST_NANO) if amount else 0

    def token_bound(self, output_cap: int) -> int:
        del output_cap
        usage, _ = self.operation.expected(self.payload, self.media)
        return usage.input_tokens + usage.output_tokens

    def metered(self, meter: Meter | None) -> Metered:
        """Nobody counted: what was expected, marked so."""
        del meter
        usage, units = self.operation.expected(self.payload, self.media)
        return Metered(usage=usage, units=units, estimated=True)
