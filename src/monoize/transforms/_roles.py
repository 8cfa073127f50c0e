"""The same conversation with one role's messages under another role."""

from __future__ import annotations

from monoize.urp import Role, UrpRequest, replace

__all__ = ["with_role"]


def with_role(request: UrpRequest, old: Role, new: Role) -> UrpRequest:
    if all(message.role is not old for message in request.messages):
        return request
    messages = tuple(
        replace(message, role=new) if message.role is old else message
        for message in request.messages
    )
    return replace(request, messages=messages)
