"""What this process holds open, for tests that nothing is left of what they began.

Gateways and providers of other tests may live on in threads of the same process: they take connections at any time, and
open once more what they have open already.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["open_files"]

_LISTENING = "0A"


def open_files() -> frozenset[str]:
    """What the numbers lead to, but for connections that a server here has taken."""
    taken, found = _taken_connections(), set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except OSError:  # the look at the folder itself
            continue
    return frozenset(found - taken)


def _taken_connections() -> set[str]:
    lines = [
        line.split()
        for family in ("tcp", "tcp6")
        for line in Path(f"/proc/self/net/{family}").read_text("ascii").splitlines()[1:]
    ]
    ports = {_port(words) for words in lines if words[3] == _LISTENING}
    return {
        f"socket:[{words[9]}]"
        for words in lines
        if words[3] != _LISTENING and _port(words) in ports
    }


def _port(words: list[str]) -> str:
    return words[1].rpartition(":")[2]
