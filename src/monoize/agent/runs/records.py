"""What lies on disk of a run, read for those who want to see, check or take it. Every call blocks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, Any

import msgspec

from monoize.agent.record.export import export_run
from monoize.agent.record.folder_journal import folder_of
from monoize.agent.record.recorded_run import PayloadMissing, load
from monoize.agent.record.recovery import CannotRecover, recovered
from monoize.agent.record.replay import replay
from monoize.agent.runs.child_runs import Waiting, waiting_calls
from monoize.agent.runs.making import BUILD
from monoize.errors import Conflict

__all__ = ["packed", "replayed", "waiting"]

_IN_MEMORY = 8 * 1024**2  # of an export; larger ones lie on disk


def packed(root: Path, run_id: str) -> IO[bytes]:
    """An open file; whoever gets it closes it."""
    file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - outlives this
    try:
        export_run(root, run_id, file)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def replayed(root: Path, run_id: str) -> dict[str, Any]:
    run = load(folder_of(root, run_id))
    try:
        again = replay(run, build=BUILD)
    except PayloadMissing as missing:
        raise Conflict(f"it cannot be replayed: {missing}", code="payload_missing") from None
    plain: dict[str, Any] = msgspec.to_builtins(again)
    recorded = run.entries[-1].head if run.entries else ""
    identical = again.divergence is None and again.head == recorded
    return {"run_id": run_id, "identical": identical, "recorded_head": recorded, **plain}


def waiting(root: Path, run_id: str) -> tuple[Waiting, ...]:
    try:
        return waiting_calls(recovered(load(folder_of(root, run_id))).state)
    except CannotRecover:
        return ()
