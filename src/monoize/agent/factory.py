"""Makes contracts: the same request always gives the same contract, and the trace says why each decision fell (spec 5, phase 2b).

Order of precedence: defaults, the model's profile, the task's intent, a parent contract, the request's normalised constraints,
overrides. An override may loosen or tighten anything but what a reframed request has limited; it stands in the trace either way.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from monoize.agent.canonical_json import NotCanonical
from monoize.agent.contract import (
    FORMAT_VERSION,
    ContextBudget,
    ExecutionContract,
    ToolOutputBudget,
    ToolPolicy,
    sealed,
)
from monoize.agent.intent import intent_of
from monoize.agent.manifest import ToolManifest
from monoize.agent.profile import GateLevel, Profile
from monoize.errors import InvalidRequest
from monoize.reframer.constraints import Constraints

__all__ = ["OVERRIDABLE", "ContractRequest", "Trace", "resolve"]

Trace = tuple[Mapping[str, Any], ...]

_OF_THE_WINDOW = 4
_STRICT_RETRIES, _LEGACY_RETRIES = 1, 3  # D40
_REVIEWED = ("scope:write", "scope:execute")
_ASKED_ON_CODE = ("scope:execute",)  # a program goes wherever the gateway's user may go
_BUDGETS: Mapping[str, type] = {
    "context_budget": ContextBudget,
    "tool_output_budget": ToolOutputBudget,
}
# What the factory alone says: names, hashes and where it all comes from.
_OWN = frozenset(
    (
        *("contract_id", "contract_hash", "parent_contract_hash", "format_version", "model"),
        *("adapter_version", "model_profile_id", "tool_manifest_hash", "approved_calls"),
    )
)
_OF_THE_PROFILE = frozenset(("grammar", "grammar_profile", "logits_mask", "token_gate"))
OVERRIDABLE = frozenset(ExecutionContract.__struct_fields__) - _OWN


class ContractRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a contract follows from; no time and no id is among it (D44)."""

    task: str
    page: Literal["chat", "code"] | None = None
    model: str
    profile: Profile
    manifest: ToolManifest
    adapter_version: str
    overrides: Mapping[str, Any] = {}
    parent: ExecutionContract | None = None  # this run goes on with that one's (D46)
    approved_calls: tuple[str, ...] = ()  # hashes that a person said yes to, once each
    constraints: Constraints | None = None  # of a reframed request


def resolve(request: ContractRequest) -> tuple[ExecutionContract, Trace]:
    """Raises InvalidRequest, with the path of the mistake, where an override is wrong."""
    draft = _Draft(request)
    draft.check_texts()
    draft.check_names()
    draft.policy()
    draft.limits()
    draft.boundary()
    if request.parent is not None:
        draft.inherit(request.parent)
    if request.constraints is not None:
        draft.constrain(request.constraints)
    draft.override()
    return draft.finished(), tuple(draft.trace)


class _Draft:
    """Fields as they come together, each with the reason for its value."""

    def __init__(self, request: ContractRequest) -> None:
        self._request = request
        self._fields: dict[str, Any] = {}
        self.trace: list[Mapping[str, Any]] = []

    def _set(self, name: str, value: Any, rule: str, **more: str) -> None:
        self._fields[name] = value
        self.trace.append(
            {"field": name, "value": msgspec.to_builtins(value), "rule": rule, **more}
        )

    def check_texts(self) -> None:
        """Both end up in hashes."""
        for name in ("task", "model"):
            try:
                getattr(self._request, name).encode()
            except UnicodeEncodeError:
                raise InvalidRequest(f"{name} holds half a character", param=name) from None

    def check_names(self) -> None:
        for name in self._request.overrides:
            if name in _OWN:
                raise InvalidRequest(
                    f"contract.{name} is the factory's own, it cannot be set", param=_path(name)
                )
            if name not in OVERRIDABLE:
                near = difflib.get_close_matches(name, sorted(OVERRIDABLE), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise InvalidRequest(
                    f"contract.{name} is no field of a contract{hint}", param=_path(name)
                )
        if self._request.approved_calls and self._request.parent is None:
            raise InvalidRequest("only a run that goes on has approved calls", param="contract")

    def _overridden(self, name: str, otherwise: Any) -> Any:
        """For what other defaults follow from; whether it is well-formed is seen later."""
        return self._request.overrides.get(name, otherwise)

    def policy(self) -> None:
        page = self._request.page
        if page == "chat":
            self._set("tool_policy", "forbidden", "page_chat")
        elif page is None:
            self._set("tool_policy", "optional", "no_page")
        else:
            intent = intent_of(self._request.task)
            policy: ToolPolicy = "required" if intent.is_order else "optional"
            self._set("tool_policy", policy, f"page_code.{intent.rule}", matched=intent.matched)
        if self._policy == "forbidden":
            self._set("allowed_tools", (), "forbidden_has_no_tools")
        else:
            self._set("allowed_tools", self._request.manifest.names(), "all_of_the_manifest")
            if page == "code":
                self._set("approval", _ASKED_ON_CODE, "page_code_asks_before_commands")

    @property
    def _policy(self) -> Any:
        inherited = self._request.parent
        usual = self._fields["tool_policy"] if inherited is None else inherited.tool_policy
        return self._overridden("tool_policy", usual)

    def limits(self) -> None:
        profile = self._request.profile
        strict = self._overridden("strict_mode", profile.strict) is True
        self._set("strict_mode", profile.strict, "profile")
        retries = min(profile.format_retries, _STRICT_RETRIES if strict else _LEGACY_RETRIES)
        self._set("max_format_retries", retries, "profile")
        self._set("required_proof", "succeeded" if strict else "executed", "strict_mode")  # D38
        self._set("max_tool_calls", profile.max_tool_calls, "profile")
        if self._policy == "forbidden":
            # One answer, and one more for each reply that could not be read.
            retries = self._overridden("max_format_retries", retries)
            more = retries if isinstance(retries, int) else 0
            self._set("max_inferences", 1 + more, "forbidden_answers_once")
        budget = ContextBudget(context_window=profile.context_window)
        self._set("context_budget", budget, "profile")
        output = max(1, min(profile.max_output_tokens, self._window() // _OF_THE_WINDOW))
        self._set("max_output_tokens", output, "a_quarter_of_the_window")

    def _window(self) -> int:
        wanted = self._overridden("context_budget", None)
        window = wanted.get("context_window") if isinstance(wanted, Mapping) else None
        return window if isinstance(window, int) else self._request.profile.context_window

    def boundary(self) -> None:
        request, profile = self._request, self._request.profile
        self._fields |= {
            "format_version": FORMAT_VERSION,
            "model": request.model,
            "adapter_version": request.adapter_version,
            "model_profile_id": profile.id,
        }
        kind = profile.grammar_profiles.get("call", "none")
        if self._policy == "required" and kind != "none":
            self._set("grammar_profile", kind, "profile")  # of the inferences that must be a call
        # Where something forces the call, text before it can only be a mistake (invariant F).
        gated = self._policy == "required" and profile.gate_level >= GateLevel.FORCED
        self._set("token_gate", gated, f"profile.{profile.gate_level.name.lower()}")

    def inherit(self, parent: ExecutionContract) -> None:
        """A child has its parent's limits anew. On another kind of model, what hangs on the profile is that model's."""
        moved = parent.model_profile_id != self._request.profile.id
        for name in sorted(OVERRIDABLE - (_OF_THE_PROFILE if moved else frozenset())):
            self._fields[name] = getattr(parent, name)
        allowed = parent.allowed_tools
        self.trace.append(
            {"field": "*", "value": parent.contract_hash, "rule": "inherited_from_the_parent"}
        )
        self._set("allowed_tools", allowed, "inherited_from_the_parent")
        self._set("parent_contract_hash", parent.contract_hash, "resumes_the_parent")
        approved = tuple(sorted(self._request.approved_calls))
        self._set("approved_calls", approved, "approved_by_a_person")

    def constrain(self, constraints: Constraints) -> None:
        budget = constraints.tool_budget
        self._set("max_tool_calls", budget.total, "reframer.tool_budget")
        known = frozenset(self._request.manifest.names())
        limits = {limit.tool_name: limit.budget for limit in budget.per_tool}
        here = {name: limit for name, limit in limits.items() if name in known}
        self._set("per_tool_calls", here, "reframer.tool_budget")
        for name in sorted(limits.keys() - known):
            self.trace.append({"field": f"per_tool_calls.{name}", "rule": "no_such_tool_here"})
        if constraints.safety.requires_human_review:
            self._set("approval", _REVIEWED, "reframer.requires_human_review")

    def override(self) -> None:
        for name in sorted(self._request.overrides):
            value = self._request.overrides[name]
            if name in _BUDGETS and isinstance(value, Mapping):
                value = {**msgspec.to_builtins(self._fields.get(name, _BUDGETS[name]())), **value}
            self._set(name, value, "override")
        self._keep_within_constraints()

    def _keep_within_constraints(self) -> None:
        """What was normalised for this request is a limit for everybody, an override too."""
        constraints = self._request.constraints
        if constraints is None:
            return
        total = constraints.tool_budget.total
        self._not_above("max_tool_calls", self._fields["max_tool_calls"], total)
        mine = self._fields["per_tool_calls"]
        for limit in constraints.tool_budget.per_tool:
            if isinstance(mine, Mapping) and limit.tool_name in self._request.manifest.names():
                value = mine.get(limit.tool_name)
                if value is None:  # the override names other tools: this limit stays
                    mine = {**mine, limit.tool_name: limit.budget}
                else:
                    self._not_above(f"per_tool_calls.{limit.tool_name}", value, limit.budget)
        self._fields["per_tool_calls"] = mine

    def _not_above(self, name: str, value: Any, limit: int) -> None:
        if isinstance(value, int) and value > limit:
            raise InvalidRequest(
                f"contract.{name}: {value} is more than the {limit} of the request's constraints",
                param=_path(name),
            )

    def finished(self) -> ExecutionContract:
        fields = msgspec.to_builtins(self._fields)
        try:
            contract = msgspec.convert(fields, ExecutionContract, strict=True)
            manifest = self._request.manifest.only(contract.allowed_tools)
            digest = manifest.digest()
            return sealed(msgspec.structs.replace(contract, tool_manifest_hash=digest))
        except msgspec.ValidationError as mistake:
            sentence, _, place = str(mistake).partition(" - at `$")
            path = f"contract{place.removesuffix('`')}"
            raise InvalidRequest(f"{path}: {sentence}", param=path) from None
        except NotCanonical as mistake:
            raise InvalidRequest(f"contract or tools: {mistake}", param="tools") from None


def _path(name: str) -> str:
    return f"contract.{name}"
