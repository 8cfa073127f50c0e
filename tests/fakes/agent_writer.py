"""A process that writes a run and asks before every touch of the disk: whoever starts it may kill it at any of them."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from typing_extensions import override

from fakes.agent_runs import KEY, MANIFEST, contract, entries
from monoize.agent.record.folder_journal import Disk, RunFolder
from monoize.agent.record.signing import CHECKPOINT_EVERY

__all__ = ["AskingDisk", "go_on"]


class AskingDisk(Disk):
    """Writes in pieces, so that half a line is on disk when death comes."""

    def _ask(self, letter: str) -> None:
        os.write(1, letter.encode())
        if os.read(0, 1) != b"g":
            sys.exit(3)

    @override
    def write(self, handle: int, data: bytes) -> None:
        third = len(data) // 3 + 1
        for start in range(0, len(data), third):
            self._ask("w")
            super().write(handle, data[start : start + third])

    @override
    def sync(self, handle: int) -> None:
        self._ask("s")
        super().sync(handle)

    @override
    def truncate(self, handle: int, size: int) -> None:
        self._ask("t")
        super().truncate(handle, size)

    @override
    def rename(self, folder: int, old: str, new: str) -> None:
        self._ask("r")
        super().rename(folder, old, new)


def go_on(root: Path, run_id: str, seed: int, rounds: int, disk: Disk | None = None) -> Path:
    """From wherever the last writer was killed to the end; says `a` for every entry that is safe."""
    bound = contract()
    folder = RunFolder(root, run_id, signer=KEY, disk=disk)
    folder.note("contract", bound)
    folder.note("manifest", MANIFEST)
    there = len(folder.transcript.entries)
    for entry, payloads in entries(run_id, bound, random.Random(seed), rounds):
        if entry.seq >= there:
            folder.append(entry, payloads)
            if disk is not None:
                os.write(1, b"a")
        if (entry.seq + 1) % CHECKPOINT_EVERY == 0 and entry.seq + 1 > there:
            folder.seal(KEY.checkpoint(run_id, entry.seq + 1, entry.head))
        if entry.to == "TERMINATE":
            folder.seal(KEY.checkpoint(run_id, entry.seq + 1, entry.head))
    folder.close()
    return folder.path


if __name__ == "__main__":
    go_on(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), AskingDisk())
    os.write(1, b"e")
