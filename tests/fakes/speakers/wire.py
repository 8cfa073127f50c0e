"""What every speaker needs: JSON as text, server-sent events as bytes, pieces of a string, what a request holds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def frame(payload: Any, name: str | None = None, end: str = "\n") -> bytes:
    data = payload if isinstance(payload, str) else dumps(payload)
    return f"{f'event: {name}{end}' if name else ''}data: {data}{end}{end}".encode()


def mark(arguments: Json) -> str:
    """Letters for the id of a call: other arguments, another id, as over a whole conversation."""
    return hashlib.sha256(dumps(arguments).encode()).hexdigest()[:10]


def pieces(text: str, count: int = 3) -> list[str]:
    """The text in about `count` pieces, as deltas bring it."""
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


@dataclass
class Heard:
    """A provider's reading of a request: calls and results in order, and seals with what they sit on."""

    calls: list[tuple[str, str, Json]] = field(default_factory=list)  # id, name, arguments
    results: list[tuple[str, str]] = field(default_factory=list)  # id of the call, text
    seals: list[tuple[str, str]] = field(default_factory=list)  # what it sits on, seal
    said: list[tuple[str, str]] = field(default_factory=list)  # role, text
    tools: list[str] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """How many turns with calls have been answered; the scenarios with several make one call each."""
        return 0 if not self.results else len(self.results)

    def unpaired(self) -> list[str]:
        """Calls without exactly one result, results without a call."""
        calls, results = [call[0] for call in self.calls], [result[0] for result in self.results]
        return [i for i in {*calls, *results} if calls.count(i) != 1 or results.count(i) != 1]
