"""URP -> a generateContent request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocols import _extras
from monoize.protocols.gemini.contents_encode import encode_contents
from monoize.protocols.gemini.models import method_path, resource_name
from monoize.protocols.gemini.settings import write_config
from monoize.protocols.gemini.spelling import DIALECT
from monoize.protocols.gemini.tools import write_choice, write_tools
from monoize.urp import Losses, UrpRequest
from monoize.urp.extra_body import flattened

__all__ = ["request_body", "request_path"]

# URP's words for service tiers in Google's; `auto` is what happens anyway.
_TIERS = {
    "default": "standard",
    "standard": "standard",
    "standard_only": "standard",
    "flex": "flex",
    "priority": "priority",
}


def request_path(request: UrpRequest) -> str:
    if request.stream:
        return method_path(request.model, "streamGenerateContent") + "?alt=sse"
    return method_path(request.model, "generateContent")


def request_body(request: UrpRequest, losses: Losses) -> dict[str, Any]:
    _extras.refuse_server_state(request)
    source = request.source
    if source is not None and source.protocol == DIALECT:
        body = dict(source.wire)
        if body.get("model") is not None:
            body["model"] = resource_name(request.model)
        return body
    return _anew(request, losses)


def _anew(request: UrpRequest, losses: Losses) -> dict[str, Any]:
    # metering is the gateway's own business
    consumed = ("stream_options",)
    extra = dict(_extras.top_level(request, DIALECT, losses, consumed=consumed))
    body: dict[str, Any] = {}
    system, contents = encode_contents(request, losses)
    if system is not None:
        body["systemInstruction"] = system
    body["contents"] = contents
    tools = write_tools(request, losses)
    if tools or request.tools == ():
        body["tools"] = tools
    has_functions = any("functionDeclarations" in tool for tool in tools)
    choice = write_choice(request.tool_choice, has_functions, losses)
    tool_config = {} if choice is None else {"functionCallingConfig": choice}
    tool_config |= _members(extra.get("toolConfig"))
    if tool_config:
        body["toolConfig"] = tool_config
    config = write_config(request, extra.get("generationConfig"), losses)
    if config:
        body["generationConfig"] = config
    body |= _tier(request, losses)
    _report(request, losses)
    return flattened(body, extra)


def _members(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _tier(request: UrpRequest, losses: Losses) -> dict[str, Any]:
    tier = request.service_tier
    if tier is None or (tier == "auto" and request.origin != DIALECT):
        return {}
    if request.origin == DIALECT:
        return {"serviceTier": {"auto": "unspecified"}.get(tier, _TIERS.get(tier, tier))}
    if tier in _TIERS:
        return {"serviceTier": _TIERS[tier]}
    losses.drop("service_tier")
    return {}


def _report(request: UrpRequest, losses: Losses) -> None:
    """Settings that Google has no word for."""
    if request.parallel_tool_calls is False:
        losses.drop("parallel_tool_calls")
    if request.user is not None:
        losses.drop("user")
    if request.metadata:
        losses.drop("metadata")
