"""pip as a child process, with its downloads shown as a bar."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from monoize.errors import EngineError

__all__ = ["argv", "install"]

_COMMAND = ("python", "-m", "pip", "install")
_QUIET = ("--disable-pip-version-check", "--no-input")
_IN_NUMBERS = ("--progress-bar", "raw")  # one line for every few kilobytes, to be drawn by us
_IN_NUMBERS_SINCE = (24, 1)
_SO_FAR = re.compile(r"Progress (\d+) of (\d+)")
_STEP = re.compile(
    r"\s*(?:Collecting|Downloading|Using cached|Installing collected packages:?) (\S+)"
)


def argv(command: str, python: str = sys.executable) -> list[str]:
    """The command of an engine's status, for this very Python. Only pip is ever run."""
    words = shlex.split(command)
    if tuple(words[: len(_COMMAND)]) != _COMMAND:
        raise EngineError(f"Install it by hand: {command}")
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        raise EngineError(f"There is no pip beside {python}. The command is: {command}") from None
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    progress = _IN_NUMBERS if numbers >= _IN_NUMBERS_SINCE else ()
    return [python, *words[1 : len(_COMMAND)], *_QUIET, *progress, *words[len(_COMMAND) :]]


def install(command: str, console: Console) -> None:
    """Raises EngineError with pip's last words."""
    with Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        last = _followed(argv(command), progress)
    importlib.invalidate_caches()
    if last is not None:
        raise EngineError(f"pip could not install it ({last}). The command was: {command}")


def _followed(command: Sequence[str], progress: Progress) -> str | None:
    """What pip said last, if it was not content: its error, where it says which."""
    last = ""
    bar = progress.add_task("starting pip", total=None)
    # Our own constants, and the interpreter that runs us.
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        for line in _lines(pip):
            if so_far := _SO_FAR.match(line):
                done, total = map(int, so_far.groups())
                progress.update(bar, completed=done, total=total or None)
            elif line.strip():
                last = last if last.startswith("ERROR") else line.strip()
                if step := _STEP.match(line):
                    progress.update(bar, description=step[1][:40])
    return last if pip.returncode else None


def _lines(pip: subprocess.Popen[str]) -> Iterator[str]:
    if pip.stdout is not None:
        yield from pip.stdout
