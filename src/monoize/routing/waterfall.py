"""Who is asked next, given what happened so far: providers in order, channels by weight (ROUT-1 to ROUT-7)."""

from __future__ import annotations

import msgspec

from monoize.clock import Dice
from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Breaker, Outcome, Permit
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Candidate, Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.survey import (
    Offer,
    Wanted,
    health_objection,
    looked_at,
    offered,
    provider_objection,
    surveyed,
    whole_provider,
)
from monoize.routing.verdict import Verdict
from monoize.settings import ModelSettings, ProviderSettings

__all__ = ["Offer", "Tried", "Turn", "Wanted", "Waterfall", "drawn", "surveyed"]


class Turn(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One attempt to make. Whoever makes it settles the permit, before asking for the next turn."""

    candidate: Candidate
    permit: Permit
    repeat: bool = False
    last_resort: bool = False


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    channel: str
    message: str
    status: int | None = None


class _Seat(msgspec.Struct, frozen=True, eq=False):
    """A channel in the running, and its breaker."""

    candidate: Candidate
    breaker: Breaker


class _Round(msgspec.Struct, kw_only=True):
    """One provider's turn: who was not asked yet, and who may be asked again."""

    favourite: str | None  # the channel that knows the conversation
    untried: list[_Seat]
    firsts_left: int  # ROUT-4, counted when the provider was entered
    rounds_left: int  # of repeats
    failed: list[_Seat] = []  # in this round of repeats still to come
    failed_again: list[_Seat] = []  # for the next one


class Waterfall:
    """The way of one request. It counts as a request in flight from the first `next` until `release`."""

    def __init__(
        self,
        wanted: Wanted,
        catalog: Catalog,
        board: HealthBoard,
        budget: RetryBudget,
        affinity: Affinity,
        dice: Dice,
    ) -> None:
        self.tried: list[Tried] = []
        self.passed: list[Offer] = []
        self._wanted = wanted
        self._board = board
        self._budget = budget
        self._affinity = affinity
        self._dice = dice
        self._offers = catalog.offers(wanted.model)
        self._round: _Round | None = None
        self._seat: _Seat | None = None  # of the turn that was given last
        self._closed: list[_Seat] = []  # would be asked, were they eligible: for the last resort
        self._conversation: str | None = None
        self._turns = 0
        self._repeats_held = 0
        self._is_inside = False
        self._over = False

    def next(self, now: float) -> Turn | None:
        """The next attempt, its place reserved; None: nobody is left."""
        if self._over:
            return None
        if not self._is_inside:
            self._is_inside = True
            self._budget.enter()
        turn = self._next_in_order(now) or self._last_resort(now)
        self._over = turn is None
        self._turns += turn is not None
        return turn

    def failed(self, turn: Turn, verdict: Verdict, message: str) -> None:
        candidate = turn.candidate
        self.tried.append(
            Tried(
                provider=candidate.provider.id,
                channel=candidate.channel.id,
                message=message,
                status=verdict.status,
            )
        )
        if turn.repeat:
            self._give_back_repeats()
        if not verdict.advances:  # ROUT-6
            self._over = True
        elif verdict.skips_provider:
            self._round = None
            self._turns -= 1  # nothing was sent: somebody unhealthy may still be the last resort
            self._closed = [
                seat for seat in self._closed if seat.candidate.provider is not candidate.provider
            ]
        elif verdict.outcome is Outcome.FAILURE and self._round and self._seat:
            self._round.failed_again.append(self._seat)

    def free_in(self, now: float) -> float | None:
        """Seconds until the first of those that were closed may be asked again; None: nobody was."""
        moments = [seat.breaker.free_at(now) for seat in self._closed]
        return max(0.0, min(moments) - now) if moments else None

    def succeeded(self, turn: Turn, now: float, follow_up: str | None = None) -> None:
        """`follow_up`: another key under which the next turn may ask (see affinity.follow_up)."""
        self._over = True
        provider, channel = turn.candidate.provider, turn.candidate.channel
        self._board.note_success(provider.id, self._wanted.model)
        settings = provider.affinity
        if settings is None:
            return
        for key in (self._conversation_key(), follow_up):
            if key is not None:
                self._affinity.remember(settings, provider.id, key, channel.id, now)

    def release(self) -> None:
        """The request is over, whatever became of it; may be called twice."""
        self._over = True
        self._give_back_repeats()
        if self._is_inside:
            self._is_inside = False
            self._budget.leave()

    # --- inside ---

    def _next_in_order(self, now: float) -> Turn | None:
        while True:
            if self._round is not None:
                turn = self._first(self._round, now) or self._repeat(self._round, now)
                if turn is not None:
                    return turn
            offer = next(self._offers, None)  # ROUT-7
            if offer is None:
                return None
            self._round = self._entered(*offer, now)

    def _entered(self, provider: ProviderSettings, row: ModelSettings, now: float) -> _Round | None:
        objection = provider_objection(provider, row, self._wanted.ceiling)
        if objection is not None:
            self.passed.append(whole_provider(provider, row, self._wanted.model, objection))
            return None
        untried: list[_Seat] = []
        for candidate, breaker, reason in looked_at(
            provider, row, self._wanted.model, self._board, now
        ):
            if reason is not None:
                self.passed.append(offered(candidate, reason))
            if breaker is not None:
                seats = untried if reason is None else self._closed
                seats.append(_Seat(candidate, breaker))
        if not untried:
            return None
        retries = provider.max_retries
        return _Round(
            favourite=self._favourite(provider, now),
            untried=untried,
            firsts_left=len(untried) if retries < 0 else min(retries + 1, len(untried)),
            rounds_left=provider.channel_retries,
        )

    def _favourite(self, provider: ProviderSettings, now: float) -> str | None:
        key = self._conversation_key() if provider.affinity is not None else None
        if provider.affinity is None or key is None:
            return None
        return self._affinity.remembered(provider.affinity, provider.id, key, now)

    def _conversation_key(self) -> str | None:
        if self._conversation is None and self._wanted.conversation is not None:
            self._conversation = self._wanted.conversation()
        return self._conversation

    def _first(self, round_: _Round, now: float) -> Turn | None:
        """An untried channel that is eligible now: the conversation's own, else drawn by weight."""
        if round_.firsts_left <= 0:
            return None
        ready = [seat for seat in round_.untried if seat.breaker.eligible(now)]
        if not ready:
            for seat in round_.untried:  # they were eligible when the provider was entered
                self._pass_over(seat, now)
            round_.untried = []
            return None
        seat = self._chosen(ready, round_.favourite)
        round_.untried.remove(seat)
        round_.firsts_left -= 1
        return self._turn(seat, now)

    def _chosen(self, seats: list[_Seat], favourite: str | None) -> _Seat:
        for seat in seats:
            if seat.candidate.channel.id == favourite:
                return seat
        return seats[drawn([seat.candidate.channel.weight for seat in seats], self._dice)]

    def _repeat(self, round_: _Round, now: float) -> Turn | None:
        """A channel that failed and may do better now, as far as the budget goes (D9)."""
        while round_.failed or (round_.failed_again and round_.rounds_left > 0):
            if not round_.failed:
                round_.rounds_left -= 1
                round_.failed, round_.failed_again = round_.failed_again, []
            seat = round_.failed.pop(0)
            if not seat.breaker.eligible(now):
                self._pass_over(seat, now)
            elif self._budget.take():
                self._repeats_held += 1
                return self._turn(seat, now, repeat=True)
        return None

    def _pass_over(self, seat: _Seat, now: float) -> None:
        self.passed.append(offered(seat.candidate, health_objection(seat.breaker, now)))

    def _turn(self, seat: _Seat, now: float, *, repeat: bool = False) -> Turn:
        self._seat = seat
        return Turn(candidate=seat.candidate, permit=seat.breaker.admit(now), repeat=repeat)

    def _last_resort(self, now: float) -> Turn | None:
        """Everybody is unhealthy: one try at whoever comes back first, its state left as it is (D11)."""
        free = [seat for seat in self._closed if seat.breaker.takes_last_resort]
        if self._turns or not free:
            return None
        self._round = None
        self._seat = min(free, key=lambda seat: seat.breaker.free_at(now))
        permit = self._seat.breaker.last_resort()
        return Turn(candidate=self._seat.candidate, permit=permit, last_resort=True)

    def _give_back_repeats(self) -> None:
        for _ in range(self._repeats_held):
            self._budget.give()
        self._repeats_held = 0


def drawn(weights: list[int], dice: Dice) -> int:
    """The index of one weight, each with a chance as large as its share (ROUT-3)."""
    if len(weights) == 1:
        return 0
    point = dice.roll() * sum(weights)
    for index, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return index
    return len(weights) - 1
