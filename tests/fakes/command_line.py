"""A command of the program in this process: what it says and how it ends, without a second of imports for each."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

from monoize.cli._commands import app


def ran_here(
    *words: str, text: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` would tell it. Whether the program starts at all is shown where it is really started."""
    said, told = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    heard = io.TextIOWrapper(io.BytesIO((text or "").encode()), "utf-8")
    code: object = 0
    with (
        contextlib.chdir(folder or Path.cwd()),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(told),
        mock.patch.object(sys, "stdin", heard),
    ):
        try:
            app(list(words))
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(words, code, _text(said), _text(told))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written = stream.detach()
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()
