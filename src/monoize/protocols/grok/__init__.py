"""xAI's dialect of Responses: only what differs from OpenAI's (D14)."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from monoize.protocol import WireRequest
from monoize.protocols.grok.request import adapted
from monoize.protocols.responses import Responses
from monoize.protocols.responses.tools import flat_names
from monoize.urp import Losses, UrpRequest

__all__ = ["PROTOCOL", "Grok"]


class Grok(Responses):
    id: ClassVar[str] = "grok"
    feature_headers: ClassVar[tuple[str, ...]] = ()

    @override
    def encode_request(self, request: UrpRequest, losses: Losses) -> WireRequest:
        wire = super().encode_request(request, losses)
        body = adapted(wire.body, flat_names(request.tools or ()), losses)
        return WireRequest(path=wire.path, body=body)

    @override
    def encode_count(self, request: UrpRequest, losses: Losses) -> WireRequest | None:
        del request, losses
        return None  # xAI has no counter for whole requests


PROTOCOL = Grok()
