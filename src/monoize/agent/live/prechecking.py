"""PRECHECK: what is there now, held against the contract, before the first inference."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from monoize.agent.boundary.grammar import grammar_problem, schema_refusals
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION
from monoize.agent.live.inferring import Mask
from monoize.agent.live.tool_running import readable
from monoize.agent.machine.effects import Precheck
from monoize.agent.machine.events import Prechecked
from monoize.agent.machine.run_state import RunState, Terms
from monoize.agent.manifest import ToolManifest
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.ports import Model, ToolAway, Toolbox
from monoize.agent.preflight import Facts, judge
from monoize.errors import MonoizeError

__all__ = ["changed_tools", "prechecked"]

log = logging.getLogger("monoize.agent")


async def prechecked(
    order: Precheck,
    terms: Terms,
    model: Model,
    toolbox: Toolbox,
    mask: Mask,
    elapsed: Callable[[], int],
) -> Prechecked:
    """Takes the snapshot of the tools that every later call is held against."""
    try:
        async with asyncio.timeout(order.timeout_ms / 1000):
            facts, failures = await _found_out(terms, model, toolbox, mask)
    except TimeoutError:
        late = _preflight(
            FailureCode.BACKEND_UNAVAILABLE,
            f"tools and model were not ready within {order.timeout_ms} ms",
        )
        return Prechecked(elapsed_ms=elapsed(), failures=(late,))
    verdict = judge(terms, facts)
    return Prechecked(
        elapsed_ms=elapsed(), failures=(*failures, *verdict.failures), report=verdict.report
    )


async def _found_out(
    terms: Terms, model: Model, toolbox: Toolbox, mask: Mask
) -> tuple[Facts, tuple[Failure, ...]]:
    contract, summarizer = terms.contract, terms.contract.tool_output_budget.summarizer_model
    manifest, problem = ToolManifest(), None
    failures: tuple[Failure, ...] = ()
    try:
        manifest = await toolbox.manifest()
    except ToolAway as away:
        problem = readable(away.reason)
        if away.code == FailureCode.SCHEMA_UNSUPPORTED:  # more than that they are not there
            failures = (_preflight(FailureCode.SCHEMA_UNSUPPORTED, problem),)
    facts = Facts(
        manifest=manifest,
        tools_problem=problem,
        backend_problem=await _unreachable(model, contract.model),
        summarizer_problem=None if summarizer is None else await _unreachable(model, summarizer),
        adapter_versions=(ADAPTER_VERSION,),
        schema_refusals=schema_refusals(terms.manifest, terms.profile),
        grammar_problem=None if contract.grammar is None else grammar_problem(contract.grammar),
        mask=mask,
    )
    return facts, failures


async def _unreachable(model: Model, name: str) -> str | None:
    try:
        problem = await model.probe(name)
    except (MonoizeError, ConnectionError) as error:
        log.warning("the model %s cannot be asked: %r", name, error)
        return "it cannot be asked"
    return None if problem is None else readable(problem)


async def changed_tools(state: RunState, toolbox: Toolbox) -> Failure | None:
    """A run that goes on after a crash has tools of another process: they must be those of the contract."""
    contract = state.terms.contract
    try:
        async with asyncio.timeout(contract.step_timeout_ms / 1000):
            now = await toolbox.manifest()
    except Exception as problem:  # noqa: BLE001 - whatever it is, they are not there
        log.warning("the tools of %s are not there: %r", state.terms.run_id, problem)
        return _changed("the tools are not there any more")
    if now.only(contract.allowed_tools).digest() != contract.tool_manifest_hash:
        return _changed("the tools are not those that the contract names")
    return None


def _preflight(code: FailureCode, reason: str) -> Failure:
    return Failure(outcome=AgentOutcome.FAILED_PREFLIGHT, code=code, reason=reason)


def _changed(reason: str) -> Failure:
    return Failure(
        outcome=AgentOutcome.FAILED_CONTRACT_VIOLATION,
        code=FailureCode.MANIFEST_CHANGED,
        reason=reason,
    )
