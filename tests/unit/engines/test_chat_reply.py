"""What llama.cpp writes becomes chunks of the protocol, and one object."""

from __future__ import annotations

import json

import pytest

from monoize.clock import SequentialIds
from monoize.engines._chat_call import chat_call
from monoize.engines._chat_reply import ChunkWriter, folded
from monoize.errors import EngineError, InvalidRequest

TOOLS = [{"type": "function", "function": {"name": "ping"}}]
CALL = '{"name": "ping", "arguments": {}}'


def call(**fields):
    body = {
        "model": "local",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream_options": {"include_usage": True},
        **fields,
    }
    return chat_call(body, max_tokens=512, context=8192)


def raw(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    return {"id": "x", "created": 1, "model": "path.gguf", "choices": [choice]}


def written(*texts, finish="stop"):
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return [
        {"id": "x", "created": 1, "choices": [], "prompt_progress": {"total": 3}},
        raw({"role": "assistant", "content": None}),
        *(raw({"content": text}) for text in texts),
        raw({}, finish),
        {"id": "x", "created": 1, "choices": [], "usage": usage},
    ]


def replied(asked, pieces):
    writer = ChunkWriter(asked, SequentialIds(), "print")
    return [chunk for piece in pieces for chunk in writer.chunks(piece)]


def contents(chunks):
    return [
        c["choices"][0]["delta"]["content"]
        for c in chunks
        if c["choices"] and c["choices"][0]["delta"].get("content")
    ]


def test_plain_text_streams_piece_by_piece_under_the_callers_model_name():
    chunks = replied(call(), written("Hel", "lo"))
    assert contents(chunks) == ["Hel", "lo"]
    assert {c["model"] for c in chunks} == {"local"}
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] == 5


def test_usage_is_left_out_when_nobody_asked():
    chunks = replied(call(stream_options=None), written("Hello"))
    assert all("usage" not in c for c in chunks)


def test_words_are_not_held_back_when_tools_are_allowed():
    writer = ChunkWriter(call(tools=TOOLS), SequentialIds(), "print")
    pieces = written("\n", "He", "llo")
    assert contents([c for piece in pieces[:4] for c in writer.chunks(piece)]) == ["\n", "He"]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_text_that_is_a_call_becomes_a_tool_call(choice):
    chunks = replied(call(tools=TOOLS, tool_choice=choice), written(CALL[:9], CALL[9:]))
    assert contents(chunks) == []
    reply = folded(chunks)
    (made,) = reply["choices"][0]["message"]["tool_calls"]
    assert made["function"] == {"name": "ping", "arguments": "{}"}
    assert "index" not in made
    assert reply["choices"][0]["message"]["content"] is None
    assert reply["choices"][0]["finish_reason"] == "tool_calls"


def test_json_that_is_no_call_comes_out_whole():
    chunks = replied(call(tools=TOOLS), written('{"a":', " 1}"))
    assert contents(chunks) == ['{"a":', " 1}"]
    assert folded(chunks)["choices"][0]["finish_reason"] == "stop"


def test_a_call_cut_short_comes_out_as_text_with_its_reason():
    reply = folded(
        replied(call(tools=TOOLS, tool_choice="required"), written(CALL[:9], finish="length"))
    )
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["choices"][0]["message"]["content"] == CALL[:9]


def test_a_schema_that_was_not_enforced_is_refused_before_the_first_word():
    asked = call(response_format={"type": "json_object"})
    opening, answer = written("The answer")[1:3]
    writer = ChunkWriter(asked, SequentialIds(), "print")
    assert writer.chunks(opening) == []
    with pytest.raises(InvalidRequest) as refused:
        writer.chunks(answer)
    assert refused.value.param == "response_format"


def test_json_that_does_not_end_is_refused_unless_a_limit_cut_it():
    asked = call(response_format={"type": "json_object"})
    with pytest.raises(InvalidRequest):
        replied(asked, written('{"a"'))
    assert contents(replied(asked, written('{"a"', finish="length"))) == ['{"a"']


def test_a_demanded_call_that_was_not_made_is_refused():
    with pytest.raises(InvalidRequest) as refused:
        replied(call(tools=TOOLS, tool_choice="required"), written("Hello"))
    assert refused.value.param == "tools"


def test_logprobs_are_kept_in_both_modes():
    token = {"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}
    pieces = written()
    pieces.insert(2, raw({"content": "Hi"}, logprobs={"content": [token]}))
    chunks = replied(call(logprobs=True), pieces)
    assert chunks[1]["choices"][0]["logprobs"] == {"content": [token]}
    assert folded(chunks)["choices"][0]["logprobs"]["content"] == [token]


def test_the_fold_is_one_chat_completion():
    reply = folded(replied(call(), written("Hel", "lo")))
    assert json.loads(json.dumps(reply)) == {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "local",
        "system_fingerprint": "print",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def test_a_reply_without_an_end_is_an_error():
    with pytest.raises(EngineError):
        folded(replied(call(), written("Hel")[:-2]))


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (
            {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8},
            InvalidRequest,
            "context_length_exceeded",
        ),
        ({"code": 400, "message": "no"}, InvalidRequest, "invalid_request"),
        ({"code": 500, "message": "no"}, EngineError, "engine_unavailable"),
    ],
)
def test_the_runtimes_errors_become_ours(error, kind, code):
    with pytest.raises(kind) as refused:
        replied(call(), [{"error": error}])
    assert refused.value.error_code == code
