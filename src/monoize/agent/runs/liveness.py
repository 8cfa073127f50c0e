"""Which processes that run agents are alive, as far as the folder of the runs tells: each touches a file of its own there."""

from __future__ import annotations

import json
import os
import re
import secrets
from pathlib import Path

import msgspec

from monoize.clock import Clock
from monoize.store.recovery import Process, Watch, is_running, this_host

__all__ = ["Liveness", "place_of"]

_NAME = re.compile(r"[a-z0-9-]{1,64}")


class _Said(msgspec.Struct):
    host: str
    pid: int


class Liveness:
    """Every call blocks."""

    def __init__(self, root: Path, clock: Clock, silence: float) -> None:
        self._folder = root / ".alive"
        self.clock = clock
        self._watch = Watch(silence)
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"

    def beat(self) -> None:
        file = self._folder / self.name
        try:
            os.utime(file)
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = self._folder / f".{self.name}"
            part.write_text(json.dumps({"host": this_host(), "pid": os.getpid()}), "utf-8")
            part.rename(file)

    def leave(self) -> None:
        (self._folder / self.name).unlink(missing_ok=True)

    def dead(self, names: set[str]) -> set[str]:
        """Of these, all that are gone: without a file, silent for long, or ended on this machine."""
        known = {process.instance: process for process in self._known()}
        now = self.clock.monotonic()
        silent = self._watch.dead(known.values(), this_host(), now, is_running)
        return (names - known.keys()) | (names & {process.instance for process in silent})

    def forget(self, names: set[str]) -> None:
        """Files of the dead, once nothing of theirs is left."""
        for name in names:
            if _NAME.fullmatch(name):
                (self._folder / name).unlink(missing_ok=True)

    def _known(self) -> list[Process]:
        found = []
        for file in self._folder.glob("[!.]*") if self._folder.is_dir() else ():
            if file.name == self.name:
                continue
            try:
                said = msgspec.json.decode(file.read_bytes(), type=_Said)
                seen_at = file.stat().st_mtime_ns // 1_000_000
            except (OSError, msgspec.MsgspecError):
                continue
            found.append(Process(instance=file.name, host=said.host, pid=said.pid, seen_at=seen_at))
        return found


def place_of(root: Path) -> str:
    """A name of the folder itself: processes that share the folder share the name, and take over from one another."""
    file = root / ".place"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = root / f".place-{secrets.token_hex(8)}"
    part.write_text(secrets.token_hex(8), "ascii")
    try:
        os.link(part, file)  # of two that begin together, the first names it
    except FileExistsError:
        pass
    finally:
        part.unlink()
    return file.read_text("ascii").strip()
