"""Newer OpenAI models take their instructions from the developer role."""

from __future__ import annotations

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.transforms._roles import with_role
from monoize.urp import Role, UrpRequest

__all__ = ["SystemToDeveloperRole"]


class SystemToDeveloperRole(RequestTransform[NoConfig]):
    """Send every system message as a developer message, for models that expect that role."""

    id = "system_to_developer_role"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        return with_role(value, Role.SYSTEM, Role.DEVELOPER)
