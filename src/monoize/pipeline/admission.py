"""Contract of admission: a call is let in before anything is sent, and settled before its last byte leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import msgspec
from typing_extensions import override

from monoize.errors import MonoizeError
from monoize.money.meter import Meter, Metered
from monoize.pipeline.call import Errand, Incoming, Trace

__all__ = ["Admission", "Ending", "OpenDoor", "Ticket"]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, as far as money and the log are concerned."""

    status: Literal["success", "error", "cancelled"]
    meter: Meter | None = None  # what came from the provider
    metered: Metered | None = None  # the same, where it has been added up already
    error: MonoizeError | None = None


class Ticket(ABC):
    """One admitted call. Whoever got it settles it, in every case; the first time counts."""

    __slots__ = ()

    headers: Mapping[str, str] = {}  # what the caller is told about its limits
    captures: bool = False  # whether `keep` wants to know what the caller was sent

    @abstractmethod
    async def settle(self, ending: Ending) -> None:
        """Returns when the charge is safe; never raises because of the store."""

    def keep(self, reply: bytes) -> None:  # noqa: B027 - most keep nothing
        """What the caller was sent, after the end."""


class Admission(ABC):
    @property
    def wants_reports(self) -> bool:
        """Whether a call's trace should tell of each attempt with its time (`Trace.asked`)."""
        return True

    @abstractmethod
    async def admit(self, call: Errand, trace: Trace) -> Ticket:
        """Raises Forbidden, RateLimited, BudgetExceeded or DatabaseAway."""

    def refused(self, incoming: Incoming, error: MonoizeError) -> None:  # noqa: B027 - may be nobody's affair
        """A call that was never admitted, for the log."""


class _FreeTicket(Ticket):
    @override
    async def settle(self, ending: Ending) -> None:
        return


class OpenDoor(Admission):
    """Everybody may call and nobody pays: for tests, and for tools without a store."""

    @override
    async def admit(self, call: Errand, trace: Trace) -> Ticket:
        return _FreeTicket()
