"""A run at the terminal: watched, interrupted by Ctrl-C, gone on with once a person has said yes."""

from __future__ import annotations

import asyncio
import signal
import sys

from monoize.agent.live.watching import Ended
from monoize.agent.outcome import FailureCode
from monoize.agent.runs.child_runs import Waiting
from monoize.agent.runs.request import RunRequest
from monoize.agent.runs.service import RunService, Shown
from monoize.cli._agent_view import RunView
from monoize.cli._desk import show_json
from monoize.pipeline.call import NOBODY

__all__ = ["chosen", "concluded", "printable", "until_settled", "watched"]

_ALL = "all"
_FAILED = 1  # exit code


async def until_settled(
    service: RunService, request: RunRequest, approve: tuple[str, ...], *, quiet: bool
) -> Shown:
    """Calls that need a yes end a run; with the yes a child goes on with them (D46)."""
    task = request.task or ""
    while True:
        run_id = await service.create(request, NOBODY)
        shown = await watched(service, run_id, task, quiet=quiet)
        if shown.digest.failure_code != FailureCode.APPROVAL_REQUIRED:
            return shown
        calls = await service.waiting(run_id, NOBODY)
        approved = chosen(calls, approve) or _asked(calls, quiet=quiet)
        if len(approved) < len(calls):
            return shown
        request = RunRequest(
            parent_run_id=run_id, approve=approved, page=request.page, tools=request.tools
        )


async def watched(service: RunService, run_id: str, task: str, *, quiet: bool) -> Shown:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(
        signal.SIGINT, lambda: service.executor.interrupt(run_id, "interrupted at the terminal")
    )
    try:
        with RunView(task or run_id, quiet=quiet) as view:
            async for seen in service.watched(run_id):
                view.see(seen)
                if isinstance(seen, Ended):
                    row = (await service.shown(run_id, NOBODY)).row
                    return Shown(row=row, digest=seen.digest, contract=seen.contract)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    raise AssertionError("a run that is watched comes to its end")


def chosen(calls: tuple[Waiting, ...], approve: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(call.id for call in calls if {_ALL, call.name, call.id, call.hash} & set(approve))


def _asked(calls: tuple[Waiting, ...], *, quiet: bool) -> tuple[str, ...]:
    """On a terminal; elsewhere nobody is there to say yes."""
    if quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return ()
    approved = []
    for call in calls:
        print(f"{call.name} {printable(call.arguments)}", file=sys.stderr)
        print("Run this call? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            approved.append(call.id)
    return tuple(approved)


def concluded(shown: Shown, *, as_json: bool) -> int:
    digest = shown.digest
    if as_json:
        show_json(shown.reply())
    else:
        if digest.output:
            # A model may write anything, also what moves the cursor of a terminal.
            print(printable(digest.output) if sys.stdout.isatty() else digest.output)
        why = f" ({digest.failure_code}: {digest.reason})" if digest.failure_code else ""
        print(f"{digest.outcome}{printable(why)}", file=sys.stderr)
        print(f"monoize agent show {digest.run_id}", file=sys.stderr)
    return 0 if (digest.outcome or "").startswith("COMPLETED") else _FAILED


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)
