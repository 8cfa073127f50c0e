"""Embeddings as Google writes them: embedContent for one text, batchEmbedContents for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monoize.errors import UpstreamUnreadable
from monoize.operation import Json, Outgoing
from monoize.operations._openai import listed
from monoize.protocols.gemini.models import method_path, resource_name
from monoize.protocols.gemini.usage import decode_usage
from monoize.urp import Usage

__all__ = ["read", "request"]

_OPENAI_ONLY = frozenset({"user", "safety_identifier"})


def request(
    texts: Sequence[str], model: str, dimensions: int | None, extra: Mapping[str, Any]
) -> Outgoing:
    """`extra` goes into the request for each text: taskType, title, embedContentConfig and what is new."""
    travels = {name: value for name, value in extra.items() if name not in _OPENAI_ONLY}
    if dimensions is not None:
        travels["outputDimensionality"] = dimensions
    asked: list[dict[str, Any]] = [
        {"content": {"parts": [{"text": text}]}, **travels} for text in texts
    ]
    dropped = tuple(name for name in extra if name in _OPENAI_ONLY)
    if len(asked) == 1:
        return Outgoing(path=method_path(model, "embedContent"), body=asked[0], dropped=dropped)
    name = resource_name(model)
    body = {"requests": [{"model": name, **one} for one in asked]}
    return Outgoing(path=method_path(model, "batchEmbedContents"), body=body, dropped=dropped)


def read(reply: Json) -> tuple[list[list[float] | str], Usage | None]:
    one = reply.get("embedding")
    items = [one] if isinstance(one, Mapping) else listed(reply, "embeddings")
    return [_values(item) for item in items], decode_usage(reply.get("usageMetadata"))


def _values(item: Any) -> list[float] | str:
    values = item.get("values") if isinstance(item, Mapping) else None
    if not isinstance(values, list) or not all(isinstance(n, int | float) for n in values):
        raise UpstreamUnreadable("the provider's reply holds no vector where one is due")
    return values
