"""The command: what to measure, how long, and where the results go."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway import costs, growth, page, plot, report, single, targets
from gateway.cells import USUAL, Cell
from gateway.curves import Curve
from gateway.place import Failed, Place
from gateway.processes import allow_many_files
from gateway.targets import Absent, Target

CELLS = "cells"
USUALLY = (CELLS, *single.QUESTIONS)


class Session:
    """One run of the command: what was found so far."""

    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        self.args, self.place = args, place
        self.found: dict[str, Any] = {}
        self.failed = False

    def run(self) -> None:
        if self.args.growth:
            for name in growth.CURVES:
                if name in self.args.only:
                    self._curves(name)
        else:
            if CELLS in self.args.only:
                self._cells()
            self._answers()
        if self.args.json is not None:
            self.args.json.write_text(json.dumps(self.found, indent=1, ensure_ascii=False) + "\n")

    def _cells(self) -> None:
        peers = [
            targets.nginx(),
            targets.litellm(self.args.litellm),
            targets.tensorzero(self.args.tensorzero),
        ]
        present = [targets.monoize(), *(peer for peer in peers if isinstance(peer, Target))]
        entries = costs.measured(
            self.place,
            [Cell.named(name) for name in self.args.cells],
            present,
            rounds=self.args.rounds,
            seconds=self.args.seconds,
            say=say,
        )
        self.found[CELLS] = [dataclasses.asdict(entry) for entry in entries]
        self.failed |= any("peak_mb" not in entry.metrics for entry in entries)
        versions = {target.name: target.version for target in present}
        tables = report.costs(entries, [peer for peer in peers if isinstance(peer, Absent)])
        self._keep(CELLS, f"{page.machine(self.place.cores, versions)}\n\n{tables}")
        brief = report.brief(entries)
        if self.args.write and brief:
            page.write("speed", f"{brief}\n\n{page.stamp()}.", page.README)

    def _answers(self) -> None:
        for name, ask in single.QUESTIONS.items():
            if name in self.args.only:
                say(f"{name} …")
                try:
                    found = ask(self.place)
                except Failed as failed:
                    self.failed = True
                    found = [single.Answer(name, f"could not be measured: {failed}", is_good=False)]
                self.found[name] = [dataclasses.asdict(one) for one in found]
                self._keep(name, f"{page.stamp()}\n\n{report.answers(found)}")

    def _curves(self, name: str) -> None:
        say(f"{name} …")
        began = time.monotonic()
        effort = growth.Effort(seconds=self.args.seconds, times=self.args.rounds)
        try:
            curves = list(growth.CURVES[name](self.place, effort))
        except Failed as failed:
            self.failed = True
            say(f"{name} could not be measured: {failed}")
            return
        self.found[name] = [dataclasses.asdict(curve) for curve in curves]
        self._keep(name, f"{report.curves(curves, self._picture)}\n\n{page.stamp()}")
        say(f"  {time.monotonic() - began:.0f} s")

    def _picture(self, curve: Curve) -> str | None:
        if not self.args.write or any(len(series.points) < 2 for series in curve.series):
            return None
        page.PICTURES.mkdir(exist_ok=True)
        (page.PICTURES / f"{curve.id}.svg").write_text(plot.drawn(curve), "utf-8")
        return f"{page.PICTURES.name}/{curve.id}.svg"

    def _keep(self, part: str, text: str) -> None:
        print(f"{text}\n", flush=True)
        if self.args.write:
            page.write(part, text)


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python bench/gateway", description=__doc__)
    add = parser.add_argument
    add("--growth", action="store_true", help="growth curves instead of costs")
    add("--only", help=f"of {', '.join(USUALLY)}; with --growth of {', '.join(growth.CURVES)}")
    add(
        "--cells",
        default=",".join(USUAL),
        help="CALLER-PROVIDER, of chat, messages, responses, gemini",
    )
    add("--rounds", type=int, default=2, help="every round measures every gateway once, in turn")
    add("--seconds", type=float, default=1.2, help="of one load")
    add("--litellm", type=Path, metavar="FOLDER", help="a virtual environment that has it")
    add("--tensorzero", type=Path, metavar="FOLDER", help="a virtual environment that has it")
    add("--write", action="store_true", help="put the results into docs/performance.md")
    add("--json", type=Path, metavar="FILE", help="everything that was measured")
    add("--work", type=Path, metavar="FOLDER", help="keep configs and logs there")
    args = parser.parse_args(given)
    known = tuple(growth.CURVES) if args.growth else USUALLY
    args.only = args.only.split(",") if args.only else list(known)
    args.cells = args.cells.split(",")
    if unknown := set(args.only) - set(known):
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
    try:
        [Cell.named(name) for name in args.cells]
    except ValueError as error:
        parser.error(str(error))
    return args


def main() -> int:
    args = arguments()
    if not Path("/proc/self/schedstat").exists():
        say(
            "This benchmark reads CPU times from Linux' /proc; there is none here, so nothing was measured."
        )
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    allow_many_files()
    work = args.work or Path(tempfile.mkdtemp(prefix="monoize-bench-"))
    with Place(work) as place:
        session = Session(args, place)
        session.run()
    if session.failed:
        say(f"Something could not be measured; what the programs said is in {work}")
        return 1
    if args.work is None:
        shutil.rmtree(work, ignore_errors=True)
    return 0
