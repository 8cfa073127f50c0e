"""Which paths belong to which part of the gateway, known before any of those parts is imported."""

from __future__ import annotations

__all__ = ["ASSETS", "ENVELOPES", "PAGES", "is_managements", "is_reframers"]

ENVELOPES = "/v1/operations"
# Of the console (`/` is one too, for who accepts text/html).
PAGES = (
    "/(?:chat|code|costs|keys|media|providers|reframer|requests|runs|settings|sign-in|transforms|users)"
    "(?:/[^/]+)?"
)
ASSETS = r"/console/(?P<version>[^/]+)/(?P<name>.+)"

_MANAGEMENT = ("/openapi.json", "/docs")
_REFRAMER = ("/v1/reframe", "/v1/reframe/batch", "/v1/health")
_SCHEMAS = "/v1/schemas/"


def is_managements(path: str) -> bool:
    return path.startswith("/api/") or path in _MANAGEMENT


def is_reframers(path: str) -> bool:
    """Whether errors at this path are ValidationErrors."""
    return path in _REFRAMER or path.startswith(_SCHEMAS)
