"""How the cost of a call grows with everything that may grow: what is asked, how many ask, what is configured, what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

from gateway import filling
from gateway.cells import BURST, Cell, Pace, Request
from gateway.curves import Curve, Series
from gateway.load import KEY_PLACE
from gateway.place import Failed, Place, Running, fetched
from gateway.processes import allow_many_files
from gateway.single import wide
from gateway.targets import provided, settings

CHAT, CROSS = Cell("chat", "chat"), Cell("messages", "chat")
MESSAGES = (1, 4, 16, 64, 256, 1_000, 2_000)
BYTES = (1_000, 10_000, 100_000, 1_000_000, 5_000_000, 20_000_000)
STREAMS = (1, 10, 100, 1_000, 5_000)
KEYS = (10, 100, 1_000, 10_000, 100_000)
CONFIGURED = (1, 10, 100, 1_000)
ROWS = (0, 10_000, 100_000, 300_000, 1_000_000)

_PER_REQUEST = "µs of CPU per request"
_SAID = "The proxy was measured again with twice the callers, and the cost of a request stayed. "
_EVENTS_A_SECOND = 5_000  # of all streams together
_EVENTS = 20  # of one stream; its beginning and its end are shared out among them
_STREAMING_SECONDS = 5.0
_PAGES = 30


@dataclass(frozen=True)
class Effort:
    """How long a point is measured, and how often; the best counts, for what disturbs only adds."""

    seconds: float = 1.0
    times: int = 2
    callers: int = 16

    def cost(self, place: Place, gateway: Running, request: Request, **job: Any) -> float:
        """Microseconds of CPU per request."""
        costs = []
        place.drive(
            gateway, request, callers=self.callers, seconds=self.seconds / 3, **job
        )  # what is remembered, is remembered now
        for _ in range(self.times):
            tally, bill = place.drive(
                gateway, request, callers=self.callers, seconds=self.seconds, **job
            )
            if tally.errors:
                raise Failed(f"{tally.failed} of {tally.requests} requests failed: {tally.errors}")
            costs.append(bill.cpu / tally.requests * 1e6)
        return min(costs)


def conversation(place: Place, effort: Effort) -> Iterator[Curve]:
    curve = Curve("conversation", "Length of the conversation", "messages", _PER_REQUEST)
    with place.gateway(settings(place.provider)) as gateway:
        for cell in (CHAT, CROSS):
            curve.series.append(series := Series(cell.name))
            for count in MESSAGES:
                speakers = islice(cycle(("user", "assistant")), count)
                turns = tuple((who, f"{n}: {_SAID}") for n, who in enumerate(speakers))
                request = cell.request(turns=turns)
                series.points.append((count, effort.cost(place, gateway, request)))
    yield curve


def body(place: Place, effort: Effort) -> Iterator[Curve]:
    curve = Curve("body", "Size of the request", "bytes of text", _PER_REQUEST)
    few = replace(effort, callers=4)
    for cell in (CHAT, CROSS):
        curve.series.append(series := Series(cell.name))
        # One of its own: how much memory the allocator keeps depends on the largest bodies there were before.
        with place.gateway(settings(place.provider)) as gateway:
            for size in BYTES:
                text = (_SAID * (size // len(_SAID) + 1))[:size]
                request = cell.request(turns=(("user", text),))
                series.points.append((size, few.cost(place, gateway, request)))
    yield curve


def streams(place: Place, effort: Effort) -> Iterator[Curve]:
    """A point is one event on every stream: twice the streams may cost twice as much."""
    cpu = Curve("streams", "Streams at once", "streams", "µs of CPU per event on every stream")
    memory = Curve("streams-memory", "Streams at once, memory", "streams", "MiB at the peak")
    cpu.series.append(times := Series(CHAT.name))
    memory.series.append(sizes := Series(CHAT.name))
    files = allow_many_files()
    for count in STREAMS:
        if 2 * count > files:
            cpu.remarks.append(f"This system allows {files:,} open files, too few for {count:,}.")
            continue
        every = max(10, 1000 * count // _EVENTS_A_SECOND)
        again = max(1, round(_STREAMING_SECONDS * effort.seconds * 1000 / every / _EVENTS))
        with place.gateway(settings(place.provider, **wide(max(count, 100)))) as gateway:
            warm = gateway.request(CHAT, BURST)
            place.drive(gateway, warm, callers=8, requests=200, stream=True)
            tally, bill = place.drive(
                gateway,
                gateway.request(CHAT, Pace(every, _EVENTS)),
                callers=count,
                requests=count * again,
                stream=True,
                joining=count / 1000,
            )
            peak = gateway.program.memory().peak
        if tally.errors:
            cpu.remarks.append(f"{count:,} streams: {tally.failed} failed: {tally.errors}")
        times.points.append((count, bill.cpu / tally.events * 1e6 * count))
        sizes.points.append((count, peak))
    yield cpu
    yield memory


def keys(place: Place, effort: Effort) -> Iterator[Curve]:
    curve = Curve("keys", "Keys in the database", "keys", _PER_REQUEST)
    curve.series += [one := Series("one of them"), each := Series("each in turn")]
    folder = place.fresh_folder("keys")
    texts: list[str] = []
    config = settings(place.provider)
    for count in KEYS:
        texts += filling.add_keys(folder, count - len(texts), f"owner-of-{count}")
        request = CHAT.request(key=KEY_PLACE)
        with place.gateway(config, folder=folder) as gateway:
            one.points.append((count, effort.cost(place, gateway, request, keys=texts[-1:])))
            each.points.append((count, effort.cost(place, gateway, request, keys=texts)))
    curve.remarks.append(
        "The gateway remembers 10,000 keys; of more than that, asked in turn, each is looked up in the database."
    )
    yield curve


def providers(place: Place, effort: Effort) -> Iterator[Curve]:
    curve = Curve("providers", "Providers, the last one has the model", "providers", _PER_REQUEST)
    curve.series.append(series := Series(CHAT.name))
    for count in CONFIGURED:
        config = settings(place.provider)
        config["providers"] = [
            provided(f"p{n}", place.provider, "chat", {f"model-{n}": {}}) for n in range(count)
        ]
        request = CHAT.request(model=f"model-{count - 1}")
        with place.gateway(config, first=request) as gateway:
            series.points.append((count, effort.cost(place, gateway, request)))
    yield curve


def rules(place: Place, effort: Effort) -> Iterator[Curve]:
    curve = Curve("rules", "Rules of a key", "rules", _PER_REQUEST)
    for name, models in (("for other models", ["other-*"]), ("that apply", None)):
        curve.series.append(series := Series(name))
        for count in CONFIGURED:
            config = settings(place.provider)
            config["keys"][0]["transforms"] = [_rule(n, models) for n in range(count)]
            with place.gateway(config) as gateway:
                series.points.append((count, effort.cost(place, gateway, CHAT.request())))
    yield curve


def _rule(number: int, models: list[str] | None) -> dict[str, Any]:
    """Each changes what the one before it left."""
    value = {"value": 300 + number % 2}
    rule = {"transform": "override_max_tokens", "phase": "request", "config": value}
    return rule if models is None else {**rule, "models": models}


def logs(place: Place, effort: Effort) -> Iterator[Curve]:
    curve = Curve("logs", "Rows in the request log", "rows", "µs of CPU")
    curve.series += [asked := Series("a request"), shown := Series("newest page of the log")]
    folder = place.fresh_folder("logs")
    config = settings(place.provider, settings={"logs": {"keep_days": None}})
    config["keys"][0]["role"] = "admin"  # who may see the whole log
    before = 0
    for count in ROWS:
        if count:
            filling.add_log_rows(folder, before, count)
        before = count
        with place.gateway(config, folder=folder) as gateway:
            calls = place.calls()
            cost = effort.cost(place, gateway, CHAT.request())
            written = place.calls() - calls
            rows = count + written // 2  # in the middle of it
            asked.points.append((rows, cost))
            shown.points.append((rows, _cost_of_pages(gateway)))
    yield curve


def _cost_of_pages(gateway: Running) -> float:
    before = sum(gateway.program.cpu().values())
    for _ in range(_PAGES):
        status, told = fetched(gateway.port, "GET", "/api/logs?limit=50", CHAT.request().headers)
        if status != 200:
            raise Failed(f"the log answers {status}: {told[:200]!r}")
    return (sum(gateway.program.cpu().values()) - before) / _PAGES * 1e6


CURVES = {
    "conversation": conversation,
    "body": body,
    "concurrency": streams,
    "keys": keys,
    "providers": providers,
    "rules": rules,
    "logs": logs,
}
