"""Unary replies, wire <-> URP, and the object that a reply and its stream have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.clock import IdSource
from monoize.protocol import Reply
from monoize.protocols._plain import plain_reply
from monoize.protocols.responses.composer import Composer
from monoize.protocols.responses.items import decode_output_item
from monoize.protocols.responses.skeleton import skeleton
from monoize.protocols.responses.tools import as_declared, called_tools
from monoize.protocols.responses.usage import (
    decode_finish,
    decode_usage,
    encode_status,
    encode_usage,
    has_calls,
    seconds,
)
from monoize.protocols.responses.vocabulary import DIALECT, SERVICE_TIERS, source_of
from monoize.urp import (
    Choice,
    ChoiceEnd,
    Delta,
    Message,
    PartDone,
    PartStart,
    ResponseDone,
    ResponseStart,
    UrpResponse,
    unfold,
)
from monoize.urp.extra_body import rest

__all__ = ["RESPONSE_FIELDS", "decode_response", "encode_response", "with_namespaces"]

RESPONSE_FIELDS = frozenset(
    {
        "id",
        "object",
        "model",
        "created_at",
        "output",
        "usage",
        "status",
        "incomplete_details",
        "service_tier",
    }
)


def decode_response(body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
    output = body.get("output")
    items = output if isinstance(output, list) else []
    decoded = [decode_output_item(item, ids) for item in items if isinstance(item, dict)]
    messages = tuple([message for message in decoded if message.parts])
    id_, model, tier = body.get("id"), body.get("model"), body.get("service_tier")
    finish = decode_finish(body, has_calls=has_calls(messages))
    # a failure without any output is no answer, whatever the HTTP status said (T15)
    has_failed = body.get("status") == "failed" and body.get("error") and not messages
    is_reply = (isinstance(output, list) or "status" in body) and not has_failed
    return UrpResponse(
        id=id_ if isinstance(id_, str) else "",
        model=model if isinstance(model, str) else "",
        created=seconds(body.get("created_at")),
        choices=(Choice(messages=messages, finish=finish),) if is_reply else (),
        usage=decode_usage(body.get("usage")),
        service_tier=tier if isinstance(tier, str) else None,
        origin=DIALECT,
        extra_body=rest(body, RESPONSE_FIELDS),
        source=source_of(body),
    )


def encode_response(response: UrpResponse, reply: Reply) -> dict[str, Any]:
    """The last object of the stream that this reply would have been: one path for both modes."""
    if response.source is not None and response.source.protocol == DIALECT:
        return with_namespaces({**response.source.wire, "model": reply.model}, reply)
    start = ResponseStart(
        id=response.id,
        model=response.model,
        created=response.created,
        origin=response.origin,
        extra_body=response.extra_body,
        added=response.added,
    )
    words = plain_reply(response, DIALECT)
    if words is not None:
        return _plain(response, reply, start, words)
    composer = Composer(reply)
    composer.start(start)
    for choice in response.choices:
        for message in choice.messages:
            _write(composer, choice.index, message)
    composer.done(
        ResponseDone(
            choices=tuple(
                ChoiceEnd(index=choice.index, finish=choice.finish) for choice in response.choices
            ),
            usage=response.usage,
            service_tier=response.service_tier,
        )
    )
    return composer.response


def _plain(response: UrpResponse, reply: Reply, start: ResponseStart, words: str) -> dict[str, Any]:
    """The short way for a foreign reply that is one text: what the composer would write, without its events."""
    body = skeleton(reply, start)
    body["status"], body["incomplete_details"] = encode_status(response.choices[0].finish)
    body["output"] = [
        {
            "id": reply.ids.new("msg_"),
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": words, "annotations": [], "logprobs": []}],
        }
    ]
    body["usage"] = encode_usage(response.usage, native=False)
    tier = response.service_tier
    if tier in SERVICE_TIERS:
        body["service_tier"] = tier
    elif tier is not None:
        reply.losses.drop("service_tier")
    return body


def with_namespaces(response: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """A provider's own reply, with the namespaces of the tools that it calls."""
    declared, output = called_tools(reply.request.tools or ()), response.get("output")
    if not isinstance(output, list) or not any(tool.namespace for tool in declared.values()):
        return response
    return {**response, "output": [as_declared(item, declared) for item in output]}


def _write(composer: Composer, choice: int, message: Message) -> None:
    if choice == 0 and message.source is not None and message.source.protocol == DIALECT:
        composer.whole_item(message.source.wire)
        return
    alone = UrpResponse(id="", model="", choices=(Choice(index=choice, messages=(message,)),))
    for event in unfold(alone):
        match event:
            case PartStart():
                composer.part_start(event)
            case Delta():
                composer.delta(event)
            case PartDone():
                composer.part_done(event)
            case _:
                pass
    composer.retire_all()  # the next message begins its own items
