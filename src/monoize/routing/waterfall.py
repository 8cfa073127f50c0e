"""Who is asked next, given what happened so far: providers in order, channels by policy (ROUT-1 to ROUT-7)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from monoize.clock import Dice
from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Breaker, Outcome, Permit
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Candidate, Catalog, Terms
from monoize.routing.health import HealthBoard
from monoize.routing.policy import BY_WEIGHT, LoadBoard, Scope, chosen, drawn, policy_of
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
from monoize.settings import PolicySettings, ProviderSettings

__all__ = ["Offer", "Tried", "Turn", "Wanted", "Waterfall", "drawn", "surveyed"]


class _Seat(msgspec.Struct, frozen=True, eq=False):
    """A channel in the running, and its breaker."""

    candidate: Candidate
    breaker: Breaker


class Turn(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One attempt to make. Whoever makes it settles the permit, before asking for the next turn."""

    candidate: Candidate
    permit: Permit
    seat: _Seat
    repeat: bool = False
    last_resort: bool = False
    hedge: PolicySettings | None = None  # more legs may be asked beside it: see Waterfall.leg


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    channel: str
    message: str
    status: int | None = None


class _Round(msgspec.Struct, kw_only=True):
    """One provider's turn, or a whole pool's: who was not asked yet, and who may be asked again."""

    policy: PolicySettings
    scope: Scope
    favourites: dict[str, str]  # by provider: the channel that knows the conversation
    untried: list[_Seat]
    firsts_left: dict[str, int]  # by provider (ROUT-4), counted when it was entered
    repeats: int = 0  # how many rounds of them have begun
    failed: list[_Seat] = []  # in this round of repeats still to come
    failed_again: list[_Seat] = []  # for the next one

    def drop(self, provider: ProviderSettings) -> None:
        self.untried = _without(provider, self.untried)
        self.failed = _without(provider, self.failed)
        self.failed_again = _without(provider, self.failed_again)


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
        load: LoadBoard | None = None,
    ) -> None:
        """`load`: what policies remember from one request to the next; without one they begin anew."""
        self.tried: list[Tried] = []
        self.passed: list[Offer] = []
        self._wanted = wanted
        self._board = board
        self._budget = budget
        self._affinity = affinity
        self._dice = dice
        self._load = LoadBoard() if load is None else load
        self._unasked = catalog.listing(wanted.model).terms  # for whom no round has begun
        self._groups: Iterator[tuple[Terms, ...]] | None = None  # from the first round on
        self._straight: Terms | None = None  # whose round was not needed so far
        self._round: _Round | None = None
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
        turn = None
        if not self._is_inside:
            self._is_inside = True
            self._budget.enter()
            turn = self._only_choice(now)
        turn = turn or self._next_in_order(now) or self._last_resort(now)
        self._over = turn is None
        self._turns += turn is not None
        return turn

    def go_on_after(self, terms: Terms, permit: Permit) -> Turn:
        """Instead of the first `next`: the first provider's only channel was asked without us (see Shortcut)."""
        self._is_inside = True
        self._budget.enter()
        self._turns = 1
        self._straight, self._unasked = terms, self._unasked[1:]
        candidate = terms.candidates[0]
        return Turn(candidate=candidate, permit=permit, seat=_Seat(candidate, permit.breaker))

    def leg(self, now: float) -> Turn | None:
        """One more channel beside those that are being asked: untried, and of the same provider or pool."""
        round_ = self._round
        if self._over or round_ is None or round_.policy.name != "hedged":
            return None
        turn = self._first(round_, now)
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
        if self._straight is not None:
            self._round, self._straight = self._spent(self._straight), None
        if not verdict.advances:  # ROUT-6
            self._over = True
        elif verdict.skips_provider:
            if self._round is not None:
                self._round.drop(candidate.provider)
            self._turns -= 1  # nothing was sent: somebody unhealthy may still be the last resort
            self._closed = _without(candidate.provider, self._closed)
        elif verdict.outcome is Outcome.FAILURE and self._round is not None:
            self._round.failed_again.append(turn.seat)

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

    def _only_choice(self, now: float) -> Turn | None:
        """The first provider's only channel, where it is well: most requests need nothing more.

        The turn is the one that a round would give; the round itself is made when the channel has failed (`_spent`).
        """
        wanted = self._wanted
        if wanted.pool or wanted.preferred or not self._unasked:
            return None
        terms = self._unasked[0]
        candidate = terms.candidates[0]
        channel = candidate.channel
        if (
            len(terms.candidates) > 1
            or not channel.enabled
            or channel.weight <= 0
            or self._policy((terms,)).name == "hedged"
            or provider_objection(terms, wanted) is not None
        ):
            return None
        breaker = self._board.breaker(terms.provider, channel, terms.upstream_model)
        if not breaker.eligible(now):
            return None
        self._straight = terms
        self._unasked = self._unasked[1:]
        return self._turn(_Seat(candidate, breaker), now)

    def _spent(self, terms: Terms) -> _Round:
        """The round of a provider whose only channel has been asked."""
        group = (terms,)
        return _Round(
            policy=self._policy(group),
            scope=_scope(self._wanted, group),
            favourites={},
            untried=[],
            firsts_left={terms.provider.id: 0},
        )

    def _next_in_order(self, now: float) -> Turn | None:
        if self._groups is None:
            self._groups = _grouped(self._wanted, self._unasked)
        while True:
            if self._round is not None:
                turn = self._first(self._round, now) or self._repeat(self._round, now)
                if turn is not None:
                    return turn
            group = next(self._groups, None)  # ROUT-7
            if group is None:
                return None
            self._round = self._entered(group, now)

    def _entered(self, group: tuple[Terms, ...], now: float) -> _Round | None:
        untried: list[_Seat] = []
        favourites: dict[str, str] = {}
        firsts_left: dict[str, int] = {}
        for terms in group:
            against = provider_objection(terms, self._wanted)
            if against is not None:
                self.passed.append(whole_provider(terms, against.reason))
                continue
            seats = self._seated(terms, now)
            if not seats:
                continue
            untried += seats
            provider = terms.provider
            retries = provider.max_retries
            firsts_left[provider.id] = len(seats) if retries < 0 else min(retries + 1, len(seats))
            favourite = self._favourite(provider, now)
            if favourite is not None:
                favourites[provider.id] = favourite
        if not untried:
            return None
        return _Round(
            policy=self._policy(group),
            scope=_scope(self._wanted, group),
            favourites=favourites,
            untried=untried,
            firsts_left=firsts_left,
        )

    def _seated(self, terms: Terms, now: float) -> list[_Seat]:
        """The channels that may be asked now; what speaks against the others is noted."""
        eligible: list[_Seat] = []
        for candidate, breaker, reason in looked_at(terms, self._board, now):
            if reason is not None:
                self.passed.append(offered(candidate, reason))
            if breaker is not None:
                seats = eligible if reason is None else self._closed
                seats.append(_Seat(candidate, breaker))
        return eligible

    def _policy(self, group: tuple[Terms, ...]) -> PolicySettings:
        """The request's, else the provider's own, else the operation's; a pool is nobody's own."""
        wanted = self._wanted
        own = None if wanted.pool else policy_of(group[0].provider.policy)
        return wanted.policy or own or wanted.default_policy or BY_WEIGHT

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
        """An untried channel that is eligible now: the conversation's own, else whom the policy chooses."""
        left = round_.firsts_left
        ready = [
            seat
            for seat in round_.untried
            if seat.breaker.eligible(now) and left[seat.candidate.provider.id] > 0
        ]
        if not ready:
            self._give_up_firsts(round_, now)
            return None
        seat = self._chosen(round_, ready, now)
        round_.untried.remove(seat)
        left[seat.candidate.provider.id] -= 1
        hedge = round_.policy if round_.policy.name == "hedged" else None
        return self._turn(seat, now, hedge=hedge)

    def _give_up_firsts(self, round_: _Round, now: float) -> None:
        """Those that may still be asked were eligible when the provider was entered, and are so no more."""
        for seat in [*round_.untried]:
            if round_.firsts_left[seat.candidate.provider.id] > 0:
                self._pass_over(seat, now)
                round_.untried.remove(seat)

    def _chosen(self, round_: _Round, seats: list[_Seat], now: float) -> _Seat:
        if round_.favourites:
            for seat in seats:
                home = round_.favourites.get(seat.candidate.provider.id)
                if seat.candidate.channel.id == home:
                    return seat
        if len(seats) == 1:
            return seats[0]
        index = chosen(
            round_.policy.name,
            [seat.candidate for seat in seats],
            self._load,
            self._dice,
            now,
            round_.scope,
            self._sticky,
        )
        return seats[index]

    def _sticky(self) -> str:
        """What keeps its channel under consistent_hash: the request's own key, else its conversation."""
        return self._wanted.sticky or self._conversation_key() or ""

    def _repeat(self, round_: _Round, now: float) -> Turn | None:
        """A channel that failed and may do better now, as far as the budget goes (D9)."""
        while round_.failed or round_.failed_again:
            if not round_.failed:
                round_.repeats += 1
                round_.failed = [
                    seat
                    for seat in round_.failed_again
                    if seat.candidate.provider.channel_retries >= round_.repeats
                ]
                round_.failed_again = []
                continue
            seat = round_.failed.pop(0)
            if not seat.breaker.eligible(now):
                self._pass_over(seat, now)
            elif self._budget.take():
                self._repeats_held += 1
                return self._turn(seat, now, repeat=True)
        return None

    def _pass_over(self, seat: _Seat, now: float) -> None:
        self.passed.append(offered(seat.candidate, health_objection(seat.breaker, now)))

    def _turn(
        self, seat: _Seat, now: float, *, repeat: bool = False, hedge: PolicySettings | None = None
    ) -> Turn:
        permit = self._load.boarded(seat.candidate, seat.breaker.admit(now), now)
        return Turn(candidate=seat.candidate, permit=permit, seat=seat, repeat=repeat, hedge=hedge)

    def _last_resort(self, now: float) -> Turn | None:
        """Everybody is unhealthy: one try at whoever comes back first, its state left as it is (D11)."""
        free = [seat for seat in self._closed if seat.breaker.takes_last_resort]
        if self._turns or not free:
            return None
        self._round = None
        seat = min(free, key=lambda seat: seat.breaker.free_at(now))
        permit = self._load.boarded(seat.candidate, seat.breaker.last_resort(), now)
        return Turn(candidate=seat.candidate, permit=permit, seat=seat, last_resort=True)

    def _give_back_repeats(self) -> None:
        for _ in range(self._repeats_held):
            self._budget.give()
        self._repeats_held = 0


def _grouped(wanted: Wanted, everybody: tuple[Terms, ...]) -> Iterator[tuple[Terms, ...]]:
    """Those who are asked as one, in order: provider after provider (ROUT-1), unless a pool is wanted."""
    likes = wanted.pool or wanted.operation != "chat_completions"
    preferred = wanted.preferred if likes else ()
    if wanted.pool:
        first = tuple(terms for terms in everybody if terms.provider.id in preferred)
        others = tuple(terms for terms in everybody if terms.provider.id not in preferred)
        yield from (pot for pot in (first, others) if pot)
        return
    if preferred:
        places = {name: place for place, name in enumerate(reversed(preferred), 1)}
        everybody = tuple(sorted(everybody, key=lambda terms: -places.get(terms.provider.id, 0)))
    for terms in everybody:
        yield (terms,)


def _scope(wanted: Wanted, group: tuple[Terms, ...]) -> Scope:
    return (wanted.operation, wanted.model) if wanted.pool else (group[0].provider.id,)


def _without(provider: ProviderSettings, seats: list[_Seat]) -> list[_Seat]:
    return [seat for seat in seats if seat.candidate.provider is not provider]
