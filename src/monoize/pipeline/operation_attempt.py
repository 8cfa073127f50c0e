"""One try of an operation at one channel, or on an engine of this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import msgspec

from monoize import wirejson
from monoize.engine import Engine
from monoize.errors import EngineError, UnsupportedByTarget, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.operation import Adapter, Made, Multipart, Outgoing
from monoize.pipeline.attempt import refuse_losses
from monoize.pipeline.call import Trace
from monoize.pipeline.exchange import Exchange
from monoize.pipeline.job import Job
from monoize.pipeline.kit import Kit
from monoize.pipeline.outgoing import json_body, multipart_body
from monoize.protocol import protocol, with_model
from monoize.routing.catalog import Candidate
from monoize.upstream.client import Streamed
from monoize.urp import Losses

__all__ = ["OPENAI", "OperationAttempt"]

OPENAI = "openai"
_DIALECTS = {
    "chat_completion": OPENAI,
    "responses": OPENAI,
    "grok": OPENAI,
    "gemini": "gemini",
}
_MODEL = (("model",),)


class OperationAttempt:
    """Owns the reply until `close`, or until the stream of what it made has been read."""

    def __init__(self, job: Job, kit: Kit, trace: Trace, candidate: Candidate) -> None:
        self.job = job
        self.kit = kit
        self.trace = trace
        self.candidate = candidate
        self._exchange = Exchange(candidate, kit, trace)
        self._ran_here = False
        trace.request_losses = Losses()  # what an earlier attempt would have lost is of no interest
        trace.provider = candidate.provider.id
        trace.channel = candidate.channel.id
        trace.upstream_model = candidate.upstream_model

    @property
    def upstream_model(self) -> str:
        return self.candidate.upstream_model

    @property
    def was_sent(self) -> bool:
        return self._exchange.was_sent or self._ran_here

    async def close(self) -> None:
        await self._exchange.close()

    async def made(self) -> Made:
        """One call, or as many as the payload was downgraded to."""
        does, payload = self.job.operation, self.job.payload
        parts = does.parts(payload)
        made = [await self._part(part) for part in parts]
        self._report(*(name for one in made for name in one.dropped))
        return made[0] if len(parts) == 1 else does.joined(payload, made)

    def _report(self, *dropped: str) -> None:
        for name in dropped:
            self.trace.request_losses.drop(name)
        if dropped and self.job.incoming.strict:
            refuse_losses(dropped)

    async def _part(self, payload: Any) -> Made:
        if self.candidate.provider.type == "local":
            return await self._made_here(payload)
        dialect = _DIALECTS.get(self.candidate.provider.type)
        adapter = self.job.operation.dialects.get(dialect or "")
        if adapter is None:
            raise UnsupportedByTarget(
                f"{self.job.operation.id} cannot be asked of a provider of type {self.candidate.provider.type}"
            )
        outgoing = adapter.request(payload, self.upstream_model, self.job.media)
        self._report(*outgoing.dropped)
        as_sent = dialect == self.job.dialect and payload.sent is not None
        await self._send(outgoing, as_sent=as_sent)
        if outgoing.answers_in_bytes:
            return await self._heard(adapter, payload)
        return await self._read(adapter, payload, same_dialect=dialect == self.job.dialect)

    async def _made_here(self, payload: Any) -> Made:
        engine = self.kit.local.get(self.candidate.provider.engine or "")
        if not isinstance(engine, Engine):
            raise EngineError(f"there is no engine {self.candidate.provider.engine!r}")
        self.trace.attempts += 1
        self._ran_here = True
        return await self.job.operation.locally(payload, engine, self.job.media)

    async def _send(self, outgoing: Outgoing, *, as_sent: bool) -> None:
        body, content_type = await self._body(outgoing, as_sent=as_sent)
        wire = protocol(self.candidate.provider.type)
        headers: Mapping[str, str] = {
            "content-type": content_type,
            "accept": "*/*" if outgoing.answers_in_bytes else "application/json",
            **wire.headers(self.candidate.channel.api_key),
            **self._passed(),
        }
        headers = self._exchange.line.with_own(headers)
        await self._exchange.send(outgoing.path, body, headers, wire.decode_error)

    def _passed(self) -> dict[str, str]:
        """Caller headers that the operator lets through on this channel."""
        caller = self.job.incoming.headers
        names = (name.lower() for name in self.candidate.channel.forward_headers)
        return {name: caller[name] for name in names if name in caller}

    async def _body(self, outgoing: Outgoing, *, as_sent: bool) -> tuple[bytes | Streamed, str]:
        if isinstance(outgoing.body, Multipart):
            return multipart_body(outgoing.body, self.kit.ids.new("monoize-"))
        raw = self.job.incoming.raw
        if as_sent and raw:  # what the caller sent is what the provider gets (INTERFACES)
            try:
                return wirejson.spliced(raw, {"model": self.upstream_model}), "application/json"
            except (msgspec.DecodeError, UnicodeError):
                pass  # lone surrogates: only the tolerant writer takes them
        return await json_body(outgoing.body, self.kit.limits.body_bytes), "application/json"

    async def _read(self, adapter: Adapter[Any], payload: Any, *, same_dialect: bool) -> Made:
        raw = await self._exchange.read()
        try:
            wire = wirejson.loads(raw)
        except wirejson.JsonError as error:
            raise UpstreamUnreadable(f"the provider's reply is not JSON: {error}") from None
        if not isinstance(wire, Mapping):
            raise UpstreamUnreadable("the provider's reply is not a JSON object")
        if same_dialect:
            text = raw.decode("utf-8", "surrogatepass")
            named = with_model(text, _MODEL, self.job.requested_model)
            raw = named.encode("utf-8", "surrogatepass")
        return adapter.made(payload, wire, raw)

    async def _heard(self, adapter: Adapter[Any], payload: Any) -> Made:
        """Once the first bytes are there: until then another channel may answer (D10)."""
        reply = self._exchange.reply
        kind = reply.headers.get("content-type", "") if reply is not None else ""
        chunks = self._chunks()
        first = await anext(chunks, b"")
        if not first:
            await self.close()
            raise UpstreamUnreadable("the provider's reply is empty")

        async def all_of_it() -> AsyncIterator[bytes]:
            try:
                yield first
                async for chunk in chunks:
                    yield chunk
            finally:
                await chunks.aclose()
                await self.close()

        stream = Blob(
            mime=kind.partition(";")[0].strip() or "application/octet-stream", chunks=all_of_it
        )
        return adapter.heard(payload, kind, stream)

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self._exchange.chunks():
            if chunk:
                yield chunk
