"""Steps 2 and 3: the key's rules, and the effort behind a model name; then whether the key may use the model."""

from __future__ import annotations

import msgspec

from monoize.account import model_refusal
from monoize.pipeline.call import Call, Trace
from monoize.pipeline.decode import decoded, unread, with_username
from monoize.pipeline.kit import Kit
from monoize.pipeline.suffix import resolved
from monoize.transform import request_applied

__all__ = ["key_rules_applied", "model_checked", "suffix_resolved"]


def key_rules_applied(call: Call, kit: Kit, trace: Trace) -> Call:
    """The rules match the model's name as it stands when their turn comes (D16)."""
    caller = call.incoming.caller
    if not caller.rules and not kit.provider_rules:  # nobody would ask who calls
        return call
    request = with_username(call.request, caller.username)  # CTX-1
    request = request_applied(request, caller.rules, observe=trace.observe)
    return msgspec.structs.replace(call, request=request)


def suffix_resolved(call: Call, kit: Kit) -> Call:
    request = resolved(call.request, kit.catalog, kit.suffixes)
    if request is call.request:
        return call
    if call.incoming.plain is not None:  # to be written anew, message by message as they came
        return suffix_resolved(decoded(unread(call.incoming)), kit)
    return msgspec.structs.replace(call, request=request)


def model_checked(call: Call) -> Call:
    """The key's list may name what was asked for, or what rules and endings have made of it (PIPE-2)."""
    policy = call.incoming.caller.policy
    if model_refusal(policy, call.requested_model) is not None:
        refused = model_refusal(policy, call.model)
        if refused is not None:
            raise refused
    return call
