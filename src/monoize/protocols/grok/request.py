"""Requests for xAI: what OpenAI takes and xAI refuses is left out and reported."""

from __future__ import annotations

from typing import Any

from monoize.urp import Losses

__all__ = ["adapted"]


def adapted(body: dict[str, Any], losses: Losses) -> dict[str, Any]:
    """The same body where xAI takes it as it is."""
    out = dict(body)
    tools = body.get("tools")
    wires: list[Any] = list(tools) if isinstance(tools, list) else []
    items = body.get("input")
    if isinstance(items, list):
        out["input"] = [
            _item(item, f"input[{index}]", losses)
            for index, item in enumerate(items)
            if not _is_toolbox(item)
        ]
        wires += [wire for item in items if _is_toolbox(item) for wire in item["tools"]]
    if wires:
        out["tools"] = [
            tool
            for index, wire in enumerate(wires)
            for tool in _tools(wire, f"tools[{index}]", losses)
        ]
    return _with_words_in_place(out)


def _is_toolbox(item: Any) -> bool:
    """Whether an input item only declares tools: xAI wants all of them in `tools`."""
    return (
        isinstance(item, dict)
        and item.get("type") == "additional_tools"
        and isinstance(item.get("tools"), list)
    )


def _tools(wire: Any, path: str, losses: Losses) -> list[Any]:
    """At xAI there are no namespaces, and web search always looks at the web."""
    if not isinstance(wire, dict):
        return [wire]
    if wire.get("type") == "namespace" and isinstance(wire.get("tools"), list):
        losses.drop(f"{path}.namespace")
        return list(wire["tools"])
    if "external_web_access" in wire:
        losses.drop(f"{path}.external_web_access")
        return [{key: value for key, value in wire.items() if key != "external_web_access"}]
    return [wire]


def _item(item: Any, path: str, losses: Losses) -> Any:
    if not isinstance(item, dict) or "namespace" not in item:
        return item
    losses.drop(f"{path}.namespace")
    return {key: value for key, value in item.items() if key != "namespace"}


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
