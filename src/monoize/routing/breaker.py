"""When a channel may be asked: its health as a table of transitions, fed by the outcomes of attempts (HEALTH-1, HEALTH-3)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import msgspec

from monoize.routing.sample_window import SampleWindow
from monoize.settings import HealthSettings

__all__ = [
    "TRANSITIONS",
    "Breaker",
    "Health",
    "HealthLimits",
    "Outcome",
    "Permit",
    "Signal",
    "diagram",
]

SAMPLES_KEPT = 4096


class Health(StrEnum):
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    PROBING = "probing"


# Looked at by every request, and a name of a module is found sooner than a member of an enumeration.
_HEALTHY, _UNHEALTHY, _PROBING = Health.HEALTHY, Health.UNHEALTHY, Health.PROBING


class Outcome(StrEnum):
    """How an attempt ended, as far as the channel is to blame for it."""

    SUCCESS = "success"
    FAILURE = "failure"  # 5xx, 408, 409, 425, time-out, network, a reply that cannot be read
    RATE_LIMITED = "rate_limited"  # 429
    NEUTRAL = "neutral"  # a final 4xx, or nobody knows: the caller left


_SUCCESS, _NEUTRAL = Outcome.SUCCESS, Outcome.NEUTRAL
_FAILURE, _RATE_LIMITED = Outcome.FAILURE, Outcome.RATE_LIMITED


class Signal(StrEnum):
    """What changes a channel's health; the value is how the diagram says it."""

    TRIPPED = "failures in a row or failure rate at the threshold"
    COOLED = "cooldown over"
    PROVED = "enough successes"
    FAILED = "one failure"


# The whole machine; any other pair of health and signal cannot happen.
TRANSITIONS: Mapping[tuple[Health, Signal], Health] = MappingProxyType(
    {
        (Health.HEALTHY, Signal.TRIPPED): Health.UNHEALTHY,
        (Health.UNHEALTHY, Signal.COOLED): Health.PROBING,
        (Health.PROBING, Signal.PROVED): Health.HEALTHY,
        (Health.PROBING, Signal.FAILED): Health.UNHEALTHY,
    }
)


def diagram() -> str:
    """The table as a mermaid diagram; docs/routing.md holds exactly this."""
    arrows = (f"    {old} --> {new}: {signal}" for (old, signal), new in TRANSITIONS.items())
    return "\n".join(("stateDiagram-v2", f"    [*] --> {Health.HEALTHY}", *arrows))


class HealthLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The knobs of one channel, all settled; the defaults are HEALTH-1's and HEALTH-2's."""

    failure_threshold: int = 3
    cooldown_seconds: float = 60
    window_seconds: float = 30
    min_samples: int = 20
    failure_rate_threshold: float = 0.6
    rate_limit_cooldown_seconds: float = 15
    retry_after_limit_seconds: float = 600
    per_model: bool = False
    probe_enabled: bool = True
    probe_interval_seconds: float = 30
    probe_model: str | None = None
    probe_success_threshold: int = 1

    @classmethod
    def of(cls, *layers: HealthSettings) -> HealthLimits:
        """The first layer that has a value decides it: channel, provider, global (HEALTH-1a)."""
        chosen: dict[str, Any] = {}
        for name in cls.__struct_fields__:
            values = (getattr(layer, name) for layer in layers)
            value = next((value for value in values if value is not None), None)
            if value is not None:
                chosen[name] = value
        return cls(**chosen)


class Permit(msgspec.Struct, eq=False):
    """One admission of one attempt; whoever holds it must settle it once the attempt is over."""

    breaker: Breaker
    epoch: int | None  # None: last resort, says nothing about the state (D11)
    is_proved: bool = False
    is_settled: bool = False

    def began(self, now: float) -> None:
        """The first event of a reply has come: while probing, that is the success that was asked for."""
        if self.is_settled or self.is_proved:
            return
        self.is_proved = True
        self.breaker.reply_began(self.epoch, now)

    def settle(self, outcome: Outcome, now: float, retry_after: float | None = None) -> None:
        """The first call wins: a `finally` may settle as NEUTRAL whatever happened before."""
        if self.is_settled:
            return
        self.is_settled = True
        self.breaker.attempt_ended(self.epoch, outcome, now, retry_after, self.is_proved)


class Breaker:
    """The health of one channel, or of one model on it."""

    def __init__(self, limits: HealthLimits) -> None:
        self.limits = limits
        self.consecutive_failures = 0
        self.cooldown_until = 0.0
        self.resting_until = 0.0  # healthy, but asked to be left alone (D9: Retry-After)
        self.last_success_at: float | None = None
        self.last_failure_at: float | None = None
        self.last_probe_at: float | None = None
        self.totals = dict.fromkeys(Outcome, 0)  # of every attempt, stale and last-resort ones too
        self.state = Health.HEALTHY  # as it was last told: `health` knows what time has done since
        self.epoch = 0  # counts changes of state; a permit of an earlier one is stale
        self._inside = False  # half open: somebody is being let through (D11)
        self._resorting = False  # not eligible, and somebody tries all the same
        self._proofs = 0
        # When, and whether it failed.
        self._samples = SampleWindow(SAMPLES_KEPT)

    # --- asked before an attempt ---

    def health(self, now: float) -> Health:
        if self.state is _UNHEALTHY and now >= self.cooldown_until:
            return TRANSITIONS[self.state, Signal.COOLED]
        return self.state

    def eligible(self, now: float) -> bool:
        if self.state is _HEALTHY:
            return now >= self.resting_until
        match self.health(now):
            case Health.HEALTHY:
                return now >= self.resting_until
            case Health.PROBING:
                return not self._inside
            case Health.UNHEALTHY:
                return False

    def free_at(self, now: float) -> float:
        """The moment from which it may be asked; `now` also while a probe's end is all it waits for."""
        match self.health(now):
            case Health.HEALTHY:
                return max(now, self.resting_until)
            case Health.PROBING:
                return now
            case Health.UNHEALTHY:
                return self.cooldown_until

    @property
    def is_at_ease(self) -> bool:
        """Healthy and never asked to rest: forgetting it changes little."""
        return self.state is Health.HEALTHY and not self.resting_until

    def admit(self, now: float) -> Permit:
        """Reserves the place; only for somebody who has found the channel eligible just now."""
        if self.state is not _HEALTHY and self.health(now) is _PROBING:
            if self.state is _UNHEALTHY:
                self._move(Signal.COOLED)
            self._inside = True
        return Permit(self, self.epoch)

    @property
    def takes_last_resort(self) -> bool:
        """Nobody is inside, neither half open nor as a last resort: one at a time (D11)."""
        return not (self._inside or self._resorting)

    def last_resort(self) -> Permit:
        """A try although the channel is not eligible, because nobody else is (D11)."""
        self._resorting = True
        return Permit(self, None)

    def window(self, now: float) -> tuple[int, int]:
        """Samples of the last `window_seconds`, and how many of them failed."""
        self._samples.forget_before(now - self.limits.window_seconds)
        return len(self._samples), self._samples.failures

    # --- told by permits ---

    def reply_began(self, epoch: int | None, now: float) -> None:
        if epoch == self.epoch and self.state is _PROBING:
            self.last_success_at = now
            self._prove()

    def attempt_ended(
        self,
        epoch: int | None,
        outcome: Outcome,
        now: float,
        retry_after: float | None,
        already_proved: bool,
    ) -> None:
        self.totals[outcome] += 1
        if outcome is _SUCCESS:
            self.last_success_at = now
            if epoch == self.epoch and self.state is _HEALTHY:  # nearly always, and soon done
                self.consecutive_failures = 0
                self._samples.add(now, failed=False)
                return
        failed = outcome is _FAILURE or outcome is _RATE_LIMITED
        if failed:
            self.last_failure_at = now
        if epoch is None:
            self._resorting = False
        if epoch != self.epoch:  # stale, or a last resort
            return
        self._count(outcome, now)
        if self.state is _PROBING:
            self._inside = False
            self._end_while_probing(outcome, now, retry_after, already_proved=already_proved)
        elif failed:
            self._fail_while_healthy(outcome, now, retry_after)

    # --- inside ---

    def _end_while_probing(
        self, outcome: Outcome, now: float, retry_after: float | None, *, already_proved: bool
    ) -> None:
        match outcome:
            case Outcome.SUCCESS:
                if not already_proved:
                    self._prove()
            case Outcome.FAILURE | Outcome.RATE_LIMITED:
                self._close_for_a_while(Signal.FAILED, outcome, now, retry_after)
            case Outcome.NEUTRAL:
                pass

    def _fail_while_healthy(self, outcome: Outcome, now: float, retry_after: float | None) -> None:
        if self._limits_reached(now):
            self._close_for_a_while(Signal.TRIPPED, outcome, now, retry_after)
        elif retry_after:
            rest = min(retry_after, self.limits.retry_after_limit_seconds)
            self.resting_until = max(self.resting_until, now + rest)

    def _limits_reached(self, now: float) -> bool:  # HEALTH-1b
        if self.consecutive_failures >= self.limits.failure_threshold:
            return True
        samples, failed = self.window(now)
        return (
            samples >= self.limits.min_samples
            and failed / samples >= self.limits.failure_rate_threshold
        )

    def _close_for_a_while(
        self, signal: Signal, outcome: Outcome, now: float, retry_after: float | None
    ) -> None:
        limited = outcome is Outcome.RATE_LIMITED
        seconds = (
            self.limits.rate_limit_cooldown_seconds if limited else self.limits.cooldown_seconds
        )  # HEALTH-1c
        if retry_after:  # the provider knows better (D9); 0 says nothing
            seconds = min(retry_after, self.limits.retry_after_limit_seconds)
        self.cooldown_until = now + seconds
        self._move(signal)

    def _prove(self) -> None:
        self._proofs += 1
        if self._proofs >= self.limits.probe_success_threshold:
            self._move(Signal.PROVED)
            self.consecutive_failures = 0
            self.cooldown_until = self.resting_until = 0.0
            self._samples.clear()

    def _move(self, signal: Signal) -> None:
        self.state = TRANSITIONS[self.state, signal]
        self.epoch += 1
        self._inside = False
        self._proofs = 0

    def _count(self, outcome: Outcome, now: float) -> None:
        """429 neither lengthens nor ends a run of failures; NEUTRAL is no sample at all (HEALTH-1b)."""
        if outcome is _NEUTRAL:
            return
        if outcome is _FAILURE:
            self.consecutive_failures += 1
        elif outcome is _SUCCESS:
            self.consecutive_failures = 0
        self._samples.add(now, failed=outcome is not _SUCCESS)
