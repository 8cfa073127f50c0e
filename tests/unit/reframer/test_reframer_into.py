"""The way on: what a model's protocol can carry is carried, what it cannot is named."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from monoize.errors import InvalidRequest
from monoize.protocol import protocol
from monoize.reframer import Reframed, reframe
from monoize.reframer.into import TARGETS, Converted, converted, urp_request
from monoize.urp import File, Image, Text, ToolCall, ToolResult, Url


def message(role: str, content: Any, *tags: str, **others: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "content": content, "protocol_tags": list(tags), **others}


def normalized(*messages: dict[str, Any], attachments: Any = (), **others: Any) -> Any:
    payload = {"messages": list(messages), "attachments": list(attachments)}
    result = reframe(
        {
            "request_id": "request-0001",
            "created_at": "2025-03-01T09:30:00Z",
            "channels": [{"channel_id": "main", "role": "user"}],
            "payload": {**payload, **others.pop("payload", {})},
            **others,
        }
    )
    assert isinstance(result, Reframed), result
    return result.normalized


def into(target: str, *messages: dict[str, Any], **others: Any) -> Converted:
    return converted(normalized(*messages, **others), target=target, model="some-model")


def dropped(result: Converted) -> list[str]:
    return [remark.field_path for remark in result.dropped]


TALK = (message("system", "Be brief."), message("user", "Hi"), message("assistant", "Hello!"))


@pytest.mark.spec("D50")
@pytest.mark.parametrize(
    ("target", "path", "body"),
    [
        (
            "chat_completion",
            "/v1/chat/completions",
            {
                "model": "some-model",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Hello!"},
                    {"role": "user", "content": "Where?"},
                ],
            },
        ),
        (
            "messages",
            "/v1/messages",
            {
                "model": "some-model",
                "max_tokens": 32000,
                "system": "Be brief.",
                "messages": [
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Hello!"},
                    {"role": "user", "content": "Where?"},
                ],
            },
        ),
        (
            "gemini",
            "/v1beta/models/some-model:generateContent",
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [
                    {"role": "user", "parts": [{"text": "Hi"}]},
                    {"role": "model", "parts": [{"text": "Hello!"}]},
                    {"role": "user", "parts": [{"text": "Where?"}]},
                ],
            },
        ),
    ],
)
def test_a_plain_conversation_is_what_a_caller_would_have_written(target, path, body):
    result = into(target, *TALK, message("user", "Where?"))
    assert (result.path, result.body) == (path, body)
    assert dropped(result) == ["channels"]
    assert result.added == ()


@pytest.mark.spec("D50")
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_reads_its_own_form_back(target):
    result = into(
        target,
        *TALK,
        message("user", "42", "<tool:calc>"),
        message("code", "print(1)"),
        message("user", "And now?"),
    )
    model = "some-model" if target == "gemini" else None
    read = protocol(target).decode_request(result.body, model=model)
    texts = [p.content for m in read.messages for p in m.parts if isinstance(p, Text)]
    assert {"Be brief.", "Hi", "Hello!", "And now?"} <= set(texts)
    calls = [p for m in read.messages for p in m.parts if isinstance(p, ToolCall)]
    answers = [p for m in read.messages for p in m.parts if isinstance(p, ToolResult)]
    assert [c.name for c in calls] == ["calc"]
    assert [a.call_id for a in answers] == [c.call_id for c in calls]
    assert [t.name for t in read.tools] == ["calc"]


@pytest.mark.spec("D50")
@pytest.mark.parametrize(
    ("role", "content", "text"),
    [
        ("code", "print(1)", "[code]\n```\nprint(1)\n```"),
        ("data", {"type": "json", "value": "[1]"}, "[data]\n```json\n[1]\n```"),
        ("data", "a ``` b", "[data]\n````\na ``` b\n````"),
        ("code", "`````", "[code]\n``````\n`````\n``````"),
    ],
)
def test_code_and_data_become_words_of_the_user_fenced_and_labelled(role, content, text):
    (written,) = into("chat_completion", message(role, content)).body["messages"]
    assert written == {"role": "user", "content": text}


@pytest.mark.spec("D50")
def test_results_that_stand_together_answer_calls_that_stand_together():
    result = into(
        "chat_completion",
        message("user", "go"),
        message("user", "1", "<tool:a>"),
        message("tool", "2"),
        message("user", "again"),
        message("tool", "3", "<tool:a>"),
    )
    wire = result.body["messages"]
    assert [m["role"] for m in wire] == [
        *("user", "assistant", "tool", "tool", "user", "assistant", "tool"),
    ]
    calls = [[c["function"]["name"] for c in m.get("tool_calls", ())] for m in wire]
    assert calls[1] == ["a", "tool"]
    assert calls[5] == ["a"]
    assert [t["function"]["name"] for t in result.body["tools"]] == ["a", "tool"]
    assert [r.field_path for r in result.added] == [
        *("payload.messages[1]", "payload.messages[2]", "payload.messages[4]"),
    ]


@pytest.mark.spec("D50")
def test_binary_content_becomes_a_file():
    data = base64.b64encode(b"\x89PNG").decode()
    picture = message(
        "user", {"type": "binary", "value": data}, metadata={"media_type": "image/png"}
    )
    other = message("user", {"type": "binary", "value": "ü", "encoding": "utf-8"})
    request = urp_request(normalized(picture, other), "m")
    (first,), (second,) = (m.parts for m in request.messages)
    assert isinstance(first, Image)
    assert (first.media.media_type, first.media.data) == ("image/png", data)
    assert isinstance(second, File)
    assert second.media.media_type == "application/octet-stream"
    assert base64.b64decode(second.media.data) == "ü".encode()


@pytest.mark.spec("D50")
@pytest.mark.parametrize("uri", ["smsfile://01HV5Z7M3K9QX2T8R4W6Y0B1CD", "https://example.com/a"])
def test_attachments_go_to_the_last_words_of_the_user(uri):
    files = [
        {"id": "a", "media_type": "application/pdf", "uri": uri},
        {"id": "b", "media_type": "image/png", "uri": uri},
    ]
    request = urp_request(normalized(*TALK, attachments=files), "m")
    said = request.messages[1].parts
    assert [type(part) for part in said] == [Text, File, Image]
    assert said[1].media == Url(url=uri, media_type="application/pdf")
    alone = urp_request(normalized(message("system", "x"), attachments=files), "m")
    assert [len(m.parts) for m in alone.messages] == [1, 2]


STORED = "smsfile://01HV5Z7M3K9QX2T8R4W6Y0B1CD"


@pytest.mark.spec("D50", "D30")
@pytest.mark.parametrize("media_type", ["application/pdf", "image/png", "text/csv"])
@pytest.mark.parametrize("target", ["gemini", "messages", "responses"])
def test_a_stored_file_is_named_in_every_protocol_that_takes_an_address(target, media_type):
    """The gateway, to which such a request goes, puts the bytes in its place."""
    files = [{"id": "a", "media_type": media_type, "uri": STORED}]
    result = into(target, *TALK, attachments=files)
    assert STORED in json.dumps(result.body)
    assert "payload.attachments[0]" not in dropped(result)
    again = protocol(target).decode_request(result.body, model="m")
    media = [p.media for m in again.messages for p in m.parts if isinstance(p, File | Image)]
    assert [getattr(one, "url", None) or one.id for one in media] == [STORED]


@pytest.mark.spec("D50")
def test_what_has_no_place_is_named_by_the_requests_own_paths():
    result = into(
        "chat_completion",
        message("user", "x", "<safety:restricted>", "<role:user>"),
        message("user", "y", "<role:user>", metadata={"a": 1}),
        message("assistant", {"type": "binary", "value": "AAAA"}),
        message("user", {"type": "binary", "value": "not base64"}),
        message("user", {"type": "text", "value": "/w==", "encoding": "base64"}),
        attachments=[
            {"id": "a", "media_type": "application/pdf", "uri": "http://a", "hash": "0" * 64}
        ],
        tenant="acme",
        payload={"context_window": 5},
        constraints={
            "routing": {
                "tool_budget": {"total": 0, "per_tool": []},
                "retrieval": {"precision_threshold": 1, "sources": []},
            }
        },
    )
    assert dropped(result) == [
        "channels",
        "tenant",
        "payload.context_window",
        "payload.messages[0].protocol_tags",
        "payload.messages[1].metadata",
        "payload.attachments[0].hash",
        "constraints",
        "payload.messages[3].content",
        "payload.messages[4].content",
        "payload.messages[2].content",
        "payload.attachments[0]",
    ]
    reasons = {remark.field_path: remark.reason for remark in result.dropped}
    assert reasons["payload.messages[3].content"] == "it is not base64"
    assert reasons["payload.messages[4].content"] == "it is not UTF-8 inside"
    assert reasons["payload.messages[2].content"] == "chat_completion has no place for it"
    assert result.as_json()["lossless"] is False


@pytest.mark.spec("D50")
def test_a_model_and_a_known_target_are_needed():
    with pytest.raises(InvalidRequest, match="into: must be one of chat_completion, responses"):
        converted(normalized(*TALK), target="grpc", model="m")
    with pytest.raises(InvalidRequest, match="needs the name of a model") as raised:
        converted(normalized(*TALK), target="messages", model="")
    assert raised.value.param == "model"


@pytest.mark.parametrize("target", TARGETS)
def test_a_message_of_nothing_is_no_mistake(target):
    into(target, message("user", ""), message("user", {"type": "binary", "value": "?"}))
