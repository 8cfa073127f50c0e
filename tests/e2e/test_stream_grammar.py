"""Streams written anew, judged by the letter of each protocol: what lenient SDKs forgive, strict clients do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.scenarios import SCENARIOS
from fakes.speakers import SPEAKERS

Json = dict[str, Any]

pytestmark = [
    pytest.mark.parametrize("scenario", SCENARIOS),
    pytest.mark.parametrize("provider", SPEAKERS),
]


def payloads(caller, protocol: str, provider: str, scenario: str) -> list[Json]:
    reply = caller.ask(protocol, f"{provider}.{scenario}", stream=True)
    assert reply.status == 200
    events = [e for e in reply.events if e.data != "[DONE]"]
    if protocol in ("messages", "responses"):
        assert [e.name for e in events] == [e.json["type"] for e in events]
    return [e.json for e in events if e.name != "ping"]


@pytest.mark.spec("T4", "T7")
def test_messages_blocks_come_one_after_the_other(caller, upstream, provider, scenario):
    events = payloads(caller, "messages", provider, scenario)

    assert events[0]["type"] == "message_start"
    assert events[0]["message"]["content"] == []
    assert events[0]["message"]["usage"]["output_tokens"] >= 0
    assert [e["type"] for e in events[-2:]] == ["message_delta", "message_stop"]
    assert events[-2]["usage"]["output_tokens"] == 20
    blocks: list[str] = []
    is_open = False
    for event in events[1:-2]:
        match event["type"]:
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(blocks)
                blocks.append(event["content_block"]["type"])
                is_open = True
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                assert event["delta"]["type"] in DELTAS[blocks[-1]]
            case "content_block_stop":
                assert is_open
                assert event["index"] == len(blocks) - 1
                is_open = False
            case other:
                pytest.fail(f"{other} has no place here")
    assert not is_open
    uses = SCENARIOS[scenario].turns[0].calls
    assert blocks.count("tool_use") == len(uses)
    assert (events[-2]["delta"]["stop_reason"] == "tool_use") == bool(uses)


DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "redacted_thinking": set(),
    "tool_use": {"input_json_delta"},
}


@pytest.mark.spec("T2", "T5", "T6")
def test_responses_tell_the_whole_life_of_every_item(caller, upstream, provider, scenario):
    events = payloads(caller, "responses", provider, scenario)

    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert [e["type"] for e in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    final = events[-1]["response"]
    assert {e["response"]["id"] for e in events if "response" in e} == {final["id"]}
    begun: dict[int, Json] = {}
    done: dict[int, Json] = {}
    grown: dict[tuple, str] = {}
    for event in events[2:-1]:
        index = event["output_index"]
        match event["type"]:
            case "response.output_item.added":
                assert index == len(begun)
                begun[index] = event["item"]
            case "response.output_item.done":
                assert index in begun
                assert index not in done
                assert event["item"]["id"] == begun[index]["id"]
                done[index] = event["item"]
            case kind:
                assert index not in done
                assert event["item_id"] == begun[index]["id"]
                if kind.endswith(".delta"):
                    place = (kind.removesuffix(".delta"), index, *_inner(event))
                    grown[place] = grown.get(place, "") + event["delta"]
                elif kind.endswith((".done", "_part.done")) and "part" not in event:
                    whole = event.get("text", event.get("arguments", event.get("refusal")))
                    assert grown[(kind.removesuffix(".done"), index, *_inner(event))] == whole
    assert list(done) == sorted(done) or provider in ("responses", "grok")
    assert set(done) == set(begun)
    assert [done[n] for n in sorted(done)] == final["output"]
    assert final["usage"]["output_tokens"] == 20


def _inner(event: Json) -> tuple:
    return event.get("content_index"), event.get("summary_index")


@pytest.mark.spec("T1", "T3", "T9")
def test_chat_chunks_name_a_call_once_and_finish_once(caller, upstream, provider, scenario):
    chunks = payloads(caller, "chat_completion", provider, scenario)

    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert all([c["index"] for c in chunk["choices"]] in ([0], []) for chunk in chunks)
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    finishes = [n for n, choice in enumerate(choices) if choice.get("finish_reason")]
    assert finishes == [len(choices) - 1]
    calls: dict[int, str] = {}
    for choice in choices:
        for delta in choice["delta"].get("tool_calls") or []:
            index, function = delta["index"], delta["function"]
            if index not in calls:
                assert index == len(calls)
                assert delta["id"]
                assert delta["type"] == "function"
                assert function["name"]
            else:
                assert "name" not in function
                assert "id" not in delta
            calls[index] = calls.get(index, "") + function.get("arguments", "")
    uses = SCENARIOS[scenario].turns[0].calls
    assert [json.loads(text or "{}") for text in calls.values()] == [given for _, given in uses]


@pytest.mark.spec("T20")
def test_gemini_chunks_hold_whole_calls_and_end_with_a_reason(caller, upstream, provider, scenario):
    chunks = payloads(caller, "gemini", provider, scenario)

    reasons = [
        chunk["candidates"][0].get("finishReason") for chunk in chunks if chunk["candidates"]
    ]
    assert [n for n, reason in enumerate(reasons) if reason] == [len(reasons) - 1]
    parts = [
        part
        for chunk in chunks
        for part in chunk["candidates"][0].get("content", {}).get("parts", [])
    ]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    uses = SCENARIOS[scenario].turns[0].calls
    assert [(call["name"], call.get("args", {})) for call in calls] == uses
    usage = chunks[-1]["usageMetadata"]
    assert usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0) == 20
    assert usage["totalTokenCount"] == 60
