"""What a caller did wrong in one event: it is told, and the session goes on."""

from __future__ import annotations

from typing import Any

import msgspec

from monoize.errors import CallerError, MonoizeError

__all__ = ["Mistake", "Trouble", "trouble_of"]


class Mistake(Exception):
    """Becomes an `error` event with the id of the event that is to blame."""

    def __init__(
        self, message: str, *, code: str = "invalid_value", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that went wrong on this side, in OpenAI's words for it."""

    message: str
    code: str | None = None
    type: str = "server_error"
    param: str | None = None

    def wire(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "code": self.code,
            "message": self.message,
            "param": self.param,
        }


def trouble_of(error: MonoizeError) -> Trouble:
    provider = error.provider
    own = provider.type if provider is not None else None
    kind = "invalid_request_error" if isinstance(error, CallerError) else "server_error"
    return Trouble(
        message=error.message,
        code=(provider.code if provider is not None else None) or error.error_code,
        type=own or kind,
        param=error.param,
    )
