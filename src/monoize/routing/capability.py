"""What a provider can do for a model: what its type usually can, and what the settings say instead (spec 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from monoize.engine import Engine
from monoize.settings import CapabilitySettings, OperationId, ProviderType, Transport

__all__ = ["ANY_CHAT_ENGINE", "OF_TYPE", "Capabilities", "of_engines"]

T = TypeVar("T")


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    operations: frozenset[OperationId]
    features: frozenset[str] = frozenset()
    transports: frozenset[Transport] = frozenset({"http"})
    limits: Mapping[str, float] = {}  # what is not limited is not in it

    def overlaid(self, named: CapabilitySettings | None) -> Capabilities:
        """What is named replaces what was there; limits are added to the others."""
        if named is None or named == CapabilitySettings():
            return self
        return Capabilities(
            operations=_replaced(self.operations, named.operations),
            features=_replaced(self.features, named.features),
            transports=_replaced(self.transports, named.transports),
            limits={**self.limits, **named.limits},
        )


def _replaced(usual: frozenset[T], named: tuple[T, ...] | None) -> frozenset[T]:
    return usual if named is None else frozenset(named)


_CHAT = frozenset(
    {"supports_stream", "supports_tools", "supports_json_schema", "supports_system_role"}
)
_VECTORS = frozenset({"supports_batch", "supports_dimensions"})
_OPENAI = Capabilities(
    operations=frozenset(
        {
            "chat_completions",
            "embeddings",
            "image_generation",
            "speech_to_text",
            "text_to_speech",
            "realtime_voice",
        }
    ),
    # All that its API has words for, whichever model understands them: no supports_seed, no supports_ssml.
    features=_CHAT
    | _VECTORS
    | {
        "supports_image_input",
        "supports_mask",
        "supports_audio_input",
        "supports_timestamps",
        "supports_language",
        "supports_diarization",
        "supports_voices",
        "supports_formats",
        "supports_bidi_stream",
        "supports_audio_output",
        "supports_turn_detection",
    },
    transports=frozenset({"http", "websocket"}),
)

# A chat engine that says nothing about itself.
ANY_CHAT_ENGINE = Capabilities(
    operations=frozenset({"chat_completions"}),
    features=frozenset({"supports_stream", "supports_system_role", "supports_tools"}),
)

# A local provider is what its engine is: see `of_engines`.
OF_TYPE: Mapping[ProviderType, Capabilities] = {
    "chat_completion": _OPENAI,
    "responses": _OPENAI,
    "messages": Capabilities(
        operations=frozenset({"chat_completions"}), features=_CHAT | {"supports_image_input"}
    ),
    "gemini": Capabilities(
        operations=frozenset({"chat_completions", "embeddings", "image_generation"}),
        features=_CHAT
        | _VECTORS
        | {"supports_image_input", "supports_audio_input", "supports_seed"},
    ),
    "grok": Capabilities(
        operations=frozenset({"chat_completions", "image_generation"}), features=_CHAT
    ),
    "local": ANY_CHAT_ENGINE,
}


def of_engines(engines: Mapping[str, type[Engine]]) -> dict[str, Capabilities]:
    """What each engine says about itself; asking it is like asking over HTTP."""
    return {
        name: Capabilities(
            operations=frozenset({kind.operation}), features=kind.features, limits=kind.limits
        )
        for name, kind in engines.items()
    }
