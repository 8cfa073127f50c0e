"""Sound between the wire's formats and plain samples."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from monoize.audio import alaw_from_pcm, pcm_from_alaw, pcm_from_ulaw, ulaw_from_pcm
from monoize.engine import Sound
from monoize.realtime.config import Format
from monoize.sound_encoding import encoded

__all__ = ["in_format", "plain"]


def plain(sound: bytes, format: Format) -> Sound:  # noqa: A002 - OpenAI's word for it
    """16 bit samples at the format's own rate; half a sample at the end is left out."""
    match format.type:
        case "audio/pcm":
            return Sound(pcm=sound[: len(sound) & ~1], rate=format.rate)
        case "audio/pcmu":
            return Sound(pcm=pcm_from_ulaw(sound), rate=format.rate)
        case "audio/pcma":
            return Sound(pcm=pcm_from_alaw(sound), rate=format.rate)


async def in_format(
    sounds: AsyncGenerator[Sound, None],
    format: Format,  # noqa: A002
) -> AsyncGenerator[bytes, None]:
    """As they come. Another rate needs the converter of the local engines; the usual one does not."""
    async with aclosing(sounds), aclosing(_at_rate(sounds, format.rate)) as pieces:
        async for pcm in pieces:
            match format.type:
                case "audio/pcm":
                    yield pcm
                case "audio/pcmu":
                    yield ulaw_from_pcm(pcm)
                case "audio/pcma":
                    yield alaw_from_pcm(pcm)


async def _at_rate(sounds: AsyncGenerator[Sound, None], rate: int) -> AsyncGenerator[bytes, None]:
    first = await anext(sounds, None)
    if first is None:
        return
    if first.rate != rate:
        async with aclosing(encoded(_after(first, sounds), "pcm", rate=rate)) as pieces:
            async for piece in pieces:
                yield piece
        return
    yield first.pcm
    async for sound in sounds:
        yield sound.pcm


async def _after(first: Sound, others: AsyncGenerator[Sound, None]) -> AsyncGenerator[Sound, None]:
    yield first
    async for sound in others:
        yield sound
