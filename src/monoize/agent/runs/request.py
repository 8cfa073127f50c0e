"""What a caller asks for when a run is to begin, read strictly; and how far it may go (INTERFACES)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from monoize.agent.contract import ExecutionContract
from monoize.agent.message import AgentMessage
from monoize.errors import InvalidRequest
from monoize.reframer import Normalized, Refused, TagTable, reframe
from monoize.reframer.constraints import Constraints
from monoize.reframer.into import urp_request
from monoize.settings import AgentCeilings
from monoize.urp import Message, Role, Text, ToolCall, ToolResult

__all__ = ["Framed", "RunRequest", "check_ceilings", "framed", "read_request", "within_ceilings"]

_LONGEST_NAME = 256
_IN_TOOL_OUTPUT = "max_bytes_per_call"


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: str | None = None
    page: Literal["chat", "code"] | None = None
    model: str | None = None
    profile: str | None = None
    tools: tuple[str, ...] | str | None = None  # names of what the operator has configured
    contract: Mapping[str, Any] = {}  # overrides
    stream: bool = False
    parent_run_id: str | None = None  # that this run goes on with
    approve: tuple[str, ...] = ()  # ids of calls of the parent, or their hashes
    reframed: Mapping[str, Any] | None = None  # a document of the Reframer, or its normalised form

    @property
    def tool_names(self) -> tuple[str, ...] | None:
        return (self.tools,) if isinstance(self.tools, str) else self.tools


def read_request(wire: Mapping[str, Any], *, max_task_bytes: int) -> RunRequest:
    try:
        asked = msgspec.convert(wire, RunRequest, strict=True)
    except msgspec.ValidationError as mistake:
        sentence, _, place = str(mistake).partition(" - at `$")
        path = place.removesuffix("`").lstrip(".")
        raise InvalidRequest(f"{path}: {sentence}" if path else sentence, param=path) from None
    if asked.model is not None and not 0 < len(asked.model) <= _LONGEST_NAME:
        raise InvalidRequest("model: must be the name of a model", param="model")
    if len((asked.task or "").encode("utf-8", "replace")) > max_task_bytes:
        raise InvalidRequest(
            f"task: larger than {max_task_bytes} bytes (settings.agent.max_task_bytes)",
            param="task",
        )
    if asked.approve and asked.parent_run_id is None:
        raise InvalidRequest(
            "approve: needs the parent_run_id of a run that waits", param="approve"
        )
    if asked.reframed is not None and asked.parent_run_id is not None:
        raise InvalidRequest("reframed: a run that goes on has its history", param="reframed")
    return asked


# --- ceilings ------------------------------------------------------------------------------------


def within_ceilings(overrides: Mapping[str, Any], ceilings: AgentCeilings) -> dict[str, Any]:
    """Where the operator wants a limit that a contract may leave out, the ceiling is that limit."""
    tokens = ceilings.max_tokens_consumed
    if tokens and not overrides.get("max_tokens_consumed"):
        return {**overrides, "max_tokens_consumed": tokens}
    return dict(overrides)


def check_ceilings(contract: ExecutionContract, ceilings: AgentCeilings) -> None:
    for name in AgentCeilings.__struct_fields__:
        limit = getattr(ceilings, name)
        if name == _IN_TOOL_OUTPUT:
            value, path = (
                contract.tool_output_budget.max_bytes_per_call,
                f"tool_output_budget.{name}",
            )
        else:
            value, path = getattr(contract, name), name
        if limit and value > limit:
            raise InvalidRequest(
                f"contract.{path}: {value} is more than the {limit} that this gateway allows",
                param=f"contract.{path}",
            )


# --- reframed requests ---------------------------------------------------------------------------


class Framed(msgspec.Struct, frozen=True, kw_only=True):
    """What of a reframed request becomes part of a run."""

    task: str
    history: tuple[AgentMessage, ...]
    constraints: Constraints | None


def framed(document: Mapping[str, Any], task: str | None, flags: TagTable) -> Framed:
    """The last thing that a user says is the task, unless the request names one."""
    normalized = _normalized(document, flags)
    messages = [_said(message) for message in urp_request(normalized, "agent").messages]
    said = [message for message in messages if message is not None]
    if task is not None:
        return Framed(task=task, history=tuple(said), constraints=normalized.constraints)
    last = max((at for at, one in enumerate(said) if one.role == "user"), default=None)
    if last is None:
        raise InvalidRequest("reframed: nobody asks for anything in it", param="reframed")
    history = (*said[:last], *said[last + 1 :])
    return Framed(task=said[last].content, history=history, constraints=normalized.constraints)


def _normalized(document: Mapping[str, Any], flags: TagTable) -> Normalized:
    inner = document.get("normalized", document)
    if isinstance(inner, Mapping) and _is_normalized(inner):
        try:
            return msgspec.convert(inner, Normalized)
        except msgspec.ValidationError as mistake:
            raise InvalidRequest(f"reframed: {mistake}", param="reframed") from None
    result = reframe(document, flags=flags)
    if isinstance(result, Refused):
        first = result.as_json()
        place = f"reframed.{first['field_path']}".rstrip(".")
        raise InvalidRequest(f"{place}: {first['message']}", param=place)
    return result.normalized


def _is_normalized(document: Mapping[str, Any]) -> bool:
    match document:
        case {"payload": {"messages": [{"declared_role": _}, *_]}}:
            return True
        case _:
            return False


def _said(message: Message) -> AgentMessage | None:
    """In words: a run of ours has other tools than those of the request's past."""
    texts = []
    for part in message.parts:
        match part:
            case Text(content=content):
                texts.append(content)
            case ToolResult(name=name):
                texts.append(f"Result of {name or 'the tool'}:")
            case ToolCall():
                pass
            case _:
                raise InvalidRequest("reframed: a run takes texts, no media", param="reframed")
    if not any(texts):
        return None
    match message.role:
        case Role.SYSTEM | Role.DEVELOPER:
            return AgentMessage(role="system", content="\n".join(texts))
        case Role.ASSISTANT:
            return AgentMessage(role="assistant", content="\n".join(texts))
        case Role.USER | Role.TOOL:
            return AgentMessage(role="user", content="\n".join(texts))
