"""Messages of a caller's line, read as far as they go."""

from __future__ import annotations

from monoize import wirejson
from monoize.realtime.mistake import Trouble
from monoize.realtime.parting import TOO_BIG, Parting
from monoize.realtime.state import FromCaller, Unreadable

__all__ = ["read_frame", "too_big"]


def read_frame(frame: str | bytes) -> FromCaller | Unreadable:
    if isinstance(frame, bytes):
        return Unreadable("events are text messages, not binary ones")
    try:
        wire = wirejson.loads(frame)
    except wirejson.JsonError as error:
        return Unreadable(f"the message is not JSON: {error}")
    if not isinstance(wire, dict):
        return Unreadable("the message is not a JSON object")
    return FromCaller(wire)


def too_big(limit: int) -> Parting:
    told = f"a message is larger than {limit} bytes (settings.realtime.frame_bytes)"
    trouble = Trouble(message=told, code="message_too_big", type="invalid_request_error")
    return Parting(code=TOO_BIG, reason="message too big", trouble=trouble)
