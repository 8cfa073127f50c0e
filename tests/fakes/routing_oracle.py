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
Seat = tuple[
    Spec, Spec, "ChannelOracle", str
]  # provider, channel, its health, the model's name there

SIX = (
    *("chat_completions", "embeddings", "image_generation"),
    *("speech_to_text", "text_to_speech", "realtime_voice"),
)
# Of the features, only those that random requests ask for.
USUAL: dict[str, Spec] = {
    "chat_completion": {
        "operations": SIX,
        "features": ("supports_tools", "supports_batch", "supports_mask"),
        "transports": ("http", "websocket"),
    },
    "gemini": {
        "operations": ("chat_completions", "embeddings", "image_generation"),
        "features": ("supports_tools", "supports_batch"),
        "transports": ("http",),
    },
    "messages": {
        "operations": ("chat_completions",),
        "features": ("supports_tools",),
        "transports": ("http",),
    },
}
PLAIN: Spec = {  # what a request asks for if it does not say so
    "operation": "chat_completions",
    "operations": [],
    "features": [],
    "transports": ["http"],
    "amounts": {},
    "backend": None,
    "allowed": None,
    "denied": [],
    "preferred": [],
    "policy": None,
    "default_policy": None,
    "pool": False,
    "sticky": "",
}


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


class TrafficOracle:
    """Everything that policies may look at: who is on the way, who answered when, whose turn it was."""

    def __init__(self) -> None:
        self.on_the_way: list[tuple[str, str]] = []
        self.heard: dict[tuple[str, str, str], list[float]] = {}  # moments of questions and answers
        self.times: dict[tuple[str, str, str], list[float]] = {}  # seconds until answers began
        self.purses: dict[tuple[str, str], int] = {}  # of round robin, by round and channel
        self.preferences: set[tuple[str, str, str]] = set()  # key, chosen, and who was not

    def average(self, way: tuple[str, str, str]) -> float | None:
        average: float | None = None
        for seconds in self.times.get(way, []):
            average = seconds if average is None else average + 0.3 * (seconds - average)
        return average

    def busy(self, seat: Seat) -> float:
        place = (seat[0]["id"], seat[1]["id"])
        return self.on_the_way.count(place) / seat[1]["weight"]

    def promise(self, seat: Seat, now: float) -> tuple[float, ...]:
        way = (seat[0]["id"], seat[1]["id"], seat[3])
        if not any(now - moment < 120 for moment in self.heard.get(way, [])):
            return (0, self.busy(seat))
        average = self.average(way)
        return (2, self.busy(seat)) if average is None else (1, average)

    def narrowed(self, policy: str, scope: str, seats: dict[str, Seat], now: float) -> list[str]:
        """Those among whom the dice decide."""
        if policy == "least_inflight":
            ranks: dict[str, Any] = {key: self.busy(seat) for key, seat in seats.items()}
        elif policy == "ewma_latency":
            ranks = {key: self.promise(seat, now) for key, seat in seats.items()}
        elif policy == "priority":
            ranks = {key: -seat[1]["priority"] for key, seat in seats.items()}
        elif policy == "round_robin":
            return [self.next_in_turn(scope, seats)]
        else:
            return list(seats)
        return [key for key in seats if ranks[key] == min(ranks.values())]

    def next_in_turn(self, scope: str, seats: dict[str, Seat]) -> str:
        for key, seat in seats.items():
            self.purses[scope, key] = self.purses.get((scope, key), 0) + seat[1]["weight"]
        richest = max(seats, key=lambda key: self.purses[scope, key])  # the first of equals
        self.purses[scope, richest] -= sum(seat[1]["weight"] for seat in seats.values())
        return richest

    def prefers(self, sticky: str, chosen: str, others: list[str]) -> None:
        """Whoever is chosen for a key before somebody is always chosen before them."""
        for other in others:
            assert (sticky, other, chosen) not in self.preferences, (sticky, chosen, other)
            self.preferences.add((sticky, chosen, other))


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
        self.traffic = TrafficOracle()

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


def abilities(provider: Spec, row: Spec | None) -> Spec:
    found = {**USUAL[provider["type"]], "limits": {}}
    for layer in (provider["capabilities"], None if row is None else row["capabilities"]):
        for name, value in (layer or {}).items():
            found[name] = {**found["limits"], **value} if name == "limits" else value
    return found


def is_fit(ask: Spec, provider: Spec, row: Spec | None) -> bool:
    can, name = abilities(provider, row), provider["id"]
    return (
        all(one in can["operations"] for one in (ask["operation"], *ask["operations"]))
        and all(feature in can["features"] for feature in ask["features"])
        and all(transport in can["transports"] for transport in ask["transports"])
        and all(amount <= can["limits"].get(k, amount) for k, amount in ask["amounts"].items())
        and ask["backend"] in (None, name)
        and (ask["allowed"] is None or name in ask["allowed"])
        and name not in ask["denied"]
    )


class RequestOracle:
    """Walks through the providers as the rules say; each step is (kind, those who may be asked now, how to choose)."""

    def __init__(
        self,
        world: WorldOracle,
        model: str,
        ceiling: float | None,
        conversation: str,
        ask: Spec | None = None,
    ) -> None:
        self.world = world
        self.model = model
        self.ceiling = ceiling
        self.conversation = conversation
        self.ask = {**PLAIN, **(ask or {})}
        self.answer = ("", "")  # the channel that was asked, and what came of it
        self.steps = self._walk()

    def allowed(self) -> tuple[str, dict[str, Seat], tuple[str, str] | None] | None:
        return next(self.steps, None)

    def sticky(self) -> str:
        return self.ask["sticky"] or self.conversation

    def passed_over(self) -> set[str]:
        """Providers of whom nobody may be asked just now; looking is not using."""
        before = dict(self.world.channels)
        good = {p[0]["id"] for p in self._seats(self._offers()).values() if self._is_well(p)}
        self.world.channels = before
        return {provider["id"] for provider in self.world.providers} - good

    def _is_well(self, seat: Seat) -> bool:
        return seat[2].eligible(self.world.now)

    def _offers(self) -> list[Spec]:
        found = []
        for provider in self.world.providers:
            row = row_of(provider, self.model)
            if not provider["enabled"] or row is None or not is_fit(self.ask, provider, row):
                continue
            if self.ceiling is None or row["multiplier"] <= self.ceiling:
                found.append(provider)
        return found

    def _groups(self) -> list[list[Spec]]:
        offers, pool = self._offers(), self.ask["pool"]
        likes = self.ask["preferred"]
        if self.ask["operation"] == "chat_completions" and not pool:
            likes = []
        first = [p for name in dict.fromkeys(likes) for p in offers if p["id"] == name]
        others = [p for p in offers if p not in first]
        if pool:
            first = [p for p in offers if p in first]
            return [group for group in (first, others) if group]
        return [[provider] for provider in first + others]

    def _seats(self, providers: list[Spec]) -> dict[str, Seat]:
        found = {}
        for provider in providers:
            name = (row_of(provider, self.model) or {})["redirect"] or self.model
            for c in provider["channels"]:
                if c["enabled"] and c["weight"] > 0:
                    known = self.world.channel(provider, c, name)
                    found[f"{provider['id']}/{c['id']}"] = (provider, c, known, name)
        return found

    def _how(self, group: list[Spec]) -> tuple[str, str]:
        """Policy, and whose round it is."""
        own = None if self.ask["pool"] else group[0]["policy"]
        policy = self.ask["policy"] or own or self.ask["default_policy"] or "weighted_random"
        scope = f"{self.ask['operation']} {self.model}" if self.ask["pool"] else group[0]["id"]
        return policy, scope

    def _walk(self) -> Iterator[tuple[str, dict[str, Seat], tuple[str, str] | None]]:
        world, anybody, closed = self.world, False, []
        for group in self._groups():
            usable = self._seats(group)
            left = {k: seat for k, seat in usable.items() if self._is_well(seat)}
            closed += [(k, seat) for k, seat in usable.items() if k not in left]
            tries = {p["id"]: 1 + p["max_retries"] for p in group}
            tries = {name: count or len(usable) for name, count in tries.items()}  # -1: all
            homes = [f"{p['id']}/{world.home(p, self.conversation)}" for p in group]
            failing: list[str] = []
            skipped: list[Spec] = []
            while True:
                ready = {
                    k: seat
                    for k, seat in left.items()
                    if self._is_well(seat) and tries[seat[0]["id"]] and seat[0] not in skipped
                }
                if not ready:
                    break
                home = [key for key in ready if key in homes]
                if home:
                    yield "first", {home[0]: ready[home[0]]}, None
                else:
                    yield "first", ready, self._how(group)
                asked, what = self.answer
                provider = left.pop(asked)[0]
                tries[provider["id"]] -= 1
                anybody = anybody or what != "skip"  # a provider that cannot carry it was not asked
                if what == "final":
                    return
                if what == "skip":
                    skipped.append(provider)
                    closed = [entry for entry in closed if entry[1][0] is not provider]
                if what == "failure":
                    failing.append(asked)
            for number in range(1, 1 + max(p["channel_retries"] for p in group)):
                again, failing = failing, []
                for key in again:
                    provider = usable[key][0]
                    if provider in skipped or provider["channel_retries"] < number:
                        continue
                    if not self._is_well(usable[key]) or not world.may_repeat():
                        continue
                    yield "repeat", {key: usable[key]}, None
                    _, what = self.answer
                    if what == "final":
                        return
                    if what == "skip":
                        skipped.append(provider)
                    if what == "failure":
                        failing.append(key)
        while not anybody:
            free = [entry for entry in closed if not entry[1][2].is_taken()]
            if not free:
                return
            first = min(free, key=lambda entry: entry[1][2].free_at(world.now))
            yield "last_resort", dict([first]), None
            anybody = self.answer[1] != "skip"
            closed = [entry for entry in closed if entry[1][0] is not first[1][0]]
