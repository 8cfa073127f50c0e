"""`monoize check` and `monoize config`: is this file right, and what may stand in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from monoize import wirejson
from monoize.errors import ConfigError
from monoize.server.worker import checked
from monoize.settings import load, schema

__all__ = ["app", "check"]

app = App(name="config", help="The config file: its JSON Schema.")


def check(
    *, config: Annotated[Path, Parameter(help="the YAML file")] = Path("monoize.yaml")
) -> int:
    """Validate a config without starting anything."""
    try:
        settings = checked(load(config), config)
    except ConfigError as error:
        print(f"monoize: {error.message}", file=sys.stderr)
        return 1
    models = sum(len(provider.models) for provider in settings.providers)
    print(
        f"{config}: good. {len(settings.providers)} providers, {models} model rows, {len(settings.keys)} keys."
    )
    return 0


@app.command(name="schema")
def show_schema() -> None:
    """Print the JSON Schema of the config file."""
    sys.stdout.buffer.write(wirejson.dumps(schema()) + b"\n")
