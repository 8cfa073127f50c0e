"""URP -> a GenerateContentResponse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocol import Reply
from monoize.protocols import _extras
from monoize.protocols.gemini.finish import write_finish
from monoize.protocols.gemini.grounding import write_grounding, write_logprobs
from monoize.protocols.gemini.parts_encode import PartWriter
from monoize.protocols.gemini.spelling import DIALECT, found
from monoize.protocols.gemini.usage import write_usage
from monoize.urp import Choice, Part, Refusal, Text, UrpResponse
from monoize.urp.extra_body import flattened

__all__ = ["EMPTY_CONTENT", "encode_response"]

# A content without parts counts as broken for Google's own client, one with empty text does not.
EMPTY_CONTENT: dict[str, Any] = {"role": "model", "parts": [{"text": ""}]}


def encode_response(response: UrpResponse, reply: Reply) -> dict[str, Any]:
    source = response.source
    if source is not None and source.protocol == DIALECT:
        body = dict(source.wire)
        if body.get("modelVersion"):
            body["modelVersion"] = reply.model
        return body
    same = response.origin == DIALECT
    writer = PartWriter(reply.losses, same=same, carries=True)
    out: dict[str, Any] = {}
    if not (same and _was_blocked(response)):
        out["candidates"] = [_candidate(choice, writer, same=same) for choice in response.choices]
    if response.usage is not None:
        out["usageMetadata"] = write_usage(response.usage, same=same)
    out["modelVersion"] = reply.model
    out["responseId"] = response.id or reply.ids.new("resp_")
    return flattened(out, _extras.of_reply(response, same=same))


def _was_blocked(response: UrpResponse) -> bool:
    """Whether the prompt was refused: then there is no candidate to write, promptFeedback says it all."""
    reason = found(found(response.extra_body, "promptFeedback"), "blockReason")
    return reason is not None and not any(choice.messages for choice in response.choices)


def _candidate(choice: Choice, writer: PartWriter, *, same: bool) -> dict[str, Any]:
    if choice.source is not None and choice.source.protocol == DIALECT:
        return dict(choice.source.wire)
    parts = [part for message in choice.messages for part in message.parts]
    written = [
        wire
        for number, part in enumerate(parts)
        for wire in writer.write(part, f"choices[{choice.index}].parts[{number}]")
    ]
    out: dict[str, Any] = {
        "content": {"role": "model", "parts": written} if written else EMPTY_CONTENT,
        "finishReason": write_finish(choice.finish, refused=_refused(parts)),
        "index": choice.index,
    }
    if same:
        flattened(out, choice.extra_body)
    return flattened(out, _annotations(parts))


def _refused(parts: list[Part]) -> bool:
    return any(isinstance(part, Refusal) for part in parts)


def _annotations(parts: list[Part]) -> Mapping[str, Any]:
    texts = [part for part in parts if isinstance(part, Text)]
    found_here = {
        "groundingMetadata": write_grounding(texts),
        "logprobsResult": write_logprobs(texts),
    }
    return {name: value for name, value in found_here.items() if value is not None}
