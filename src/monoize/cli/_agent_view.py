"""A run on the terminal, drawn from its digest alone; without a terminal, a line for every change (invariant D)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from monoize.agent.live.watching import Delta, Ended, Seen, StateSeen, ToolSeen
from monoize.agent.machine.digest import StateDigest

__all__ = ["RunView", "outcome_style"]

_STATES = ("PRECHECK", "INFER", "VALIDATE_CALLS", "EXECUTE", "OBSERVE", "COMMIT", "TERMINATE")
_CALLS = {"waiting": "yellow", "ok": "green", "error": "red"}
_TRAIL = 6  # transitions that are shown
_WIDTH = 24


def outcome_style(outcome: str | None) -> str:
    if outcome is None:
        return "cyan"
    if outcome.startswith("COMPLETED"):
        return "green"
    return "yellow" if outcome == "INTERRUPTED" else "red"


class RunView:
    """`with RunView(...) as view: view.see(...)`; everything goes to standard error, so that the output stays clean."""

    def __init__(self, task: str, *, quiet: bool = False) -> None:
        self._task = "".join(letter for letter in " ".join(task.split()) if letter.isprintable())
        self._quiet = quiet
        self._console = Console(file=sys.stderr, highlight=False)
        self._live: Live | None = None
        self._shown = ""

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def see(self, seen: Seen) -> None:
        if self._quiet:
            return
        match seen:
            case StateSeen(digest=digest) | Ended(digest=digest):
                if self._live is not None:
                    self._live.update(_drawn(self._task, digest))
                else:
                    self._line(digest)
            case Delta() | ToolSeen():
                pass  # the digest tells

    def _line(self, digest: StateDigest) -> None:
        calls = ", ".join(f"{call['name']} {call['status']}" for call in digest.calls)
        line = f"{digest.state:<14} step {digest.step}  {digest.tokens_consumed} tokens"
        line += f"  {calls}" if calls else ""
        if line != self._shown:
            self._shown = line
            print(line, file=sys.stderr, flush=True)


def _drawn(task: str, digest: StateDigest) -> Group:
    head = Text.assemble(
        ("● ", outcome_style(digest.outcome)), (task[:200], "bold"), ("  " + digest.run_id, "dim")
    )
    return Group(head, _states(digest), _budgets(digest), *_calls(digest), *_trail(digest))


def _states(digest: StateDigest) -> Text:
    words = Text("  ")
    for state in _STATES:
        is_here = state == digest.state
        words.append(state, outcome_style(digest.outcome) + " bold" if is_here else "dim")
        words.append(" → " if state != _STATES[-1] else "", "dim")
    return words


def _budgets(digest: StateDigest) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    rows: list[tuple[str, int, int | None]] = [
        ("inferences", digest.inferences_used, digest.inferences_remaining),
        ("tool calls", digest.tool_calls_used, digest.tool_calls_remaining),
        ("tokens", digest.tokens_consumed, digest.tokens_remaining),
        ("seconds", digest.elapsed_ms // 1000, digest.time_remaining_ms // 1000),
        ("context ‰", digest.context_permille, 1000 - digest.context_permille),
    ]
    for name, used, left in rows:
        table.add_row(f"  {name}", _bar(used, left), f"{used:,}" + _of(used, left))
    return table


def _of(used: int, left: int | None) -> str:
    return "" if left is None else f" of {used + left:,}"


def _bar(used: int, left: int | None) -> Any:
    if left is None:
        return ""
    return ProgressBar(total=max(1, used + left), completed=used, width=_WIDTH)


def _calls(digest: StateDigest) -> Iterator[Text]:
    for call in digest.calls:
        status = str(call["status"])
        yield Text.assemble("  ", (status, _CALLS.get(status, "")), " ", str(call["name"]))


def _trail(digest: StateDigest) -> Iterator[Text]:
    for seq, step, start, end in digest.trail[-_TRAIL:]:
        yield Text(f"  {seq:>4} {step:<8} {start} → {end}", "dim")
    if digest.outcome is not None:
        said = f"  {digest.outcome}" + (f" ({digest.failure_code})" if digest.failure_code else "")
        yield Text(said, outcome_style(digest.outcome))
