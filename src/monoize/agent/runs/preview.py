"""A run that is not begun: the contract that would bind it, why it is so, and what PRECHECK would refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize import wirejson
from monoize.agent.contract import ExecutionContract
from monoize.agent.live.prechecking import prechecked
from monoize.agent.machine.effects import Precheck
from monoize.agent.machine.reducer import begin
from monoize.agent.machine.run_state import Terms
from monoize.agent.manifest import ToolSpec
from monoize.agent.outcome import FailureCode
from monoize.agent.ports import Model, Toolbox
from monoize.agent.runs.making import Made

__all__ = [
    "REASONS",
    "Decision",
    "Preview",
    "PreviewTool",
    "Refusal",
    "explained",
    "previewed",
]

# Of every rule of the factory, in words.
REASONS: Mapping[str, str] = {
    "page_chat": "on the chat page a run has no tools",
    "no_page": "without a page a run may use tools or not",
    "page_code": "on the code page the task orders something to be done: a tool has to be used",
    "page_code.looking_question": "nobody can answer this without a look at the files: a tool has to be used",
    "page_code.explanation": "the task asks for an explanation: a tool may be used",
    "page_code.no_order": "nothing in the task is known as an order: a tool may be used",
    "page_code_asks_before_commands": "on the code page a person says yes before a program is run",
    "forbidden_has_no_tools": "tools are forbidden",
    "all_of_the_manifest": "all tools of the chosen sources",
    "forbidden_answers_once": "without tools one answer is all there is",
    "profile": "usual for this kind of model",
    "profile.verified": "nothing forces this kind of model to call: its replies are only checked",
    "profile.forced": "the provider is told to call a tool, and replies are checked",
    "profile.decoded": "the model's decoding is bound by a grammar",
    "strict_mode": "follows from strict_mode",
    "a_quarter_of_the_window": "at most a quarter of the context window",
    "inherited_from_the_parent": "as in the run that it goes on with",
    "resumes_the_parent": "it goes on with that contract's run",
    "approved_by_a_person": "calls that a person said yes to",
    "reframer.tool_budget": "the constraints of the reframed request",
    "reframer.requires_human_review": "the reframed request wants a person to look at it",
    "no_such_tool_here": "the reframed request limits a tool that is not here",
    "override": "the request says so",
}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    field: str
    value: Any = None
    rule: str
    why: str
    matched: str = ""  # the words of the task that decided


class PreviewTool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    scope: str
    pure: bool
    needs_approval: bool


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    code: FailureCode
    reason: str


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """As things stand now; a run that is begun later is checked again."""

    contract: ExecutionContract
    contract_hash: str
    decisions: tuple[Decision, ...]
    tools: tuple[PreviewTool, ...]  # that the contract allows
    refusals: tuple[Refusal, ...]  # empty: the run would begin


async def previewed(made: Made, model: Model, toolbox: Toolbox) -> Preview:
    terms = made.terms
    _, effects = begin(terms)
    order = next(effect for effect in effects if isinstance(effect, Precheck))
    found = await prechecked(order, terms, model, toolbox, _mask(made), lambda: 0)
    return Preview(
        contract=terms.contract,
        contract_hash=terms.contract.contract_hash,
        decisions=tuple(explained(step) for step in terms.decision_trace),
        tools=tuple(_tool(spec, terms) for spec in terms.manifest.tools),
        refusals=tuple(
            Refusal(code=failure.code, reason=failure.reason) for failure in found.failures
        ),
    )


def _mask(made: Made) -> tuple[float, ...] | None:
    payload = made.payloads.get(made.terms.contract.logits_mask or "")
    return None if payload is None else tuple(wirejson.loads(payload))


def explained(step: Mapping[str, Any]) -> Decision:
    rule = step["rule"]
    family = "page_code" if rule.startswith("page_code.") else rule
    return Decision(
        field=step["field"],
        value=step.get("value"),
        rule=rule,
        why=REASONS.get(rule) or REASONS[family],
        matched=step.get("matched", ""),
    )


def _tool(spec: ToolSpec, terms: Terms) -> PreviewTool:
    asked = terms.contract.approval
    return PreviewTool(
        name=spec.name,
        description=spec.description,
        scope=spec.scope,
        pure=spec.pure,
        needs_approval=spec.name in asked or f"scope:{spec.scope}" in asked,
    )
