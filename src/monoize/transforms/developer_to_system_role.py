"""Many compatible servers do not know the developer role."""

from __future__ import annotations

from typing_extensions import override

from monoize.transform import Context, NoConfig, RequestTransform
from monoize.transforms._roles import with_role
from monoize.urp import Role, UrpRequest

__all__ = ["DeveloperToSystemRole"]


class DeveloperToSystemRole(RequestTransform[NoConfig]):
    """Send every developer message as a system message, for servers that do not know the developer role."""

    id = "developer_to_system_role"

    @override
    def apply(self, value: UrpRequest, state: None, context: Context[NoConfig]) -> UrpRequest:
        return with_role(value, Role.DEVELOPER, Role.SYSTEM)
