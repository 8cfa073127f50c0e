"""What the tests of the Responses codec share: calls to answer, streams to read, and the vendor's own types."""

from __future__ import annotations

import itertools
import random
import typing
from collections.abc import Callable, Iterable
from typing import Any

import pydantic
import pytest
from openai.types import responses as vendor

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.protocol import Reply, protocol
from monoize.sse import SseParser, serialized
from monoize.urp import Losses, UrpRequest, UrpStreamEvent, WireEvent, bare

_MEMBERS = typing.get_args(typing.get_args(vendor.ResponseStreamEvent)[0])
_EVENTS = {
    typing.get_args(member.model_fields["type"].annotation)[0]: pydantic.TypeAdapter(member)
    for member in _MEMBERS
}
_RESPONSE = pydantic.TypeAdapter(vendor.Response)


@pytest.fixture
def responses():
    return protocol("responses")


@pytest.fixture
def reply_to(responses) -> Callable[..., Reply]:
    def make(request: UrpRequest | None = None, **body: Any) -> Reply:
        asked = request or responses.decode_request(
            {"model": "caller-model", "input": "hi", **body}
        )
        return Reply(
            request=asked,
            model="caller-model",
            ids=SequentialIds(),
            created=1_700_000_000,
            losses=Losses(),
        )

    return make


def sse(payloads: Iterable[Any], *, names: bool = True) -> bytes:
    return b"".join(
        serialized(WireEvent(wirejson.dumps(p).decode(), p["type"] if names else None))
        for p in payloads
    )


@pytest.fixture
def read(responses) -> Callable[..., list[UrpStreamEvent]]:
    """The events of a stream, which must not depend on how its bytes arrive (T11, T12)."""

    def once(chunks: Iterable[bytes]) -> list[UrpStreamEvent]:
        parser, decoder = SseParser(), responses.stream_decoder(SequentialIds())
        wires = [wire for chunk in chunks for wire in parser.feed(chunk)] + parser.close()
        frames = [decoder.decode(wire) for wire in wires]
        assert [frame.wire for frame in frames] == wires
        return [event for frame in [*frames, decoder.finish()] for event in frame.events]

    def run(payloads: Iterable[Any] | bytes, *, names: bool = True) -> list[UrpStreamEvent]:
        raw = payloads if isinstance(payloads, bytes) else sse(payloads, names=names)
        whole = once([raw])
        assert _shown(once(raw[i : i + 1] for i in range(len(raw)))) == _shown(whole)
        dice = random.Random(7)
        cuts = sorted({0, len(raw), *(dice.randrange(len(raw)) for _ in range(9))})
        pieces = [raw[a:b] for a, b in itertools.pairwise(cuts)]
        assert _shown(once(pieces)) == _shown(whole)
        return whole

    return run


def _shown(events: list[UrpStreamEvent]) -> list[Any]:
    return [bare(event) for event in events]


@pytest.fixture
def write(responses) -> Callable[..., list[dict[str, Any]]]:
    """The payloads that events become, each valid by the vendor's own types and named by its type (T5)."""

    def run(events: Iterable[UrpStreamEvent], reply: Reply) -> list[dict[str, Any]]:
        encoder = responses.stream_encoder(reply)
        wires = [wire for event in events for wire in encoder.event(event)] + encoder.finish()
        payloads = [wirejson.loads(wire.data) for wire in wires]
        for number, (wire, payload) in enumerate(zip(wires, payloads, strict=True)):
            assert wire.name == payload["type"]
            assert payload["sequence_number"] == number
            _EVENTS[payload["type"]].validate_python(payload)
        return payloads

    return run


@pytest.fixture
def strict() -> Callable[[Any], Any]:
    def check(body: Any) -> Any:
        _RESPONSE.validate_python(body)
        return body

    return check
