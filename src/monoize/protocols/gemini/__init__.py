"""Google's generateContent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from monoize.clock import IdSource
from monoize.errors import MonoizeError, ProviderError
from monoize.protocol import Json, Protocol, Reply, StreamDecoder, StreamEncoder, WireRequest
from monoize.protocols.gemini import (
    request_decode,
    request_encode,
    response_decode,
    response_encode,
)
from monoize.protocols.gemini.error import decode_error, encode_error
from monoize.protocols.gemini.json_array import ArrayParser, ArrayWriter
from monoize.protocols.gemini.models import method_path, resource_name
from monoize.protocols.gemini.spelling import DIALECT, found
from monoize.protocols.gemini.stream_decode import GeminiStreamDecoder
from monoize.protocols.gemini.stream_encode import GeminiStreamEncoder
from monoize.sse import SseParser, StreamParser, StreamWriter
from monoize.urp import Losses, UrpRequest, UrpResponse

__all__ = ["PROTOCOL", "GeminiProtocol"]


class GeminiProtocol(Protocol):
    id = "gemini"
    dialect = DIALECT
    model_paths = (("modelVersion",),)
    # Google's own client takes every line that is neither blank nor data for a piece of JSON (T13).
    keep_alive = b"\r\n"
    comments = False
    models_path = "/v1beta/models"
    line_end = "\r\n"

    @override
    def decode_request(
        self, body: Mapping[str, Any], *, model: str | None = None, stream: bool | None = None
    ) -> UrpRequest:
        return request_decode.decode_request(body, model=model, stream=stream)

    @override
    def encode_request(self, request: UrpRequest, losses: Losses) -> WireRequest:
        body = request_encode.request_body(request, losses)
        return WireRequest(path=request_encode.request_path(request), body=body)

    @override
    def refuse_untranslatable(self, request: UrpRequest) -> None:
        request_decode.refuse_untranslatable(request)

    @override
    def headers(self, api_key: str | None) -> dict[str, str]:
        return {"x-goog-api-key": api_key} if api_key else {}

    @override
    def decode_response(self, body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
        return response_decode.decode_response(body, ids)

    @override
    def encode_response(self, response: UrpResponse, reply: Reply) -> Json:
        return response_encode.encode_response(response, reply)

    @override
    def stream_decoder(self, ids: IdSource) -> StreamDecoder:
        return GeminiStreamDecoder(ids)

    @override
    def stream_encoder(self, reply: Reply) -> StreamEncoder:
        return GeminiStreamEncoder(reply, self.model_paths)

    @override
    def stream_parser(self, content_type: str, event_limit: int) -> StreamParser:
        return ArrayParser(event_limit) if "json" in content_type else SseParser(event_limit)

    @override
    def stream_writer(self, query: Mapping[str, str]) -> StreamWriter:
        return super().stream_writer(query) if query.get("alt") == "sse" else ArrayWriter()

    @override
    def decode_error(self, status: int, body: Any) -> ProviderError:
        return decode_error(status, body)

    @override
    def encode_error(self, error: MonoizeError, request_id: str) -> Json:
        return encode_error(error, request_id)

    @override
    def encode_count(self, request: UrpRequest, losses: Losses) -> WireRequest:
        body = request_encode.request_body(request, losses)
        inner = {**body, "model": resource_name(request.model)}
        return WireRequest(
            path=method_path(request.model, "countTokens"), body={"generateContentRequest": inner}
        )

    @override
    def decode_count(self, body: Mapping[str, Any]) -> int | None:
        total = found(body, "totalTokens")
        return total if isinstance(total, int) else None

    @override
    def encode_count_reply(self, tokens: int) -> Json:
        return {"totalTokens": tokens}


PROTOCOL = GeminiProtocol()
