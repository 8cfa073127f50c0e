"""Which channel is asked first, and what must be remembered to know it (spec 4, selection policies)."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeAlias, assert_never, get_args

import msgspec
from typing_extensions import override

from monoize.clock import Dice
from monoize.routing.breaker import Breaker, Outcome, Permit
from monoize.routing.catalog import Candidate
from monoize.settings import PolicyName, PolicySettings

__all__ = ["BY_WEIGHT", "Lane", "LoadBoard", "Scope", "chosen", "drawn", "policy_of"]

ALPHA = 0.3  # share of the newest answer in an average: the last two make up half of it
LONG_UNHEARD = 120.0  # seconds: what was learned before that is worth asking again
LATENCIES_KEPT = 4096
TURNS_KEPT = 4096
_SUCCESS = Outcome.SUCCESS

Scope: TypeAlias = tuple[str, ...]  # whose round robin: a provider's own, or a pool's
_Place: TypeAlias = tuple[str, str]  # provider and channel
_Way: TypeAlias = tuple[str, str, str]  # and the model: other models take other times


_BY_NAME: dict[str, PolicySettings] = {
    name: PolicySettings(name=name) for name in get_args(PolicyName)
}
BY_WEIGHT = _BY_NAME["weighted_random"]


def policy_of(named: PolicyName | PolicySettings | None) -> PolicySettings | None:
    """As the settings write it -> with its parameters."""
    return _BY_NAME[named] if isinstance(named, str) else named


class LoadBoard:
    """What channels have to do at the moment, and how fast they were; it outlives configurations.

    `boarded` notes the beginning of an attempt. The permit that it gives back notes the first byte (`began`) and the
    end (`settle`), so whoever settles permits has told everything.
    """

    def __init__(self) -> None:
        self._traffic: dict[_Place, _Traffic] = {}
        self._lanes: dict[_Way, Lane] = {}
        self._credits: OrderedDict[tuple[Scope, _Place], int] = OrderedDict()

    def boarded(self, candidate: Candidate, permit: Permit, now: float) -> Permit:
        return self.lane(candidate, now).boarded(permit.breaker, permit.epoch, now)

    def lane(self, candidate: Candidate, now: float) -> Lane:
        """Whoever keeps it asks `is_kept` before each use: those that are long untouched are forgotten."""
        way = _way(candidate)
        lane = self._lanes.get(way)
        if lane is None:
            traffic = self._traffic.setdefault(_place(candidate), _Traffic())
            lane = self._lanes[way] = Lane(self, candidate, traffic, now)
            if len(self._lanes) > LATENCIES_KEPT:
                self._forget_lanes()
        return lane

    def in_flight(self, candidate: Candidate) -> int:
        """Of all models together."""
        traffic = self._traffic.get(_place(candidate))
        return 0 if traffic is None else traffic.in_flight

    def pace(self, candidate: Candidate) -> float | None:
        """Seconds until an answer begins, on average; a reply in one piece begins when it is there."""
        known = self._lanes.get(_way(candidate))
        return None if known is None else known.seconds

    def is_unheard(self, candidate: Candidate, now: float) -> bool:
        known = self._lanes.get(_way(candidate))
        return known is None or now - known.touched >= LONG_UNHEARD

    def next_in_turn(self, scope: Scope, candidates: Sequence[Candidate]) -> int:
        """Smooth weighted round robin: everybody earns their weight, the richest goes and pays for all."""
        earned = []
        for candidate in candidates:
            key = scope, _place(candidate)
            earned.append(self._credits.pop(key, 0) + candidate.channel.weight)
            self._credits[key] = earned[-1]
        best = max(range(len(earned)), key=earned.__getitem__)  # the first of equals
        self._credits[scope, _place(candidates[best])] -= sum(c.channel.weight for c in candidates)
        while len(self._credits) > TURNS_KEPT:
            self._credits.popitem(last=False)
        return best

    def _forget_lanes(self) -> None:
        """The longest untouched, many at once: the names of models may be whatever callers make up."""
        too_many = len(self._lanes) - LATENCIES_KEPT + LATENCIES_KEPT // 8
        for lane in sorted(self._lanes.values(), key=_touched)[:too_many]:
            lane.is_kept = False
            del self._lanes[_way(lane.candidate)]


class _Traffic(msgspec.Struct, eq=False):
    """Of one channel, whatever the model."""

    in_flight: int = 0


class Lane(msgspec.Struct, eq=False):
    """One model on one channel, and how fast it was."""

    board: LoadBoard
    candidate: Candidate
    traffic: _Traffic
    touched: float  # when it was last asked, or answered
    seconds: float | None = None  # until an answer began, on average; None: it never did
    is_kept: bool = True  # on the board, so that others see what is noted here

    def boarded(self, breaker: Breaker, epoch: int | None, now: float) -> Permit:
        self.touched = now
        self.traffic.in_flight += 1
        return _Flight(breaker, epoch, lane=self, started=now)

    def answered(self, seconds: float, now: float) -> None:
        lane = self if self.is_kept else self.board.lane(self.candidate, now)
        lane.touched = now
        known = lane.seconds
        lane.seconds = seconds if known is None else known + ALPHA * (seconds - known)


_touched = attrgetter("touched")


class _Flight(Permit, kw_only=True, eq=False):
    """A permit that tells the load board as well."""

    lane: Lane
    started: float

    @override
    def began(self, now: float) -> None:
        if self.is_settled or self.is_proved:
            return
        self.is_proved = True
        self.breaker.reply_began(self.epoch, now)
        self.lane.answered(now - self.started, now)

    @override
    def settle(self, outcome: Outcome, now: float, retry_after: float | None = None) -> None:
        if self.is_settled:
            return
        self.is_settled = True
        self.breaker.attempt_ended(self.epoch, outcome, now, retry_after, self.is_proved)
        lane = self.lane
        lane.traffic.in_flight -= 1
        if outcome is _SUCCESS and not self.is_proved:
            lane.answered(now - self.started, now)


def chosen(
    policy: PolicyName,
    candidates: Sequence[Candidate],
    load: LoadBoard,
    dice: Dice,
    now: float,
    scope: Scope,
    key: Callable[[], str],
) -> int:
    """The index of the one to ask now. `key`: what consistent_hash hashes, "" for nothing."""
    if len(candidates) == 1:
        return 0
    match policy:
        case "weighted_random" | "hedged":
            return drawn([candidate.channel.weight for candidate in candidates], dice)
        case "round_robin":
            return load.next_in_turn(scope, candidates)
        case "least_inflight":
            return _least(candidates, lambda c: _load_of(c, load), dice)
        case "ewma_latency":
            return _least(candidates, lambda c: _promise(c, load, now), dice)
        case "consistent_hash":
            return _claimed(key(), candidates, dice)
        case "priority":
            return _least(candidates, lambda c: (-c.channel.priority,), dice)
        case _:
            assert_never(policy)


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


def _least(
    candidates: Sequence[Candidate], rank: Callable[[Candidate], tuple[float, ...]], dice: Dice
) -> int:
    """The lowest rank; equals are drawn by weight."""
    ranks = [rank(candidate) for candidate in candidates]
    lowest = min(ranks)
    best = [index for index, one in enumerate(ranks) if one == lowest]
    return _drawn_of(candidates, best, dice)


def _drawn_of(candidates: Sequence[Candidate], indexes: Sequence[int], dice: Dice) -> int:
    return indexes[drawn([candidates[index].channel.weight for index in indexes], dice)]


def _load_of(candidate: Candidate, load: LoadBoard) -> tuple[float, ...]:
    """A channel of twice the weight is as busy with twice as many."""
    return (load.in_flight(candidate) / candidate.channel.weight,)


def _promise(candidate: Candidate, load: LoadBoard, now: float) -> tuple[float, ...]:
    """Those of whom nothing is known go first, but one request is enough to find out: until it has, they go last."""
    if load.is_unheard(candidate, now):
        return (0, *_load_of(candidate, load))
    seconds = load.pace(candidate)
    return (2, *_load_of(candidate, load)) if seconds is None else (1, seconds)


def _claimed(key: str, candidates: Sequence[Candidate], dice: Dice) -> int:
    if not key:
        return drawn([candidate.channel.weight for candidate in candidates], dice)
    claims = [_claim(key, candidate) for candidate in candidates]
    return claims.index(max(claims))


def _claim(key: str, candidate: Candidate) -> float:
    """Weighted rendezvous hashing: each claim depends on nobody else, so a key moves only when its channel goes."""
    digest = hashlib.blake2b(digest_size=8)
    for piece in (key, *_place(candidate)):
        data = piece.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    # 52 bits and a half: never 0, never 1.
    chance = ((int.from_bytes(digest.digest(), "big") >> 12) + 0.5) / 2**52
    return candidate.channel.weight / -math.log(chance)


def _place(candidate: Candidate) -> _Place:
    return candidate.provider.id, candidate.channel.id


def _way(candidate: Candidate) -> _Way:
    return candidate.provider.id, candidate.channel.id, candidate.upstream_model
