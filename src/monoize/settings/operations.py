"""What a provider can do beside chat, and who is asked first (spec 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from monoize.settings.section import PositiveInt, Section

__all__ = [
    "CapabilitySettings",
    "OperationId",
    "OperationSettings",
    "PolicyName",
    "PolicySettings",
    "Transport",
]

OperationId = Literal[
    "chat_completions",
    "embeddings",
    "image_generation",
    "speech_to_text",
    "text_to_speech",
    "realtime_voice",
]
Transport = Literal["http", "websocket", "grpc"]
PolicyName = Literal[
    "weighted_random",
    "round_robin",
    "least_inflight",
    "ewma_latency",
    "consistent_hash",
    "priority",
    "hedged",
]


class CapabilitySettings(Section, frozen=True, kw_only=True):
    """What a provider, or one of its models, can do; what is left out is what its type usually can."""

    operations: tuple[OperationId, ...] | None = None
    features: tuple[str, ...] | None = None  # such as supports_timestamps
    transports: tuple[Transport, ...] | None = None
    limits: Mapping[str, Annotated[float, Meta(ge=0)]] = {}  # such as max_audio_seconds


class PolicySettings(Section, frozen=True, kw_only=True):
    """Which of a provider's channels is asked first."""

    name: PolicyName
    key: Literal["session_id", "task_id"] = "session_id"  # of consistent_hash
    legs: Annotated[int, Meta(ge=2, le=4)] = 2  # of hedged: askers at a time at most
    delay_ms: PositiveInt = 50  # of hedged: before the next leg starts


class OperationSettings(Section, frozen=True, kw_only=True):
    """How one operation finds its provider."""

    pool: bool = False  # every provider's channels in one pot, instead of provider after provider
    policy: PolicyName | PolicySettings | None = None
    # What a request's own `policy` may ask for: hedging costs money, so it is the operator's to allow.
    request_policies: tuple[PolicyName, ...] = (
        "weighted_random",
        "round_robin",
        "least_inflight",
        "ewma_latency",
        "consistent_hash",
        "priority",
    )
