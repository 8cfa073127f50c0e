"""What a run began with, as a JSON file beside its transcript, so that it can be gone on with and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from monoize import urp
from monoize.agent.contract import ExecutionContract
from monoize.agent.machine.run_state import Recalled, Terms
from monoize.agent.manifest import ToolManifest
from monoize.agent.message import AgentMessage, Role, ToolInvocation
from monoize.agent.profile import Profile
from monoize.urp.value import Value

__all__ = ["UnreadableTerms", "terms_from", "terms_json"]

_KIND = "$kind"  # which URP value, where a message carries the provider's own


class UnreadableTerms(ValueError):
    """The note is not one of ours, or of a program that knows more kinds of values."""


def terms_json(terms: Terms) -> dict[str, Any]:
    """Without contract and manifest, which have files of their own."""
    return {
        "run_id": terms.run_id,
        "task": _readable(terms.task),
        "profile": msgspec.to_builtins(terms.profile),
        "decision_trace": msgspec.to_builtins(terms.decision_trace),
        "history": [_message_json(message) for message in terms.history],
        "recalled": msgspec.to_builtins(terms.recalled),
        "build": terms.build,
    }


def terms_from(
    fields: Mapping[str, Any], contract: ExecutionContract, manifest: ToolManifest
) -> Terms:
    try:
        return Terms(
            run_id=fields["run_id"],
            contract=contract,
            manifest=manifest,
            profile=msgspec.convert(fields["profile"], Profile),
            task=fields["task"],
            decision_trace=tuple(fields["decision_trace"]),
            history=tuple(_message(message) for message in fields["history"]),
            recalled=msgspec.convert(fields["recalled"], Recalled | None),
            build=fields["build"],
        )
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as mistake:
        raise UnreadableTerms(f"the note of what the run began with: {mistake}") from None


def _message_json(message: AgentMessage) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(message, carried=()))
    return {**plain, "carried": [_packed(carried) for carried in message.carried]}


def _message(fields: Mapping[str, Any]) -> AgentMessage:
    # One by one: msgspec reads no union of untagged values, which `carried` is.
    return AgentMessage(
        role=msgspec.convert(fields["role"], Role),
        content=msgspec.convert(fields["content"], str),
        tool_calls=msgspec.convert(fields["tool_calls"], tuple[ToolInvocation, ...]),
        tool_call_id=msgspec.convert(fields["tool_call_id"], str | None),
        name=msgspec.convert(fields["name"], str | None),
        is_error=msgspec.convert(fields["is_error"], bool),
        carried=tuple(_unpacked(packed) for packed in fields["carried"]),
    )


def _packed(value: Any) -> Any:
    match value:
        case Value():
            fields = {
                name: _packed(getattr(value, name))
                for name in value.__struct_fields__
                if name != "source"
            }
            return {_KIND: type(value).__name__, **fields}
        case Enum():
            return {_KIND: type(value).__name__, "value": value.value}
        case Mapping():
            return {name: _packed(item) for name, item in value.items()}
        case list() | tuple():
            return [_packed(item) for item in value]
        case _:
            return value


def _unpacked(packed: Any) -> Any:
    match packed:
        case {"$kind": str(kind), **fields}:
            made = getattr(urp, kind) if kind in urp.__all__ else None
            if not isinstance(made, type) or not issubclass(made, Value | Enum):
                raise UnreadableTerms(f"no URP value is called {kind!r}")
            if issubclass(made, Enum):
                return made(fields["value"])
            return made(**{str(name): _field(item) for name, item in fields.items()})
        case dict():
            return {name: _unpacked(item) for name, item in packed.items()}
        case list():
            return [_unpacked(item) for item in packed]
        case _:
            return packed


def _field(item: Any) -> Any:
    """A URP value holds tuples; JSON inside of it (a native item's body) holds lists."""
    unpacked = _unpacked(item)
    return tuple(unpacked) if isinstance(unpacked, list) else unpacked


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
