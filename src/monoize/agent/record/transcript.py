"""Transcripts as text: one JSON object a line, read strictly, so that a mistake is named and never guessed away."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from monoize.agent.machine.states import TRANSITIONS, State
from monoize.agent.record.entry import Checkpoint, Entry, first_prev, head_of
from monoize.agent.record.formats import UnknownFormat, current_line

__all__ = [
    "MAX_LINE_BYTES",
    "BadTranscript",
    "Line",
    "Transcript",
    "TranscriptReader",
    "check_chain",
    "line_of",
    "read_transcript",
]

MAX_LINE_BYTES = 1024**2  # an entry is about a kilobyte: what is longer is not ours

Line: TypeAlias = Entry | Checkpoint

_encoder = msgspec.json.Encoder()


class BadTranscript(ValueError):
    def __init__(self, line: int, mistake: str) -> None:
        super().__init__(f"line {line}: {mistake}")
        self.line = line  # from 1
        self.mistake = mistake


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[Line, ...]
    # What follows the last whole line: a write that a crash cut off. It was never acknowledged.
    torn: bytes = b""

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(line for line in self.lines if isinstance(line, Entry))

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        return tuple(line for line in self.lines if isinstance(line, Checkpoint))


class TranscriptReader:
    """Takes bytes as they come, gives whole lines; `torn` is the rest."""

    def __init__(self) -> None:
        self._rest = b""
        self._count = 0

    @property
    def torn(self) -> bytes:
        return self._rest

    def feed(self, data: bytes) -> list[Line]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise BadTranscript(self._count + len(whole) + 1, _too_long())
        return [self._line(raw) for raw in whole]

    def _line(self, raw: bytes) -> Line:
        self._count += 1
        try:
            return _decoded(raw)
        except ValueError as mistake:
            raise BadTranscript(self._count, str(mistake)) from None


def line_of(line: Line) -> bytes:
    """With its line break; compact, in the order of the fields."""
    return _encoder.encode(line) + b"\n"


def read_transcript(data: bytes) -> Transcript:
    """All of it; a last line without a line break, or of which the disk kept only zeros, is told apart as torn."""
    whole = data.rfind(b"\n") + 1
    last = data.rfind(b"\n", 0, max(whole - 1, 0)) + 1
    if b"\0" in data[last:whole]:  # a length that was kept without its content
        whole = last
    reader = TranscriptReader()
    return Transcript(lines=tuple(reader.feed(data[:whole])), torn=data[whole:])


def check_chain(lines: Iterable[Line], run_id: str | None = None) -> None:
    """Raises BadTranscript at the first line that does not follow from those before it."""
    before: list[Entry] = []
    for number, line in enumerate(lines, 1):
        mistake = (
            _mistake_of_entry(line, before, run_id)
            if isinstance(line, Entry)
            else _mistake_of_checkpoint(line, before)
        )
        if mistake is not None:
            raise BadTranscript(number, mistake)
        if isinstance(line, Entry):
            before.append(line)


def _mistake_of_entry(entry: Entry, before: Sequence[Entry], run_id: str | None) -> str | None:
    last = before[-1] if before else None
    came_from = State.PRECHECK.value if last is None else last.to
    prev = first_prev(entry.contract_hash) if last is None else last.head
    if entry.seq != len(before):
        return f"seq is {entry.seq} where {len(before)} is due"
    if entry.run_id != (run_id or (last or entry).run_id):
        return f"it belongs to the run {entry.run_id!r}"
    if last is not None and entry.contract_hash != last.contract_hash:
        return "the contract changes in the middle of the run"
    if entry.from_ != came_from or not _is_legal(entry.from_, entry.to):
        return f"there is no way from {came_from} by {entry.from_} to {entry.to}"
    if entry.prev != prev:
        return "prev is not the head of the line before"
    if entry.head != head_of(entry, prev):
        return "its content does not give its head"
    return None


def _mistake_of_checkpoint(checkpoint: Checkpoint, before: Sequence[Entry]) -> str | None:
    if not before:
        return "a checkpoint of nothing"
    if checkpoint.size != len(before) or checkpoint.head != before[-1].head:
        return "the checkpoint is of another length or head"
    return None


def _is_legal(start: str, end: str) -> bool:
    try:
        return State(end) in TRANSITIONS[State(start)]
    except ValueError:
        return False


def _decoded(raw: bytes) -> Line:
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError(_too_long())
    fields = _strict_object(raw)
    try:
        fields = current_line(fields)
        kind: type[Line] = Checkpoint if "checkpoint" in fields else Entry
        unknown = fields.keys() - set(kind.__struct_encode_fields__)
        if unknown:
            raise ValueError(f"an unknown field {min(unknown)!r}")
        missing = set(kind.__struct_encode_fields__) - fields.keys()
        if missing:
            raise ValueError(f"without {min(missing)!r}")
        line: Line = msgspec.convert(fields, kind, strict=True)
    except (UnknownFormat, msgspec.ValidationError) as mistake:
        raise ValueError(str(mistake)) from None
    if isinstance(line, Checkpoint) and not line.checkpoint:
        raise ValueError("a checkpoint that says it is none")
    return line


def _strict_object(raw: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_once_each, parse_constant=_refuse
        )
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as mistake:
        raise ValueError(f"no JSON: {mistake.msg} at column {mistake.colno}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(fields, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - of the text, not of an argument
    return fields


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands twice")
    return fields


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _too_long() -> str:
    return f"longer than {MAX_LINE_BYTES} bytes"
