"""Which paths belong to which part of the gateway, known before any of those parts is imported."""

from __future__ import annotations

__all__ = ["ENVELOPES", "is_managements", "is_reframers"]

ENVELOPES = "/v1/operations"

_MANAGEMENT = ("/openapi.json", "/docs")
_REFRAMER = ("/v1/reframe", "/v1/reframe/batch", "/v1/health")
_SCHEMAS = "/v1/schemas/"


def is_managements(path: str) -> bool:
    return path.startswith("/api/") or path in _MANAGEMENT


def is_reframers(path: str) -> bool:
    """Whether errors at this path are ValidationErrors."""
    return path in _REFRAMER or path.startswith(_SCHEMAS)
