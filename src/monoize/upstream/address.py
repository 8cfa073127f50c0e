"""Joining a base URL with a protocol's path without doubling the version segment."""

from __future__ import annotations

import re

__all__ = ["joined_url"]

_VERSION = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")


def joined_url(base_url: str, path: str) -> str:
    """`base_url` is what the vendor's SDK would be given, with or without its version segment (INTERFACES)."""
    base = base_url.rstrip("/")
    host_end = base.find("/", base.find("://") + 3)
    if host_end != -1 and _VERSION.search(base, host_end):
        path = _VERSION.sub("", path, count=1)
    return base + path
