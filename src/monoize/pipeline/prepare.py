"""Steps 2 and 3: the key's rules, and the effort behind a model name."""

from __future__ import annotations

import msgspec

from monoize.pipeline.call import Call, Trace
from monoize.pipeline.decode import with_username
from monoize.pipeline.kit import Kit
from monoize.pipeline.suffix import resolved
from monoize.transform import request_applied

__all__ = ["key_rules_applied", "suffix_resolved"]


def key_rules_applied(call: Call, trace: Trace) -> Call:
    """The rules match the model's name as it stands when their turn comes (D16)."""
    caller = call.incoming.caller
    request = with_username(call.request, caller.username)  # CTX-1
    request = request_applied(request, caller.rules, observe=trace.observe)
    return msgspec.structs.replace(call, request=request)


def suffix_resolved(call: Call, kit: Kit) -> Call:
    request = resolved(call.request, kit.catalog, kit.suffixes)
    return msgspec.structs.replace(call, request=request)
