"""Some providers only stream, others only answer whole."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from typing_extensions import override

from monoize.transform import Config, Context, RequestTransform
from monoize.urp import UrpRequest, replace

__all__ = ["ForceStream", "ForceStreamConfig"]

_OPTIONS = "stream_options"


class ForceStreamConfig(Config, frozen=True, kw_only=True):
    enabled: Annotated[
        bool,
        Meta(description="true: ask for a stream; false: ask for a whole answer.", examples=[True]),
    ]


class ForceStream(RequestTransform[ForceStreamConfig]):
    """Ask the provider for a stream, or for a whole answer, whatever the caller asked for.

    The caller still gets its answer in the form that it asked for.
    """

    id = "force_stream"
    config = ForceStreamConfig

    @override
    def apply(
        self, value: UrpRequest, state: None, context: Context[ForceStreamConfig]
    ) -> UrpRequest:
        enabled = context.config.enabled
        if value.stream == enabled:
            return value
        extra = value.extra_body
        if not enabled and _OPTIONS in extra:
            # Providers refuse options for a stream that is none.
            extra = {key: found for key, found in extra.items() if key != _OPTIONS}
        return replace(value, stream=enabled, extra_body=extra)
