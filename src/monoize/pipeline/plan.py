"""Before anything is sent: what an operation asks for, who could do it, and what may be left out (D27, D28)."""

from __future__ import annotations

from typing import Any

import msgspec

from monoize.account import model_refusal
from monoize.envelope import CanonicalRequestEnvelope
from monoize.errors import InvalidRequest, NoBackend
from monoize.operation import Operation, Payload
from monoize.pipeline.call import Incoming
from monoize.pipeline.kit import Kit
from monoize.routing.policy import policy_of
from monoize.routing.survey import Explanation, Wanted, explained, is_anybody_able
from monoize.settings import OperationId, OperationSettings, PolicyName, PolicySettings

__all__ = ["Plan", "check_model", "plain_wants", "planned", "wants"]

_QUICKEST: PolicyName = "ewma_latency"  # what a hint about latency means


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    payload: Any
    asks: Wanted
    downgraded: tuple[str, ...] = ()


def plain_wants(operation: OperationId, kit: Kit) -> Wanted:
    """What a call of the vendor-shaped endpoints asks for beside what its payload needs."""
    tuning = kit.operations.get(operation, OperationSettings())
    return Wanted(
        model="", operation=operation, pool=tuning.pool, default_policy=policy_of(tuning.policy)
    )


def wants(envelope: CanonicalRequestEnvelope, kit: Kit, caller: str) -> Wanted:
    """The envelope's hints, as far as the operator's settings go."""
    tuning = kit.operations.get(envelope.operation, OperationSettings())
    hints, required, policy = envelope.routing, envelope.requirements, envelope.policy
    if policy.name is not None and policy.name not in tuning.request_policies:
        raise InvalidRequest(
            f"the policy {policy.name} is not one that a request may choose for {envelope.operation}",
            param="policy.name",
        )
    name = policy.name
    if name is None and hints.latency_hint == "low" and _QUICKEST in tuning.request_policies:
        name = _QUICKEST
    sticky = envelope.task_id if policy.key == "task_id" else policy.session_id
    allowed = hints.backend_allowlist
    return Wanted(
        model="",
        operation=envelope.operation,
        operations=frozenset(required.required_ops),
        features=frozenset(required.required_features),
        transports=frozenset(required.required_transports) or frozenset({"http"}),
        backend=hints.backend,
        allowed=frozenset(allowed) if allowed else None,
        denied=frozenset(hints.backend_denylist or ()),
        preferred=required.preferred_backends,
        policy=None if name is None else PolicySettings(name=name, key=policy.key),
        default_policy=policy_of(tuning.policy),
        pool=tuning.pool,
        sticky=sticky or caller,
    )


def check_model(incoming: Incoming, model: str) -> None:
    """Whether the key may use it at all (PIPE-2)."""
    refused = model_refusal(incoming.caller.policy, model)
    if refused is not None:
        raise refused


def planned(
    operation: Operation[Any], payload: Payload, asks: Wanted, kit: Kit, *, degrade: bool
) -> Plan:
    """Raises NoBackend where nobody could do it; one that is only unwell may still be asked."""
    needed = _needed(operation, payload, asks)
    if is_anybody_able(needed, kit.catalog):
        return Plan(payload=payload, asks=needed)
    found = explained(needed, kit.catalog, kit.board, kit.clock.monotonic())
    if degrade:
        for missing in dict.fromkeys(found.lacking.values()):
            if missing & asks.features:  # what a request requires itself is never left out
                continue
            lesser = operation.downgraded(payload, missing)
            if lesser is not None:
                less, told = lesser
                return Plan(payload=less, asks=_needed(operation, less, asks), downgraded=told)
    raise _nobody(needed, found, operation.advice)


def _needed(operation: Operation[Any], payload: Payload, asks: Wanted) -> Wanted:
    needs = operation.needs(payload)
    return msgspec.structs.replace(
        asks,
        model=payload.model,
        features=asks.features | needs.features,
        amounts={**asks.amounts, **needs.amounts},
    )


def _nobody(asks: Wanted, found: Explanation, advice: str) -> NoBackend:
    reasons = {name: against.reason for name, against in found.objections.items()}
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    advice = f"; {advice}" if advice and found.code == "missing_capabilities" else ""
    return NoBackend(
        f"no backend can do {asks.operation} with {asks.model!r}: {told or 'none is configured'}{advice}",
        code=found.code,
        rejected=reasons,
        required={
            "operations": (asks.operation,),
            "features": tuple(sorted(asks.features)),
            "transports": tuple(sorted(asks.transports)),
        },
    )
