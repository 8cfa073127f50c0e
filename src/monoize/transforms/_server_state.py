"""Whether the beginning of a conversation lies on the provider's server and not in the request (D13)."""

from __future__ import annotations

from monoize.urp import UrpRequest

__all__ = ["continues_on_server"]

_FIELDS = ("previous_response_id", "conversation")


def continues_on_server(request: UrpRequest) -> bool:
    return any(request.extra_body.get(field) for field in _FIELDS)
