"""The rules of routing and health said once more, naively: lists, plain functions, nothing of the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DEFAULTS = {
    "failure_threshold": 3,
    "cooldown_seconds": 60,
    "window_seconds": 30,
    "min_samples": 20,
    "failure_rate_threshold": 0.6,
    "rate_limit_cooldown_seconds": 15,
    "retry_after_limit_seconds": 600,
    "per_model": False,
    "probe_enabled": True,
    "probe_interval_seconds": 30,
    "probe_model": None,
    "probe_success_threshold": 1,
}
Spec = dict[str, Any]


class ChannelOracle:
    """Remembers every event since the channel was last known to be well, and counts anew each time."""

    def __init__(self, knobs: Spec) -> None:
        self.knobs = knobs
        self.events: list[tuple[float, str]] = []
        self.totals = {"success": 0, "failure": 0, "rate_limited": 0, "neutral": 0}
        self.down_until: float | None = None  # None: healthy
        self.rest_until = float("-inf")
        self.guests: list[AttemptOracle] = []  # half open
        self.desperate: list[AttemptOracle] = []  # a last resort on its way
        self.proofs = 0
        self.phase = 0
        self.probed_at: float | None = None

    def health(self, now: float) -> str:
        if self.down_until is None:
            return "healthy"
        return "unhealthy" if now < self.down_until else "probing"

    def eligible(self, now: float) -> bool:
        state = self.health(now)
        if state == "healthy":
            return not now < self.rest_until
        return state == "probing" and len(self.guests) == 0

    def free_at(self, now: float) -> float:
        until = self.rest_until if self.down_until is None else self.down_until
        return max(until, now)

    def run_of_failures(self) -> int:
        run = 0
        for _, what in reversed(self.events):
            if what == "success":
                break
            run += what == "failure"
        return run

    def sampled(self, now: float) -> tuple[int, int]:
        start = now - self.knobs["window_seconds"]
        inside = [what for when, what in self.events if start <= when <= now and what != "neutral"]
        return len(inside), len([what for what in inside if what != "success"])

    def is_bad(self, now: float) -> bool:
        samples, failed = self.sampled(now)
        return self.run_of_failures() >= self.knobs["failure_threshold"] or (
            samples >= self.knobs["min_samples"]
            and failed >= self.knobs["failure_rate_threshold"] * samples - 1e-9
        )

    def shut(self, what: str, now: float, wish: float | None) -> None:
        pause = self.knobs["cooldown_seconds"]
        if what == "rate_limited":
            pause = self.knobs["rate_limit_cooldown_seconds"]
        if wish is not None and wish > 0:
            pause = min(wish, self.knobs["retry_after_limit_seconds"])
        self.down_until = now + pause
        self.new_phase()

    def recover(self) -> None:
        self.down_until = None
        self.rest_until = float("-inf")
        self.events = []
        self.new_phase()

    def is_taken(self) -> bool:
        return bool(self.guests or self.desperate)

    def new_phase(self) -> None:
        self.phase += 1
        self.guests = []
        self.proofs = 0

    def proved(self) -> None:
        self.proofs += 1
        if self.proofs == self.knobs["probe_success_threshold"]:
            self.recover()


class AttemptOracle:
    def __init__(self, channel: ChannelOracle, now: float, *, last_resort: bool = False) -> None:
        self.channel = channel
        self.phase = channel.phase
        self.mute = last_resort
        self.half_open = channel.health(now) == "probing" and not last_resort
        self.has_proved = False
        self.ended = False
        if self.half_open:
            channel.guests.append(self)
            assert len(channel.guests) == 1
        if last_resort:
            assert not channel.desperate
            channel.desperate.append(self)

    def counts(self) -> bool:
        return not self.mute and self.phase == self.channel.phase

    def began(self) -> None:
        if self.counts() and self.half_open and not self.has_proved and not self.ended:
            self.has_proved = True
            self.channel.proved()

    def settle(self, what: str, now: float, wish: float | None) -> None:
        if self.ended:
            return
        self.ended = True
        channel = self.channel
        channel.totals[what] += 1
        if self.mute:
            channel.desperate.remove(self)
        if not self.counts():
            return
        channel.events.append((now, what))
        if self.half_open:
            channel.guests.remove(self)
            if what == "success" and not self.has_proved:
                channel.proved()
            if what in ("failure", "rate_limited"):
                channel.shut(what, now, wish)
        elif what in ("failure", "rate_limited"):
            if channel.is_bad(now):
                channel.shut(what, now, wish)
            elif wish is not None and wish > 0:
                until = now + min(wish, channel.knobs["retry_after_limit_seconds"])
                channel.rest_until = max(channel.rest_until, until)


class WorldOracle:
    """All providers (plain dicts in order), the clock, and what is in flight."""

    def __init__(self, providers: list[Spec], global_health: Spec) -> None:
        self.providers = providers
        self.global_health = global_health
        self.now = 0.0
        self.channels: dict[tuple[str, str, str | None], ChannelOracle] = {}
        self.requests = 0
        self.repeats = 0
        self.homes: dict[tuple[str, str], tuple[str, float]] = {}  # (provider, conversation)
        self.last_model: dict[str, str] = {}

    def knobs(self, provider: Spec, channel: Spec) -> Spec:
        chosen = dict(DEFAULTS)
        for layer in (self.global_health, provider["health"], channel["health"]):
            chosen.update({name: value for name, value in layer.items() if value is not None})
        return chosen

    def channel(self, provider: Spec, channel: Spec, upstream_model: str) -> ChannelOracle:
        knobs = self.knobs(provider, channel)
        key = (provider["id"], channel["id"], upstream_model if knobs["per_model"] else None)
        if key not in self.channels:
            self.channels[key] = ChannelOracle(knobs)
        return self.channels[key]

    def may_repeat(self) -> bool:
        return self.repeats < max(3, 0.2 * self.requests)

    def home(self, provider: Spec, conversation: str) -> str | None:
        if provider["affinity"] is None or (provider["id"], conversation) not in self.homes:
            return None
        channel, heard = self.homes[provider["id"], conversation]
        return channel if self.now - heard <= provider["affinity"] else None

    def succeeded(self, provider: Spec, channel: Spec, model: str, conversation: str) -> None:
        self.last_model[provider["id"]] = model
        if provider["affinity"] is not None:
            self.homes[provider["id"], conversation] = (channel["id"], self.now)

    def due_probes(self) -> set[tuple[str, str, str]]:
        """Provider, channel and the upstream's name of the model."""
        found = set()
        for provider in self.providers:
            for channel in provider["channels"]:
                if not (provider["enabled"] and channel["enabled"] and channel["weight"]):
                    continue
                knobs = self.knobs(provider, channel)
                if not knobs["probe_enabled"]:
                    continue
                for (pid, cid, own_model), known in self.channels.items():
                    if (pid, cid) != (provider["id"], channel["id"]):
                        continue
                    if known.health(self.now) != "probing" or known.guests:
                        continue
                    if (
                        known.probed_at is not None
                        and self.now < known.probed_at + knobs["probe_interval_seconds"]
                    ):
                        continue
                    model = own_model or self.probe_model(provider, knobs)
                    if model is not None:
                        found.add((pid, cid, model))
        return found

    def probe_model(self, provider: Spec, knobs: Spec) -> str | None:
        named = [name for name in provider["models"] if "*" not in name]
        last = self.last_model.get(provider["id"])
        for model in [knobs["probe_model"], *named[:1], last]:
            if model is not None:
                row = row_of(provider, model)
                return model if row is None else row["redirect"] or model
        return None


def row_of(provider: Spec, model: str) -> Spec | None:
    if model in provider["models"]:
        return provider["models"][model]
    for name, row in provider["models"].items():
        if name.endswith("*") and model.startswith(name[:-1]):
            return row
    return None


class RequestOracle:
    """Walks through the providers as the rules say; each step is (kind, those who may be asked now)."""

    def __init__(
        self, world: WorldOracle, model: str, ceiling: float | None, conversation: str
    ) -> None:
        self.world = world
        self.model = model
        self.ceiling = ceiling
        self.conversation = conversation
        self.answer = ("", "")  # the channel that was asked, and what came of it
        self.steps = self._walk()

    def allowed(self) -> tuple[str, dict[str, tuple[Spec, Spec, ChannelOracle]]] | None:
        return next(self.steps, None)

    def _walk(self) -> Iterator[tuple[str, dict[str, tuple[Spec, Spec, ChannelOracle]]]]:
        world, anybody, closed = self.world, False, []
        for provider in world.providers:
            row = row_of(provider, self.model)
            if not provider["enabled"] or row is None:
                continue
            if self.ceiling is not None and row["multiplier"] > self.ceiling:
                continue
            name = row["redirect"] or self.model
            usable = {
                f"{provider['id']}/{c['id']}": (provider, c, world.channel(provider, c, name))
                for c in provider["channels"]
                if c["enabled"] and c["weight"] > 0
            }
            left = {k: seat for k, seat in usable.items() if seat[2].eligible(world.now)}
            closed += [(k, seat) for k, seat in usable.items() if k not in left]
            tries = len(left)
            if provider["max_retries"] != -1:
                tries = min(tries, provider["max_retries"] + 1)
            home = f"{provider['id']}/{world.home(provider, self.conversation)}"
            failing: list[str] = []
            skipped = False
            while tries > 0 and not skipped:
                ready = {k: seat for k, seat in left.items() if seat[2].eligible(world.now)}
                if not ready:
                    break
                yield "first", ({home: ready[home]} if home in ready else ready)
                asked, what = self.answer
                anybody = anybody or what != "skip"  # a provider that cannot carry it was not asked
                if what == "final":
                    return
                skipped = what == "skip"
                if skipped:
                    closed = [entry for entry in closed if entry[1][0] is not provider]
                if what == "failure":
                    failing.append(asked)
                del left[asked]
                tries -= 1
            for _ in range(provider["channel_retries"]):
                again, failing = failing, []
                for key in again:
                    if skipped or not usable[key][2].eligible(world.now) or not world.may_repeat():
                        continue
                    yield "repeat", {key: usable[key]}
                    _, what = self.answer
                    if what == "final":
                        return
                    skipped = what == "skip"
                    if what == "failure":
                        failing.append(key)
        while not anybody:
            free = [entry for entry in closed if not entry[1][2].is_taken()]
            if not free:
                return
            first = min(free, key=lambda entry: entry[1][2].free_at(world.now))
            yield "last_resort", dict([first])
            anybody = self.answer[1] != "skip"
            closed = [entry for entry in closed if entry[1][0] is not first[1][0]]
