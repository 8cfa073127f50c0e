"""Which backend can do what, and which models there are for each operation (spec 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.account import KeyPolicy, model_refusal
from monoize.globs import is_glob
from monoize.operation import operation_ids
from monoize.pipeline.call import Answer
from monoize.routing.capability import Capabilities
from monoize.server.http import HttpRequest, json_answer
from monoize.server.state import State
from monoize.settings import ProviderSettings

__all__ = ["capabilities"]


async def capabilities(request: HttpRequest, state: State) -> Answer:
    """Addresses and keys of backends are nobody's affair; their names are, since requests may name them."""
    policy = request.caller.policy
    rows = [_row(provider, state, policy) for provider in state.catalog.configured]
    shown = [row for row in rows if row["models"]]
    able = {name: [r["name"] for r in shown if name in r["operations"]] for name in operation_ids()}
    return json_answer({"object": "list", "data": shown, "operations": able})


def _row(provider: ProviderSettings, state: State, policy: KeyPolicy) -> dict[str, Any]:
    usual = state.catalog.capabilities(provider)
    names = [name for name in provider.models if is_glob(name) or not model_refusal(policy, name)]
    row: dict[str, Any] = {
        "name": provider.id,
        "kind": provider.type,
        **_form(usual),
        "models": names,
        "status": "available" if provider.enabled else "unavailable",
    }
    engine = state.lasting.engines.get(provider.engine or "")
    if engine is not None and not engine.available().installed:
        row |= {"status": "unavailable", "status_reason": engine.available().reason}
    elif not provider.enabled:
        row["status_reason"] = "switched off by the operator"
    own = {
        name: _form(state.catalog.capabilities(provider, settings))
        for name, settings in provider.models.items()
        if settings.capabilities is not None and name in names
    }
    return {**row, "of_models": own} if own else row


def _form(can: Capabilities) -> Mapping[str, Any]:
    return {
        "operations": sorted(can.operations),
        "features": sorted(can.features),
        "transports": sorted(can.transports),
        "limits": dict(can.limits),
    }
