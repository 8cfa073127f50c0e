"""Who calls, as the gateway tells its transforms (DEF-4)."""

from __future__ import annotations

from monoize.urp import USERNAME_FIELD, UrpRequest

__all__ = ["username_of"]


def username_of(request: UrpRequest) -> str | None:
    username = request.extra_body.get(USERNAME_FIELD)
    return username if isinstance(username, str) else None
