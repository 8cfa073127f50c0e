"""The doors for model calls, one per protocol."""

from __future__ import annotations

from monoize.pipeline.call import Answer, Incoming, Trace
from monoize.pipeline.count import count_tokens
from monoize.pipeline.run import run
from monoize.protocol import protocol
from monoize.server.http import HttpRequest, read_json
from monoize.server.state import State

__all__ = ["chat_completions", "count_messages", "gemini_call", "messages", "responses"]


async def _incoming(
    request: HttpRequest,
    state: State,
    protocol_id: str,
    *,
    model: str | None = None,
    stream: bool | None = None,
) -> Incoming:
    raw, wire = await read_json(request, state.kit.limits, state.kit.timeouts)
    return Incoming(
        protocol=protocol(protocol_id),
        raw=raw,
        wire=wire,
        headers=request.headers,
        query=request.query,
        model=model,
        stream=stream,
        caller=request.caller,
        address=request.address,
        request_id=request.request_id,
        started=request.started,
    )


async def chat_completions(request: HttpRequest, state: State) -> Answer:
    return await run(await _incoming(request, state, "chat_completion"), state.kit, Trace())


async def responses(request: HttpRequest, state: State) -> Answer:
    return await run(await _incoming(request, state, "responses"), state.kit, Trace())


async def messages(request: HttpRequest, state: State) -> Answer:
    return await run(await _incoming(request, state, "messages"), state.kit, Trace())


async def count_messages(request: HttpRequest, state: State) -> Answer:
    return await count_tokens(await _incoming(request, state, "messages"), state.kit, Trace())


async def gemini_call(request: HttpRequest, state: State, *, model: str, verb: str) -> Answer:
    incoming = await _incoming(
        request, state, "gemini", model=model, stream=verb == "streamGenerateContent"
    )
    return await (count_tokens if verb == "countTokens" else run)(incoming, state.kit, Trace())
