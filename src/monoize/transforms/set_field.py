"""For what a provider understands and no other setting reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, assert_never

import msgspec
from msgspec import Meta
from typing_extensions import override

from monoize import wirejson
from monoize.errors import ConfigError
from monoize.transform import Config, Context, Events, Phase, Transform
from monoize.transforms._field_paths import (
    Path,
    PathText,
    check_reply_path,
    checked,
    segments,
    with_field,
)
from monoize.urp import (
    Delta,
    Error,
    PartDone,
    PartStart,
    ProviderEvent,
    ReasoningSettings,
    ResponseDone,
    ResponseStart,
    UrpRequest,
    UrpStreamEvent,
    replace,
)

__all__ = ["SetField", "SetFieldConfig"]


class SetFieldConfig(Config, frozen=True, kw_only=True):
    path: PathText
    value: Annotated[Any, Meta(description="Any JSON value.", examples=[["anthropic"]])]


class SetField(Transform[SetFieldConfig]):
    """Set a field of the request or reply that Monoize has no setting of its own for; objects on the way are made.

    Fields that Monoize itself writes (model, messages, temperature and the like) are refused in either phase.
    """

    id = "set_field"
    config = SetFieldConfig
    phases = (Phase.REQUEST, Phase.RESPONSE)

    @override
    def parse_config(self, raw: Mapping[str, Any]) -> SetFieldConfig:
        config = super().parse_config(raw)
        path = checked(config.path)
        try:  # a copy of its own, and a date from a YAML file becomes text
            value = wirejson.loads(wirejson.dumps(config.value))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"config.value: is no JSON value: {error}") from None
        if path == ("metadata",) and not isinstance(value, Mapping):
            raise ConfigError("config.value: metadata is an object")
        return msgspec.structs.replace(config, value=value)

    @override
    def check(self, config: SetFieldConfig, phase: Phase) -> None:
        if phase is Phase.RESPONSE:
            check_reply_path(config.path)

    @override
    def apply(
        self, value: UrpRequest | UrpStreamEvent, state: None, context: Context[SetFieldConfig]
    ) -> UrpRequest | Events:
        path, new = segments(context.config.path), context.config.value
        match value:
            case UrpRequest():
                return _in_request(value, path, new)
            case ResponseStart():
                return (_in_start(value, path, new),)
            case ResponseDone():  # the end of a reply repeats fields of its start, and the last word wins
                return (_in_done(value, path, new) if path[0] in value.extra_body else value,)
            case PartStart() | Delta() | PartDone() | Error() | ProviderEvent():
                return (value,)
            case _:
                assert_never(value)


def _in_request(request: UrpRequest, path: Path, value: Any) -> UrpRequest:
    name, *below = path
    if name == "reasoning":
        settings = request.reasoning or ReasoningSettings()
        extra = with_field(settings.extra_body, tuple(below), value)
        if extra is settings.extra_body:
            return request
        return replace(request, reasoning=replace(settings, extra_body=extra))
    if name == "metadata" and request.metadata is not None:  # named fields win (URP-7)
        metadata = with_field(request.metadata, tuple(below), value) if below else value
        return request if metadata is request.metadata else replace(request, metadata=metadata)
    extra = with_field(request.extra_body, path, value)
    if extra is request.extra_body and name not in request.inherited:
        return request
    # No longer a field of the caller's protocol alone: it travels to every provider.
    return replace(request, extra_body=extra, inherited=request.inherited - {name})


def _in_start(event: ResponseStart, path: Path, value: Any) -> ResponseStart:
    extra, added = with_field(event.extra_body, path, value), event.added | {path[0]}
    if extra is event.extra_body and added == event.added:
        return event
    return replace(event, extra_body=extra, added=added)


def _in_done(event: ResponseDone, path: Path, value: Any) -> ResponseDone:
    extra = with_field(event.extra_body, path, value)
    return event if extra is event.extra_body else replace(event, extra_body=extra)
