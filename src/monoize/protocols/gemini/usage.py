"""usageMetadata <-> usage: Google counts thoughts and the prompts of its own tools apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocols.gemini.spelling import DIALECT, found, listed, split
from monoize.urp import EMPTY, Source, Usage
from monoize.urp.extra_body import flattened

__all__ = ["decode_usage", "service_tier", "write_usage"]

_FIELDS = frozenset(
    {
        "promptTokenCount",
        "candidatesTokenCount",
        "totalTokenCount",
        "thoughtsTokenCount",
        "cachedContentTokenCount",
    }
)
# Modalities by name, and by the number that some clients of Google write.
_MODALITIES = {"IMAGE": "image", "2": "image", "AUDIO": "audio", "4": "audio"}
_TIERS = {"standard": "default", "unspecified": "auto"}


def decode_usage(wire: Any) -> Usage | None:
    if wire is None or not isinstance(wire, Mapping):
        return None
    fields, rest = split(wire, _FIELDS)
    counts = {name: value for name, value in fields.items() if _is_count(value)}
    if not counts:
        return None
    thoughts = counts.get("thoughtsTokenCount")
    tool_prompts = found(rest, "toolUsePromptTokenCount")
    read = counts.get("promptTokenCount", 0) + (tool_prompts if _is_count(tool_prompts) else 0)
    written = counts.get("candidatesTokenCount", 0) + (thoughts or 0)
    total = counts.get("totalTokenCount")
    spent = _by_modality(found(rest, "promptTokensDetails"))
    made = _by_modality(found(rest, "candidatesTokensDetails"))
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_read=counts.get("cachedContentTokenCount"),
        reasoning=thoughts,
        audio_input=spent.get("audio"),
        image_input=spent.get("image"),
        audio_output=made.get("audio"),
        image_output=made.get("image"),
        total=total if total is not None and total != read + written else None,
        extra_body=rest,
        source=Source(DIALECT, wire),
    )


def service_tier(wire: Any) -> str | None:
    """The tier that served the request, in the words that URP shares with other protocols."""
    tier = found(wire, "serviceTier")
    return _TIERS.get(tier.lower(), tier.lower()) if isinstance(tier, str) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _by_modality(details: Any) -> dict[str, int]:
    if not details:
        return {}
    out: dict[str, int] = {}
    for item in listed(details):
        kind = _MODALITIES.get(str(found(item, "modality")).upper())
        count = found(item, "tokenCount")
        if kind is not None and _is_count(count):
            out[kind] = out.get(kind, 0) + count
    return out


def write_usage(usage: Usage, *, same: bool) -> dict[str, Any]:
    if usage.source is not None and usage.source.protocol == DIALECT:
        return dict(usage.source.wire)
    extra = usage.extra_body if same else EMPTY
    tool_prompts = found(extra, "toolUsePromptTokenCount")
    read = usage.input_tokens - (tool_prompts if _is_count(tool_prompts) else 0)
    thoughts = usage.reasoning or 0
    out: dict[str, Any] = {
        "promptTokenCount": max(read, 0),
        "candidatesTokenCount": max(usage.output_tokens - thoughts, 0),
        "totalTokenCount": usage.total or usage.input_tokens + usage.output_tokens,
    }
    if usage.reasoning is not None:
        out["thoughtsTokenCount"] = thoughts
    if usage.cached_read is not None:
        out["cachedContentTokenCount"] = usage.cached_read
    spent = _details(usage.input_tokens, usage.audio_input, usage.image_input)
    made = _details(usage.output_tokens - thoughts, usage.audio_output, usage.image_output)
    named = {"promptTokensDetails": spent, "candidatesTokensDetails": made}
    flattened(out, extra)
    return flattened(out, {name: value for name, value in named.items() if value})


def _details(total: int, audio: int | None, image: int | None) -> list[dict[str, Any]]:
    counts = {"AUDIO": audio or 0, "IMAGE": image or 0}
    if not any(counts.values()):
        return []
    counts["TEXT"] = max(total - sum(counts.values()), 0)
    return [{"modality": name, "tokenCount": n} for name, n in counts.items() if n]
