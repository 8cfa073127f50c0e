"""`monoize artifacts`: the schemas, the OpenAPI document and the Python client as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from monoize.artifacts import artifacts

__all__ = ["write_artifacts"]


def write_artifacts(
    folder: Annotated[Path, Parameter(help="where they go; it is made where there is none")],
) -> int:
    """Write what other programs build on into a folder."""
    try:
        for name, content in artifacts().items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            print(file)
    except OSError as error:
        print(f"monoize: {error.filename or folder}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
