"""For callers that choke on opaque reasoning but want to read the thoughts."""

from __future__ import annotations

from typing_extensions import override

from monoize.transform import Context, Events, NoConfig, ResponseTransform
from monoize.transforms._part_numbers import PartNumbers, without
from monoize.urp import ReasoningEncrypted, UrpStreamEvent

__all__ = ["StripEncryptedReasoning"]


class StripEncryptedReasoning(ResponseTransform[NoConfig]):
    """Remove encrypted reasoning from replies; readable reasoning stays, with the signature that belongs to it."""

    id = "strip_encrypted_reasoning"

    @override
    def init_state(self, config: NoConfig) -> PartNumbers:
        return PartNumbers()

    @override
    def apply(
        self, value: UrpStreamEvent, state: PartNumbers, context: Context[NoConfig]
    ) -> Events:
        return without((ReasoningEncrypted,), value, state)
