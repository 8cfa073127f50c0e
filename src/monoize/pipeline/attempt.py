"""One try at one provider: encode, send, and read the reply far enough to know that it is one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import Any

import msgspec

from monoize import wirejson
from monoize.errors import (
    LossRefused,
    UpstreamFailed,
    UpstreamTimeout,
    UpstreamUnreadable,
)
from monoize.media.owner import owner_of
from monoize.media.resolve import resolved
from monoize.pipeline.call import Call, Trace
from monoize.pipeline.decode import without_username
from monoize.pipeline.exchange import Exchange
from monoize.pipeline.kit import Kit
from monoize.pipeline.passage import Passage
from monoize.pipeline.reading import FrameReader, RunReader, frame_reader
from monoize.pipeline.received import Received, Whole, collected, opened
from monoize.protocol import (
    Protocol,
    Reply,
    StreamDecoder,
    WireRequest,
    protocol,
    with_model_for,
    with_model_in,
)
from monoize.routing.catalog import Candidate
from monoize.routing.verdict import failure
from monoize.sse import SseError, StreamParser
from monoize.sse_runs import Run
from monoize.transform import NO_CHAIN, ResponseChain, Rule, request_applied
from monoize.upstream.client import Passable, UpstreamReply
from monoize.urp import (
    Frame,
    Losses,
    ResponseDone,
    ResponseStart,
    UrpRequest,
    UrpResponse,
    WireEvent,
    renamed,
    replace,
)

__all__ = ["Attempt", "encoded_for", "provider_protocol", "refuse_losses"]

_STATUS_OF_A_HIDDEN_ERROR = 502  # an error inside a 200
_NOTHING = object()


def provider_protocol(candidate: Candidate) -> Protocol:
    """A local engine speaks chat completions."""
    kind = candidate.provider.type
    return protocol("chat_completion" if kind == "local" else kind)


class Attempt:
    """Owns the upstream reply from `send` to `close`."""

    __slots__ = (
        "_exchange",
        "_is_unruled",
        "_rules",
        "_sent",
        "_wire",
        "call",
        "candidate",
        "key_chain",
        "kit",
        "protocol",
        "provider_chain",
        "replays",
        "request",
        "same_dialect",
        "trace",
    )

    def __init__(self, call: Call, kit: Kit, trace: Trace, candidate: Candidate) -> None:
        self.call = call
        self.candidate = candidate
        self.kit = kit
        self.trace = trace
        self.protocol = provider_protocol(candidate)
        self.request = call.request
        self._sent = call.sent  # with its media, where losses are to be told apart
        self._rules = kit.provider_rules.get(candidate.provider.id, ())
        # Made anew for every attempt: no state of an earlier one is left in them (T17).
        rules = call.incoming.caller.rules
        self.provider_chain = self._chain(self._rules) if self._rules else NO_CHAIN
        self.key_chain = self._chain(rules) if rules else NO_CHAIN
        self.same_dialect = self.protocol.dialect == call.incoming.protocol.dialect
        self._is_unruled = self.provider_chain is NO_CHAIN and self.key_chain is NO_CHAIN
        # Whether the provider's own bytes may go to the caller: nobody changes them on the way.
        self.replays = self.same_dialect and self._is_unruled
        self._wire: WireRequest | None = None
        self._exchange = Exchange(candidate, kit, trace)
        trace.provider = candidate.provider.id
        trace.channel = candidate.channel.id
        trace.request_losses = Losses()  # what an earlier attempt would have lost is of no interest
        for field in call.left_out:
            trace.request_losses.drop(field)

    def _chain(self, rules: tuple[Rule, ...]) -> ResponseChain:
        chain = ResponseChain(rules, model=self.call.model, provider_protocol=self.protocol.id)
        return chain or NO_CHAIN

    @property
    def was_sent(self) -> bool:
        return self._exchange.was_sent

    @property
    def upstream_model(self) -> str:
        return self.request.model

    @property
    def needs_whole_response(self) -> bool:
        """Whether a rule can only begin once the reply has ended (PIPE-1a)."""
        return self.provider_chain.needs_whole_response or self.key_chain.needs_whole_response

    # --- out ---

    def take_upstream_name(self) -> None:
        """Step 5."""
        request, name = self.call.request, self.candidate.upstream_model
        self.request = request if request.model == name else renamed(request, name)

    def apply_provider_rules(self) -> None:
        """Step 6; after it no rule needs to know any more who calls (CTX-2)."""
        request = self.request
        if self._rules:
            request = request_applied(
                request,
                self._rules,
                model=self.call.model,
                provider_protocol=self.protocol.id,
                observe=self.trace.observe,
            )
        if request.stream and self.needs_whole_response:
            request = replace(request, stream=False)  # PIPE-1a
        self.request = without_username(request)
        self.trace.upstream_model = self.request.model

    @property
    def may_hold_media(self) -> bool:
        source = self.request.source
        return self.kit.media is not None and (source is None or not source.words)

    async def resolve_media(self) -> None:
        """Stored files become bytes, and addresses where the provider takes only those (D30)."""
        desk, target, known = self.kit.media, self.protocol.id, self.trace.media
        if desk is None or not self.may_hold_media:
            return
        owner = owner_of(self.call.incoming.caller)
        self.request = await resolved(self.request, owner, desk, target, known)
        if self.call.strict:
            self._sent = await resolved(self._sent, owner, desk, target, known)

    def encoded(self) -> WireRequest:
        """The request in the provider's protocol, made once; its losses are in the trace."""
        if self._wire is None:
            losses = self.trace.request_losses
            self._wire = encoded_for(
                self.protocol, self.call.incoming.protocol, self.request, losses
            )
            if losses.dropped and self.call.strict and (own := self._own_losses()):
                refuse_losses(own)
        return self._wire

    def _own_losses(self) -> tuple[str, ...]:
        """What the caller's own words lose; what only rules have added is not the caller's affair."""
        losses, caller = Losses(), self.call.incoming.protocol
        encoded_for(self.protocol, caller, renamed(self._sent, self.request.model), losses)
        return (*self.call.left_out, *losses.dropped)

    def count_request(self) -> WireRequest | None:
        return self.protocol.encode_count(self.request, self.trace.request_losses)

    def send(self, wire: WireRequest | None = None) -> Coroutine[Any, Any, UpstreamReply]:
        """Raises UpstreamRefused for the provider's own no, UpstreamFailed for what may work elsewhere."""
        path = self.protocol.plain_path
        body = self._own_bytes() if wire is None and path is not None else None
        if body is None or path is None:
            wire = wire or self.encoded()
            path = wire.path
            body = body_bytes(wire, self.request, self.call.incoming.raw, self.protocol.dialect)
        headers = self._exchange.line.headers(
            self.protocol,
            self.call.incoming.headers,
            stream=self.request.stream,
            same_dialect=self.same_dialect,
        )
        return self._exchange.send(
            path, body, headers, self.protocol.decode_error, at_once=self.request.stream
        )

    def _own_bytes(self) -> bytes | None:
        """The caller's own bytes, where they are all there is to say; None: the request is encoded.

        It is plain words in the provider's dialect and nobody has changed it, but perhaps the model's name. Encoding
        it would come to the same, with a look at every field.
        """
        request, raw = self.request, self.call.incoming.raw
        source = request.source
        if source is None or not source.words or request.stream or not raw:
            return None
        if source.protocol != self.protocol.dialect:
            return None
        if self.call.sent.model == request.model:
            return raw
        try:
            return wirejson.spliced(raw, {"model": request.model})
        except (msgspec.DecodeError, UnicodeError):
            return None  # lone surrogates: only the tolerant writer takes them

    async def close(self) -> None:
        await self._exchange.close()

    # --- back ---

    async def unary(self) -> Mapping[str, Any]:
        """The whole reply."""
        return _object(await self._exchange.read())

    async def received(self) -> Received:
        """Step 8: the reply, decoded as far as it has come; a stream only where caller and rules want one.

        Some providers stream whether they are asked to or not.
        """
        parser = self._stream_parser()
        if parser is None:  # answered in one piece, asked for so or not
            raw = self._exchange.arrived()
            if raw is None:
                raw = await self._exchange.read()
            return self._passing(raw) or self._whole(raw)
        decoder = self.protocol.stream_decoder(self.kit.ids)
        reader = frame_reader(parser, decoder, runs=self._is_unruled and self.call.wants_stream)
        chunks = self._exchange.chunks(self.kit.timeouts.keep_alive / 2)
        streamed = self._streamed(chunks, reader, decoder)
        if self.call.wants_stream and not self.needs_whole_response:
            shows = self._shown()
            live = await opened(streamed, replays=self.replays, shows=shows, begins=self._begins)
            if isinstance(chunks, Passable) and isinstance(reader, RunReader):
                live.passage = Passage(chunks, reader)
            return live
        return Whole(response=_with_an_answer(await collected(await opened(streamed))))

    def _passing(self, raw: bytes) -> Whole | None:
        """A reply of plain words that goes to the caller as it came, but perhaps for the name of its model."""
        if not self.replays or self.call.wants_stream:
            return None
        response = self.protocol.passing_reply(raw)
        if response is None:
            return None
        own = with_model_for(raw, response.model, self.call.requested_model)
        return None if own is None else Whole(response=response, raw=own)

    def _whole(self, raw: bytes) -> Whole:
        wire = _object(raw)
        response = self.decoded(wire)
        if not self.replays or self.call.wants_stream:
            return Whole(response=response)
        paths = self.call.incoming.protocol.model_paths
        return Whole(
            response=response, raw=with_model_in(raw, wire, paths, self.call.requested_model)
        )

    def _shown(self) -> Callable[[Frame], bool]:
        """Whether a frame becomes anything in the caller's protocol: until one does, others may answer (D10)."""
        caller, request = self.call.incoming.protocol, self.call.sent
        if self.replays:
            return partial(_is_sent_on, hides=partial(caller.hides, request=request))
        reply = Reply(
            request=request,
            model=self.call.requested_model,
            ids=self.kit.ids,
            created=0,
            losses=Losses(),
        )
        encoder = caller.stream_encoder(reply)
        encoder.opening(ResponseStart(id="", model=""))  # which shows nothing of the provider's
        return lambda frame: bool(encoder.frame(frame))

    def _begins(self, start: ResponseStart) -> None:
        begun = self.trace.begun
        if begun is not None and not begun.done():
            begun.set_result(start)

    def _stream_parser(self) -> StreamParser | None:
        """How to read the reply as a stream; None when the provider answered in one piece."""
        reply = self._exchange.reply
        kind = reply.headers.get("content-type", "") if reply is not None else ""
        if not self.request.stream and "event-stream" not in kind:
            return None
        return self.protocol.stream_parser(kind, self.kit.limits.event_bytes)

    async def _streamed(
        self, chunks: AsyncIterator[bytes], reader: FrameReader, decoder: StreamDecoder
    ) -> AsyncGenerator[list[Frame], None]:
        """Batches of frames, one for each chunk; an empty one is a beat of silence, or of nothing worth telling (T13)."""
        try:
            async for chunk in chunks:
                frames = reader.feed(chunk) if chunk else []
                if all(map(_is_readable, frames)):
                    yield frames
                    continue
                yield list(takewhile(_is_readable, frames))
                raise UpstreamUnreadable("the provider sent an event that is not of its protocol")
            yield [*filter(_is_readable, reader.close()), decoder.finish()]
        except SseError as error:
            raise UpstreamUnreadable(str(error)) from None
        except (UpstreamFailed, UpstreamTimeout):
            end = decoder.finish()
            if not _is_whole(end):
                raise
            yield [end]
        finally:
            await self.close()

    def decoded(self, wire: Mapping[str, Any]) -> UrpResponse:
        """A unary reply; one without any answer is a failure, whatever its status said (T15)."""
        response = self.protocol.decode_response(wire, self.kit.ids)
        if response.choices:
            return response
        if not wire.get("error"):
            raise UpstreamUnreadable("the provider's reply holds no answer")
        error = self.protocol.decode_error(_STATUS_OF_A_HIDDEN_ERROR, wire)
        raise failure(error, _STATUS_OF_A_HIDDEN_ERROR)


def _object(raw: bytes) -> Mapping[str, Any]:
    try:
        wire = wirejson.loads(raw)
    except wirejson.JsonError as error:
        raise UpstreamUnreadable(f"the provider's reply is not JSON: {error}") from None
    if isinstance(wire, list) and len(wire) == 1:
        wire = wire[0]
    if not isinstance(wire, dict):
        raise UpstreamUnreadable("the provider's reply is not a JSON object")
    return wire


def _with_an_answer(response: UrpResponse) -> UrpResponse:
    if not response.choices:
        raise UpstreamUnreadable("the provider's stream holds no answer")
    return response


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
        changes = {k: v for k, v in wire.body.items() if not _stands(k, v, source.wire)}
        try:
            return wirejson.spliced(raw, changes) if changes else raw
        except (msgspec.DecodeError, UnicodeError):
            pass  # lone surrogates: only the tolerant writer takes them
    return wirejson.dumps(wire.body)


def _stands(key: str, value: Any, wire: Mapping[str, Any]) -> bool:
    """Whether the caller's bytes say this already: the same object, or the same word (a model's name)."""
    there = wire.get(key, _NOTHING)
    return there is value or (isinstance(value, str) and there == value)


def _is_whole(end: Frame) -> bool:
    """Every choice has its finish reason: only closing words are missing."""
    done = (event for event in end.events if isinstance(event, ResponseDone))
    return any(all(choice.finish for choice in event.choices) for event in done)


def _is_sent_on(frame: Frame, hides: Callable[[WireEvent], bool]) -> bool:
    """Of a provider whose own events the caller gets."""
    return type(frame) is Run or (frame.wire is not None and not hides(frame.wire))


_is_readable = attrgetter("readable")
