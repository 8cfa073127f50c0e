"""A prompt cache works best when the provider can tell the users apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.transforms._cache_breakpoints import breakpoint_count
from monoize.transforms._username import username_of
from monoize.urp import UrpRequest, replace

__all__ = ["AutoCacheUserId"]

_METADATA = "metadata"
_USER_ID = "user_id"


class AutoCacheUserId(RequestTransform[NoConfig]):
    """Tell the provider the name of the user when a request uses the prompt cache.

    Sets metadata.user_id and user where the caller left them out. Nothing happens when the user is unknown or no
    part of the request is marked with cache_control.
    """

    id = "auto_cache_user_id"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        username = username_of(value)
        if username is None or breakpoint_count(value) == 0:  # ACUID-4, ACUID-5
            return value
        changes: dict[str, Any] = {}
        metadata = value.extra_body.get(_METADATA, {})
        if isinstance(metadata, Mapping) and _USER_ID not in metadata:  # ACUID-6
            named = {**metadata, _USER_ID: username}
            changes["extra_body"] = {**value.extra_body, _METADATA: named}
            # Only Anthropic understands it, and its encoder writes the user's name by itself.
            changes["inherited"] = value.inherited | {_METADATA}
        if value.user is None:  # ACUID-7
            changes["user"] = username
        return replace(value, **changes) if changes else value
