"""Addresses at which somebody can find a file: on the web, and in the gateway's own store."""

from __future__ import annotations

__all__ = ["STORED", "is_reachable"]

# The gateway puts the bytes in before a provider sees such an address (D30), so it only stays in a request
# that is made for the gateway (D50).
STORED = "smsfile://"
_REACHABLE = ("http://", "https://", STORED)


def is_reachable(url: str) -> bool:
    return url.startswith(_REACHABLE)
