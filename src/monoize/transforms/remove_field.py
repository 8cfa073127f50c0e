"""For what a caller sends and a provider refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from typing_extensions import override

from monoize.transform import Config, Context, Events, Phase, Transform
from monoize.transforms._field_paths import (
    Path,
    PathText,
    check_reply_path,
    checked,
    segments,
    without_field,
)
from monoize.urp import (
    Delta,
    Error,
    PartDone,
    PartStart,
    ProviderEvent,
    ResponseDone,
    ResponseStart,
    UrpRequest,
    UrpStreamEvent,
    replace,
)

__all__ = ["RemoveField", "RemoveFieldConfig"]


class RemoveFieldConfig(Config, frozen=True, kw_only=True):
    path: PathText


class RemoveField(Transform[RemoveFieldConfig]):
    """Remove a field of the request or reply that Monoize has no setting of its own for; a missing one is no mistake.

    Fields that Monoize itself writes (model, messages, temperature and the like) are refused in either phase.
    """

    id = "remove_field"
    config = RemoveFieldConfig
    phases = (Phase.REQUEST, Phase.RESPONSE)

    @override
    def parse_config(self, raw: Mapping[str, Any]) -> RemoveFieldConfig:
        config = super().parse_config(raw)
        checked(config.path)
        return config

    @override
    def check(self, config: RemoveFieldConfig, phase: Phase) -> None:
        if phase is Phase.RESPONSE:
            check_reply_path(config.path)

    @override
    def apply(
        self, value: UrpRequest | UrpStreamEvent, state: None, context: Context[RemoveFieldConfig]
    ) -> UrpRequest | Events:
        path = segments(context.config.path)
        match value:
            case UrpRequest():
                return _from_request(value, path)
            case ResponseStart() | ResponseDone():
                extra = without_field(value.extra_body, path)
                return (value if extra is value.extra_body else replace(value, extra_body=extra),)
            case PartStart() | Delta() | PartDone() | Error() | ProviderEvent():
                return (value,)
            case _:
                assert_never(value)


def _from_request(request: UrpRequest, path: Path) -> UrpRequest:
    name, below = path[0], path[1:]
    if name == "reasoning":
        return _from_reasoning(request, below)
    if name == "metadata" and request.metadata is not None:
        metadata = without_field(request.metadata, below) if below else None
        if metadata is not request.metadata:
            request = replace(request, metadata=metadata)
    extra = without_field(request.extra_body, path)
    if extra is request.extra_body:
        return request
    inherited = frozenset(key for key in request.inherited if key in extra)
    return replace(request, extra_body=extra, inherited=inherited)


def _from_reasoning(request: UrpRequest, path: Path) -> UrpRequest:
    if request.reasoning is None:
        return request
    extra = without_field(request.reasoning.extra_body, path)
    if extra is request.reasoning.extra_body:
        return request
    return replace(request, reasoning=replace(request.reasoning, extra_body=extra))
