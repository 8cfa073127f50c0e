"""Three small tools for the runs of agent_baseline.py: their schemas are short, since a small model reads them slowly."""

from __future__ import annotations

import os
from pathlib import Path

from monoize.agent.tools.mark import tool

_MOST = 2000  # characters


@tool(pure=True, scope="read")
def list_files() -> list[str]:
    """List all files."""
    here = _folder()
    return sorted(str(file.relative_to(here)) for file in here.rglob("*") if file.is_file())[:50]


@tool(pure=True, scope="read")
def read_file(path: str) -> str:
    """Read a file."""
    return _inside(path).read_text("utf-8")[:_MOST]


@tool(scope="write")
def write_file(path: str, content: str) -> str:
    """Write a file."""
    file = _inside(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, "utf-8")
    return "written"


def _inside(path: str) -> Path:
    file = (_folder() / path).resolve()
    if not file.is_relative_to(_folder()):
        raise ValueError("the path leads out of the folder")
    return file


def _folder() -> Path:
    """A process of its own calls these, with no other environment than this."""
    return Path(os.environ["FILES"]).resolve()
