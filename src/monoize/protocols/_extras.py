"""Which unknown fields travel to a protocol, and which are left out and reported (ARCHITECTURE, extra_body)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from monoize.errors import UnsupportedByTarget
from monoize.urp import EMPTY, Losses, ResponseStart, UrpRequest, UrpResponse

__all__ = ["SERVER_STATE", "nested", "of_reply", "refuse_server_state", "top_level"]

# Fields of a Responses call that live on its provider's server (D13).
SERVER_STATE = ("previous_response_id", "conversation", "prompt", "background")
# The others are everyday words that a provider of another kind may know.
_NEVER_ELSEWHERE = ("previous_response_id", "background")

_DEFAULTS = (
    ("store", False),
    ("background", False),
    ("truncation", "disabled"),
    ("stream", False),
)
_NOTHING: tuple[Any, ...] = ("", [], {})  # an empty value asks for nothing
# Sealed reasoning comes back in a carrier, log probabilities are a setting of their own.
_CARRIED = ("reasoning.encrypted_content", "message.output_text.logprobs")


def top_level(
    request: UrpRequest,
    dialect: str,
    losses: Losses,
    *,
    takes: Container[str] = (),
    consumed: Container[str] = (),
) -> Mapping[str, Any]:
    """The extra fields of a request for a provider of `dialect`.

    `takes`: fields that this protocol knows with the same meaning. `consumed`: fields of the caller's protocol
    that lose nothing here, because the gateway itself does what they ask.
    """
    extra = request.extra_body
    if _says_only_the_user(request):
        # Anthropic's way to say `user`, beside `user` itself: only its own encoder writes it (ACUID-6).
        extra = {key: value for key, value in extra.items() if key != "metadata"}
    if request.origin == dialect or not extra:
        return extra
    out = {}
    for key, value in extra.items():
        if key in _NEVER_ELSEWHERE and value and key not in takes:
            raise _no_server_state(key)
        if key not in request.inherited or key in takes:
            out[key] = value
        elif value is not None and key not in consumed and not _happens_anyway(key, value):
            losses.drop(key)
    return out or EMPTY


def _says_only_the_user(request: UrpRequest) -> bool:
    metadata = request.extra_body.get("metadata")
    return (
        request.user is not None
        and "metadata" in request.inherited
        and isinstance(metadata, Mapping)
        and metadata.keys() == {"user_id"}
    )


def _happens_anyway(key: str, value: Any) -> bool:
    """Whether a field of Responses or Chat asks for what every translation does by itself (D13)."""
    if key == "include":
        return isinstance(value, list) and all(entry in _CARRIED for entry in value)
    return (key, value) in _DEFAULTS or value in _NOTHING


def nested(
    extra: Mapping[str, Any],
    path: str,
    losses: Losses,
    *,
    same: bool,
    takes: Container[str] = (),
) -> Mapping[str, Any]:
    """The extra fields of a message, part or tool; `same`: the value was made by this very dialect."""
    if same or not extra:
        return extra
    out = {}
    for key, value in extra.items():
        if key in takes:
            out[key] = value
        elif value is not None:
            losses.drop(f"{path}.{key}")
    return out or EMPTY


def of_reply(reply: UrpResponse | ResponseStart, *, same: bool) -> Mapping[str, Any]:
    """The extra fields of a reply: those of its own protocol, and in every case what a rule put there."""
    if same or not reply.added:
        return reply.extra_body if same else EMPTY
    return {key: value for key, value in reply.extra_body.items() if key in reply.added}


def refuse_server_state(request: UrpRequest) -> None:
    """Only a Responses provider can continue what lies on its server; elsewhere the call would mean something else (D13)."""
    for key in SERVER_STATE:
        if key in request.inherited and request.extra_body.get(key):
            raise _no_server_state(key)


def _no_server_state(key: str) -> UnsupportedByTarget:
    return UnsupportedByTarget(
        f"{key} needs a provider of type responses or grok, and none is eligible",
        param=key,
        code="server_state_not_supported",
    )
