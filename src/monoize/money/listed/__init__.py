"""The price list of the genai-prices package: its data alone, without its code.

The list is one Python file of constructor calls. The package's own classes bring pydantic and an HTTP client, a quarter of
a second and 25 MB that every start would pay; with the few classes beside this file it is read in a hundredth of that.
"""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import cast

from monoize.money.listed.types import ModelInfo, ModelPrice, Provider

__all__ = ["ModelInfo", "ModelPrice", "Provider", "read"]

_NAME = f"{__name__}.data"  # so that its `from .types import *` finds the classes of this package


def read() -> tuple[Provider, ...]:
    """Everybody who sells models, in the package's order."""
    try:
        return _run(_file())
    except (AttributeError, ImportError, NameError, TypeError):
        # A later release may use words that are not known here; its own code understands them, and answers alike.
        from genai_prices.data import providers  # noqa: PLC0415

        return cast("tuple[Provider, ...]", tuple(providers))


def _file() -> Path:
    found = util.find_spec("genai_prices")  # finds a package without importing it
    if found is None or not found.submodule_search_locations:
        raise ImportError("genai-prices is not installed")
    return Path(found.submodule_search_locations[0], "data.py")


def _run(file: Path) -> tuple[Provider, ...]:
    spec = util.spec_from_file_location(_NAME, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be read")
    module = util.module_from_spec(spec)  # nobody else needs it: it is not kept
    spec.loader.exec_module(module)
    return tuple(module.providers)
