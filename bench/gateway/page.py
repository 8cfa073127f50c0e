"""Where results are kept: parts of docs/performance.md and of the README between two marks, and what machine they are from."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from gateway.processes import Cores

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
README = PAGE.parents[1] / "README.md"
PICTURES = PAGE.parent / "performance"
_PACKAGES = ("monoize", "uvloop", "httptools", "msgspec", "orjson")


def replaced(page: str, part: str, text: str) -> str:
    """The page with another text between the marks of a part."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    before, found, rest = page.partition(begin)
    _, found_too, after = rest.partition(end)
    if not (found and found_too):
        raise ValueError(f"the page has no part {part!r} between {begin} and {end}")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"


def write(part: str, text: str, where: Path = PAGE) -> None:
    page = replaced(where.read_text("utf-8"), part, text)
    fresh = where.with_suffix(".new")
    fresh.write_text(page, "utf-8")
    fresh.replace(where)


def stamp() -> str:
    """When, where and how disturbed, in a line."""
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"load of the machine when it was done: {load:.1f}"
    )


def machine(cores: Cores, others: dict[str, str]) -> str:
    """What the numbers are from."""
    versions = [f"{name} {version(name)}" for name in _PACKAGES]
    versions += [f"{name} {number}" for name, number in others.items() if name != "monoize"]
    if cores.are_apart:
        sharing = "gateway on one core, callers and mock provider on another"
    else:
        sharing = "**only one core: gateway, callers and mock provider share it**"
    return "\n".join(
        [
            f"- {stamp()}",
            f"- Linux {platform.release()}; {sharing}",
            f"- {', '.join(versions)}",
        ]
    )


def _processor() -> str:
    told = Path("/proc/cpuinfo").read_text("utf-8")
    found = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return found[1] if found else platform.machine()
