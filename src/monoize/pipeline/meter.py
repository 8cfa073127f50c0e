"""Contract of metering: a call is admitted before anything is sent, and settled before its last byte leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import msgspec
from typing_extensions import override

from monoize.errors import MonoizeError
from monoize.pipeline.call import Call, Trace
from monoize.urp import Usage

__all__ = ["Ending", "Meter", "Ticket", "Unmetered"]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, as far as money and the log are concerned."""

    status: Literal["success", "error", "cancelled"]
    usage: Usage | None = None  # as the provider counted
    produced: int = (
        0  # characters that came from the provider, for an estimate where it did not count
    )
    error: MonoizeError | None = None


class Ticket(ABC):
    """One admitted call. Whoever got it settles it, in every case; the first time counts."""

    headers: Mapping[str, str] = {}  # what the caller is told about its limits

    @abstractmethod
    async def settle(self, ending: Ending) -> None:
        """Returns when the charge is safe; never raises because of the store."""


class Meter(ABC):
    @abstractmethod
    async def admit(self, call: Call, trace: Trace) -> Ticket:
        """Raises Forbidden, RateLimited, BudgetExceeded or DatabaseAway."""


class _FreeTicket(Ticket):
    @override
    async def settle(self, ending: Ending) -> None:
        return


class Unmetered(Meter):
    """Everybody may call and nobody pays: dry runs, probes, tests."""

    @override
    async def admit(self, call: Call, trace: Trace) -> Ticket:
        return _FreeTicket()
