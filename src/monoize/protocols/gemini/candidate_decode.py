"""One candidate over the chunks of a stream: which pieces grow a part, and which begin one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monoize import wirejson
from monoize.clock import IdSource
from monoize.protocols.gemini.finish import decode_finish
from monoize.protocols.gemini.grounding import citations_of, decode_logprobs, gather
from monoize.protocols.gemini.partial_args import PartialArguments
from monoize.protocols.gemini.parts_decode import decode_part_of_reply
from monoize.protocols.gemini.parts_encode import MADE_ID
from monoize.protocols.gemini.response_decode import CANDIDATE_FIELDS
from monoize.protocols.gemini.spelling import found, listed, split
from monoize.urp import (
    ArgumentsDelta,
    ChoiceEnd,
    CitationDelta,
    Delta,
    Finish,
    Message,
    Part,
    PartDelta,
    PartDone,
    PartStart,
    Reasoning,
    ReasoningDelta,
    Role,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    UrpStreamEvent,
    replace,
)

__all__ = ["CandidateReader", "PartNumbers"]


class PartNumbers:
    """Counts the parts of all candidates of one stream."""

    def __init__(self) -> None:
        self._next = 0

    def take(self) -> int:
        self._next += 1
        return self._next - 1


class _Open:
    """The part that later pieces may still grow."""

    def __init__(self, index: int, part: Part) -> None:
        self.index = index
        self.part = part
        self.sealed = isinstance(part, Text | Reasoning) and part.seal is not None
        self.pieces: list[str] = []  # what a Text has said, for the places of its citations
        self.arguments: PartialArguments | None = None


class CandidateReader:
    def __init__(self, choice: int, numbers: PartNumbers, ids: IdSource) -> None:
        self.finish: Finish | None = None
        self._choice = choice
        self._numbers = numbers
        self._ids = ids
        self._open: _Open | None = None
        self._begun = False
        self._calls = False
        self._native_finish: Any = None
        self._extra: dict[str, Any] = {}
        self._cited: set[tuple[Any, ...]] = set()

    def read(self, candidate: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        fields, rest = split(candidate, CANDIDATE_FIELDS)
        for wire in listed(found(fields.get("content"), "parts")):
            yield from self._part(wire)
        gather(self._extra, rest)
        yield from self._annotations(candidate)
        if fields.get("finishReason") is not None:
            self._native_finish = fields["finishReason"]
        self.finish = decode_finish(self._native_finish, calls=self._calls)

    def close(self) -> Iterator[UrpStreamEvent]:
        """The end of the part that is open, if one is."""
        if self._open is None:
            return
        if self._open.arguments is not None:
            arguments = wirejson.dumps(self._open.arguments.complete()).decode()
            yield self._delta(ArgumentsDelta(arguments=arguments))
        yield PartDone(part_index=self._open.index)
        self._open = None

    def end(self) -> ChoiceEnd:
        return ChoiceEnd(index=self._choice, finish=self.finish, extra_body=self._extra)

    # --- parts ---

    def _part(self, wire: Any) -> Iterator[UrpStreamEvent]:
        if self._continues_call(wire):
            yield from self._grow_call(found(wire, "functionCall"))
            return
        part = decode_part_of_reply(wire, lambda _: self._ids.new(MADE_ID))
        match part:
            case None:
                return
            case Text() | Reasoning() if self._grows(part):
                yield from self._grow(part)
            case Text() | Reasoning():
                yield from self._begin(part, replace(part, content=""))
                yield from self._said(part)
            case ToolCall():
                yield from self._call(part, found(wire, "functionCall"))
            case _:
                yield from self._begin(part, part)
                yield from self.close()

    def _grows(self, piece: Text | Reasoning) -> bool:
        """Text goes on as text and thought as thought; a second signature is of a second part (T19)."""
        now = self._open
        return (
            now is not None
            and type(now.part) is type(piece)
            and not (now.sealed and piece.seal is not None)
            and not piece.extra_body
        )

    def _grow(self, piece: Text | Reasoning) -> Iterator[UrpStreamEvent]:
        yield from self._said(piece)
        if piece.seal is not None and self._open is not None:
            self._open.sealed = True
            yield self._delta(SealDelta(seal=piece.seal))

    def _said(self, piece: Text | Reasoning) -> Iterator[UrpStreamEvent]:
        if not piece.content:
            return
        if isinstance(piece, Reasoning):
            yield self._delta(ReasoningDelta(content=piece.content))
        elif self._open is not None:
            self._open.pieces.append(piece.content)
            yield self._delta(TextDelta(content=piece.content))

    def _begin(self, part: Part, shown: Part) -> Iterator[UrpStreamEvent]:
        yield from self.close()
        header = None if self._begun else Message(role=Role.ASSISTANT)
        self._begun = True
        self._open = _Open(self._numbers.take(), part)
        yield PartStart(
            part_index=self._open.index,
            part=replace(shown),
            choice=self._choice,
            message=header,
        )

    def _delta(self, delta: PartDelta) -> Delta:
        return Delta(part_index=self._open.index if self._open else 0, delta=delta)

    # --- function calls ---

    def _call(self, call: ToolCall, wire: Any) -> Iterator[UrpStreamEvent]:
        self._calls = True
        streamed = found(wire, "willContinue") is True or found(wire, "partialArgs") is not None
        shown = replace(call, arguments="", **({"extra_body": {}} if streamed else {}))
        yield from self._begin(call, shown)
        if streamed and self._open is not None:
            self._open.arguments = PartialArguments()
            yield from self._grow_call(wire)
            return
        yield self._delta(ArgumentsDelta(arguments=call.arguments))
        yield from self.close()

    def _continues_call(self, wire: Any) -> bool:
        """Whether a nameless functionCall goes on with the arguments of the one that is open."""
        call = found(wire, "functionCall")
        growing = self._open is not None and self._open.arguments is not None
        return growing and isinstance(call, dict) and not call.get("name")

    def _grow_call(self, wire: Any) -> Iterator[UrpStreamEvent]:
        if self._open is None or self._open.arguments is None:
            return
        self._open.arguments.add(found(wire, "partialArgs"))
        if found(wire, "willContinue") is not True:
            yield from self.close()

    # --- what stands beside the content ---

    def _annotations(self, candidate: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        """Citations count over all chunks, so the merged lists are read again; each citation is said once."""
        now = self._open
        if now is None or not isinstance(now.part, Text):
            return
        logprobs = decode_logprobs(candidate)
        if logprobs is not None:
            yield self._delta(TextDelta(content="", logprobs=logprobs))
        if not (found(candidate, "groundingMetadata") or found(candidate, "citationMetadata")):
            return
        now.pieces = ["".join(now.pieces)]
        for _, citation in citations_of(self._extra, now.pieces):
            key = (citation.url, citation.title, citation.start, citation.end, citation.quote)
            if key not in self._cited:
                self._cited.add(key)
                yield self._delta(CitationDelta(citation=citation))
