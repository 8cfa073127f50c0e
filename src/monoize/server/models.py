"""Which models there are, in the shape that the caller's SDK reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from monoize.account import KeyPolicy, model_refusal
from monoize.errors import ModelNotFound
from monoize.globs import glob_matches, is_glob
from monoize.pipeline.call import Answer
from monoize.server.http import HttpRequest, json_answer
from monoize.server.state import State

__all__ = ["gemini_model", "gemini_models", "model", "models"]

_EPOCH = datetime.fromtimestamp(0, UTC).isoformat().replace("+00:00", "Z")


async def models(request: HttpRequest, state: State) -> Answer:
    rows = [
        _row(name, owner, request.headers, state)
        for name, owner in (await _listed(state, request.caller.policy)).items()
    ]
    if not _is_anthropic(request.headers):
        return json_answer({"object": "list", "data": rows})
    ends = {
        "first_id": rows[0]["id"] if rows else None,
        "last_id": rows[-1]["id"] if rows else None,
    }
    return json_answer({"data": rows, "has_more": False, **ends})


async def model(request: HttpRequest, state: State, *, name: str) -> Answer:
    return json_answer(
        _row(name, await _owner(state, name, request.caller.policy), request.headers, state)
    )


async def gemini_models(request: HttpRequest, state: State) -> Answer:
    names = await _listed(state, request.caller.policy)
    return json_answer({"models": [_gemini_row(name) for name in names]})


async def gemini_model(request: HttpRequest, state: State, *, name: str) -> Answer:
    await _owner(state, name, request.caller.policy)
    return json_answer(_gemini_row(name))


async def _listed(state: State, policy: KeyPolicy) -> dict[str, str]:
    """Exact names, and for globs what the provider's own list matches (D49), as far as the key may use them."""
    found = {name: provider.id for name, provider in state.catalog.exact_models()}
    for provider in state.catalog.providers:
        globs = [glob for glob in provider.models if is_glob(glob)]
        if globs and provider.type != "local":
            for name in await state.provider_models.listed(provider):
                if any(glob_matches(glob, name) for glob in globs):
                    found.setdefault(name, provider.id)
    return {
        name: owner for name, owner in sorted(found.items()) if model_refusal(policy, name) is None
    }


async def _owner(state: State, name: str, policy: KeyPolicy) -> str:
    refused = model_refusal(policy, name)
    if refused is not None:
        raise refused
    for candidate in state.catalog.candidates(name):
        return candidate.provider.id
    raise ModelNotFound(f"no provider has the model {name!r}", param="model")


def _is_anthropic(headers: Mapping[str, str]) -> bool:
    return "anthropic-version" in headers or "x-api-key" in headers


def _row(name: str, owner: str, headers: Mapping[str, str], state: State) -> dict[str, Any]:
    if _is_anthropic(headers):
        return {"type": "model", "id": name, "display_name": name, "created_at": _EPOCH}
    row: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": owner}
    for provider, settings in state.catalog.offers(name):
        if provider.id == owner:
            can = state.catalog.capabilities(provider, settings)
            return {**row, "operations": sorted(can.operations), "features": sorted(can.features)}
    return row


def _gemini_row(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "1",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
