"""Requests for xAI: what OpenAI takes and xAI refuses is left out and reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from monoize.protocols.responses.tools import namespace_of
from monoize.urp import Losses

__all__ = ["adapted"]


# Namespace and name of a tool -> the name that it gets where there are no namespaces.
FlatNames: TypeAlias = Mapping[tuple[str | None, str], str]


def adapted(body: dict[str, Any], names: FlatNames, losses: Losses) -> dict[str, Any]:
    """The same body where xAI takes it as it is."""
    out = dict(body)
    tools, items = body.get("tools"), body.get("input")
    wires: list[Any] = list(tools) if isinstance(tools, list) else []
    if isinstance(items, list):
        out["input"] = [
            _without_namespace(item, f"input[{index}]", names, losses)
            for index, item in enumerate(items)
            if not _is_toolbox(item)
        ]
        wires += [wire for item in items if _is_toolbox(item) for wire in item["tools"]]
    if wires:
        found = [
            tool
            for index, wire in enumerate(wires)
            for tool in _tools(wire, f"tools[{index}]", names, losses)
        ]
        out["tools"] = _each_once(found)
    if isinstance(body.get("tool_choice"), dict):
        choice = _without_namespace(body["tool_choice"], "tool_choice", names, losses)
        out["tool_choice"] = choice
    return _with_words_in_place(out)


def _is_toolbox(item: Any) -> bool:
    """Whether an input item only declares tools: xAI wants all of them in `tools`."""
    return (
        isinstance(item, dict)
        and item.get("type") == "additional_tools"
        and isinstance(item.get("tools"), list)
    )


def _tools(wire: Any, path: str, names: FlatNames, losses: Losses) -> list[Any]:
    """At xAI there are no namespaces, and web search always looks at the web."""
    if not isinstance(wire, dict):
        return [wire]
    if wire.get("type") == "namespace" and isinstance(wire.get("tools"), list):
        inner = [
            {**tool, "namespace": wire.get("name")}
            for tool in wire["tools"]
            if isinstance(tool, dict)
        ]
        return [_without_namespace(tool, path, names, losses) for tool in inner]
    if "external_web_access" in wire:
        losses.drop(f"{path}.external_web_access")
        return [{key: value for key, value in wire.items() if key != "external_web_access"}]
    return [_without_namespace(wire, path, names, losses)]


def _each_once(tools: list[Any]) -> list[Any]:
    """A tool that is declared again, as Codex does in its items, is refused by xAI."""
    kept: dict[Any, Any] = {}
    for index, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, dict) else None
        kept.setdefault(index if name is None else name, tool)
    return list(kept.values())


def _without_namespace(wire: Any, path: str, names: FlatNames, losses: Losses) -> Any:
    """A tool, a call or a choice; where two namespaces know its name it gets the longer one."""
    if not isinstance(wire, dict) or "namespace" not in wire:
        return wire
    losses.drop(f"{path}.namespace")
    out = {key: value for key, value in wire.items() if key != "namespace"}
    name = names.get((namespace_of(wire), str(wire.get("name"))))
    return out if name is None else {**out, "name": name}


def _with_words_in_place(body: dict[str, Any]) -> dict[str, Any]:
    """At xAI `instructions` may not stand beside `previous_response_id`: they go into the input."""
    instructions, items = body.get("instructions"), body.get("input")
    if not instructions or not body.get("previous_response_id"):
        return body
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        return body
    out = {key: value for key, value in body.items() if key != "instructions"}
    out["input"] = [{"role": "system", "content": instructions}, *items]
    return out
