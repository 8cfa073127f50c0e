"""A finding: one mistake or one oddity of a request, with its code, its sentence and its place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.reframer.privacy import discreet

__all__ = [
    "MAX_FINDINGS",
    "Finding",
    "Notes",
    "Path",
    "Severity",
    "existing",
    "field_path",
    "in_document_order",
    "step_into",
]

Path: TypeAlias = tuple[str | int, ...]
Severity: TypeAlias = Literal["error", "warning"]

# Of one request. A person mends a few and sends it again; a million of them would only fill the memory.
MAX_FINDINGS = 1_000
_LONGEST_NAME = 128  # letters of a field's name that a path may hold
_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str
    path: Path = ()
    severity: Severity = "error"
    details: Mapping[str, Any] = {}
    # Where in the text, for what is wrong with the text itself: in characters, from 0.
    offset: int | None = None

    @property
    def field_path(self) -> str:
        return field_path(self.path)

    def as_json(self) -> dict[str, Any]:
        """In the form of the API's ValidationError (spec 3, 6.2)."""
        return {
            "error_code": self.code,
            "message": self.message,
            "field_path": self.field_path,
            "details": dict(self.details),
        }

    def for_log(self) -> dict[str, Any]:
        """The same for a log: a field's name may be somebody's address, and a log has other readers."""
        return {**self.as_json(), "field_path": discreet(self.field_path)}


class Notes:
    """Findings as they come; those of a severity for which there is no more room are not even worded."""

    def __init__(self, room: int = MAX_FINDINGS) -> None:
        self._room = room
        self._kept: dict[Severity, list[Finding]] = {"error": [], "warning": []}
        self._cut: set[Severity] = set()

    def add(self, severity: Severity, worded: Callable[[], Finding]) -> None:
        kept = self._kept[severity]
        if len(kept) < self._room:
            kept.append(worded())
        else:
            self._cut.add(severity)

    def extend(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            kept = self._kept[finding.severity]
            if len(kept) >= self._room:
                self._cut.add(finding.severity)
                return  # the rest is not even looked for
            kept.append(finding)

    def is_cut(self, severity: Severity) -> bool:
        """Whether there are more than were kept."""
        return severity in self._cut

    @property
    def errors(self) -> list[Finding]:
        return self._kept["error"]

    @property
    def warnings(self) -> list[Finding]:
        return self._kept["warning"]


def field_path(path: Sequence[str | int]) -> str:
    """`payload.messages[1].metadata["a b"]`; the document itself is the empty text."""
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        elif _PLAIN_NAME.fullmatch(step):
            out += f".{step}" if out else step
        else:
            out += f"[{json.dumps(step, ensure_ascii=False)}]"
    return out


def step_into(path: Path, name: str) -> Path:
    """The path of a field, or of what holds it when its name is too long to be repeated."""
    return (*path, name) if len(name) <= _LONGEST_NAME else path


def existing(path: Path, document: Any) -> Path:
    """As much of a path as there is in the document."""
    for count, step in enumerate(path):
        match document:
            case dict() if step in document:
                document = document[step]
            case list() if isinstance(step, int) and 0 <= step < len(document):
                document = document[step]
            case _:
                return path[:count]
    return path


def in_document_order(findings: Sequence[Finding], document: Any) -> tuple[Finding, ...]:
    """As a reader of the document meets them; at one place by keyword, then as they were found."""
    if not findings:
        return ()
    ranks: dict[int, dict[str, int]] = {}  # of every object that a path goes through: name -> place
    keyed = [(_place(finding, document, ranks), finding) for finding in findings]
    return tuple(finding for _, finding in sorted(keyed, key=lambda pair: pair[0]))


def _place(
    finding: Finding, document: Any, ranks: dict[int, dict[str, int]]
) -> tuple[tuple[int, ...], str, str]:
    places: list[int] = []
    for step in existing(finding.path, document):
        if isinstance(step, int):
            places.append(step)
        else:
            if id(document) not in ranks:
                ranks[id(document)] = {name: place for place, name in enumerate(document)}
            places.append(ranks[id(document)][step])
        document = document[step]
    return tuple(places), str(finding.details.get("keyword", "")), finding.code
