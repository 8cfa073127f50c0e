"""A tool's result as the model will see it: the envelope judged, the text cut to its budget in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from monoize import wirejson
from monoize.agent.boundary.strict_json import names_a_field_twice
from monoize.agent.canonical_json import canonical
from monoize.agent.contract import ToolOutputBudget
from monoize.agent.machine.schema import value_problem
from monoize.agent.manifest import ToolSpec
from monoize.agent.message import ToolInvocation

__all__ = ["Envelope", "cut", "envelope_bytes", "judged_envelope", "read_envelope", "result_text"]


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok", "error"]
    tool: str
    tool_call_id: str
    result: Any = None
    error: str | Mapping[str, Any] | None = None
    retryable: bool = False


_DECODER = msgspec.json.Decoder(Envelope, strict=True)


def read_envelope(
    raw: bytes, call: ToolInvocation, spec: ToolSpec | None
) -> tuple[Envelope | None, str]:
    """The envelope, or None and why it is none; a result is never taken on trust (spec 5, phase 3)."""
    try:
        text = raw.decode(
            "utf-8"
        )  # all of it: the decoder passes over fields that it does not know
        envelope = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return None, f"the result of {call.name} is no envelope: {error}"
    # The same text has two readers, this one and the page: it must not have two meanings.
    if names_a_field_twice(text):
        return None, f"the result of {call.name} is no envelope: a field is named twice"
    if envelope.tool != call.name:
        return None, f"the result of {call.name} says that it is from {envelope.tool!r}"
    if envelope.tool_call_id != call.id:
        return None, f"the result of {call.name} answers another call, {envelope.tool_call_id!r}"
    if envelope.status == "error" and envelope.error is None:
        return None, f"the result of {call.name} is an error that says nothing"
    if envelope.status == "ok" and spec is not None and spec.result_schema is not None:
        problem = value_problem(spec.result_schema, envelope.result)
        if problem is not None:
            return None, f"the result of {call.name} breaks its own schema: {problem}"
    try:
        result_text(envelope)
    except wirejson.JsonError as error:
        return None, f"the result of {call.name} cannot be told: {error}"
    return envelope, ""


def judged_envelope(raw: bytes) -> Envelope:
    """Of bytes that `read_envelope` has taken for one."""
    return _DECODER.decode(raw)


def envelope_bytes(call: ToolInvocation, code: str, reason: str) -> bytes:
    """An envelope of our own: every call has a result, also one that never ran (D46)."""
    return canonical(
        {
            "status": "error",
            "tool": call.name,
            "tool_call_id": call.id,
            "result": None,
            "error": {"code": code, "message": reason.encode("utf-8", "replace").decode()},
            "retryable": False,
        }
    )


def result_text(envelope: Envelope) -> str:
    value = envelope.result if envelope.status == "ok" else envelope.error
    if isinstance(value, str):
        return value
    return wirejson.dumps(value).decode("utf-8")


def cut(text: str, budget: ToolOutputBudget) -> tuple[str, bool]:
    """Head and tail within the budget, the marker between them counted; no character is cut in two."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= budget.max_bytes_per_call:
        return raw.decode(), False
    marker = budget.truncation_marker.encode("utf-8", "replace")[: budget.max_bytes_per_call]
    room = budget.max_bytes_per_call - len(marker)
    tail = room // 4  # an error's reason tends to stand at the end
    head = room - tail
    pieces = (raw[:head], marker, raw[len(raw) - tail :] if tail else b"")
    return "".join(_whole(piece) for piece in pieces), True


def _whole(piece: bytes) -> str:
    return piece.decode("utf-8", "ignore")
