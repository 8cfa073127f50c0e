"""Structured output across protocols: the target's own way of saying it, never a made-up tool."""

import pytest

from monoize.clock import SequentialIds
from monoize.protocol import Reply, protocol
from monoize.urp import (
    Frame,
    JsonSchemaFormat,
    Losses,
    Message,
    Role,
    Text,
    UrpRequest,
    WireEvent,
    fold,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
REQUEST = UrpRequest(
    model="m",
    messages=(Message(role=Role.USER, parts=(Text(content="Where?"),)),),
    response_format=JsonSchemaFormat(name="place", schema=SCHEMA, strict=True),
    origin="chat_completion",
)
PLACES = {
    "chat_completion": lambda body: body["response_format"]["json_schema"]["schema"],
    "responses": lambda body: body["text"]["format"]["schema"],
    "grok": lambda body: body["text"]["format"]["schema"],
    "messages": lambda body: body["output_config"]["format"]["schema"],
    "gemini": lambda body: body["generationConfig"]["responseJsonSchema"],
}
ANSWER = '{"city":"Paris"}'


@pytest.mark.spec("T29")
@pytest.mark.parametrize("target", PLACES)
def test_the_schema_goes_where_the_target_keeps_it_and_no_tool_is_invented(target):
    losses = Losses()
    body = protocol(target).encode_request(REQUEST, losses).body
    assert PLACES[target](body)["properties"] == SCHEMA["properties"]
    assert not body.get("tools")
    assert losses.dropped == ()


def messages_stream():
    events = [
        '{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        *(
            f'{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{piece}}}}}'
            for piece in (r'"{\"city\""', r'":\"Paris\"}"')
        ),
        '{"type":"content_block_stop","index":0}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}',
        '{"type":"message_stop"}',
    ]
    return [WireEvent(data) for data in events]


@pytest.mark.spec("T29")
def test_a_streamed_structured_answer_is_the_unary_one_with_the_same_finish():
    decoder = protocol("messages").stream_decoder(SequentialIds())
    frames = [*(decoder.decode(wire) for wire in messages_stream()), decoder.finish()]
    events = [event for frame in frames for event in frame.events]
    chat = protocol("chat_completion")

    def reply():
        return Reply(request=REQUEST, model="m", ids=SequentialIds(), created=1, losses=Losses())

    unary = chat.encode_response(fold(events), reply())["choices"][0]
    encoder = chat.stream_encoder(reply())
    wires = [w for event in events for w in encoder.frame(Frame((event,)))] + encoder.finish()
    again = chat.stream_decoder(SequentialIds())
    streamed = fold(
        e for f in [*(again.decode(w) for w in wires), again.finish()] for e in f.events
    )
    assert unary["message"]["content"] == ANSWER == streamed.choices[0].messages[0].parts[0].content
    assert unary["finish_reason"] == "stop" == streamed.choices[0].finish.native
