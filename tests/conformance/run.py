"""Replay recorded traffic of real providers through the running gateway and hold every cell to its goal.

`make conformance` runs it; `--write` puts the figures into README.md and docs/conformance.md.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GOALS = {"S1": 100.0, "S2": 100.0, "S3": 100.0, "S4": 99.0, "S5": 99.0, "S6": 100.0}
MEANING = {
    "S1": "requests, same protocol: the provider gets what the caller sent",
    "S2": "replies, same protocol",
    "S3": "streams, same protocol: exact, folded, and at any split of bytes",
    "S4": "replies across protocols, read by the official SDKs",
    "S5": "requests across protocols, checked against the vendors' specifications",
    "S6": "two turns: sealed reasoning comes back to its provider unchanged",
}


def excused() -> dict[str, str]:
    """Verdicts that are the recording's or the harness's own mistake: `suite/cell/id` -> reason."""
    return tomllib.loads((HERE / "excused.toml").read_text("utf-8")).get("excused", {})


def replay(options: argparse.Namespace) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [
            sys.executable,
            str(options.shared.resolve() / "conformance" / "replay.py"),
            *("--command", f"{sys.executable} -m monoize"),
            *("--fidelity", "http,http-norm"),
            *("--json", str(out)),
            *("--show", "0", "--min", "0"),
            *(("--sample", str(options.sample)) if options.sample else ()),
            *(argument for pattern in options.only for argument in ("--only", pattern)),
        ]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd=folder)
        if done.returncode == 2 or not out.exists():
            sys.exit("the gateway did not start")
        return json.loads(out.read_text("utf-8"))


def is_excused(failure: dict, rows: dict[str, str]) -> bool:
    return f"{failure['suite']}/{failure['cell']}/{failure['id']}" in rows


def judged(result: dict, rows: dict[str, str]) -> list[dict]:
    """Cells with their goal; an excused verdict counts neither way."""
    out = []
    for cell in result["cells"]:
        mine = [
            f
            for f in result["failures"]
            if (f["suite"], f["cell"]) == (cell["suite"], cell["cell"])
        ]
        spared = sum(is_excused(f, rows) for f in mine)
        total = cell["total"] - spared
        share = 100 * cell["pass"] / total if total else 100.0
        out.append(
            {**cell, "excused": spared, "share": share, "good": share >= GOALS[cell["suite"]]}
        )
    return out


def summary(cells: list[dict]) -> str:
    lines = [
        "| suite | what must hold | verdicts | passed | weakest cell |",
        "|---|---|---:|---:|---|",
    ]
    for suite, meaning in MEANING.items():
        mine = [c for c in cells if c["suite"] == suite]
        if not mine:
            continue
        passed, total = sum(c["pass"] for c in mine), sum(c["total"] - c["excused"] for c in mine)
        weakest = min(mine, key=lambda c: c["share"])
        name = (
            "all alike"
            if weakest["share"] == 100
            else f"{weakest['cell']}: {weakest['share']:.2f} %"
        )
        lines.append(f"| {suite} | {meaning} | {total:,} | {100 * passed / total:.2f} % | {name} |")
    return "\n".join(lines)


def table(cells: list[dict]) -> str:
    lines = ["| suite | cell | passed | of | excused | % |", "|---|---|---:|---:|---:|---:|"]
    lines += [
        f"| {c['suite']} | {c['cell']} | {c['pass']} | {c['total'] - c['excused']} | {c['excused'] or ''} | {c['share']:.2f} |"
        for c in cells
    ]
    return "\n".join(lines)


def put(file: Path, name: str, text: str) -> None:
    """Replace what stands between the markers `<!-- name -->` and `<!-- /name -->`."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    before = file.read_text("utf-8")
    after, count = pattern.subn(lambda m: f"{m[1]}{text}\n{m[2]}", before)
    if count != 1:
        sys.exit(f"{file.name}: the markers of {name} are missing")
    file.write_text(after, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--only", action="append", default=[], metavar="SUITE/CELL/ID")
    parser.add_argument("--sample", type=int)
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the figures into README.md and docs/conformance.md",
    )
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    if not (options.shared / "conformance" / "replay.py").exists():
        print(f"skipped: {options.shared} has no recorded traffic")
        return 0
    rows = excused()
    result = replay(options)
    cells = judged(result, rows)
    print(table(cells))
    print()
    print(summary(cells))
    shown = [f for f in result["failures"] if not is_excused(f, rows)][: options.show]
    for failure in shown:
        print(
            f"FAIL {failure['suite']}/{failure['cell']}/{failure['id']}: {failure['problems'][:2]}"
        )
    if options.write:
        put(ROOT / "README.md", "conformance", summary(cells))
        put(ROOT / "docs" / "conformance.md", "cells", table(cells))
    bad = [c for c in cells if not c["good"]]
    print(f"\n{len(cells) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
