"""`monoize import`: another gateway's config as one of ours."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from cyclopts import App, Parameter

from monoize import wirejson
from monoize.litellm_import import Note, imported

__all__ = ["app"]

app = App(name="import", help="The config of another gateway as one of ours.")

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@app.command
def litellm(
    file: Annotated[
        Path,
        Parameter(help="LiteLLM's config.yaml; - reads standard input", allow_leading_hyphen=True),
    ],
    *,
    output: Annotated[Path | None, Parameter(help="write the config there; a new file")] = None,
    json: Annotated[bool, Parameter(help="config and notes as one JSON object")] = False,
) -> int:
    """Turn a LiteLLM config into ours, and list what it cannot say. Nothing is sent, no variable is read."""
    try:
        config, notes = imported(_read(file))
        text = _page(config, file)
        if output is not None:
            _write(output, text)
    except (OSError, ValueError) as error:
        print(f"monoize: {' '.join(_told(error).split())}", file=sys.stderr)
        return 1
    variables = sorted(set(_REFERENCE.findall(text)))
    if json:
        _print_json(config, notes, variables)
        return 0
    if output is None:
        print(text, end="", flush=True)
    _print_notes(notes, variables, output)
    return 0


def _read(file: Path) -> Mapping[str, Any]:
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        source = yaml.safe_load(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 text ({error.reason})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"{file}{place}: {getattr(error, 'problem', None) or error}") from None
    except (RecursionError, ValueError) as error:  # such as a month 13
        reason = "is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{file}: {reason}") from None
    if not isinstance(source, dict):
        raise ValueError(f"{file}: must be a mapping with a model_list")  # noqa: TRY004 - a sentence for people
    return source


def _told(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror or error}"
    return str(error)


def _page(config: Mapping[str, Any], file: Path) -> str:
    written = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=120)
    return f"# Made from {file.name} by `monoize import litellm`.\n{written}"


def _write(output: Path, text: str) -> None:
    """A new file that only its owner reads: keys may stand in it."""
    number = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "w", encoding="utf-8") as made:
        made.write(text)


def _print_json(config: Mapping[str, Any], notes: list[Note], variables: list[str]) -> None:
    listed = [{"path": note.path, "reason": note.reason} for note in notes]
    report = {"config": config, "notes": listed, "environment": variables}
    sys.stdout.buffer.write(wirejson.dumps(report) + b"\n")


def _print_notes(notes: list[Note], variables: list[str], output: Path | None) -> None:
    if output is not None:
        print(f"wrote {output}; try: monoize check --config {output}", file=sys.stderr)
    if variables:
        print(f"needs in the environment: {', '.join(variables)}", file=sys.stderr)
    for note in notes:
        print(f"  {note.path}: {note.reason}", file=sys.stderr)
