"""The transforms that rules of keys and providers may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.store import key_rules
from monoize.transform import transforms
from monoize.transform_docs import description

__all__ = ["ENDPOINTS"]


class TransformView(msgspec.Struct, frozen=True, kw_only=True):
    type_id: str
    phases: Sequence[str]
    description: str
    needs_whole_response: bool
    for_admins_only: bool  # on keys: a normal user's key may not carry it
    config_schema: Mapping[str, Any]
    example_config: Mapping[str, Any] | None


class TransformList(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[TransformView]


@endpoint("GET", "/api/transforms", role="user", answer=TransformList)
async def list_transforms(context: Context, given: Given[None, None]) -> TransformList:
    """Every transform: where it may run, what its options are, an example."""
    del context, given
    listed = [
        TransformView(
            type_id=name,
            phases=[str(phase) for phase in found.supported_phases()],
            description=description(found),
            needs_whole_response=found.needs_whole_response,
            for_admins_only=name not in key_rules.ALLOWED,
            config_schema=found.config_schema(),
            example_config=found.example_config(),
        )
        for name, found in transforms().items()
    ]
    return TransformList(data=listed)


ENDPOINTS = (list_transforms,)
