"""`monoize translate`: what a request would become for another protocol, and what it would lose."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import orjson
from cyclopts import Parameter

from monoize import wirejson
from monoize.errors import MonoizeError
from monoize.pipeline.translate import translated_to

__all__ = ["translate"]


def translate(
    file: Annotated[
        Path,
        Parameter(help="the request as JSON; - reads standard input", allow_leading_hyphen=True),
    ],
    *,
    source: Annotated[str, Parameter(name="--from", help="protocol of the request")],
    to: Annotated[str, Parameter(help="protocol to translate to")],
    model: Annotated[str | None, Parameter(help="for gemini, whose URL names the model")] = None,
    json: Annotated[bool, Parameter(help="the whole report as one JSON object")] = False,
) -> int:
    """Show the exact body that a provider would get. Nothing is sent."""
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        wire = {"from": source, "to": to, "request": wirejson.loads(raw)}
        report = translated_to({**wire, **({"model": model} if model else {})})
    except OSError as error:
        print(f"monoize: {file}: {error.strerror}", file=sys.stderr)
        return 1
    except wirejson.JsonError as error:
        print(f"monoize: {file}: not JSON: {error}", file=sys.stderr)
        return 1
    except MonoizeError as error:
        print(f"monoize: {error.message}", file=sys.stderr)
        return 1
    if json:
        sys.stdout.buffer.write(wirejson.dumps(report) + b"\n")
        return 0
    print(f"POST {report['path']}")
    sys.stdout.flush()
    sys.stdout.buffer.write(orjson.dumps(report["body"], option=orjson.OPT_INDENT_2) + b"\n")
    dropped = ", ".join(report["dropped"])
    print(f"lost: {dropped}" if dropped else "lossless", file=sys.stderr)
    return 0
