"""OpenAI Responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from monoize.clock import IdSource
from monoize.errors import MonoizeError, ProviderError
from monoize.protocol import Json, Protocol, Reply, WireRequest
from monoize.protocols.responses.error import decode_error, encode_error
from monoize.protocols.responses.request import decode_request
from monoize.protocols.responses.request_encode import encode_request
from monoize.protocols.responses.response import decode_response, encode_response
from monoize.protocols.responses.stream import MODEL_PATHS, ResponsesDecoder, ResponsesEncoder
from monoize.protocols.responses.vocabulary import DIALECT
from monoize.urp import Losses, UrpRequest, UrpResponse

__all__ = ["PROTOCOL", "Responses"]

# What the vendor's token counter takes; the rest of a request does not change the count.
_COUNTED = frozenset(
    {
        "conversation",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    }
)


class Responses(Protocol):
    id: ClassVar[str] = "responses"
    dialect: ClassVar[str] = DIALECT
    model_paths: ClassVar[tuple[tuple[str, ...], ...]] = MODEL_PATHS
    feature_headers: ClassVar[tuple[str, ...]] = ("openai-beta",)

    @override
    def decode_request(
        self, body: Mapping[str, Any], *, model: str | None = None, stream: bool | None = None
    ) -> UrpRequest:
        return decode_request(body, model=model, stream=stream)

    @override
    def encode_request(self, request: UrpRequest, losses: Losses) -> WireRequest:
        return WireRequest(path="/v1/responses", body=encode_request(request, losses))

    @override
    def headers(self, api_key: str | None) -> dict[str, str]:
        return {} if api_key is None else {"authorization": f"Bearer {api_key}"}

    @override
    def decode_response(self, body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
        return decode_response(body, ids)

    @override
    def encode_response(self, response: UrpResponse, reply: Reply) -> Json:
        return encode_response(response, reply)

    @override
    def stream_decoder(self, ids: IdSource) -> ResponsesDecoder:
        return ResponsesDecoder(ids)

    @override
    def stream_encoder(self, reply: Reply) -> ResponsesEncoder:
        return ResponsesEncoder(reply)

    @override
    def decode_error(self, status: int, body: Any) -> ProviderError:
        return decode_error(status, body)

    @override
    def encode_error(self, error: MonoizeError, request_id: str) -> Json:
        return encode_error(error, request_id)

    @override
    def encode_count(self, request: UrpRequest, losses: Losses) -> WireRequest | None:
        body = self.encode_request(request, losses).body
        counted = {key: value for key, value in body.items() if key in _COUNTED}
        return WireRequest(path="/v1/responses/input_tokens", body=counted)

    @override
    def decode_count(self, body: Mapping[str, Any]) -> int | None:
        count = body.get("input_tokens")
        return count if isinstance(count, int) else None


PROTOCOL = Responses()
