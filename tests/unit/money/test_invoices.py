"""Golden invoices: usage as each provider writes it, through the real codecs, to a charge computed by hand."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from monoize.clock import SequentialIds
from monoize.money import Meter, charge, metered, parse_rates
from monoize.protocol import protocol
from monoize.urp import Message, Role, Text, UrpRequest

FOLDER = Path(__file__).parents[2] / "golden" / "invoices"
CASES = [
    pytest.param(yaml.safe_load(file.read_text("utf-8")), id=file.stem)
    for file in sorted(FOLDER.glob("*.yaml"))
]
REQUEST = UrpRequest(
    model="m", messages=(Message(role=Role.USER, parts=(Text(content="Say hello."),)),)
)

# --- the smallest reply around a usage ---


def chat_completion(model, usage, said):
    message = {"role": "assistant", "content": said}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "model": model, "choices": [choice]} | usage


def messages(model, usage, said):
    content = [{"type": "text", "text": said}]
    reply = {"id": "m", "type": "message", "role": "assistant", "model": model, "content": content}
    return reply | {"stop_reason": "end_turn", "stop_sequence": None} | usage


def responses(model, usage, said):
    content = [{"type": "output_text", "text": said, "annotations": []}]
    item = {"id": "i", "type": "message", "role": "assistant", "status": "completed"}
    return {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": model,
        "output": [item | {"content": content}],
    } | usage


def gemini(model, usage, said):
    content = {"role": "model", "parts": [{"text": said}]}
    candidate = {"index": 0, "content": content, "finishReason": "STOP"}
    return {"candidates": [candidate], "modelVersion": model, "responseId": "g"} | usage


REPLIES = {
    "chat_completion": chat_completion,
    "messages": messages,
    "responses": responses,
    "grok": responses,
    "gemini": gemini,
}

# --- the smallest stream around the usages that it brings, in order ---


def chat_completion_events(model, usages, said):
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": model}
    delta = {"role": "assistant", "content": said}
    yield chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    for usage in usages:
        yield chunk | {"choices": [], "usage": usage}


def messages_events(model, usages, said):
    start, end = usages or (None, None)
    message = {"id": "m", "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": message | _named("usage", start)}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    delta = {"type": "text_delta", "text": said}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop} | _named("usage", end)
    yield {"type": "message_stop"}


def responses_events(model, usages, said):
    (usage,) = usages or (None,)
    whole = responses(model, _named("usage", usage), said)
    (item,) = whole["output"]
    begun = {**item, "status": "in_progress", "content": []}
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    begin = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begin}
    yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
    yield {"type": "response.content_part.added", **place, "part": part}
    yield {"type": "response.output_text.delta", **place, "delta": said}
    yield {"type": "response.output_text.done", **place, "text": said}
    yield {"type": "response.content_part.done", **place, "part": item["content"][0]}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": whole}


def gemini_events(model, usages, said):
    for usage in usages[:-1]:
        chunk = gemini(model, {"usageMetadata": usage}, "")
        del chunk["candidates"][0]["finishReason"]
        yield chunk
    yield gemini(model, _named("usageMetadata", usages[-1] if usages else None), said)


EVENTS = {
    "chat_completion": chat_completion_events,
    "messages": messages_events,
    "responses": responses_events,
    "grok": responses_events,
    "gemini": gemini_events,
}


def _named(name, usage):
    return {} if usage is None else {name: usage}


# --- the way of a reply ---


def unary(case):
    name = "usageMetadata" if case["protocol"] == "gemini" else "usage"
    said = case.get("reply", "Hello there")
    body = REPLIES[case["protocol"]](case["model"], _named(name, case["usage"]), said)
    response = protocol(case["protocol"]).decode_response(body, SequentialIds())
    return metered(response, REQUEST)


def streamed(case):
    said = case.get("reply", "Hello there")
    wire = ""
    for event in EVENTS[case["protocol"]](case["model"], case["streamed"], said):
        wire += f"event: {event['type']}\n" if "type" in event else ""
        wire += f"data: {json.dumps(event)}\n\n"
    codec = protocol(case["protocol"])
    parser = codec.stream_parser("text/event-stream", 1 << 20)
    decoder, meter = codec.stream_decoder(SequentialIds()), Meter()
    frames = [decoder.decode(event) for event in (*parser.feed(wire.encode()), *parser.close())]
    for frame in (*frames, decoder.finish()):
        for event in frame.events:
            meter.add(event)
    return meter.read(REQUEST)


@pytest.mark.spec("T36", "D17")
@pytest.mark.parametrize("way", [unary, streamed])
@pytest.mark.parametrize("case", CASES)
def test_a_recorded_usage_costs_what_was_computed_by_hand(case, way):
    read = way(case)
    bill = charge(read.usage, parse_rates(case["rates"]), Decimal(case["multiplier"]))
    assert {item.name: item.tokens for item in bill.items} == case["tokens"]
    assert bill.amount == case["charge"]
    assert read.estimated is case.get("estimated", False)


def test_every_protocol_has_an_invoice():
    assert {case.values[0]["protocol"] for case in CASES} == set(REPLIES)
