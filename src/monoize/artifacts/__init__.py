"""What other programs build on: the schemas, the OpenAPI document and a typed client, written from one source (spec 3, 7)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from monoize.artifacts.python_client import python_client
from monoize.reframer.schemas import FILES, raw_schema, schema
from monoize.server.api.openapi import document
from monoize.server.api.table import ENDPOINTS

__all__ = ["artifacts"]

# The component of the OpenAPI document that a request is, and what it refers to.
_PUBLISHED = {
    "ReframeRequest": "request",
    "ReframeRequestRole": "role",
    "ReframeRequestConstraints": "constraints",
}


def artifacts() -> Mapping[str, bytes]:
    """Path below the folder -> content; the same bytes whenever and wherever they are made."""
    described = document(ENDPOINTS)
    published = {component: schema(name) for component, name in _PUBLISHED.items()}
    return {
        "openapi.json": f"{json.dumps(described, indent=2, ensure_ascii=False)}\n".encode(),
        "python/monoize_client.py": python_client(described, published).encode(),
        **{f"schemas/{file}": raw_schema(name) for name, file in FILES.items()},
    }
