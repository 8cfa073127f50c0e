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
from monoize.routing.survey import Explanation, Wanted, explained
from monoize.settings import OperationId, OperationSettings, PolicyName, PolicySettings

__all__ = ["Plan", "check_model", "plain_wants", "planned", "wants"]

NOTHING_DRAWS_HERE = (
    "no engine of this machine draws pictures: configure a provider with a model for image_generation, "
    "such as type chat_completion at api.openai.com or type gemini"
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    payload: Any
    asks: Wanted
    downgraded: tuple[str, ...] = ()


def plain_wants(operation: OperationId, kit: Kit) -> Wanted:
    """What a call of the vendor-shaped endpoints asks for beside what its payload needs."""
    tuning = kit.operations.get(operation, OperationSettings())
    return Wanted(
        model="", operation=operation, pool=tuning.pool, default_policy=_settings(tuning.policy)
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
    name = policy.name or ("ewma_latency" if hints.latency_hint == "low" else None)
    sticky = envelope.task_id if policy.key == "task_id" else policy.session_id
    allowed = hints.backend_allowlist
    return Wanted(
        model="",
        operation=envelope.operation,
        features=frozenset(required.required_features),
        transports=frozenset(required.required_transports) or frozenset({"http"}),
        backend=hints.backend,
        allowed=frozenset(allowed) if allowed else None,
        denied=frozenset(hints.backend_denylist or ()),
        preferred=required.preferred_backends,
        policy=None if name is None else PolicySettings(name=name, key=policy.key),
        default_policy=_settings(tuning.policy),
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
    found = explained(needed, kit.catalog, kit.board, kit.clock.monotonic())
    only_unwell = any(against.ground == "channels" for against in found.objections.values())
    if found.code is None or only_unwell:
        return Plan(payload=payload, asks=needed)
    if degrade:
        for missing in dict.fromkeys(found.lacking.values()):
            lesser = operation.downgraded(payload, missing)
            if lesser is not None:
                less, told = lesser
                required = msgspec.structs.replace(asks, features=asks.features - missing)
                return Plan(payload=less, asks=_needed(operation, less, required), downgraded=told)
    raise _nobody(needed, found)


def _needed(operation: Operation[Any], payload: Payload, asks: Wanted) -> Wanted:
    needs = operation.needs(payload)
    return msgspec.structs.replace(
        asks,
        model=payload.model,
        features=asks.features | needs.features,
        amounts={**asks.amounts, **needs.amounts},
    )


def _nobody(asks: Wanted, found: Explanation) -> NoBackend:
    reasons = {name: against.reason for name, against in found.objections.items()}
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    advice = ""
    if asks.operation == "image_generation" and found.code == "missing_capabilities":
        advice = f"; {NOTHING_DRAWS_HERE}"
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


def _settings(policy: PolicyName | PolicySettings | None) -> PolicySettings | None:
    return PolicySettings(name=policy) if isinstance(policy, str) else policy
