"""OpenAI's endpoints beside chat: thin doors onto the operations (D26)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import msgspec

from monoize.errors import MonoizeError, NoMediaStore
from monoize.media.blob import Blob
from monoize.media.owner import owner_of
from monoize.operation import UnaryOperation, operation
from monoize.pipeline.call import Answer, Body, Incoming, Trace
from monoize.pipeline.decode import own_fields_taken
from monoize.pipeline.job import Job
from monoize.pipeline.kit import Kit
from monoize.pipeline.operate import Operated, operated
from monoize.pipeline.operation_attempt import OPENAI
from monoize.pipeline.plan import check_model, plain_wants, planned
from monoize.protocol import protocol
from monoize.server.http import HttpRequest, read_json
from monoize.server.state import State
from monoize.server.uploads import form_of
from monoize.settings import OperationId

__all__ = ["edits", "embeddings", "generations", "incoming_of", "speech", "transcriptions"]


async def embeddings(request: HttpRequest, state: State) -> Answer:
    return await _from_json(request, state, "embeddings")


async def generations(request: HttpRequest, state: State) -> Answer:
    return await _from_json(request, state, "image_generation")


async def speech(request: HttpRequest, state: State) -> Answer:
    return await _from_json(request, state, "text_to_speech")


async def edits(request: HttpRequest, state: State) -> Answer:
    return await _from_form(request, state, "image_generation")


async def transcriptions(request: HttpRequest, state: State) -> Answer:
    return await _from_form(request, state, "speech_to_text")


async def _from_json(request: HttpRequest, state: State, name: OperationId) -> Answer:
    raw, wire = await read_json(request, state.kit.limits, state.kit.timeouts)
    return await _answered(request, state, name, wire, raw, {})


async def _from_form(request: HttpRequest, state: State, name: OperationId) -> Answer:
    """OpenAI takes these as forms; newer SDKs may send JSON with references, which is the same to us."""
    if request.headers.get("content-type", "").startswith("application/json"):
        return await _from_json(request, state, name)
    async with form_of(request, state.kit.limits, state.kit.timeouts) as form:
        return await _answered(request, state, name, form.fields, b"", form.files)


async def _answered(
    request: HttpRequest,
    state: State,
    name: OperationId,
    wire: Mapping[str, Any],
    raw: bytes,
    files: Mapping[str, tuple[Blob, ...]],
) -> Answer:
    kit = state.kit
    incoming, ceiling, _ = own_fields_taken(incoming_of(request, name, wire, raw))
    does: UnaryOperation[Any] = operation(name)  # type: ignore[assignment]
    try:
        payload, media = does.from_wire(incoming.wire, files)
        check_model(incoming, payload.model)
        blobs = {**media, **await _referred(does, payload, media, request, kit)}
        asks = msgspec.structs.replace(plain_wants(name, kit), amounts=await does.measured(blobs))
        plan = planned(does, payload, asks, kit, degrade=False)
    except MonoizeError as error:
        kit.admission.refused(incoming, error)
        raise
    job = Job(
        incoming=incoming,
        operation=does,
        payload=plan.payload,
        media=blobs,
        asks=plan.asks,
        ceiling=ceiling,
        dialect=OPENAI,
    )
    done = await operated(job, kit, Trace())
    try:
        reply = does.to_wire(plan.payload, done.made, created=int(kit.clock.now()))
    except BaseException as error:  # nothing that it says may stay reserved
        await done.aclose(
            error if isinstance(error, MonoizeError) else MonoizeError("internal error")
        )
        raise
    if isinstance(reply.body, bytes):
        await done.settle()
        if done.ticket.captures:
            done.ticket.keep(reply.body)
        body: bytes | Body = reply.body
    else:
        body = _Stream(done, reply.body)
    return Answer(status=200, content_type=reply.content_type, headers=done.headers, body=body)


async def _referred(
    does: UnaryOperation[Any],
    payload: Any,
    uploads: Mapping[str, Blob],
    request: HttpRequest,
    kit: Kit,
) -> dict[str, Blob]:
    """Files that the request names instead of bringing them."""
    others = {name: ref for name, ref in does.media(payload).items() if name not in uploads}
    if not others:
        return {}
    if kit.media is None:
        raise NoMediaStore
    owner = owner_of(request.caller)
    return {
        name: await kit.media.blob(owner, await kit.media.normalised(owner, ref, param=name))
        for name, ref in others.items()
    }


def incoming_of(
    request: HttpRequest, name: OperationId, wire: Mapping[str, Any], raw: bytes = b""
) -> Incoming:
    return Incoming(
        protocol=protocol("chat_completion"),  # whose errors these endpoints write
        raw=raw,
        wire=wire,
        headers=request.headers,
        query=request.query,
        caller=request.caller,
        address=request.address,
        request_id=request.request_id,
        started=request.started,
        operation=name,
    )


class _Stream:
    """A blob as the body of an answer: closing it closes the provider's reply, begun or not."""

    def __init__(self, done: Operated, blob: Blob) -> None:
        self._done = done
        self._chunks: AsyncGenerator[bytes, None] = _generated(done.watched(blob))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def aclose(self) -> None:
        await self._chunks.aclose()
        await self._done.aclose()  # who leaves before the first byte has run nothing of it


async def _generated(blob: Blob) -> AsyncGenerator[bytes, None]:
    async with blob.opened() as pieces:
        async for chunk in pieces:
            yield chunk
