"""Ports for servers that must be told where to listen."""

from __future__ import annotations

import socket
from pathlib import Path
from random import SystemRandom

_LOWEST = 10_000
_DICE = SystemRandom()  # workers with the same seed must not draw the same ports
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """One that nobody has, and that the system gives to no outgoing connection before it is used, or between two starts."""
    begins = int(_RANGE.read_text("ascii").split()[0]) if _RANGE.exists() else _LOWEST
    for _ in range(100):
        wanted = _DICE.randrange(_LOWEST, begins) if begins > _LOWEST else 0
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            port: int = probe.getsockname()[1]
            return port
    raise AssertionError("no port is free")
