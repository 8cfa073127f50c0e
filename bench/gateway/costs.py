"""The cells: every target in turn, round after round, and what a request and an event cost it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

from gateway.cells import BURST, PACED, SHORT, Cell, Pace, text_of, text_of_stream
from gateway.place import Failed, Place, Running, fetched
from gateway.processes import Bill, idle_cpu
from gateway.replies import REPLY, streamed_text
from gateway.targets import Target

CALLERS = (1, 16, 64)
FORMS: dict[str, Pace | None] = {"unary": None, "burst": BURST, "paced": PACED}
_PACED_SECONDS = 2.0  # a paced stream takes one
_WORD_SECONDS = 1.0  # a dozen short streams
_NOISE = 0.15  # share of the gateway's core that others may take before it is told
_CACHED = 0.98  # calls of the provider per request, below which something answered by itself


@dataclass
class Entry:
    """One target in one cell in one round: metric -> value."""

    round: int
    cell: str
    target: str
    metrics: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def measured(
    place: Place,
    cells: Sequence[Cell],
    targets: Sequence[Target],
    *,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> list[Entry]:
    entries = []
    for number in range(1, rounds + 1):
        for cell in cells:
            for target in targets:
                if target.has(cell):
                    entries.append(_entry(place, number, cell, target, seconds))
                    say(_told(entries[-1]))
    return entries


def _entry(place: Place, number: int, cell: Cell, target: Target, seconds: float) -> Entry:
    entry = Entry(number, cell.name, target.name)
    folder = place.fresh_folder(f"{cell.name}-{target.name}")
    launch = target.launch(cell, place.provider, folder)
    first = cell.request(model=launch.model)
    try:
        with place.started(launch, folder, first) as gateway:
            entry.metrics["cold_s"] = gateway.cold
            entry.metrics["idle_mb"] = gateway.program.memory().now
            _check(place, gateway, cell)
            for pace in (None, BURST):
                request = gateway.request(cell, pace)
                place.drive(gateway, request, callers=16, seconds=0.7, stream=pace is not None)
            entry.metrics["idle_ms"] = idle_cpu(gateway.program) * 1000
            for load in product(FORMS, CALLERS):
                _measure(place, gateway, entry, load, seconds)
            _first_words(place, gateway, entry, cell)
            entry.metrics["peak_mb"] = gateway.program.memory().peak
        shutil.rmtree(folder, ignore_errors=True)
    except Failed as failed:
        entry.notes.append(f"could not be measured: {failed}")
    return entry


def _check(place: Place, gateway: Running, cell: Cell) -> None:
    """A wrong answer is not a fast one."""
    before = place.calls()
    readers = {None: (text_of, REPLY), BURST: (text_of_stream, streamed_text(BURST.events))}
    for pace, (read, expected) in readers.items():
        request = gateway.request(cell, pace)
        status, body = fetched(gateway.port, "POST", request.path, request.headers, request.body)
        try:
            text = read(cell.caller, body)
        except (ValueError, LookupError, TypeError) as error:
            raise Failed(f"{status}, not a reply in {cell.caller}: {body[:300]!r}") from error
        if status != 200 or text != expected:
            raise Failed(f"{status}, not what the provider said: {text[:100]!r}")
    if place.calls() != before + len(readers):
        raise Failed("the provider was not asked once for each request")


def _measure(
    place: Place, gateway: Running, entry: Entry, load: tuple[str, int], seconds: float
) -> None:
    form, callers = load
    pace, cell = FORMS[form], Cell.named(entry.cell)
    lasting = max(seconds, _PACED_SECONDS) if form == "paced" else seconds
    calls = place.calls()
    tally, bill = place.drive(
        gateway,
        gateway.request(cell, pace),
        callers=callers,
        seconds=lasting,
        stream=pace is not None,
    )
    name = f"{form}_{callers}"
    count = tally.requests if pace is None else tally.events
    entry.metrics[f"{name}_us"] = bill.cpu / max(1, count) * 1e6
    entry.metrics[f"{name}_per_s"] = count / tally.elapsed
    entry.metrics[f"{name}_p50_ms"] = tally.p50_ms
    entry.metrics[f"{name}_p99_ms"] = tally.p99_ms
    if tally.errors:
        entry.notes.append(f"{form}, {callers} callers: {tally.failed} errors {tally.errors}")
    if place.calls() - calls < _CACHED * tally.requests:
        entry.notes.append(f"{form}, {callers} callers: not every request reached the provider")
    _note_noise(entry, bill)


def _first_words(place: Place, gateway: Running, entry: Entry, cell: Cell) -> None:
    """How much later they come than to a lone caller who asks the provider itself, in its protocol."""
    own = Cell(cell.provider, cell.provider)
    for form, pace in (("burst", BURST), ("paced", SHORT)):
        job = {"callers": 1, "seconds": _WORD_SECONDS, "stream": True}
        direct = place.directly(own.request(pace), **job)
        tally, bill = place.drive(gateway, gateway.request(cell, pace), **job)
        if not direct.word_ms or not tally.word_ms:
            raise Failed(f"{form}, 1 caller: no stream had a word in it")
        entry.metrics[f"{form}_late_ms"] = tally.word_ms - direct.word_ms
        _note_noise(entry, bill)


def _note_noise(entry: Entry, bill: Bill) -> None:
    entry.metrics["noise"] = max(bill.others, entry.metrics.get("noise", 0.0))
    note = "others used its core meanwhile"
    if bill.others > _NOISE and note not in entry.notes:
        entry.notes.append(note)


def _told(entry: Entry) -> str:
    where = f"round {entry.round}, {entry.cell}, {entry.target}:"
    if "paced_64_us" not in entry.metrics:
        return f"{where} {entry.notes[-1]}"
    unary, burst, paced = (entry.metrics[f"{form}_64_us"] for form in FORMS)
    return f"{where} {unary:.0f} µs a request, {burst:.1f} and {paced:.1f} µs an event (64 callers)"
