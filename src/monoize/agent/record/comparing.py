"""A recorded run against the world of today: the same questions to the model, the same calls to tools that change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from monoize.agent.boundary.adapted import ProtocolAdapterResult
from monoize.agent.live.inferring import adapted_of, listened
from monoize.agent.machine.effects import Infer
from monoize.agent.machine.events import Inferred, ToolReturned
from monoize.agent.machine.observe import read_envelope
from monoize.agent.machine.run_state import RunState
from monoize.agent.ports import Model, ModelCall, ToolAway, Toolbox
from monoize.agent.record.recorded_run import RecordedRun
from monoize.agent.record.replay import Divergence, DivergenceClass, Replayed, replay
from monoize.agent.record.retelling import Answered
from monoize.errors import MonoizeError

__all__ = ["compared"]


async def compared(
    run: RecordedRun,
    *,
    model: Model | None = None,
    tools: Toolbox | None = None,
    build: str | None = None,
) -> Replayed:
    """First offline; where that comes out the same, whoever is given is asked again. Times are the contract's own limits."""
    answers: list[Answered] = []
    offline = replay(run, build=build, heard=answers.append)
    if offline.divergence is not None:
        return offline
    for answered in answers:
        found = await _differs(answered, model, tools)
        if found is not None:
            same = run.entries[answered.seq - 1] if answered.seq else None
            return Replayed(
                head="" if same is None else same.head,
                outcome=None,
                entries=answered.seq,
                divergence=found,
            )
    return offline


async def _differs(
    answered: Answered, model: Model | None, tools: Toolbox | None
) -> Divergence | None:
    kind: DivergenceClass
    match answered.event:
        case Inferred() as event if model is not None and answered.order is not None:
            detail = await _says_otherwise(answered.state, answered.order, event, model)
            kind = "model"
        case ToolReturned() as event if tools is not None:
            detail = await _does_otherwise(answered.state, event, tools)
            kind = "tool_result"
        case _:
            return None
    return None if detail is None else Divergence(seq=answered.seq, kind=kind, detail=detail)


async def _says_otherwise(
    state: RunState, order: Infer, event: Inferred, model: Model
) -> str | None:
    """By what it means: ids, times and the cut of a stream differ every time."""
    contract, chunks = state.terms.contract, list[bytes]()
    call = ModelCall(
        protocol=state.terms.profile.protocol,
        model=contract.model,
        body=event.request,
        stream=event.streamed,
    )
    try:
        async with asyncio.timeout(contract.step_timeout_ms / 1000):
            await listened(model, call, chunks.append)
    except (MonoizeError, OSError) as problem:
        return f"the model does not answer: {type(problem).__name__}"
    today = adapted_of(order, state, event.request, b"".join(chunks), event.streamed)
    then = event.adapted
    if today.model_fingerprint != then.model_fingerprint:
        return f"{today.model_fingerprint!r} answers, it was {then.model_fingerprint!r}"
    return None if _meaning(today) == _meaning(then) else "the model says something else"


def _meaning(adapted: ProtocolAdapterResult) -> tuple[Any, ...]:
    message = adapted.canonical_message
    calls = () if message is None else message.tool_calls
    return (
        adapted.status,
        adapted.failure_code,
        adapted.finish,
        None if message is None else message.content,
        tuple((call.name, call.raw_arguments) for call in calls),
    )


async def _does_otherwise(state: RunState, event: ToolReturned, tools: Toolbox) -> str | None:
    call = next(call for call in state.calls if call.id == event.call_id)
    spec = state.terms.manifest.get(call.name)
    if spec is None or not spec.pure:
        return None  # what has side effects is not done again for the sake of a comparison
    seconds = state.terms.contract.step_timeout_ms / 1000
    try:
        async with asyncio.timeout(seconds):
            today = await tools.call(call, seconds)
    except (ToolAway, TimeoutError) as problem:
        return f"{call.name} gives no result: {type(problem).__name__}"
    now, then = read_envelope(today, call, spec)[0], read_envelope(event.envelope, call, spec)[0]
    return None if now == then else f"{call.name} gives another result"
