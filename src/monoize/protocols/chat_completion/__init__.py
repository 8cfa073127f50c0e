"""OpenAI's chat completions, and the many providers that speak like it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from monoize.clock import IdSource
from monoize.errors import MonoizeError, ProviderError
from monoize.protocol import Json, Protocol, Reply, StreamDecoder, StreamEncoder, WireRequest
from monoize.protocols.chat_completion import error as errors
from monoize.protocols.chat_completion.fields import DIALECT
from monoize.protocols.chat_completion.plain_exchange import (
    passing_reply,
    passing_request,
    plain_reply,
    plain_request,
)
from monoize.protocols.chat_completion.request_decode import decode_request
from monoize.protocols.chat_completion.request_encode import PATH, encode_request
from monoize.protocols.chat_completion.response_decode import decode_response
from monoize.protocols.chat_completion.response_encode import encode_response
from monoize.protocols.chat_completion.stream_decode import ChatStreamDecoder
from monoize.protocols.chat_completion.stream_encode import (
    ChatStreamEncoder,
    is_hidden,
    shows_usage,
)
from monoize.urp import Audio, File, Image, Losses, UrpRequest, UrpResponse, WireEvent

__all__ = ["PROTOCOL", "ChatCompletion"]


class ChatCompletion(Protocol):
    id = "chat_completion"
    dialect = DIALECT
    model_paths = (("model",),)
    plain_path = PATH
    feature_headers = ("openai-beta",)

    @override
    def decode_request(
        self, body: Mapping[str, Any], *, model: str | None = None, stream: bool | None = None
    ) -> UrpRequest:
        if model is None and stream is None:  # as every chat caller asks
            plain = plain_request(body)
            if plain is not None:
                return plain
        return decode_request(body, model=model, stream=stream)

    @override
    def passing_request(self, raw: bytes) -> UrpRequest | None:
        return passing_request(raw)

    @override
    def encode_request(self, request: UrpRequest, losses: Losses) -> WireRequest:
        return encode_request(request, losses)

    @override
    def takes_only_bytes(self, part: Image | Audio | File) -> bool:
        return isinstance(part, Audio | File)

    @override
    def headers(self, api_key: str | None) -> dict[str, str]:
        return {"authorization": f"Bearer {api_key}"} if api_key else {}

    @override
    def decode_response(self, body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
        return plain_reply(body) or decode_response(body, ids)

    @override
    def passing_reply(self, raw: bytes) -> UrpResponse | None:
        return passing_reply(raw)

    @override
    def encode_response(self, response: UrpResponse, reply: Reply) -> Json:
        return encode_response(response, reply)

    @override
    def stream_decoder(self, ids: IdSource) -> StreamDecoder:
        return ChatStreamDecoder(ids)

    @override
    def stream_encoder(self, reply: Reply) -> StreamEncoder:
        return ChatStreamEncoder(reply, self.model_paths)

    @override
    def hides(self, wire: WireEvent, request: UrpRequest) -> bool:
        return is_hidden(wire, shows_usage=shows_usage(request))

    @override
    def decode_error(self, status: int, body: Any) -> ProviderError:
        return errors.decode_error(status, body)

    @override
    def encode_error(self, error: MonoizeError, request_id: str) -> Json:
        return errors.encode_error(error, request_id)


PROTOCOL = ChatCompletion()
