"""URP -> chat request for a provider."""

from __future__ import annotations

from monoize.protocol import Json, WireRequest
from monoize.protocols import _extras
from monoize.protocols.chat_completion.fields import DIALECT, OPENAI_TIERS, TAKES, own_wire
from monoize.protocols.chat_completion.history_encode import encode_history
from monoize.protocols.chat_completion.request_decode import ALIASES
from monoize.protocols.chat_completion.settings import encode_format, encode_reasoning
from monoize.protocols.chat_completion.tools import encode_tools
from monoize.urp import Losses, UrpRequest
from monoize.urp.extra_body import flattened

__all__ = ["PATH", "encode_request"]

PATH = "/v1/chat/completions"

_SAME_NAME = (
    "temperature",
    "top_p",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "top_logprobs",
    "user",
)
# Asked of the gateway itself, or of a server state that chat does not have: nothing is lost.
_CONSUMED = frozenset({"stream_options", "include"})


def encode_request(request: UrpRequest, losses: Losses) -> WireRequest:
    _extras.refuse_server_state(request)
    wire = own_wire(request)
    body = {**wire, "model": request.model} if wire is not None else _rebuilt(request, losses)
    if request.stream:  # the gateway meters every call, asked or not
        options = body.get("stream_options")
        options = options if isinstance(options, dict) else {}
        body["stream_options"] = {**options, "include_usage": True}
    elif wire is None:
        body.pop(
            "stream_options", None
        )  # a rule made this call unary: OpenAI refuses the two together
    return WireRequest(path=PATH, body=body)


def _rebuilt(request: UrpRequest, losses: Losses) -> Json:
    same = request.origin == DIALECT
    body: Json = {"model": request.model, "messages": encode_history(request, losses)}
    if request.stream:
        body["stream"] = True
    for name in _SAME_NAME:
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    body |= _spelled(request)
    if request.top_logprobs is not None and request.logprobs is None and not same:
        body["logprobs"] = True  # OpenAI refuses the number without the switch
    body |= encode_reasoning(request, losses)
    body |= encode_tools(request, losses)
    body |= encode_format(request)
    body |= _bound_to_openai(request, losses, same=same)
    store = {"store"} if request.extra_body.get("store") is False else set()  # D13
    extra = _extras.top_level(request, DIALECT, losses, takes=TAKES, consumed=_CONSUMED | store)
    return flattened(body, extra)


def _spelled(request: UrpRequest) -> Json:
    """Fields with two spellings, in the caller's if it spoke chat, else in OpenAI's."""
    out: Json = {}
    if request.stop is not None:
        is_lone = len(request.stop) == 1 and request.extra_body.get("stop", "") is None
        out["stop"] = request.stop[0] if is_lone else list(request.stop)
    for field, (usual, other) in ALIASES.items():
        value = getattr(request, field)
        if value is not None:
            callers = request.origin == DIALECT and request.extra_body.get(other, "") is None
            out[other if callers else usual] = value
    return out


def _bound_to_openai(request: UrpRequest, losses: Losses, *, same: bool) -> Json:
    """Fields that a chat caller may send as it likes, and that a foreign caller's words could break."""
    out: Json = {}
    for name in ("top_k", "metadata"):  # unknown to OpenAI's chat; metadata only with `store`
        value = getattr(request, name)
        if value is not None and same:
            out[name] = value
        elif value is not None:
            losses.drop(name)
    tier = request.service_tier
    if tier is not None and (same or tier in OPENAI_TIERS):
        out["service_tier"] = tier
    elif tier is not None:
        losses.drop("service_tier")
    return out
