"""What is read from any protocol is the same kind of value, and what is written comes from that value alone."""

import ast
import importlib.util
from pathlib import Path

import pytest

from monoize.clock import SequentialIds
from monoize.protocol import Reply, protocol, protocol_ids
from monoize.urp import (
    Audio,
    Delta,
    Error,
    File,
    Frame,
    Image,
    Losses,
    PartDone,
    PartStart,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    ResponseDone,
    ResponseStart,
    Role,
    Text,
    ToolCall,
    ToolResult,
    UrpRequest,
    bare,
    replace,
    unfold,
)

DOWNSTREAM = ("chat_completion", "responses", "messages", "gemini")
ARGUMENTS = '{"city":"Paris"}'
PIXEL = "iVBORw0KGgo="

# --- one conversation, written by a caller of each protocol ------------------------------------------

CHAT = {
    "model": "m",
    "temperature": 0.5,
    "x_unknown": {"deep": [None]},
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rain?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ARGUMENTS},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "dry"},
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "Thanks."},
    ],
}
RESPONSES = {
    "model": "m",
    "temperature": 0.5,
    "x_unknown": {"deep": [None]},
    "input": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": "call_1", "output": "dry"},
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "Thanks."},
    ],
}
MESSAGES = {
    "model": "m",
    "max_tokens": 100,
    "temperature": 0.5,
    "x_unknown": {"deep": [None]},
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Rain?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {
                    "type": "tool_use",
                    "id": "call_1",
                    "name": "weather",
                    "input": {"city": "Paris"},
                },
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "dry"}],
        },
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "Thanks."},
    ],
}
GEMINI = {
    "generationConfig": {"temperature": 0.5},
    "x_unknown": {"deep": [None]},
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Rain?"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Let me see."},
                {"functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Paris"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "call_1",
                        "name": "weather",
                        "response": {"output": "dry"},
                    }
                }
            ],
        },
        {"role": "model", "parts": [{"text": "No."}]},
        {"role": "user", "parts": [{"text": "Thanks."}]},
    ],
}
REQUESTS = {
    "chat_completion": CHAT,
    "responses": RESPONSES,
    "messages": MESSAGES,
    "gemini": GEMINI,
    "grok": RESPONSES,
}
SAID = [
    (Role.SYSTEM, "Be brief."),
    (Role.USER, "Rain?"),
    (Role.ASSISTANT, "Let me see."),
    (Role.ASSISTANT, ("call_1", "weather", ARGUMENTS)),
    (Role.TOOL, "call_1"),
    (Role.TOOL, "dry"),
    (Role.ASSISTANT, "No."),
    (Role.USER, "Thanks."),
]


def read(id):
    return protocol(id).decode_request(REQUESTS[id], model="m", stream=False)


def said(messages):
    """Who said what, in order, over the borders of messages."""
    return [(message.role, meaning(part)) for message in messages for part in message.parts]


def meaning(part):
    match part:
        case Text():
            return part.content
        case ToolCall():
            return (part.call_id, part.name, part.arguments)
        case ToolResult():
            return part.call_id
    raise AssertionError(part)


@pytest.mark.spec("URP-1", "URP-2", "URP-3", "DEC-1", "DEC-3", "DEC-4")
@pytest.mark.parametrize("id", protocol_ids())
def test_one_conversation_is_the_same_messages_in_whichever_protocol_it_was_written(id):
    request = read(id)
    assert type(request) is UrpRequest
    assert (request.model, request.temperature) == ("m", 0.5)
    assert said(request.messages) == SAID


@pytest.mark.spec("URP-2", "ENC-2")
@pytest.mark.parametrize("source", DOWNSTREAM)
@pytest.mark.parametrize("target", protocol_ids())
def test_a_conversation_keeps_its_order_on_the_way_to_any_provider(source, target):
    wire = protocol(target).encode_request(read(source), Losses()).body
    again = protocol(target).decode_request(wire, model="m", stream=False)
    assert said(again.messages) == SAID


@pytest.mark.spec("URP-5", "DEC-2")
@pytest.mark.parametrize("id", protocol_ids())
def test_an_unknown_field_is_kept_beside_the_named_ones(id):
    assert read(id).extra_body["x_unknown"] == {"deep": [None]}


@pytest.mark.spec("URP-6")
@pytest.mark.parametrize("source", DOWNSTREAM)
@pytest.mark.parametrize("target", protocol_ids())
def test_an_unknown_field_reaches_a_provider_of_any_protocol(source, target):
    request = replace(read(source), seed=7)  # so that it is written anew at home, too
    body = protocol(target).encode_request(request, Losses()).body
    assert body["x_unknown"] == {"deep": [None]}


@pytest.mark.spec("URP-7")
@pytest.mark.parametrize(
    "id",
    [
        "chat_completion",
        "gemini",
        "messages",
        "grok",
        "responses",
    ],
)
def test_a_named_field_wins_over_its_namesake_among_the_unknown(id):
    codec = protocol(id)
    request = replace(read(id), temperature=0.25, extra_body={})
    named = codec.encode_request(request, Losses()).body
    shadowed = replace(request, extra_body=dict.fromkeys(named, "shadow"))
    assert codec.encode_request(shadowed, Losses()).body == named


# --- every kind of part ------------------------------------------------------------------------------


def chat_parts(message):
    body = {"model": "m", "messages": [message]}
    return protocol("chat_completion").decode_request(body).messages[0].parts


def user_part(content):
    return chat_parts({"role": "user", "content": [content]})


def assistant_blocks(*blocks):
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "assistant", "content": list(blocks)}],
    }
    return protocol("messages").decode_request(body).messages[0].parts


URL = f"data:image/png;base64,{PIXEL}"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.spec("URP-4")
@pytest.mark.parametrize(
    ("parts", "kinds"),
    [
        (user_part({"type": "text", "text": "hi"}), [Text]),
        (user_part({"type": "image_url", "image_url": {"url": URL}}), [Image]),
        (
            user_part({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
            [Audio],
        ),
        (
            user_part(
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
                }
            ),
            [File],
        ),
        (assistant_blocks({"type": "thinking", "thinking": "hm", "signature": "s"}), [Reasoning]),
        (assistant_blocks({"type": "redacted_thinking", "data": "s"}), [ReasoningEncrypted]),
        (chat_parts({"role": "assistant", "tool_calls": [CALL]}), [ToolCall]),
        (
            chat_parts({"role": "tool", "tool_call_id": "c", "content": "dry"}),
            [ToolResult, Text],
        ),
        (chat_parts({"role": "assistant", "refusal": "no"}), [Refusal]),
    ],
    ids=lambda value: value[0].__name__ if isinstance(value, list) else "",
)
def test_every_kind_of_content_has_its_kind_of_part(parts, kinds):
    assert [type(part) for part in parts] == kinds


# --- replies -----------------------------------------------------------------------------------------

REPLIES = {
    "chat_completion": {
        "id": "r",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "reasoning_content": "hm",
                    "content": "Let me see.",
                    "tool_calls": CHAT["messages"][2]["tool_calls"],
                },
            }
        ],
    },
    "responses": {
        "id": "r",
        "object": "response",
        "model": "m",
        "status": "completed",
        "output": [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "sealed",
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "weather",
                "arguments": ARGUMENTS,
            },
        ],
    },
    "messages": {
        "id": "r",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "sealed"},
            *MESSAGES["messages"][1]["content"],
        ],
    },
    "gemini": {
        "responseId": "r",
        "modelVersion": "m",
        "candidates": [
            {
                "index": 0,
                "finishReason": "STOP",
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "hm", "thought": True},
                        *GEMINI["contents"][1]["parts"],
                    ],
                },
            }
        ],
    },
}
REPLIES["grok"] = REPLIES["responses"]
SEALS_ITS_THOUGHTS = {"responses", "grok", "messages"}


def answered(id):
    return protocol(id).decode_response(REPLIES[id], SequentialIds())


@pytest.mark.spec("URP-2", "DEC-3", "DEC-5")
@pytest.mark.parametrize("id", protocol_ids())
def test_thoughts_words_and_calls_of_a_reply_keep_their_order(id):
    (choice,) = answered(id).choices
    assert {message.role for message in choice.messages} == {Role.ASSISTANT}
    thought, *rest = [part for message in choice.messages for part in message.parts]
    assert (type(thought), thought.content) == (Reasoning, "hm")
    if id in SEALS_ITS_THOUGHTS:
        assert isinstance(rest.pop(0), ReasoningEncrypted)
    assert [meaning(part) for part in rest] == [
        "Let me see.",
        ("call_1", "weather", ARGUMENTS),
    ]


# --- streams -----------------------------------------------------------------------------------------


def streamed(id):
    """A stream as a provider of this protocol writes it."""
    request = UrpRequest(model="m", origin=id)
    losses = Losses()
    reply = Reply(request=request, model="m", ids=SequentialIds(), created=1, losses=losses)
    encoder = protocol(id).stream_encoder(reply)
    written = [wire for event in unfold(answered(id)) for wire in encoder.frame(Frame((event,)))]
    return [*written, *encoder.finish()]


def told(id, wires):
    decoder = protocol(id).stream_decoder(SequentialIds())
    frames = [*(decoder.decode(wire) for wire in wires), decoder.finish()]
    return [event for frame in frames for event in frame.events]


@pytest.mark.spec("STR-1", "STR-2", "STR-3")
@pytest.mark.parametrize("id", DOWNSTREAM)
def test_a_stream_is_told_in_numbered_parts_between_a_start_and_an_end(id):
    first, *middle, last = told(id, streamed(id))
    assert (type(first), type(last)) == (ResponseStart, ResponseDone)
    numbers = [event.part_index for event in middle if isinstance(event, PartStart)]
    assert numbers == list(range(len(numbers)))
    for number in numbers:
        story = [event for event in middle if event.part_index == number]
        assert (type(story[0]), type(story[-1])) == (PartStart, PartDone)
        assert {type(event) for event in story[1:-1]} <= {Delta}
    assert len(numbers) > 2
    assert any(isinstance(event, Delta) for event in middle)


@pytest.mark.spec("STR-2")
@pytest.mark.parametrize("id", DOWNSTREAM)
def test_a_stream_that_breaks_off_is_told_to_its_error(id):
    wires = streamed(id)
    events = told(id, wires[: len(wires) // 2])
    assert isinstance(events[0], ResponseStart)
    assert isinstance(events[-1], Error)
    assert not any(isinstance(event, ResponseDone) for event in events)


# --- from the value alone ----------------------------------------------------------------------------


@pytest.mark.spec("ENC-1")
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (source, target)
        for source in DOWNSTREAM
        for target in protocol_ids()
        if protocol(source).dialect != protocol(target).dialect
    ],
)
def test_an_encoder_of_another_protocol_never_looks_at_the_wire_object(source, target):
    request = read(source)
    assert request.source is not None
    body = protocol(target).encode_request(request, Losses()).body
    assert body == protocol(target).encode_request(bare(request), Losses()).body


@pytest.mark.spec("ENC-1")
@pytest.mark.parametrize("id", protocol_ids())
def test_what_was_changed_inside_is_what_goes_out(id):
    request = read(id)
    messages = (
        *request.messages[:-1],
        replace(request.messages[-1], parts=(Text(content="Bye."),)),
    )
    wire = protocol(id).encode_request(
        replace(request, temperature=0.25, messages=messages), Losses()
    )
    again = protocol(id).decode_request(wire.body, model="m", stream=False)
    assert again.temperature == 0.25
    assert said(again.messages) == [*SAID[:-1], (Role.USER, "Bye.")]


def transform_files():
    package = importlib.util.find_spec("monoize.transforms")
    return sorted(Path(package.submodule_search_locations[0]).glob("*.py"))


@pytest.mark.spec("ENC-1")
@pytest.mark.parametrize("file", transform_files(), ids=lambda file: file.stem)
def test_no_transform_looks_at_the_wire(file):
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Attribute(attr="source" | "wire"):
                pytest.fail(f"line {node.lineno} reads what was on the wire")
            case ast.Import(names=names):
                imported = [name.name for name in names]
            case ast.ImportFrom(module=str(module)):
                imported = [module]
            case _:
                continue
        for module in imported:
            assert not module.startswith(("monoize.protocol", "monoize.wirejson", "monoize.sse"))
