"""One try at one provider: encode, send, and read the reply far enough to know that it is one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from itertools import takewhile
from typing import Any

import msgspec

from monoize import wirejson
from monoize.clock import Clock, IdSource
from monoize.errors import LossRefused, UpstreamError, UpstreamUnreadable
from monoize.pipeline.call import Call, Trace
from monoize.protocol import Protocol, WireRequest, protocol
from monoize.routing.catalog import Candidate
from monoize.routing.verdict import failure
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.sse import SseError, StreamParser
from monoize.upstream.address import joined_url
from monoize.upstream.client import UpstreamCall, UpstreamClient, UpstreamReply
from monoize.upstream.engine_client import LOCAL_SCHEME
from monoize.urp import Frame, Losses, UrpRequest, UrpResponse, renamed, unfold

__all__ = ["Attempt", "Kit", "encoded_for", "provider_protocol"]

_FIRST_FAILURE = 300
_STATUS_OF_A_HIDDEN_ERROR = 502  # an error inside a 200


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What the pipeline needs from outside."""

    client: UpstreamClient
    engines: UpstreamClient
    clock: Clock
    ids: IdSource
    limits: LimitSettings
    timeouts: TimeoutSettings


def provider_protocol(candidate: Candidate) -> Protocol:
    """A local engine speaks chat completions."""
    kind = candidate.provider.type
    return protocol("chat_completion" if kind == "local" else kind)


class Attempt:
    """Owns the upstream reply from `send` to `close`."""

    def __init__(self, call: Call, candidate: Candidate, kit: Kit, trace: Trace) -> None:
        self.call = call
        self.candidate = candidate
        self.kit = kit
        self.trace = trace
        self.protocol = provider_protocol(candidate)
        self._wire: WireRequest | None = None
        self._reply: UpstreamReply | None = None

    @property
    def same_dialect(self) -> bool:
        return self.protocol.dialect == self.call.incoming.protocol.dialect

    # --- out ---

    def encoded(self) -> WireRequest:
        """The request in the provider's protocol, made once; its losses are in the trace."""
        if self._wire is None:
            self._wire = self._encode()
        return self._wire

    def _encode(self) -> WireRequest:
        request = renamed(self.call.request, self.candidate.upstream_model)
        wire = encoded_for(
            self.protocol, self.call.incoming.protocol, request, self.trace.request_losses
        )
        if self.call.strict and self.trace.request_losses.dropped:
            refuse_losses(self.trace.request_losses.dropped)
        return wire

    def count_request(self) -> WireRequest | None:
        request = renamed(self.call.request, self.candidate.upstream_model)
        return self.protocol.encode_count(request, self.trace.request_losses)

    async def send(self, wire: WireRequest | None = None) -> UpstreamReply:
        """Raises UpstreamRefused for the provider's own no, UpstreamFailed for what may work elsewhere."""
        wire = wire or self.encoded()
        self.trace.attempts += 1
        self.trace.provider = self.candidate.provider.id
        self.trace.channel = self.candidate.channel.id
        self.trace.upstream_model = self.candidate.upstream_model
        started = self.kit.clock.monotonic()
        try:
            self._reply = await self._client().send(self._upstream_call(wire))
            if self._reply.status >= _FIRST_FAILURE:
                await self._refuse(self._reply)
        finally:
            self.trace.upstream_seconds += self.kit.clock.monotonic() - started
        return self._reply

    async def close(self) -> None:
        if self._reply is not None:
            await self._reply.close()

    def _client(self) -> UpstreamClient:
        return self.kit.engines if self.candidate.provider.type == "local" else self.kit.client

    def _upstream_call(self, wire: WireRequest) -> UpstreamCall:
        provider, channel = self.candidate.provider, self.candidate.channel
        milliseconds = provider.request_timeout_ms
        url = (
            f"{LOCAL_SCHEME}{provider.engine or ''}"
            if channel.base_url is None
            else joined_url(channel.base_url, wire.path)
        )
        return UpstreamCall(
            url=url,
            headers=self._headers(),
            body=body_bytes(wire, self.call.request, self.call.incoming.raw, self.protocol.dialect),
            proxy=channel.proxy,
            first_byte_seconds=milliseconds / 1000
            if milliseconds
            else self.kit.timeouts.first_byte,
            idle_seconds=self.kit.timeouts.idle,
        )

    def _headers(self) -> dict[str, str]:
        """Ours, then what the caller may add: the vendor's feature headers on same-protocol calls only (T35)."""
        channel, caller = self.candidate.channel, self.call.incoming.headers
        allowed = (
            *(self.protocol.feature_headers if self.same_dialect else ()),
            *channel.forward_headers,
        )
        passed = {name.lower(): caller[name.lower()] for name in allowed if name.lower() in caller}
        return {
            "content-type": "application/json",
            "accept": "text/event-stream" if self.call.request.stream else "application/json",
            **self.protocol.headers(channel.api_key),
            **passed,
            **{name.lower(): value for name, value in channel.headers.items()},
        }

    async def _refuse(self, reply: UpstreamReply) -> None:
        try:
            body = await reply.read(self.kit.limits.reply_bytes)
        except UpstreamError:
            body = b""
        finally:
            await reply.close()
        secret = (self.candidate.channel.api_key or "").encode()
        if secret:  # some providers repeat the key that they refuse (D18)
            body = body.replace(secret, b"***")
        error = self.protocol.decode_error(reply.status, _json_or_text(body))
        raise failure(error, reply.status)

    # --- back ---

    async def unary(self) -> tuple[bytes, Mapping[str, Any]]:
        """The whole reply: its bytes, and the object that they are."""
        if self._reply is None:
            raise UpstreamUnreadable("nothing was sent yet")
        started = self.kit.clock.monotonic()
        try:
            raw = await self._reply.read(self.kit.limits.reply_bytes)
        finally:
            self.trace.upstream_seconds += self.kit.clock.monotonic() - started
            await self.close()
        try:
            wire = wirejson.loads(raw)
        except wirejson.JsonError as error:
            raise UpstreamUnreadable(f"the provider's reply is not JSON: {error}") from None
        if isinstance(wire, list) and len(wire) == 1:
            wire = wire[0]
        if not isinstance(wire, dict):
            raise UpstreamUnreadable("the provider's reply is not a JSON object")
        return raw, wire

    def stream_parser(self) -> StreamParser | None:
        """How to read the reply as a stream; None when the provider answered in one piece."""
        kind = self._reply.headers.get("content-type", "") if self._reply is not None else ""
        return self.protocol.stream_parser(kind, self.kit.limits.event_bytes)

    def frames(self, parser: StreamParser | None) -> AsyncGenerator[list[Frame], None]:
        """The frames of the reply, as many at a time as one read brought."""
        if self._reply is None:
            raise UpstreamUnreadable("nothing was sent yet")
        return self._unfolded() if parser is None else self._streamed(self._reply, parser)

    async def _streamed(
        self, reply: UpstreamReply, parser: StreamParser
    ) -> AsyncGenerator[list[Frame], None]:
        decoder = self.protocol.stream_decoder(self.kit.ids)
        try:
            async for chunk in reply.chunks():
                frames = [decoder.decode(event) for event in parser.feed(chunk)]
                good = list(takewhile(_is_readable, frames))
                if good:
                    yield good
                if len(good) < len(frames):
                    raise UpstreamUnreadable(
                        "the provider sent an event that is not of its protocol"
                    )
            last = [decoder.decode(event) for event in parser.close()]
            yield [*filter(_is_readable, last), decoder.finish()]
        except SseError as error:
            raise UpstreamUnreadable(str(error)) from None
        finally:
            await self.close()

    async def _unfolded(self) -> AsyncGenerator[list[Frame], None]:
        """A provider that answers a stream request in one piece: the same events, all at once."""
        _, wire = await self.unary()
        yield [Frame((event,)) for event in unfold(self.decoded(wire))]

    def decoded(self, wire: Mapping[str, Any]) -> UrpResponse:
        """A unary reply; one without any answer is a failure, whatever its status said (T15)."""
        response = self.protocol.decode_response(wire, self.kit.ids)
        if response.choices:
            return response
        if not wire.get("error"):
            raise UpstreamUnreadable("the provider's reply holds no answer")
        error = self.protocol.decode_error(_STATUS_OF_A_HIDDEN_ERROR, wire)
        raise failure(error, _STATUS_OF_A_HIDDEN_ERROR)


def encoded_for(
    target: Protocol, caller: Protocol, request: UrpRequest, losses: Losses
) -> WireRequest:
    """A caller's request in the target's protocol, for a call and for the dry run alike."""
    if target.dialect != caller.dialect:
        caller.refuse_untranslatable(request)
    return target.encode_request(request, losses)


def refuse_losses(dropped: tuple[str, ...]) -> None:
    raise LossRefused(
        f"x-monoize-strict: the provider's protocol cannot carry {', '.join(dropped)}",
        param=dropped[0],
    )


def body_bytes(wire: WireRequest, request: UrpRequest, raw: bytes, dialect: str) -> bytes:
    """The body to send; where nothing but top-level fields changed, the caller's own bytes."""
    source = request.source
    if (
        source is not None
        and source.protocol == dialect
        and raw
        and source.wire.keys() <= wire.body.keys()
    ):
        changes = {
            k: v for k, v in wire.body.items() if k not in source.wire or source.wire[k] is not v
        }
        try:
            return wirejson.spliced(raw, changes)
        except (msgspec.DecodeError, UnicodeError):
            pass  # lone surrogates: only the tolerant writer takes them
    return wirejson.dumps(wire.body)


def _is_readable(frame: Frame) -> bool:
    return frame.readable


def _json_or_text(body: bytes) -> Any:
    try:
        return wirejson.loads(body)
    except wirejson.JsonError:
        return body.decode("utf-8", "replace")
