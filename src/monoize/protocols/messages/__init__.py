"""Anthropic Messages: what Claude's API and its many clients speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from monoize.clock import IdSource
from monoize.errors import MonoizeError, ProviderError
from monoize.protocol import Json, Protocol, Reply, StreamDecoder, StreamEncoder, WireRequest
from monoize.protocols.messages.dialect import DIALECT, MODEL_PATHS
from monoize.protocols.messages.error import decode_error, encode_error
from monoize.protocols.messages.request_blocks import is_text
from monoize.protocols.messages.request_decode import decode_request
from monoize.protocols.messages.request_encode import encode_count, encode_request
from monoize.protocols.messages.response import decode_response, encode_response
from monoize.protocols.messages.stream_decode import MessagesStreamDecoder
from monoize.protocols.messages.stream_encode import MessagesStreamEncoder
from monoize.urp import Audio, File, Image, Losses, UrpRequest, UrpResponse

__all__ = ["PROTOCOL", "Messages"]

_VERSION = "2023-06-01"


class Messages(Protocol):
    id: ClassVar[str] = "messages"
    dialect: ClassVar[str] = DIALECT
    model_paths: ClassVar[tuple[tuple[str, ...], ...]] = MODEL_PATHS
    feature_headers: ClassVar[tuple[str, ...]] = ("anthropic-version", "anthropic-beta")
    keep_alive: ClassVar[bytes] = b'event: ping\ndata: {"type": "ping"}\n\n'

    @override
    def decode_request(
        self, body: Mapping[str, Any], *, model: str | None = None, stream: bool | None = None
    ) -> UrpRequest:
        return decode_request(body, model, stream)

    @override
    def encode_request(self, request: UrpRequest, losses: Losses) -> WireRequest:
        return WireRequest(path="/v1/messages", body=encode_request(request, losses))

    @override
    def takes_only_bytes(self, part: Image | Audio | File) -> bool:
        return isinstance(part, File) and is_text(part.media)

    @override
    def headers(self, api_key: str | None) -> dict[str, str]:
        version = {"anthropic-version": _VERSION}
        return version if api_key is None else {"x-api-key": api_key, **version}

    @override
    def decode_response(self, body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
        return decode_response(body, ids)

    @override
    def encode_response(self, response: UrpResponse, reply: Reply) -> Json:
        return encode_response(response, reply)

    @override
    def stream_decoder(self, ids: IdSource) -> StreamDecoder:
        return MessagesStreamDecoder(ids)

    @override
    def stream_encoder(self, reply: Reply) -> StreamEncoder:
        return MessagesStreamEncoder(reply)

    @override
    def decode_error(self, status: int, body: Any) -> ProviderError:
        return decode_error(status, body)

    @override
    def encode_error(self, error: MonoizeError, request_id: str) -> Json:
        return encode_error(error, request_id)

    @override
    def encode_count(self, request: UrpRequest, losses: Losses) -> WireRequest | None:
        return WireRequest(path="/v1/messages/count_tokens", body=encode_count(request, losses))

    @override
    def decode_count(self, body: Mapping[str, Any]) -> int | None:
        counted = body.get("input_tokens")
        return counted if isinstance(counted, int) else None


PROTOCOL = Messages()
