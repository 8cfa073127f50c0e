"""For models that think in their text: `<think>…</think>` as the reasoning that it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from monoize.transform import Context, Events, ResponseTransform
from monoize.transforms._part_numbers import PartNumbers
from monoize.transforms._tag_scanner import Run, TagScanner
from monoize.transforms._think_tag import ThinkTagConfig
from monoize.urp import (
    Citation,
    CitationDelta,
    Delta,
    Error,
    PartDelta,
    PartDone,
    PartStart,
    Reasoning,
    ReasoningDelta,
    ResponseDone,
    Text,
    TextDelta,
    UrpStreamEvent,
    replace,
)

__all__ = ["ThinkXmlToReasoning"]


class ThinkXmlToReasoning(ResponseTransform[ThinkTagConfig]):
    """Turn text between `<tag>` and `</tag>` in replies into reasoning; a tag that is never closed holds the rest.

    Text without the tag stays as it is. Citations, signature and log probabilities of a text that is cut stay
    with its text pieces as far as they can.
    """

    id = "think_xml_to_reasoning"
    config = ThinkTagConfig

    @override
    def init_state(self, config: ThinkTagConfig) -> _Texts:
        return _Texts(config.tag)

    @override
    def apply(
        self, value: UrpStreamEvent, state: _Texts, context: Context[ThinkTagConfig]
    ) -> Events:
        return tuple(state.take(value))


class _Texts:
    """The text parts of one reply."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._numbers = PartNumbers()
        self._cuts: dict[int, _Cut] = {}

    def take(self, event: UrpStreamEvent) -> Iterator[UrpStreamEvent]:
        match event:
            case PartStart(part=Text() as text):
                self._numbers.noted(event)
                cut = self._cuts[event.part_index] = _Cut(event, text, self._tag, self._numbers)
                if text.content:
                    yield from cut.read(text.content)
            case Delta() if event.part_index in self._cuts:
                yield from self._cuts[event.part_index].take(event)
            case PartDone() if event.part_index in self._cuts:
                yield from self._cuts.pop(event.part_index).end(event)
            case ResponseDone() | Error():
                for index in tuple(self._cuts):
                    yield from self._cuts.pop(index).end(PartDone(part_index=index))
                yield event
            case _:
                yield from self._numbers.passed(event)


class _Cut:
    """One text part, as the text and reasoning parts that come out of it one after another."""

    def __init__(self, start: PartStart, text: Text, tag: str, numbers: PartNumbers) -> None:
        self._start = start
        self._index = start.part_index
        self._numbers = numbers
        self._scanner = TagScanner(tag)
        self._read = 0  # letters so far
        self._open: type[Text | Reasoning] | None = None
        # What the first text piece is made from: its further fields stay with it.
        self._first: Text | None = replace(text, content="") if text.content else text
        self._tagged = False
        self._offset = 0  # where the current text piece begins in the whole text
        self._tokens: deque[tuple[int, Mapping[str, Any]]] = deque()  # where each begins
        self._waiting: list[Delta] = []  # for a text piece to hang on

    def take(self, event: Delta) -> Iterator[UrpStreamEvent]:
        delta = event.delta
        if not isinstance(delta, TextDelta):
            yield from self._attached(event)
            return
        self._note_tokens(delta)
        runs = list(self._scanner.fed(delta.content))
        if self._is_untouched(runs, delta):
            self._tokens.clear()
            yield from self._switched(Text, runs[0].start)
            yield from self._numbers.moved(event)
            return
        if delta.extra_body:
            yield from self._attached(
                replace(event, delta=replace(delta, content="", logprobs=None))
            )
        for run in runs:
            yield from self._run(run)

    def read(self, content: str) -> Iterator[UrpStreamEvent]:
        """What the part held when it was announced."""
        yield from self.take(Delta(part_index=self._index, delta=TextDelta(content=content)))

    def end(self, done: PartDone) -> Iterator[UrpStreamEvent]:
        for run in self._scanner.rest():
            yield from self._run(run)
        if not self._tagged:
            yield from self._switched(Text, 0)  # an empty text without a tag is kept, too
        if self._open is Text and self._tokens:
            yield from self._text("", self._tokens_before(self._read + 1))
        yield from self._closed(done)

    def _is_untouched(self, runs: list[Run], delta: TextDelta) -> bool:
        match runs:
            case [Run(content=delta.content, thought=False, ends=False)]:
                return len(self._tokens) == len(delta.logprobs or ())
            case _:
                return False

    def _run(self, run: Run) -> Iterator[UrpStreamEvent]:
        self._tokens_before(run.start)  # those of a tag belong to nothing
        if run.content:
            tokens = self._tokens_before(run.start + len(run.content))
            yield from self._switched(Reasoning if run.thought else Text, run.start)
            if run.thought:
                yield from self._sent(ReasoningDelta(content=run.content))
            else:
                yield from self._text(run.content, tokens)
        if run.ends:
            self._tagged = True
            yield from self._closed(PartDone(part_index=self._index))

    # --- log probabilities ---

    def _note_tokens(self, delta: TextDelta) -> None:
        """Where each token begins; all of them at the beginning if they do not spell the text."""
        place, tokens = self._read, delta.logprobs or ()
        spelled = [str(token.get("token")) for token in tokens]
        exact = "".join(spelled) == delta.content
        for token, text in zip(tokens, spelled, strict=True):
            self._tokens.append((place, token))
            place += len(text) if exact else 0
        self._read += len(delta.content)

    def _tokens_before(self, place: int) -> tuple[Mapping[str, Any], ...]:
        taken = []
        while self._tokens and self._tokens[0][0] < place:
            taken.append(self._tokens.popleft()[1])
        return tuple(taken)

    # --- pieces ---

    def _attached(self, event: Delta) -> Events:
        """What belongs to text goes to the text piece that is open, or waits for the next one."""
        if self._open is Text:
            return self._numbers.moved(self._fitted(event))
        self._waiting.append(event)
        return ()

    def _fitted(self, event: Delta) -> Delta:
        """A citation counts letters from the beginning of its own text."""
        delta = event.delta
        if not isinstance(delta, CitationDelta) or self._offset == 0:
            return event
        citation = _shifted(delta.citation, self._offset)
        return replace(event, delta=replace(delta, citation=citation))

    def _switched(self, kind: type[Text | Reasoning], place: int) -> Iterator[UrpStreamEvent]:
        if self._open is kind:
            return
        self._open = kind
        if kind is Reasoning:
            yield self._numbers.opened(self._start, Reasoning(content=""))
            return
        part, self._first = self._first or Text(content=""), None
        self._offset = place
        yield self._numbers.opened(self._start, part)
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            yield from self._numbers.moved(self._fitted(event))

    def _text(self, content: str, tokens: tuple[Mapping[str, Any], ...]) -> Events:
        return self._sent(TextDelta(content=content, logprobs=tokens or None))

    def _sent(self, delta: PartDelta) -> Events:
        return self._numbers.moved(Delta(part_index=self._index, delta=delta))

    def _closed(self, done: PartDone) -> Events:
        self._open = None
        return self._numbers.moved(done)  # nothing, if no piece is open


def _shifted(citation: Citation, offset: int) -> Citation:
    """Its place in a text that begins at `offset`; without a place if it stood before that."""
    if citation.start is None or citation.start < offset:
        return replace(citation, start=None, end=None)
    end = None if citation.end is None else citation.end - offset
    return replace(citation, start=citation.start - offset, end=end)
