"""`monoize serve`: the gateway in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from monoize.cli._short_way import LAST_PORT

__all__ = ["serve"]


def serve(
    *,
    config: Annotated[
        Path | None, Parameter(help="YAML file; without one an embedded default starts")
    ] = None,
    host: Annotated[str | None, Parameter(help="address to listen on; wins over the file")] = None,
    port: Annotated[
        int | None,
        Parameter(
            help="port to listen on; wins over the file", validator=Number(gte=0, lte=LAST_PORT)
        ),
    ] = None,
    workers: Annotated[
        int, Parameter(help="processes that share the port", validator=Number(gte=1))
    ] = 1,
) -> int:
    """Run the gateway until SIGTERM or Ctrl-C; streams that still run are drained."""
    from monoize.cli._serving import serve_gateway  # noqa: PLC0415 - slow: `--help` needs none of it

    return serve_gateway(config=config, host=host, port=port, workers=workers)
