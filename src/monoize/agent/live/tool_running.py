"""One tool call, from the order to its event: time-outs that stop the work, and tools that break."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from monoize.agent.contract import ExecutionContract
from monoize.agent.machine.effects import CallTool
from monoize.agent.machine.events import ToolFailed, ToolReturned
from monoize.agent.machine.observe import envelope_bytes
from monoize.agent.message import ToolInvocation
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.ports import ToolAway

__all__ = ["away", "ran", "readable"]

log = logging.getLogger("monoize.agent")

# How a run ends when no envelope will come. A code that is not here is a defect of the toolbox.
_ENDS: Mapping[FailureCode, AgentOutcome] = {
    FailureCode.INPUT_REQUIRED: AgentOutcome.INTERRUPTED,  # D46
    FailureCode.APPROVAL_REQUIRED: AgentOutcome.INTERRUPTED,
    FailureCode.MANIFEST_CHANGED: AgentOutcome.FAILED_CONTRACT_VIOLATION,
    FailureCode.TOOLS_UNAVAILABLE: AgentOutcome.FAILED_CONTRACT_VIOLATION,
    FailureCode.SCHEMA_UNSUPPORTED: AgentOutcome.FAILED_CONTRACT_VIOLATION,
    FailureCode.UNKNOWN_TOOL: AgentOutcome.FAILED_VALIDATION,
    FailureCode.INVALID_ENVELOPE: AgentOutcome.FAILED_VALIDATION,
    FailureCode.TOOL_TIMEOUT: AgentOutcome.FAILED_TIMEOUT,
}


async def ran(
    order: CallTool,
    work: Callable[[float], Awaitable[object]],
    contract: ExecutionContract,
    elapsed: Callable[[], int],
) -> ToolReturned | ToolFailed:
    """Whatever the tool does, there is one event; only who cancels it gets none. `work` takes its seconds."""
    call, seconds = order.call, order.timeout_ms / 1000
    try:
        async with asyncio.timeout(seconds):
            envelope = await work(seconds)  # bytes, if the toolbox keeps its word
    except TimeoutError:
        return ToolFailed(elapsed_ms=elapsed(), call_id=call.id, failure=_late(order, contract))
    except ToolAway as problem:
        return ToolFailed(elapsed_ms=elapsed(), call_id=call.id, failure=away(problem))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody cancelled us: a broken source of tools let a cancellation of its own escape.
        envelope = _crashed(call, "CancelledError")
    except Exception as error:
        log.exception("the tool %s broke", call.name)
        envelope = _crashed(call, type(error).__name__)
    if not isinstance(envelope, bytes):
        envelope = _crashed(call, f"it gave a {type(envelope).__name__}")
    return ToolReturned(elapsed_ms=elapsed(), call_id=call.id, envelope=envelope)


def away(problem: ToolAway) -> Failure:
    """How a run ends for want of an envelope."""
    try:
        code = FailureCode(problem.code)
    except ValueError:
        code = FailureCode.INTERNAL_ERROR
    outcome = _ENDS.get(code)
    if outcome is None:
        outcome, code = AgentOutcome.FAILED_PROVIDER, FailureCode.INTERNAL_ERROR
    return Failure(outcome=outcome, code=code, reason=readable(problem.reason))


def readable(text: str) -> str:
    """Reasons are hashed, and half a character has no hash."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _late(order: CallTool, contract: ExecutionContract) -> Failure:
    name = order.call.name
    if order.timeout_ms < contract.step_timeout_ms:  # what the whole run had left (D42)
        code, reason = FailureCode.TOTAL_TIMEOUT, f"the run's time was up while {name} ran"
    else:
        code, reason = FailureCode.TOOL_TIMEOUT, f"{name} took longer than {order.timeout_ms} ms"
    return Failure(outcome=AgentOutcome.FAILED_TIMEOUT, code=code, reason=reason)


def _crashed(call: ToolInvocation, what: str) -> bytes:
    """Its own words stay in the log: they may hold anything."""
    return envelope_bytes(call, "tool_crashed", f"the tool broke: {what}")
