"""`monoize serve` with nothing but plain options, read without the framework of the command line.

A gateway is started by machines that wait for it: containers, tests, supervisors. Whatever is not plain here (an option
twice, an unknown one, a number that is none) is left to the framework, which knows more forms and finds the words for mistakes.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["LAST_PORT", "plain_options", "run_gateway"]

LAST_PORT = 65535

_INTERRUPTED = 130
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


def plain_options(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of `serving.serve_gateway` that the words name; None: not plain."""
    found: dict[str, Any] = {}
    for name, text in zip(words[::2], words[1::2], strict=False):
        value = _value(name, text)
        if value is None or name.removeprefix("--") in found:
            return None
        found[name.removeprefix("--")] = value
    return found if len(words) % 2 == 0 else None


def _value(name: str, text: str) -> Any:
    if not text or text.startswith("-"):
        return None
    match name:
        case "--config":
            return Path(text)
        case "--host":
            return text
        case "--port":
            return _number(text, 0, LAST_PORT)
        case "--workers":
            return _number(text, 1, LAST_PORT)
        case _:
            return None


def _number(text: str, least: int, most: int) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) and least <= int(text) <= most else None


def run_gateway(options: dict[str, Any]) -> NoReturn:
    """Ends the program as the framework would."""
    gc.disable()  # a fifth of the start; `worker` switches it on again
    from monoize.cli._serving import serve_gateway  # noqa: PLC0415 - slow: the options come first

    try:
        sys.exit(serve_gateway(**options))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
