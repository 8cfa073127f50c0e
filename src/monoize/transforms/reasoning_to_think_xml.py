"""For chat windows that only know text: reasoning as `<think>…</think>` in the answer."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from monoize.transform import Context, Events, ResponseTransform
from monoize.transforms._part_numbers import PartNumbers
from monoize.transforms._think_tag import ThinkTagConfig
from monoize.urp import (
    Delta,
    Error,
    PartDone,
    PartStart,
    ProviderEvent,
    Reasoning,
    ReasoningDelta,
    ResponseDone,
    ResponseStart,
    Text,
    TextDelta,
    UrpStreamEvent,
)

__all__ = ["ReasoningToThinkXml"]


class ReasoningToThinkXml(ResponseTransform[ThinkTagConfig]):
    """Turn readable reasoning in replies into text between `<tag>` and `</tag>`.

    Signatures of that reasoning are lost; encrypted reasoning stays as it is.
    """

    id = "reasoning_to_think_xml"
    config = ThinkTagConfig

    @override
    def init_state(self, config: ThinkTagConfig) -> _Thoughts:
        return _Thoughts(config.tag)

    @override
    def apply(
        self, value: UrpStreamEvent, state: _Thoughts, context: Context[ThinkTagConfig]
    ) -> Events:
        return tuple(state.take(value))


class _Thoughts:
    """The reasoning parts of one reply, and which of them is being shown as text in each choice."""

    def __init__(self, tag: str) -> None:
        self._opening, self._closing = f"<{tag}>", f"</{tag}>"
        self._numbers = PartNumbers()
        self._thoughts: dict[int, PartStart] = {}
        self._choice_of_part: dict[int, int] = {}
        self._shown: dict[int, int] = {}  # choice -> part whose tag is open

    def take(self, event: UrpStreamEvent) -> Iterator[UrpStreamEvent]:
        match event:
            case PartStart():
                yield from self._start(event)
            case Delta() if event.part_index in self._thoughts:
                if isinstance(event.delta, ReasoningDelta):  # its seal fits no text
                    yield from self._think(self._thoughts[event.part_index], event.delta.content)
            case Delta():
                yield from self._close(self._choice_of_part.get(event.part_index))
                yield from self._numbers.passed(event)
            case PartDone() if event.part_index in self._thoughts:
                start = self._thoughts.pop(event.part_index)
                if self._shown.get(start.choice) == start.part_index:
                    yield from self._close(start.choice)
            case ResponseDone() | Error():
                for choice in tuple(self._shown):
                    yield from self._close(choice)
                yield event
            case ResponseStart() | PartDone() | ProviderEvent():
                yield from self._numbers.passed(event)

    def _start(self, start: PartStart) -> Iterator[UrpStreamEvent]:
        # Chat shows all parts of a choice as one text: what comes next must not stand between the tags.
        yield from self._close(start.choice)
        if not isinstance(start.part, Reasoning):
            self._choice_of_part[start.part_index] = start.choice
            yield from self._numbers.passed(start)
            return
        self._numbers.noted(start)
        self._thoughts[start.part_index] = start
        yield from self._think(start, start.part.content)

    def _think(self, start: PartStart, content: str) -> Iterator[UrpStreamEvent]:
        if not content:
            return
        if self._shown.get(start.choice) != start.part_index:
            yield from self._close(start.choice)
            self._shown[start.choice] = start.part_index
            yield self._numbers.opened(start, Text(content=""))
            content = self._opening + content
        yield from self._text(start.part_index, content)

    def _close(self, choice: int | None) -> Iterator[UrpStreamEvent]:
        index = None if choice is None else self._shown.pop(choice, None)
        if index is not None:
            yield from self._text(index, self._closing)
            yield from self._numbers.moved(PartDone(part_index=index))

    def _text(self, index: int, content: str) -> Events:
        return self._numbers.moved(Delta(part_index=index, delta=TextDelta(content=content)))
