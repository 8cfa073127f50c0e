"""Replies for response transforms: their events cut anywhere, what a good stream is, and a rule to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from monoize.settings import RuleSettings
from monoize.transform import Phase, ResponseChain, compiled
from monoize.urp import (
    ArgumentsDelta,
    Choice,
    Citation,
    Delta,
    Error,
    Finish,
    FinishReason,
    Frame,
    Message,
    PartDelta,
    PartDone,
    PartStart,
    ProviderEvent,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    Role,
    Seal,
    Text,
    TextDelta,
    ToolCall,
    UrpResponse,
    UrpStreamEvent,
    Usage,
)

Lengths = Callable[[int], int]  # how many letters of those left the next piece takes


def chain(transform: str, config: dict[str, Any] | None = None) -> ResponseChain:
    rule = RuleSettings(transform=transform, phase=Phase.RESPONSE.value, config=config or {})
    return ResponseChain(compiled([rule], "rules"), model="m")


def applied(chain: ResponseChain, events: Iterable[UrpStreamEvent]) -> list[UrpStreamEvent]:
    """Every event in a frame of its own, as a live stream brings them."""
    return [out for event in events for out in chain.frame(Frame((event,))).events]


def reply(*parts: Any) -> UrpResponse:
    message = Message(role=Role.ASSISTANT, parts=parts, id="msg_1")
    choice = Choice(messages=(message,), finish=Finish(reason=FinishReason.STOP))
    return UrpResponse(id="r", model="m", choices=(choice,))


def recut(events: Iterable[UrpStreamEvent], length: Lengths) -> Iterator[UrpStreamEvent]:
    """The same stream with its text, reasoning, refusal and argument deltas in other pieces."""
    for event in events:
        if isinstance(event, Delta):
            for delta in _pieces(event.delta, length):
                yield Delta(part_index=event.part_index, delta=delta)
        else:
            yield event


def _pieces(delta: PartDelta, length: Lengths) -> Iterator[PartDelta]:
    match delta:
        case TextDelta() if delta.logprobs:  # a provider never cuts a token
            for token in delta.logprobs:
                yield TextDelta(content=token["token"], logprobs=(token,))
        case TextDelta() | ReasoningDelta() | RefusalDelta():
            for piece in _cut(delta.content, length):
                yield msgspec.structs.replace(delta, content=piece)
        case ArgumentsDelta():
            for piece in _cut(delta.arguments, length):
                yield ArgumentsDelta(arguments=piece)
        case _:
            yield delta


def _cut(text: str, length: Lengths) -> Iterator[str]:
    while text:
        size = length(len(text))
        yield text[:size]
        text = text[size:]


def broken_grammar(events: Iterable[UrpStreamEvent]) -> list[str]:
    """What is wrong with a stream, in words; nothing for a good one."""
    problems: list[str] = []
    seen: set[int] = set()
    open_parts: set[int] = set()
    headed: set[tuple[int, int]] = set()
    over = False
    for event in events:
        if over:
            problems.append(f"after the end: {event}")
        match event:
            case PartStart():
                if event.part_index != len(seen):
                    problems.append(f"part {event.part_index} is the {len(seen)}th to appear")
                seen.add(event.part_index)
                open_parts.add(event.part_index)
                place = (event.choice, event.message_index)
                if (event.message is not None) == (place in headed):
                    problems.append(f"message header of {place} is missing or repeated")
                headed.add(place)
            case Delta() | PartDone():
                if event.part_index not in open_parts:
                    problems.append(f"part {event.part_index} is not open: {event}")
                if isinstance(event, PartDone):
                    open_parts.discard(event.part_index)
            case ResponseDone() | Error():
                over = True
            case ResponseStart() | ProviderEvent():
                pass
    return problems


# --- random replies -------------------------------------------------------------------------------

_FRAGMENTS = [
    "<think>",
    "</think>",
    "<thi",
    "nk>",
    "</",
    "<",
    ">",
    "a",
    "b\n",
    "ü",
    "🙂",
    " ",
    "<x>",
]
taggy = st.lists(st.sampled_from(_FRAGMENTS), max_size=8).map("".join)
seals = st.sampled_from([None, Seal(protocol="gemini", data="c2VhbA==")])


@st.composite
def _texts(draw: Any) -> Text:
    pieces = draw(st.lists(st.sampled_from(_FRAGMENTS), max_size=8))
    logprobs = tuple({"token": piece, "logprob": -0.5} for piece in pieces)
    cited = draw(st.lists(st.integers(0, 20), max_size=2))
    return Text(
        content="".join(pieces),
        citations=tuple(Citation(url=f"https://e.org/{n}", start=n, end=n + 3) for n in cited),
        logprobs=logprobs if logprobs and draw(st.booleans()) else None,
        seal=draw(seals),
        extra_body=draw(st.sampled_from([{}, {"annotated": True}])),
    )


def _parts() -> st.SearchStrategy[Any]:
    return st.one_of(
        _texts(),
        st.builds(Reasoning, content=taggy, seal=seals, kind=st.sampled_from(["text", "summary"])),
        st.builds(
            ReasoningEncrypted,
            protocol=st.just("responses"),
            data=st.just({"type": "reasoning", "id": "rs_1", "summary": []}),
        ),
        st.builds(ToolCall, call_id=st.just("c"), name=st.just("f"), arguments=taggy, seal=seals),
        st.builds(Refusal, content=taggy),
    )


@st.composite
def replies(draw: Any) -> UrpResponse:
    """Several choices of several messages, with tags whole and in crumbs."""
    choices = []
    for index in range(draw(st.integers(1, 2))):
        messages = tuple(
            Message(role=Role.ASSISTANT, id=f"msg_{index}_{n}", parts=tuple(parts))
            for n, parts in enumerate(
                draw(st.lists(st.lists(_parts(), min_size=1, max_size=4), max_size=2))
            )
        )
        finish = Finish(reason=FinishReason.STOP)
        choices.append(Choice(index=index, messages=messages, finish=finish))
    return UrpResponse(
        id="r",
        model="m",
        choices=tuple(choices),
        usage=Usage(input_tokens=3, output_tokens=4),
        extra_body=draw(st.sampled_from([{}, {"provider": {"order": ["x"], "only": ["y"]}}])),
    )


@st.composite
def interleaved(draw: Any, events: list[UrpStreamEvent]) -> list[UrpStreamEvent]:
    """The parts of a stream side by side: each keeps its order, and they start in theirs."""
    start, done = events[0], events[-1]
    queues: dict[int, list[UrpStreamEvent]] = {}
    for event in events[1:-1]:
        queues.setdefault(event.part_index, []).append(event)  # type: ignore[union-attr]
    out, begun = [start], 0
    order = sorted(queues)
    while any(queues.values()):
        ready = [index for index in order[: begun + 1] if queues[index]]
        index = draw(st.sampled_from(ready))
        if index == (order[begun] if begun < len(order) else None):
            begun += 1
        out.append(queues[index].pop(0))
    return [*out, done]
