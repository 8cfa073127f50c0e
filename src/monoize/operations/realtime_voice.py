"""Realtime voice: a session over a socket; an envelope can only say what one would need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from monoize.media.ref import MediaRef
from monoize.operation import Needs, Operation, Payload

__all__ = ["OPERATION", "RealtimeVoicePayload"]


class RealtimeVoicePayload(Payload, frozen=True, kw_only=True):
    session_config: Mapping[str, Any] = {}  # voice, turn taking, language, …
    input_stream: str | None = None  # both are the socket itself: GET /v1/realtime
    output_events: str | None = None


class RealtimeVoice(Operation[RealtimeVoicePayload]):
    id = "realtime_voice"
    payload_type = RealtimeVoicePayload

    @override
    def needs(self, payload: RealtimeVoicePayload) -> Needs:
        features = {"supports_bidi_stream", "supports_audio_input", "supports_audio_output"}
        if payload.session_config.get("turn_detection"):
            features.add("supports_turn_detection")
        return Needs(features=frozenset(features))

    @override
    def downgraded(
        self, payload: RealtimeVoicePayload, missing: frozenset[str]
    ) -> tuple[RealtimeVoicePayload, tuple[str, ...]] | None:
        del payload, missing
        return None

    @override
    def media(self, payload: RealtimeVoicePayload) -> Mapping[str, MediaRef]:
        del payload
        return {}


OPERATION = RealtimeVoice()
