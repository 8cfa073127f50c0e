"""A stream read and written the short way and the long way, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from monoize.clock import SequentialIds
from monoize.protocol import Reply, protocol
from monoize.urp import Error, Frame, Losses, UrpRequest, WireEvent

CALLERS = ("chat_completion", "responses", "messages", "gemini")
_BROKEN_OFF = Error(message="the provider has gone away", status=502)


def short_way(id: str, wires: Iterable[WireEvent]) -> list[Frame]:
    decoder = protocol(id).stream_decoder(SequentialIds())
    return [*(decoder.decode(wire) for wire in wires), decoder.finish()]


def long_way(id: str, wires: Iterable[WireEvent]) -> list[Frame]:
    decoder: Any = protocol(id).stream_decoder(SequentialIds())
    return [*(decoder.decode_in_full(wire) for wire in wires), decoder.finish_in_full()]


def said(frames: Iterable[Frame]) -> list[tuple[Any, ...]]:
    """All that a frame says, its sources too; how it was read is nobody's business."""
    return [(repr(frame.events), frame.wire, frame.readable) for frame in frames]


def _reply(caller: str, model: str, *, replays: bool) -> Reply:
    request = UrpRequest(model="m", origin=caller)
    return Reply(
        request=request,
        model=model,
        ids=SequentialIds(),
        created=1,
        losses=Losses(),
        replays=replays,
    )


def written(
    caller: str,
    frames: Iterable[Frame],
    *,
    model: str = "some-model",
    replays: bool = False,
    in_full: bool = False,
    breaks_off: bool = False,
) -> tuple[list[list[WireEvent]], tuple[str, ...]]:
    """What the caller gets of every frame and at the end, and what was lost."""
    reply = _reply(caller, model, replays=replays)
    encoder: Any = protocol(caller).stream_encoder(reply)
    way = encoder.frame_in_full if in_full else encoder.frame
    out = [way(frame) for frame in frames]
    if breaks_off:
        out.append(list(encoder.event(_BROKEN_OFF)))
    return [*out, encoder.finish()], reply.losses.dropped


def assert_both_ways_agree(id: str, wires: list[WireEvent], model: str = "some-model") -> int:
    """Read and written for every caller, whole and broken off; gives how many events took the short way."""
    frames = short_way(id, wires)
    assert said(frames) == said(long_way(id, wires))
    half = frames[: len(frames) // 2]
    for caller in CALLERS:
        assert written(caller, frames) == written(caller, frames, in_full=True)
        broken = {"breaks_off": True}
        assert written(caller, half, **broken) == written(caller, half, in_full=True, **broken)
    own = protocol(id).dialect
    for name in (model, "some-model"):
        replayed = {"replays": True, "model": name}
        assert written(own, frames, **replayed) == written(own, frames, in_full=True, **replayed)
        broken = {**replayed, "breaks_off": True}
        assert written(own, half, **broken) == written(own, half, in_full=True, **broken)
    return sum(frame.mould is not None for frame in frames)
