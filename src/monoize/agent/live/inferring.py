"""One inference: the request as bytes, the reply through the gate and into the adapter, time-outs that cut the provider off.

What a reply means is worked out from its bytes alone (`understood`), so that a replay comes to the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TypeAlias

from monoize.agent.boundary.adapted import ProtocolAdapterResult, Spent
from monoize.agent.boundary.gate import Piece, StreamGate, Violated
from monoize.agent.boundary.prompt import wire_request
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.boundary.wire_reply import StreamReading
from monoize.agent.live.tool_running import readable
from monoize.agent.machine.effects import Infer
from monoize.agent.machine.events import InferenceFailed, Inferred
from monoize.agent.machine.run_state import RunState
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.ports import Model, ModelCall, ModelReply
from monoize.errors import CallerError, MonoizeError, UpstreamRefused, UpstreamUnreadable

__all__ = ["Mask", "adapted_of", "asked", "listened", "understood"]

log = logging.getLogger("monoize.agent")

Mask: TypeAlias = tuple[float, ...] | None  # the payload that the contract's `logits_mask` names

_CLOSING_SECONDS = 5.0  # a provider that does not even let go is left behind

# Codes of the adapter that are not the model's doing: nobody is asked to write better JSON for them (D36).
_PROVIDERS: Mapping[str, FailureCode] = {
    "provider_error": FailureCode.PROVIDER_ERROR,
    "truncated_stream": FailureCode.PROVIDER_ERROR,
    "unreadable_reply": FailureCode.PROVIDER_UNREADABLE,
    "unreadable_stream": FailureCode.PROVIDER_UNREADABLE,
    "invalid_utf8": FailureCode.PROVIDER_UNREADABLE,
    "too_large": FailureCode.PROVIDER_UNREADABLE,
    "no_choice": FailureCode.PROVIDER_UNREADABLE,
}


class _Hearing:
    """A reply as it comes: all of its bytes, and what the gate lets out of them."""

    def __init__(
        self,
        order: Infer,
        state: RunState,
        heard: Callable[[Piece], None] | None,
        *,
        streamed: bool,
    ) -> None:
        is_needed = order.gated or heard is not None
        self._gate = _gate(order, state, streamed=streamed) if is_needed else None
        self._heard = heard
        self._cuts = order.gated
        self._chunks: list[bytes] = []
        self.violated: Violated | None = None

    @property
    def raw(self) -> bytes:
        return b"".join(self._chunks)

    def take(self, chunk: bytes) -> bool:
        """Whether it is enough."""
        self._chunks.append(chunk)
        if self._gate is not None:
            self._pass_on(self._gate.feed(chunk))
        return self._cuts and self.violated is not None

    def reading(self) -> StreamReading | None:
        """After the last byte: of a reply that went through the gate, what that has made of it."""
        return None if self._gate is None else self._gate.whole_reading()

    def finish(self) -> None:
        if self._gate is not None:
            self._pass_on(self._gate.finish())

    def _pass_on(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Violated):
                self.violated = piece
                return
            if self._heard is not None:
                self._heard(piece)


async def asked(
    order: Infer,
    state: RunState,
    model: Model,
    *,
    stream: bool,
    mask: Mask,
    heard: Callable[[Piece], None] | None,
    elapsed: Callable[[], int],
) -> Inferred | InferenceFailed:
    """Whatever the provider does, there is one event; only who cancels it gets none. `heard` is None where nobody listens."""
    recalled = state.terms.recalled
    if order.recalled and recalled is not None:  # a person said yes to it meanwhile (D46)
        return understood(
            order, state, recalled.request, recalled.raw, recalled.streamed, elapsed()
        )
    call = wire_request(order, state.terms, stream=stream, mask=mask)
    hearing = _Hearing(order, state, heard, streamed=stream)
    failure = await _cut_short(order, state, model, call, hearing)
    raw = hearing.raw
    if failure is None:
        event = understood(order, state, call.body, raw, stream, elapsed(), hearing.reading())
        if isinstance(event, InferenceFailed):
            return event
        hearing.finish()
        if hearing.violated is None or not order.gated:
            return event
        failure = _violation(hearing.violated)
    began = bool(raw) or failure.outcome is AgentOutcome.FAILED_TIMEOUT
    return InferenceFailed(
        elapsed_ms=elapsed(),
        failure=failure,
        request=call.body,
        raw=raw,
        streamed=stream,
        # What was begun is paid for, whoever cut it off (D43).
        spent=adapted_of(order, state, call.body, raw, stream).spent if began else Spent(),
        retryable=hearing.violated is not None and order.gated,
    )


async def _cut_short(
    order: Infer, state: RunState, model: Model, call: ModelCall, hearing: _Hearing
) -> Failure | None:
    """Why the reply is not whole; None when all of it came."""
    limit = asyncio.timeout(order.timeout_ms / 1000)
    try:
        async with limit:
            await listened(model, call, hearing.take)
    except TimeoutError as error:
        return _late(order, state) if limit.expired() else _failed(error)
    except (MonoizeError, OSError) as error:
        return _failed(error)
    if hearing.violated is not None and order.gated:
        return _violation(hearing.violated)
    return None


async def listened(model: Model, call: ModelCall, take: Callable[[bytes], bool | None]) -> None:
    """All of a reply, or until `take` says that it is enough; the provider is cut off in every case."""
    reply = await model.open(call)
    chunks = reply.chunks()
    try:
        async for chunk in chunks:
            if take(chunk):
                break
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
        await _let_go(reply)


async def _let_go(reply: ModelReply) -> None:
    """Also when whoever waits for it is cancelled meanwhile."""
    closing = asyncio.ensure_future(reply.aclose())
    try:
        await asyncio.sleep(0)  # its turn: most need no other
        if not closing.done():
            await asyncio.wait((closing,), timeout=_CLOSING_SECONDS)
    except asyncio.CancelledError:
        await asyncio.wait((closing,), timeout=_CLOSING_SECONDS)
        raise
    finally:
        if not closing.done():
            closing.cancel()
        elif not closing.cancelled() and (problem := closing.exception()) is not None:
            log.warning("a reply could not be closed: %r", problem)


# --- what it means -------------------------------------------------------------------------------


def _gate(order: Infer, state: RunState, *, streamed: bool) -> StreamGate:
    terms = state.terms
    return StreamGate(
        terms.manifest,
        terms.profile,
        expects=order.expects,
        gated=order.gated,
        streamed=streamed,
        expose_reasoning=terms.contract.expose_reasoning,
        tells_calls=terms.contract.speculative_exec,
    )


def adapted_of(
    order: Infer,
    state: RunState,
    request: bytes,
    raw: bytes,
    streamed: bool,
    reading: StreamReading | None = None,
) -> ProtocolAdapterResult:
    contract = state.terms.contract
    return adapt(
        raw,
        profile=state.terms.profile,
        streamed=streamed,
        strict=contract.strict_mode,
        salt=f"{contract.contract_hash}\nstep-{state.step}",  # of this run, in whichever folder it lies
        prompt_bytes=len(request),
        max_output_tokens=order.max_output_tokens,
        reading=reading,
    )


def understood(
    order: Infer,
    state: RunState,
    request: bytes,
    raw: bytes,
    streamed: bool,
    elapsed_ms: int,
    reading: StreamReading | None = None,
) -> Inferred | InferenceFailed:
    """The event that a whole reply is; a pure function of its bytes, whether or not somebody has read them already."""
    adapted = adapted_of(order, state, request, raw, streamed, reading)
    code = _PROVIDERS.get(adapted.failure_code or "") if adapted.status == "rejected" else None
    if code is None:
        return Inferred(
            elapsed_ms=elapsed_ms, request=request, raw=raw, streamed=streamed, adapted=adapted
        )
    reason = f"the provider's reply is no reply: {adapted.detail or adapted.failure_code}"
    return InferenceFailed(
        elapsed_ms=elapsed_ms,
        failure=_provider(code, reason),
        request=request,
        raw=raw,
        streamed=streamed,
        spent=adapted.spent,
    )


# --- failures ------------------------------------------------------------------------------------


def _provider(code: FailureCode, reason: str) -> Failure:
    return Failure(outcome=AgentOutcome.FAILED_PROVIDER, code=code, reason=readable(reason))


def _failed(error: MonoizeError | OSError) -> Failure:
    match error:
        case UpstreamRefused() | CallerError():
            return _provider(FailureCode.PROVIDER_REFUSED, f"refused: {error.message}")
        case UpstreamUnreadable():
            return _provider(FailureCode.PROVIDER_UNREADABLE, error.message)
        case MonoizeError():
            return _provider(FailureCode.PROVIDER_ERROR, error.message)
        case _:
            log.warning("the model cannot be reached: %r", error)
            return _provider(FailureCode.PROVIDER_ERROR, "the provider cannot be reached")


def _late(order: Infer, state: RunState) -> Failure:
    if order.timeout_ms < state.terms.contract.step_timeout_ms:  # what the whole run had left (D42)
        code, reason = FailureCode.TOTAL_TIMEOUT, "the run's time was up while the model spoke"
    else:
        code = FailureCode.INFERENCE_TIMEOUT
        reason = f"the model took longer than {order.timeout_ms} ms"
    return Failure(outcome=AgentOutcome.FAILED_TIMEOUT, code=code, reason=reason)


def _violation(violated: Violated) -> Failure:
    is_structure = violated.code is FailureCode.MALFORMED
    return Failure(
        outcome=AgentOutcome.FAILED_PROTOCOL_MALFORMED
        if is_structure
        else AgentOutcome.FAILED_VALIDATION,
        code=FailureCode.GATE_VIOLATED if is_structure else violated.code,
        reason=readable(violated.reason),
    )
