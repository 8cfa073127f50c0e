"""What a provider says, in neutral words: one row per scenario, each protocol's speaker puts it on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Say:
    pieces: tuple[str, ...]
    cites: tuple[tuple[str, str], ...] = ()  # (url, title)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Think:
    """A thought that may be shown, with the provider's seal on it."""

    text: str
    seal: str


@dataclass(frozen=True)
class Hide:
    """A thought that is only there sealed."""

    seal: str


@dataclass(frozen=True)
class Use:
    name: str
    arguments: dict[str, Any]
    seal: str = ""  # where a protocol seals the call itself


@dataclass(frozen=True)
class Refuse:
    text: str


@dataclass(frozen=True)
class Tokens:
    """`input` includes `cached`, `output` includes `reasoning`."""

    input: int = 40
    cached: int = 16
    output: int = 20
    reasoning: int = 8


Part = Say | Think | Hide | Use | Refuse


@dataclass(frozen=True)
class Turn:
    parts: tuple[Part, ...]
    finish: str  # stop | tool_calls | length | refusal
    tokens: Tokens = field(default_factory=Tokens)

    def of(self, kind: type) -> list[Any]:
        return [part for part in self.parts if isinstance(part, kind)]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.of(Say))

    @property
    def thoughts(self) -> str:
        return "".join(part.text for part in self.of(Think))

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(part.name, part.arguments) for part in self.of(Use)]


# Letters of one to four bytes, so that careless cuts show (T12).
GREETING = Say(("Grüße aus ", "東京 🌏", ": all good."))
WEATHER = Use("get_weather", {"city": "Zürich", "days": 3, "note": "夏 ☀️"}, seal="Q2FsbFNlYWwx")
AFTER_RESULTS = Turn((Say(("It is ", "21 °C.")),), "stop")


@dataclass(frozen=True)
class Scenario:
    """`turns[n]` answers a request that holds the results of n earlier turns with calls."""

    name: str
    turns: tuple[Turn, ...]


def _row(name: str, *turns: Turn) -> Scenario:
    return Scenario(name, (*turns, AFTER_RESULTS))


SCENARIOS = {
    row.name: row
    for row in (
        _row("text", Turn((GREETING,), "stop", Tokens(reasoning=0))),
        _row("tools", Turn((WEATHER,), "tool_calls")),
        _row("text_then_tool", Turn((Say(("Looking ", "it up.")), WEATHER), "tool_calls")),
        _row(
            "parallel",
            Turn(
                (
                    WEATHER,
                    Use("get_weather", {"city": "Oslo", "days": 1}),
                    Use("get_time", {"zone": "Europe/Oslo"}),
                ),
                "tool_calls",
            ),
        ),
        _row("bare_call", Turn((Use("get_time", {}),), "tool_calls")),
        _row(
            "reasoning",
            Turn(
                (
                    Think("First the weather, 先に天気. ", "U2VhbE9uZQ=="),
                    Hide("SGlkZGVuVGhvdWdodA=="),
                    Think("Then the answer.", "U2VhbFR3bw=="),
                    WEATHER,
                ),
                "tool_calls",
            ),
        ),
        _row(
            "chain",
            Turn((WEATHER,), "tool_calls"),
            Turn((Use("get_weather", {"city": "Bern"}, seal="Q2FsbFNlYWwy"),), "tool_calls"),
        ),
        _row("refusal", Turn((Refuse("I cannot help with that."),), "refusal")),
        _row("length", Turn((Say(("This sentence is cut ", "in the mid")),), "length")),
        _row(
            "citations",
            Turn(
                (
                    Say(
                        ("The tower is 330 m ", "high."),
                        (
                            ("https://example.org/tower", "Tower"),
                            ("https://example.net/heights", "Heights"),
                        ),
                    ),
                ),
                "stop",
            ),
        ),
    )
}
