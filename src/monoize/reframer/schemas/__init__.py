"""The published schemas, byte for byte as they are served, and the validators made from them."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema_rs

from monoize.reframer.formats import FORMATS

__all__ = [
    "FILES",
    "SCHEMA_VERSION",
    "checksum",
    "inlined",
    "raw_schema",
    "schema",
    "validator",
]

SCHEMA_VERSION = "1.0.0"
# Name in the address -> file. `token_hints` is our own: what the mask compiler reads (D23).
FILES = MappingProxyType(
    {
        "request": "reframer_request.json",
        "role": "role.json",
        "constraints": "constraints.json",
        "token_hints": "token_hints.json",
    }
)
_FOLDER = Path(__file__).parent


@cache
def raw_schema(name: str) -> bytes:
    """The file itself; a KeyError for a name that is none of `FILES`."""
    return (_FOLDER / FILES[name]).read_bytes()


@cache
def checksum(name: str) -> str:
    """SHA-256 of what is served, in hex: the ETag, and what clients compare."""
    return hashlib.sha256(raw_schema(name)).hexdigest()


def schema(name: str) -> dict[str, Any]:
    """A copy of its own for everybody who asks."""
    return json.loads(raw_schema(name))  # type: ignore[no-any-return]


@cache
def validator(name: str) -> jsonschema_rs.Validator:
    """References resolve among our files and nowhere else; formats are asserted."""
    return jsonschema_rs.Draft202012Validator(
        schema(name),
        registry=_registry(),
        validate_formats=True,
        formats=dict(FORMATS),
        offline=True,
    )


def inlined(name: str) -> dict[str, Any]:
    """The same schema with every reference replaced by what it points to."""
    return jsonschema_rs.dereference(schema(name), registry=_registry(), offline=True)


@cache
def _registry() -> jsonschema_rs.Registry:
    return jsonschema_rs.Registry([(found["$id"], found) for found in map(schema, FILES)])
