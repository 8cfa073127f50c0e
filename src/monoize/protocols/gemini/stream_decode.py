"""Chunks of a streamed reply -> URP events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from monoize import wirejson
from monoize.clock import IdSource
from monoize.protocols._plain_text import grown_counts
from monoize.protocols._stream_runs import RunDecoder
from monoize.protocols.gemini.candidate_decode import CandidateReader, PartNumbers
from monoize.protocols.gemini.error import decode_error
from monoize.protocols.gemini.finish import blocked
from monoize.protocols.gemini.response_decode import (
    CANDIDATE_FIELDS,
    RESPONSE_FIELDS,
    seconds,
    text_of,
)
from monoize.protocols.gemini.spelling import DIALECT, found, listed, split
from monoize.protocols.gemini.usage import decode_usage, service_tier
from monoize.urp import (
    ChoiceEnd,
    Error,
    Frame,
    ResponseDone,
    ResponseStart,
    UrpStreamEvent,
    WireEvent,
)
from monoize.urp.mould import Path

__all__ = ["GeminiStreamDecoder"]


class GeminiStreamDecoder(RunDecoder):
    """Every chunk is a whole response object that holds only what is new.

    A finishReason may stand on any chunk, some models write it on all of them: only the end of the connection is the end.
    """

    def __init__(self, ids: IdSource) -> None:
        super().__init__()
        self._ids = ids
        self._numbers = PartNumbers()
        self._candidates: dict[int, CandidateReader] = {}
        self._started = False
        self._over = False
        self._blocked: Any = None
        self._usage: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}

    @override
    def decode_in_full(self, event: WireEvent) -> Frame:
        if event.data.strip() == "[DONE]":
            # Some gateways write OpenAI's end marker; Google's clients would choke on it (T10).
            return Frame(())
        if self._over or not event.data.strip():
            return Frame((), event)
        try:
            chunks = listed(wirejson.loads(event.data))  # an error may come wrapped in an array
        except wirejson.JsonError:
            chunks = []
        if not chunks or not all(isinstance(chunk, dict) for chunk in chunks):
            return Frame((), event, readable=False)
        return Frame(tuple(said for chunk in chunks for said in self._chunk(chunk)), event)

    @override
    def finish_in_full(self) -> Frame:
        if self._over:
            return Frame(())
        self._over = True
        ended = self._blocked is not None or any(
            reader.finish is not None for reader in self._candidates.values()
        )
        if not ended:
            message = "the provider's stream ended before the reply did"
            return Frame((Error(message=message, code="stream_truncated"),))
        closing = [event for reader in self._candidates.values() for event in reader.close()]
        return Frame((*closing, self._done()))

    @override
    def places(self, payload: Any, earlier: Any) -> tuple[Path, Sequence[Path]] | None:
        match payload:
            case {"candidates": [{"content": {"parts": [{"text": str()}]}, **beside}]}:
                if not beside.keys() <= CANDIDATE_FIELDS:  # it is collected over the chunks
                    return None
            case _:
                return None
        now, before = found(payload, "usageMetadata"), found(earlier, "usageMetadata")
        counts = tuple(grown_counts(("usageMetadata",), now, before))
        return ("candidates", 0, "content", "parts", 0, "text"), counts

    @override
    def heard(self, payload: Any, name: str | None) -> None:
        for _ in self._chunk(payload):
            pass

    def _chunk(self, chunk: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        if chunk.get("error") is not None and "candidates" not in chunk:
            self._over = True
            yield _error(chunk)
            return
        fields, rest = split(chunk, RESPONSE_FIELDS)
        if not self._started:
            self._started = True
            yield self._start(fields, chunk, rest)
        else:
            self._extra |= rest
        usage = fields.get("usageMetadata")
        if isinstance(usage, dict):
            # Each count is of everything so far: the latest is right, whole.
            self._usage = usage if decode_usage(usage) else {**self._usage, **usage}
        reason = found(found(chunk, "promptFeedback"), "blockReason")
        self._blocked = reason if reason is not None else self._blocked
        for number, candidate in enumerate(listed(fields.get("candidates"))):
            if isinstance(candidate, dict):
                yield from self._reader(candidate, number).read(candidate)

    def _start(
        self, fields: Mapping[str, Any], chunk: Mapping[str, Any], rest: Mapping[str, Any]
    ) -> ResponseStart:
        return ResponseStart(
            id=text_of(fields.get("responseId")) or self._ids.new("resp_"),
            model=text_of(fields.get("modelVersion")) or "",
            created=seconds(found(chunk, "createTime")),
            origin=DIALECT,
            extra_body=rest,
        )

    def _reader(self, candidate: Mapping[str, Any], number: int) -> CandidateReader:
        index = found(candidate, "index")
        choice = index if isinstance(index, int) and not isinstance(index, bool) else number
        if choice not in self._candidates:
            self._candidates[choice] = CandidateReader(choice, self._numbers, self._ids)
        return self._candidates[choice]

    def _done(self) -> ResponseDone:
        ends = [reader.end() for _, reader in sorted(self._candidates.items())]
        if self._blocked is not None and not ends:
            ends = [ChoiceEnd(finish=blocked(self._blocked))]
        return ResponseDone(
            choices=tuple(ends),
            usage=decode_usage(self._usage),
            service_tier=service_tier(self._usage),
            extra_body=self._extra,
        )


def _error(chunk: Mapping[str, Any]) -> Error:
    said = decode_error(200, chunk)
    return Error(message=said.message, code=said.code, type=said.type, status=said.status)
