"""The doors for model calls, one per protocol."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from monoize.pipeline.call import Answer, Incoming, Trace
from monoize.pipeline.count import count_tokens
from monoize.pipeline.kit import Kit
from monoize.pipeline.run import run
from monoize.protocol import protocol
from monoize.server.http import HttpRequest, body_here, object_of, read_body
from monoize.server.state import State
from monoize.wirejson import Unread

__all__ = ["chat_completions", "count_messages", "gemini_call", "messages", "responses"]

Answering: TypeAlias = Coroutine[Any, Any, Answer]
Way: TypeAlias = Callable[[Incoming, Kit, Trace], Answering]


def _called(
    request: HttpRequest,
    state: State,
    protocol_id: str,
    way: Way,
    *,
    model: str | None = None,
    stream: bool | None = None,
    raw: bytes | None = None,
) -> Answering:
    """The way of the call itself, with nothing around it: nearly every body has come along with its head.

    `raw`: the body, if it was read before.
    """
    kit, caller, spoken = state.kit, request.caller, protocol(protocol_id)
    if raw is None:
        raw = body_here(request, kit.limits)
    if raw is None:
        return _later(request, state, protocol_id, way, model=model, stream=stream)
    plain = None
    if way is run and not caller.rules and not kit.provider_rules:  # nobody will look inside
        plain = spoken.passing_request(raw)
    incoming = Incoming(
        protocol=spoken,
        raw=raw,
        wire=object_of(raw) if plain is None else Unread(raw),
        plain=plain,
        headers=request.headers,
        query=request.query,
        model=model,
        stream=stream,
        caller=caller,
        address=request.address,
        request_id=request.request_id,
        started=request.started,
    )
    return way(incoming, kit, Trace())


async def _later(
    request: HttpRequest,
    state: State,
    protocol_id: str,
    way: Way,
    *,
    model: str | None,
    stream: bool | None,
) -> Answer:
    raw = await read_body(request, state.kit.limits, state.kit.timeouts)
    return await _called(request, state, protocol_id, way, model=model, stream=stream, raw=raw)


def chat_completions(request: HttpRequest, state: State) -> Answering:
    return _called(request, state, "chat_completion", run)


def responses(request: HttpRequest, state: State) -> Answering:
    return _called(request, state, "responses", run)


def messages(request: HttpRequest, state: State) -> Answering:
    return _called(request, state, "messages", run)


def count_messages(request: HttpRequest, state: State) -> Answering:
    return _called(request, state, "messages", count_tokens)


def gemini_call(request: HttpRequest, state: State, *, model: str, verb: str) -> Answering:
    way = count_tokens if verb == "countTokens" else run
    is_stream = verb == "streamGenerateContent"
    return _called(request, state, "gemini", way, model=model, stream=is_stream)
