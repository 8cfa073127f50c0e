"""For callers that must not see how an answer came about."""

from __future__ import annotations

from typing_extensions import override

from monoize.transform import Context, Events, NoConfig, ResponseTransform
from monoize.transforms._part_numbers import PartNumbers, without
from monoize.urp import Reasoning, ReasoningEncrypted, UrpStreamEvent

__all__ = ["StripReasoning"]


class StripReasoning(ResponseTransform[NoConfig]):
    """Remove all reasoning from replies, readable and encrypted.

    A caller that sends the conversation on can then not hand the reasoning back to the provider.
    """

    id = "strip_reasoning"

    @override
    def init_state(self, config: NoConfig) -> PartNumbers:
        return PartNumbers()

    @override
    def apply(
        self, value: UrpStreamEvent, state: PartNumbers, context: Context[NoConfig]
    ) -> Events:
        return without((Reasoning, ReasoningEncrypted), value, state)
