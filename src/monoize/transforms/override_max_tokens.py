"""A fixed limit for the length of answers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from typing_extensions import override

from monoize.transform import Config, Context, RequestTransform
from monoize.urp import UrpRequest, replace

__all__ = ["OverrideMaxTokens", "OverrideMaxTokensConfig"]


class OverrideMaxTokensConfig(Config, frozen=True, kw_only=True):
    value: Annotated[
        int, Meta(ge=1, description="The most tokens that an answer may have.", examples=[4096])
    ]


class OverrideMaxTokens(RequestTransform[OverrideMaxTokensConfig]):
    """Set the most tokens that an answer may have, whatever the caller asked for."""

    id = "override_max_tokens"
    config = OverrideMaxTokensConfig

    @override
    def apply(
        self, value: UrpRequest, state: None, context: Context[OverrideMaxTokensConfig]
    ) -> UrpRequest:
        if value.max_output_tokens == context.config.value:
            return value
        return replace(value, max_output_tokens=context.config.value)
