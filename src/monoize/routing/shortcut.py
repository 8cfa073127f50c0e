"""The short way of plain calls: where there is nothing to decide, one look says who is asked first.

Most calls want nothing but a model, and the first provider that has it has one channel, which is well. A shortcut says so
once for each configuration and model. It gives the permit that a waterfall would give, or None where there is anything to
weigh; when the channel fails, a waterfall goes on from there (`Waterfall.go_on_after`). Nobody can tell the difference.
"""

from __future__ import annotations

from decimal import Decimal

from monoize.routing.breaker import Breaker, Health, Permit
from monoize.routing.catalog import Catalog, Terms
from monoize.routing.health import HealthBoard
from monoize.routing.policy import BY_WEIGHT, Lane, LoadBoard, policy_of
from monoize.routing.survey import Wanted, provider_objection
from monoize.settings import PolicySettings

__all__ = ["Shortcut", "Shortcuts"]

_KEPT = 4096
_LONGEST_NAME = 256  # a caller may choose the name: longer ones are looked for each time
_HEALTHY = Health.HEALTHY


class Shortcut:
    """To the only channel of the first provider that has a model."""

    def __init__(self, model: str, terms: Terms, board: HealthBoard, load: LoadBoard) -> None:
        self.terms = terms
        self.model = model
        self.provider_id = terms.provider.id
        self.candidate = terms.candidates[0]
        self._board = board
        self._load = load
        self._revision = -1  # of the board, when it was asked for the breaker
        self._breaker: Breaker | None = None
        self._lane: Lane | None = None

    def permit(self, asks: Wanted | None, ceiling: Decimal | None, now: float) -> Permit | None:
        """None: this call wants more than a model, or the channel is not well."""
        if asks is not None or (ceiling is not None and self.terms.multiplier > ceiling):
            return None
        breaker, lane = self._breaker, self._lane
        if breaker is None or self._revision != self._board.revision:
            breaker = self._looked_up()
        if breaker.state is not _HEALTHY or now < breaker.resting_until:
            return None
        if lane is None or not lane.is_kept:
            lane = self._lane = self._load.lane(self.candidate, now)
        return lane.boarded(breaker, breaker.epoch, now)

    def _looked_up(self) -> Breaker:
        """Its limits are those of this configuration from here on, as for every call that is routed."""
        candidate = self.candidate
        breaker = self._board.breaker(
            candidate.provider, candidate.channel, candidate.upstream_model
        )
        self._breaker, self._revision = breaker, self._board.revision
        return breaker


class Shortcuts(dict[str, Shortcut | None]):
    """Of one configuration, by model; None: a call for it must be routed."""

    def __init__(
        self,
        catalog: Catalog,
        board: HealthBoard,
        load: LoadBoard | None,
        default_policy: PolicySettings | None,
    ) -> None:
        """`default_policy`: where a provider has none of its own."""
        super().__init__()
        self._catalog = catalog
        self._board = board
        self._load = LoadBoard() if load is None else load
        self._default_policy = default_policy

    def __missing__(self, model: str) -> Shortcut | None:
        found = self._found(model)
        if len(model) <= _LONGEST_NAME:
            if len(self) >= _KEPT:
                self.clear()
            self[model] = found
        return found

    def _found(self, model: str) -> Shortcut | None:
        everybody = self._catalog.listing(model).terms
        if not everybody:
            return None
        terms = everybody[0]
        provider, channel = terms.provider, terms.candidates[0].channel
        policy = policy_of(provider.policy) or self._default_policy or BY_WEIGHT
        if (
            len(terms.candidates) > 1
            or not channel.enabled
            or channel.weight <= 0
            or provider.affinity is not None  # the conversation must be known
            or policy.name == "hedged"
            or provider_objection(terms, Wanted(model=model)) is not None
            or self._board.limits(provider, channel).per_model
        ):
            return None
        return Shortcut(model, terms, self._board, self._load)
