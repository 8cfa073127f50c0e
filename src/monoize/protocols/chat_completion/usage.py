"""What a call cost, in the many spellings of chat providers, and why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.protocol import Json
from monoize.protocols.chat_completion.fields import DIALECT, own_wire, present, source, spoken
from monoize.urp import Finish, FinishReason, Usage
from monoize.urp.extra_body import flattened

__all__ = ["decode_finish", "decode_usage", "encode_finish", "encode_usage", "known_finish"]

_PROMPT, _COMPLETION = "prompt_tokens_details", "completion_tokens_details"
_NAMED = frozenset({"prompt_tokens", "completion_tokens", "total_tokens", _PROMPT, _COMPLETION})
_PROMPT_NAMED = frozenset({"cached_tokens", "cache_write_tokens", "audio_tokens", "image_tokens"})
_COMPLETION_NAMED = frozenset({"reasoning_tokens", "audio_tokens", "image_tokens"})
_NUMBERS = (int, float)
_CACHED = (
    "prompt_cache_hit_tokens",
    "cached_tokens",
    "num_cached_tokens",
    "cache_read_input_tokens",
)

_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}


def decode_usage(wire: Any) -> Usage | None:
    """One meaning for all: input with what was cached, output with what was thought."""
    if not isinstance(wire, dict) or not wire:
        return None
    prompt, completion = _object(wire, _PROMPT), _object(wire, _COMPLETION)
    input_tokens, output = (
        _count(wire, "prompt_tokens") or 0,
        _count(wire, "completion_tokens") or 0,
    )
    inside, beside = _count(completion, "reasoning_tokens"), _count(wire, "reasoning_tokens")
    thought = inside or beside
    total = _count(wire, "total_tokens")
    if thought and total == input_tokens + output + thought:
        output += thought  # xAI counts thoughts beside the output
    cached = _count(prompt, "cached_tokens")
    if cached is None:
        cached = _first(wire, *_CACHED)
    written = _count(prompt, "cache_write_tokens")
    if written is None:
        written = _count(wire, "cache_creation_input_tokens")
    if written and written + (cached or 0) > input_tokens:
        written = max(0, input_tokens - (cached or 0))  # OpenRouter counts such tokens twice (T36)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output,
        cached_read=cached,
        cache_write=written,
        cache_write_1h=_count(_object(wire, "cache_creation"), "ephemeral_1h_input_tokens"),
        reasoning=beside if inside is None else inside,
        audio_input=_count(prompt, "audio_tokens"),
        audio_output=_count(completion, "audio_tokens"),
        image_input=_count(prompt, "image_tokens"),
        image_output=_count(completion, "image_tokens"),
        total=None if total in (None, input_tokens + output) else total,
        extra_body=_unnamed(wire, prompt, completion),
        source=source(wire),
    )


def _unnamed(
    wire: Mapping[str, Any], prompt: Mapping[str, Any], completion: Mapping[str, Any]
) -> Mapping[str, Any]:
    extra = present(wire, _NAMED)
    asked, answered = present(prompt, _PROMPT_NAMED), present(completion, _COMPLETION_NAMED)
    if not asked and not answered:
        return extra
    inner = {_PROMPT: asked, _COMPLETION: answered}
    return {**extra, **{key: left for key, left in inner.items() if left}}


def _object(wire: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = wire.get(key)
    return value if isinstance(value, dict) else {}


def _count(wire: Mapping[str, Any], key: str) -> int | None:
    value = wire.get(key)
    if value is None or type(value) is int:
        return value
    return int(value) if isinstance(value, _NUMBERS) and not isinstance(value, bool) else None


def _first(wire: Mapping[str, Any], *keys: str) -> int | None:
    return next((found for key in keys if (found := _count(wire, key)) is not None), None)


def encode_usage(usage: Usage, *, same: bool) -> Json:
    wire = own_wire(usage)
    if isinstance(wire, dict):
        return dict(wire)
    named: Json = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total
        if usage.total is not None
        else usage.input_tokens + usage.output_tokens,
    }
    extra = usage.extra_body if same else {}
    prompt = _counts(
        cached_tokens=usage.cached_read,
        cache_write_tokens=usage.cache_write,
        audio_tokens=usage.audio_input,
        image_tokens=usage.image_input,
    )
    completion = _counts(
        reasoning_tokens=usage.reasoning,
        audio_tokens=usage.audio_output,
        image_tokens=usage.image_output,
    )
    for key, counts in ((_PROMPT, prompt), (_COMPLETION, completion)):
        details = flattened(counts, _object(extra, key))
        if details:
            named[key] = details
    return flattened(named, extra)


def _counts(**counts: int | None) -> Json:
    return {name: count for name, count in counts.items() if count is not None}


def decode_finish(choice: Mapping[str, Any]) -> Finish | None:
    word = spoken(choice.get("finish_reason"))
    if not word:
        return None
    finish = known_finish(word)
    matched = choice.get("stop_reason")  # vLLM: the stop string itself
    if finish.reason is FinishReason.STOP and isinstance(matched, str) and matched:
        return msgspec.structs.replace(finish, stop_sequence=matched)
    return finish


def known_finish(word: str) -> Finish:
    """What a provider's word means; it never changes, so the usual ones are made once."""
    found = _FINISHES.get(word)
    return found if found is not None else _finish(word)


def _finish(word: str) -> Finish:
    reason = _REASONS.get(word.lower(), FinishReason.OTHER)
    return Finish(reason=reason, native=word, protocol=DIALECT)


_FINISHES = {word: _finish(word) for word in _REASONS}


def encode_finish(finish: Finish | None, *, calls: bool, legacy: bool) -> str:
    if finish is not None and finish.protocol == DIALECT and finish.native:
        return finish.native
    reason = FinishReason.STOP if finish is None else finish.reason
    if reason in (FinishReason.STOP, FinishReason.TOOL_CALLS):  # calls decide, not the word (T7)
        return ("function_call" if legacy else "tool_calls") if calls else "stop"
    return "stop" if reason is FinishReason.OTHER else reason.value
