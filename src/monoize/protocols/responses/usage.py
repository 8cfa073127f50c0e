"""What a reply cost and why it ended, wire <-> URP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monoize.protocols.responses.vocabulary import DIALECT
from monoize.urp import EMPTY, Finish, FinishReason, Message, ToolCall, Usage
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "decode_finish",
    "decode_usage",
    "encode_status",
    "encode_usage",
    "has_calls",
    "seconds",
]

_INPUT_DETAILS = {
    "cached_tokens": "cached_read",
    "cache_write_tokens": "cache_write",
    "audio_tokens": "audio_input",
    "image_tokens": "image_input",
}
_OUTPUT_DETAILS = {
    "reasoning_tokens": "reasoning",
    "audio_tokens": "audio_output",
    "image_tokens": "image_output",
}
_ALWAYS_SHOWN = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")
_DETAILS = {"input_tokens_details": _INPUT_DETAILS, "output_tokens_details": _OUTPUT_DETAILS}
_NAMED = frozenset({"input_tokens", "output_tokens", "total_tokens", *_DETAILS})

_NUMBERS = (int, float)
_REASONS = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}
_FINISHED = ("completed", "complete", None)


def _count(wire: Mapping[str, Any], key: str) -> int | None:
    value = wire.get(key)
    if value is None or type(value) is int:
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def decode_usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    read, written = _count(value, "input_tokens") or 0, _count(value, "output_tokens") or 0
    total = _count(value, "total_tokens")
    extra = rest(value, _NAMED)
    counts: dict[str, Any] = {}
    for field, names in _DETAILS.items():
        details = value.get(field)
        if isinstance(details, dict):
            for wire, urp in names.items():
                if wire in details:
                    counts[urp] = _count(details, wire)
            if unknown := rest(details, names):
                extra = {**extra, field: unknown}
    return Usage(
        input_tokens=read,
        output_tokens=written,
        total=total if total is not None and total != read + written else None,
        extra_body=extra,
        **counts,
    )


def encode_usage(usage: Usage | None, *, native: bool) -> dict[str, Any] | None:
    """`native`: the counts came from a Responses provider, so its own extra fields mean something here."""
    if usage is None:
        return None
    extra = usage.extra_body if native else EMPTY
    wire: dict[str, Any] = {"input_tokens": usage.input_tokens}
    wire["input_tokens_details"] = _details(usage, extra, "input_tokens_details")
    wire["output_tokens"] = usage.output_tokens
    wire["output_tokens_details"] = _details(usage, extra, "output_tokens_details")
    whole = usage.input_tokens + usage.output_tokens
    wire["total_tokens"] = usage.total if usage.total is not None else whole
    return flattened(wire, extra)


def _details(usage: Usage, extra: Mapping[str, Any], field: str) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for wire, urp in _DETAILS[field].items():
        count = getattr(usage, urp)
        if count is not None or wire in _ALWAYS_SHOWN:
            shown[wire] = count or 0
    return flattened(shown, extra.get(field) or EMPTY)


def decode_finish(response: Mapping[str, Any], *, has_calls: bool) -> Finish:
    status = response.get("status")
    if status in _FINISHED:
        reason = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
        return Finish(reason=reason, native=status, protocol=DIALECT)
    details = response.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    native = why if isinstance(why, str) else str(status)
    return Finish(reason=_REASONS.get(native, FinishReason.OTHER), native=native, protocol=DIALECT)


def encode_status(finish: Finish | None) -> tuple[str, dict[str, str] | None]:
    """`status` and `incomplete_details`."""
    if finish is None:
        return "completed", None
    match finish.reason:
        case FinishReason.LENGTH:
            return "incomplete", {"reason": "max_output_tokens"}
        case FinishReason.CONTENT_FILTER:
            return "incomplete", {"reason": "content_filter"}
        case FinishReason.OTHER if finish.protocol == DIALECT and finish.native is not None:
            if finish.native in ("failed", "cancelled", "queued", "in_progress"):
                return finish.native, None
            if finish.native == "incomplete":
                return "incomplete", None
            return "incomplete", {"reason": finish.native}
        case _:
            return "completed", None


def has_calls(messages: Iterable[Message]) -> bool:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                return True
    return False


def seconds(value: Any) -> int | None:
    """A time; some providers write it as a float."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return None
    return int(value)
