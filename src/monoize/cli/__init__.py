"""The command line: one file per group of commands."""

from __future__ import annotations

import os
import sys
from typing import Any

from monoize import __version__

__all__ = ["app", "main"]


def main() -> None:
    try:
        try:
            _run(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read it (`head`) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _run(words: list[str]) -> None:
    """What programs call often and wait for goes the short way; all else through the framework, which takes 70 ms to import."""
    if words == ["--version"]:
        print(__version__)
        return
    if words[:1] == ["serve"]:
        from monoize.cli._short_way import plain_options, run_gateway  # noqa: PLC0415

        options = plain_options(words[1:])
        if options is not None:
            run_gateway(options)
    from monoize.cli._commands import app  # noqa: PLC0415

    app(words)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from monoize.cli._commands import app  # noqa: PLC0415

    return app


if __name__ == "__main__":
    main()
