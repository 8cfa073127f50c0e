"""Tokens by the class they are priced in: every token in exactly one class, whatever a provider counts."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from monoize.urp import Usage

__all__ = [
    "CLASSES",
    "INPUT_CLASSES",
    "MOST_TOKENS",
    "OUTPUT_CLASSES",
    "InputClass",
    "OutputClass",
    "TokenClass",
    "credible",
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


def credible(usage: Usage) -> Usage:
    """The same usage with every count from 0 to MOST_TOKENS; the very same object where nothing is wrong.

    Providers have written negative counts, and a number beyond 64 bits would not fit into a table.
    """
    changes: dict[str, Any] = {}
    for name in _COUNTS:
        count = getattr(usage, name)
        if count is not None and not 0 <= count <= MOST_TOKENS:
            changes[name] = min(max(0, count), MOST_TOKENS)
    return msgspec.structs.replace(usage, **changes) if changes else usage


def split(usage: Usage) -> dict[TokenClass, int]:
    """Every token once (T36): the classes of one side add up to that side's whole.

    An "of which" that is larger than what is left of its whole is cut to it, cache first: a cached picture is
    charged as cached.
    """
    usage = credible(usage)
    read, written = _wholes(usage)
    cached, read = _taken(usage.cached_read, read)
    # The longer-lived writes are some of all writes; where only they are counted, they are all.
    stored, read = _taken(max(usage.cache_write or 0, usage.cache_write_1h or 0), read)
    stored_1h, stored = _taken(usage.cache_write_1h, stored)
    heard, read = _taken(usage.audio_input, read)
    seen, read = _taken(usage.image_input, read)
    thought, written = _taken(usage.reasoning, written)
    spoken, written = _taken(usage.audio_output, written)
    drawn, written = _taken(usage.image_output, written)
    return {
        "input": read,
        "cached_read": cached,
        "cache_write": stored,
        "cache_write_1h": stored_1h,
        "audio_input": heard,
        "image_input": seen,
        "output": written,
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
    unnamed = max(0, (usage.total or 0) - read - written)
    for count in (usage.cached_read, usage.cache_write, usage.audio_input, usage.image_input):
        if count is not None and usage.input_tokens < count <= unnamed:
            read, unnamed = read + count, unnamed - count
    return read, written + unnamed


def _taken(count: int | None, left: int) -> tuple[int, int]:
    taken = min(count or 0, left)
    return taken, left - taken
