"""Step 1: the caller's wire request becomes a call, without the fields that are the gateway's own."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from monoize import wirejson
from monoize.errors import InvalidRequest
from monoize.pipeline.call import Call, Incoming
from monoize.urp import EMPTY, USERNAME_FIELD, UrpRequest

__all__ = ["decoded", "own_fields_taken", "unread", "with_username", "without_username"]

_CEILING = "max_multiplier"
_CEILING_HEADER = "x-max-multiplier"
_RESERVED = "__monoize_"  # names that only the gateway itself may put into a request (DEF-4)


def decoded(incoming: Incoming) -> Call:
    plain = incoming.plain
    if plain is not None:  # its shape leaves no room for fields of our own
        return Call(incoming=incoming, sent=plain, request=plain, ceiling=_ceiling(incoming, None))
    incoming, ceiling, own = own_fields_taken(incoming)
    request = incoming.protocol.decode_request(
        incoming.wire, model=incoming.model, stream=incoming.stream
    )
    return Call(
        incoming=incoming,
        sent=request,
        request=request,
        ceiling=ceiling,
        left_out=own,
    )


def unread(incoming: Incoming) -> Incoming:
    """As if it had not been read by its shape: every value of it will know what it was made of."""
    return msgspec.structs.replace(incoming, plain=None, wire=dict(incoming.wire))


def own_fields_taken(incoming: Incoming) -> tuple[Incoming, Decimal | None, tuple[str, ...]]:
    """The request without what is the gateway's own: the ceiling, and names that were not the caller's to set."""
    own = [key for key in incoming.wire if key == _CEILING or key.startswith(_RESERVED)]
    ceiling = _ceiling(incoming, incoming.wire.get(_CEILING))
    if not own:
        return incoming, ceiling, ()
    return _without(incoming, own), ceiling, tuple(key for key in own if key != _CEILING)


def _without(incoming: Incoming, own: list[str]) -> Incoming:
    """Neither the object nor its bytes may carry them on (CTX-2)."""
    wire = {key: value for key, value in incoming.wire.items() if key not in own}
    return msgspec.structs.replace(incoming, wire=wire, raw=wirejson.dumps(wire))


def _ceiling(incoming: Incoming, said: Any) -> Decimal | None:
    """The lower of the request's and the key's: a request can only lower it (D17, PIPE-4)."""
    value = incoming.headers.get(_CEILING_HEADER) if said is None else said
    asked = None if value is None else _asked(value)
    allowed = incoming.caller.max_multiplier
    if asked is None or allowed is None:
        return allowed if asked is None else asked
    return min(asked, allowed)


def _asked(value: Any) -> Decimal:
    number = None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(InvalidOperation):
            number = Decimal(str(value).strip())
    if number is None or not number.is_finite() or number <= 0:
        raise InvalidRequest(f"{_CEILING}: must be a number above 0", param=_CEILING)
    return number


# Both keep the source: the field is written by no encoder, so an untouched request stays untouched.


def with_username(request: UrpRequest, username: str | None) -> UrpRequest:
    """CTX-1."""
    if username is None:
        return request
    extra = {**request.extra_body, USERNAME_FIELD: username}
    return msgspec.structs.replace(request, extra_body=extra)


def without_username(request: UrpRequest) -> UrpRequest:
    """CTX-2."""
    if USERNAME_FIELD not in request.extra_body:
        return request
    extra = {k: v for k, v in request.extra_body.items() if k != USERNAME_FIELD}
    return msgspec.structs.replace(request, extra_body=extra or EMPTY)
