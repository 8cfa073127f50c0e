"""The money of a provider's session: a reservation is open before any response may start, and each is settled by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from monoize.errors import MonoizeError, UpstreamFailed
from monoize.realtime.gauge import Gauge, usage_of
from monoize.urp import Usage

__all__ = ["OpenTurn", "Reservation", "Turns"]


class Reservation(Protocol):
    """For one response."""

    def begin(self) -> None:
        """The provider works on it from now on."""

    async def settle(
        self,
        status: Literal["success", "error", "cancelled"],
        usage: Usage | None = None,
        *,
        estimated: bool = False,
        error: MonoizeError | None = None,
    ) -> None:
        """Returns when the charge is safe. What never began costs nothing."""


OpenTurn = Callable[[Usage], Awaitable[Reservation]]  # by what it may read; raises what refuses it


class Turns:
    """`spare` is the reservation for the next response. While there is none, nothing may reach the provider."""

    def __init__(self, gauge: Gauge, open_turn: OpenTurn, first: Reservation) -> None:
        self._gauge = gauge
        self._open = open_turn
        self._spare: Reservation | None = first
        self._active: dict[str, Reservation] = {}
        self._ready = asyncio.Event()
        self._ready.set()

    async def ready(self) -> None:
        """Until the next response is covered."""
        await self._ready.wait()

    async def began(self, response_id: str) -> None:
        """Several may run at a time, beside the conversation; each needs its own. Raises what refuses it."""
        if response_id in self._active:
            return
        if self._spare is None:
            self._spare = await self._open(self._gauge.expected())
        turn, self._spare = self._spare, None
        turn.begin()
        self._active[response_id] = turn

    async def ended(self, response: Mapping[str, Any]) -> None:
        """Settled before the caller hears of it; `renew` comes after."""
        response_id = str(response.get("id"))
        usage = usage_of(response.get("usage"))
        await self.began(response_id)  # a provider may have left out its beginning
        turn = self._active.pop(response_id)
        self._ready.clear()
        match response.get("status"):
            case "failed" if usage is None:
                await turn.settle("error", error=_failure(response))
            case "cancelled" if usage is None:
                estimate = self._gauge.estimate(response_id)
                await turn.settle("cancelled", estimate, estimated=True)
            case "cancelled":
                await turn.settle("cancelled", usage)
            case _ if usage is None:
                estimate = self._gauge.estimate(response_id)
                await turn.settle("success", estimate, estimated=True)
            case _:
                await turn.settle("success", usage)
        self._gauge.ended(response_id, usage)

    async def renew(self) -> None:
        """The reservation for the next response. Raises what refuses it."""
        if self._spare is None:
            self._spare = await self._open(self._gauge.expected())
        self._ready.set()

    async def close(self, error: MonoizeError | None = None) -> None:
        """The session is over. What the provider was still working on is charged, unless it is to blame."""
        active, self._active = self._active, {}
        spare, self._spare = self._spare, None
        for response_id, turn in active.items():
            if error is not None:
                await turn.settle("error", error=error)
            else:
                estimate = self._gauge.estimate(response_id)
                await turn.settle("cancelled", estimate, estimated=True)
        if spare is not None:
            await spare.settle("cancelled" if error is None else "error", error=error)


def _failure(response: Mapping[str, Any]) -> MonoizeError:
    details = response.get("status_details")
    error = details.get("error") if isinstance(details, Mapping) else None
    told = error.get("message") if isinstance(error, Mapping) else None
    return UpstreamFailed(str(told or "the provider's response failed"))
