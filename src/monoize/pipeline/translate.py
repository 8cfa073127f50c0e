"""The dry run: the exact upstream body that a request would become, and what it would lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.errors import InvalidRequest
from monoize.pipeline.attempt import encoded_for, provider_protocol
from monoize.pipeline.call import Incoming
from monoize.pipeline.run import decoded, routed
from monoize.protocol import Protocol, protocol, protocol_ids
from monoize.routing.catalog import Catalog
from monoize.urp import Losses, renamed

__all__ = ["translated"]

_FIELDS = frozenset({"from", "to", "model", "stream", "request"})


def translated(wire: Mapping[str, Any], catalog: Catalog, request_id: str) -> dict[str, Any]:
    """`from`: the caller's protocol; `to`: the provider's, or absent to take the one the model routes to."""
    unknown = sorted(set(wire) - _FIELDS)
    if unknown:
        raise InvalidRequest(
            f"{unknown[0]}: unknown field; known are {', '.join(sorted(_FIELDS))}", param=unknown[0]
        )
    for field, kind in (("model", str), ("stream", bool)):
        if wire.get(field) is not None and not isinstance(wire[field], kind):
            raise InvalidRequest(f"{field}: must be a {kind.__name__}", param=field)
    body = wire.get("request")
    if not isinstance(body, dict):
        raise InvalidRequest(
            "request: must be the JSON object that a caller would send", param="request"
        )
    incoming = Incoming(
        protocol=_named(wire, "from"),
        raw=b"",
        wire=body,
        headers={},
        model=wire.get("model"),
        stream=wire.get("stream"),
        request_id=request_id,
        started=0.0,
    )
    call = decoded(incoming)
    request, losses = call.request, Losses()
    if wire.get("to") is None:
        candidate = routed(call, catalog)
        target, request = provider_protocol(candidate), renamed(request, candidate.upstream_model)
    else:
        target = _named(wire, "to")
    encoded = encoded_for(target, incoming.protocol, request, losses)
    return {
        "from": incoming.protocol.id,
        "to": target.id,
        "path": encoded.path,
        "body": encoded.body,
        "lossless": not losses.dropped,
        "dropped": list(losses.dropped),
    }


def _named(wire: Mapping[str, Any], field: str) -> Protocol:
    name = wire.get(field)
    if name not in protocol_ids():
        raise InvalidRequest(f"{field}: must be one of {', '.join(protocol_ids())}", param=field)
    return protocol(name)
