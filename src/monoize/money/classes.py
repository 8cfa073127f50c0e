"""Tokens by the class they are priced in: every token in exactly one class, whatever a provider counts."""

from __future__ import annotations

from operator import attrgetter
from typing import Literal, TypeAlias, get_args

import msgspec

from monoize.urp import Usage

__all__ = [
    "CLASSES",
    "INPUT_CLASSES",
    "MOST_TOKENS",
    "OUTPUT_CLASSES",
    "InputClass",
    "OutputClass",
    "PlainCounts",
    "TokenClass",
    "credible",
    "plain",
    "split",
]

InputClass = Literal[
    "input", "cached_read", "cache_write", "cache_write_1h", "audio_input", "image_input"
]
OutputClass = Literal["output", "reasoning", "audio_output", "image_output"]
TokenClass = InputClass | OutputClass

INPUT_CLASSES: tuple[InputClass, ...] = get_args(InputClass)
OUTPUT_CLASSES: tuple[OutputClass, ...] = get_args(OutputClass)
CLASSES: tuple[TokenClass, ...] = (*INPUT_CLASSES, *OUTPUT_CLASSES)

# Tokens of input, cached_read, output and reasoning.
PlainCounts: TypeAlias = tuple[int, int, int, int]

# Nobody reads or writes a million million tokens in one call; more is a broken counter (T39).
MOST_TOKENS = 10**12

_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_read",
    "cache_write",
    "cache_write_1h",
    "reasoning",
    "audio_input",
    "audio_output",
    "image_input",
    "image_output",
    "total",
)
_counts = attrgetter(*_COUNTS)


def plain(usage: Usage) -> PlainCounts | None:
    """What `split` gives for input, cached_read, output and reasoning, of a credible usage that has no others.

    Nearly every chat has such a one, and every request asks. None: there is more to it, or something is wrong with it,
    and `credible` and `split` know what to make of that.
    """
    read, written = usage.input_tokens, usage.output_tokens
    cached, thought = usage.cached_read or 0, usage.reasoning or 0
    if (
        usage.total
        or usage.cache_write
        or usage.cache_write_1h
        or usage.audio_input
        or usage.audio_output
        or usage.image_input
        or usage.image_output
        or not 0 <= cached <= read <= MOST_TOKENS
        or not 0 <= thought <= written <= MOST_TOKENS
    ):
        return None
    return read - cached, cached, written - thought, thought


def credible(usage: Usage) -> Usage:
    """The same usage with every count from 0 to MOST_TOKENS; the very same object where nothing is wrong.

    Providers have written negative counts, and a number beyond 64 bits would not fit into a table.
    """
    counts = _counts(usage)
    for count in counts:
        if count is not None and not 0 <= count <= MOST_TOKENS:
            break
    else:
        return usage
    cut = {
        name: min(max(0, count), MOST_TOKENS)
        for name, count in zip(_COUNTS, counts, strict=True)
        if count is not None
    }
    return msgspec.structs.replace(usage, **cut)


def split(usage: Usage) -> dict[TokenClass, int]:
    """Every token once (T36): the classes of one side add up to that side's whole.

    An "of which" that is larger than what is left of its whole is cut to it, cache first: a cached picture is
    charged as cached.
    """
    usage = credible(usage)
    read, written = _wholes(usage)
    stored = stored_1h = heard = seen = spoken = drawn = 0
    cached = min(usage.cached_read or 0, read)
    read -= cached
    if usage.cache_write or usage.cache_write_1h:
        # The longer-lived writes are some of all writes; where only they are counted, they are all.
        stored = min(max(usage.cache_write or 0, usage.cache_write_1h or 0), read)
        read -= stored
        stored_1h = min(usage.cache_write_1h or 0, stored)
    if usage.audio_input or usage.image_input:
        heard = min(usage.audio_input or 0, read)
        seen = min(usage.image_input or 0, read - heard)
    thought = min(usage.reasoning or 0, written)
    written -= thought
    if usage.audio_output or usage.image_output:
        spoken = min(usage.audio_output or 0, written)
        drawn = min(usage.image_output or 0, written - spoken)
    return {
        "input": read - heard - seen,
        "cached_read": cached,
        "cache_write": stored - stored_1h,
        "cache_write_1h": stored_1h,
        "audio_input": heard,
        "image_input": seen,
        "output": written - spoken - drawn,
        "reasoning": thought,
        "audio_output": spoken,
        "image_output": drawn,
    }


def _wholes(usage: Usage) -> tuple[int, int]:
    """All input and all output, with what a provider counted beside them: nothing is free.

    Vercel counts Gemini's thoughts beside the output and names them. Mistral counts audio beside the prompt and only in
    the total, some gateways do so with cached tokens. What a total holds beyond that are thoughts that nobody
    named (Google's own chat endpoint), so they are output.
    """
    read, written = usage.input_tokens, max(usage.output_tokens, usage.reasoning or 0)
    unnamed = (usage.total or 0) - read - written
    if unnamed <= 0:
        return read, written
    for count in (usage.cached_read, usage.cache_write, usage.audio_input, usage.image_input):
        if count is not None and usage.input_tokens < count <= unnamed:
            read, unnamed = read + count, unnamed - count
    return read, written + unnamed
