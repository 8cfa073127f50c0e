"""The boundary, from wire bytes of every profile: native, rejected, or (outside of strict mode) recovered."""

from __future__ import annotations

import importlib.metadata
import json
import os
from pathlib import Path

import pytest

from fakes.agent_replies import PROFILES, Said, model_of, reply, text_syntax
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION, adapt
from monoize.agent.boundary.strict_json import MAX_BYTES
from monoize.agent.profile import profile
from monoize.urp import Reasoning, ToolCall

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "open"

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
CALL = ("call_a", "get_weather", '{"city": "Paris", "n": 2.50}')
OTHER = ("call_b", "list_files", "{}")
NATIVE = tuple(name for name in PROFILES if not text_syntax(name))
TEXTUAL = tuple(name for name in PROFILES if text_syntax(name))
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["unary", "stream"])
EACH = pytest.mark.parametrize("name", PROFILES)
EACH_NATIVE = pytest.mark.parametrize("name", NATIVE)
EACH_TEXTUAL = pytest.mark.parametrize("name", TEXTUAL)


def adapted(name, said, *, streamed=False, strict=True, raw=None, **more):
    raw = reply(name, said, streamed=streamed) if raw is None else raw
    return adapt(raw, profile=profile(name), streamed=streamed, strict=strict, **more)


# --- what was asked for ----------------------------------------------------------------------------


@pytest.mark.spec("S5-4.2", "S5-9", "S5-A")
@BOTH
@EACH
def test_a_call_is_native(name, streamed):
    found = adapted(name, Said(calls=(CALL,)), streamed=streamed)
    assert (found.status, found.failure_code, found.finish) == ("native", None, "tool_calls")
    (call,) = found.canonical_message.tool_calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Paris", "n": 2.5})
    assert call.source_model == model_of(name)
    assert json.loads(call.raw_arguments) == call.arguments
    assert found.canonical_message.role == "assistant"
    assert found.canonical_message.content == ""


@pytest.mark.spec("S5-4.4")
@BOTH
@pytest.mark.parametrize(
    "name", [n for n in NATIVE if n not in ("native_messages", "native_gemini")]
)
def test_keeps_the_very_text_of_the_arguments(name, streamed):
    call = adapted(name, Said(calls=(CALL,)), streamed=streamed).canonical_message.tool_calls[0]
    assert (call.id, call.raw_arguments) == (CALL[0], CALL[2])
    assert call.raw_payload == {"id": CALL[0], "name": CALL[1], "arguments": CALL[2]}


@EACH_TEXTUAL
def test_keeps_the_very_text_of_arguments_in_a_text(name):
    call = adapted(name, Said(calls=(CALL,))).canonical_message.tool_calls[0]
    assert call.raw_arguments == CALL[2]
    assert call.id.startswith("call_")


@pytest.mark.spec("S5-4.3")
@BOTH
@pytest.mark.parametrize("name", [n for n in PROFILES if n != "local_grammar"])
def test_text_and_several_calls_keep_their_order(name, streamed):
    found = adapted(name, Said(text="I look.", calls=(CALL, OTHER)), streamed=streamed)
    assert found.status == "native"
    assert found.canonical_message.content == "I look."
    assert [c.name for c in found.canonical_message.tool_calls] == ["get_weather", "list_files"]
    assert len({c.id for c in found.canonical_message.tool_calls}) == 2


@pytest.mark.spec("S5-4.2")
@BOTH
@EACH
@pytest.mark.parametrize(
    "text",
    [
        "Paris is nice.",
        "[PROTOCOL_ERROR: x]",
        "event: error",
        "data: [DONE]",
        '{"error": no',
        "é😀",
    ],
)
def test_text_is_text_whatever_it_looks_like(name, text, streamed):
    if name == "local_grammar" and text.startswith("{"):
        pytest.skip("there a brace begins a call")
    found = adapted(name, Said(text=text), streamed=streamed)
    assert (found.status, found.finish) == ("native", "stop")
    assert found.canonical_message.content == text
    assert found.canonical_message.tool_calls == ()


@BOTH
@EACH
def test_an_empty_reply_is_an_empty_message(name, streamed):
    found = adapted(name, Said(text=""), streamed=streamed)
    assert found.status == "native"
    assert found.canonical_message.content == ""


@pytest.mark.spec("S5-4.2")
@EACH
def test_unary_and_streamed_mean_the_same(name):
    said = Said(text="I look.", calls=(CALL, OTHER))
    said = Said(calls=(CALL,)) if name == "local_grammar" else said  # one call, and nothing else
    one, other = (adapted(name, said, streamed=streamed) for streamed in (False, True))
    assert one.canonical_message.content == other.canonical_message.content
    pairs = zip(one.canonical_message.tool_calls, other.canonical_message.tool_calls, strict=True)
    for call, same in pairs:
        assert (call.name, call.arguments) == (same.name, same.arguments)
    assert (one.finish, one.spent, one.model_fingerprint) == (
        other.finish,
        other.spent,
        other.model_fingerprint,
    )


@pytest.mark.spec("S5-4.2")
@BOTH
def test_google_may_stream_an_array(streamed):
    raw = reply("native_gemini", Said(calls=(CALL,)), streamed=True)
    array = b"[" + b",\r\n".join(line[6:] for line in raw.split(b"\n\n") if line) + b"]"
    found = adapted("native_gemini", Said(), streamed=True, raw=array)
    assert found.canonical_message.tool_calls[0].name == "get_weather"


# --- versions, ids, fingerprints, tokens -----------------------------------------------------------


@pytest.mark.spec("S5-4.2", "S5-2a")
def test_the_version_names_the_validator():
    assert importlib.metadata.version("jsonschema-rs") in ADAPTER_VERSION
    assert adapted("local_xml", Said(text="x")).adapter_version == ADAPTER_VERSION


@pytest.mark.spec("S5-4.2", "S5-2a")
@BOTH
@EACH
def test_the_same_bytes_give_the_same_result(name, streamed):
    said = Said(calls=(("", "get_weather", "{}"),))
    one, other = (adapted(name, said, streamed=streamed, salt="step-1") for _ in range(2))
    assert one == other
    later = adapted(name, said, streamed=streamed, salt="step-2")
    assert one.raw_hash == later.raw_hash
    for call, same in zip(
        one.canonical_message.tool_calls, later.canonical_message.tool_calls, strict=True
    ):
        if profile(name).protocol not in ("responses", "grok"):  # their items have ids of their own
            assert call.id != same.id  # equal replies of two steps are different calls


@BOTH
@pytest.mark.parametrize("name", ["native_chat_completion", "local_xml"])
def test_the_fingerprint_is_the_model_and_what_the_provider_says_of_it(name, streamed):
    assert (
        adapted(name, Said(text="x"), streamed=streamed).model_fingerprint
        == f"{model_of(name)}@fp_7"
    )


@EACH_NATIVE
def test_without_a_fingerprint_the_model_is_its_own(name):
    found = adapted(name, Said(text="x"), streamed=True).model_fingerprint
    assert found.partition("@")[0] == model_of(name)


@pytest.mark.spec("D43")
@BOTH
@EACH
def test_counts_what_the_provider_counted(name, streamed):
    spent = adapted(name, Said(text="x"), streamed=streamed, prompt_bytes=999).spent
    assert (spent.input_tokens, spent.output_tokens, spent.estimated) == (11, 7, False)


@pytest.mark.spec("D43")
@BOTH
@EACH
def test_missing_usage_is_estimated_too_high_and_marked(name, streamed):
    said = Said(text="x", usage=None)
    spent = adapted(name, said, streamed=streamed, prompt_bytes=101, max_output_tokens=40).spent
    assert (spent.input_tokens, spent.output_tokens, spent.estimated) == (51, 40, True)


# --- endings ---------------------------------------------------------------------------------------


@BOTH
@EACH
@pytest.mark.parametrize("end", ["length", "filter"])
def test_a_text_that_was_cut_off_says_so(name, end, streamed):
    found = adapted(name, Said(text="Paris is", finish=end), streamed=streamed)
    assert found.status == "native"
    expected = {"length": "length", "filter": "content_filter"}[end]
    if name == "native_messages" and end == "filter":
        expected = "refusal"
    assert found.finish == expected


@pytest.mark.spec("S5-4.2")
@BOTH
@EACH
@pytest.mark.parametrize("strict", [True, False])
def test_a_call_of_a_reply_that_was_cut_off_is_none(name, strict, streamed):
    said = Said(calls=(CALL,), finish="length")
    found = adapted(name, said, streamed=streamed, strict=strict)
    assert (found.status, found.failure_code) == ("rejected", "truncated_call")
    assert (found.canonical_message, found.finish) == (None, "length")


@BOTH
@EACH
def test_a_call_that_the_filter_cut_off_is_none(name, streamed):
    found = adapted(name, Said(calls=(CALL,), finish="filter"), streamed=streamed)
    if name == "native_messages":
        return  # its word for it is `refusal`, and it sends no calls then
    assert (found.status, found.failure_code) == ("rejected", "filtered_call")


@pytest.mark.spec("S5-4.2")
@EACH
@pytest.mark.parametrize("strict", [True, False])
def test_a_stream_that_was_cut_is_rejected(name, strict):
    said = Said(calls=(CALL,), text="" if name == "local_grammar" else "I look.")
    last = {"native_gemini": 1, "native_messages": 2}.get(name, 3 if "chat" in name else 1)
    if profile(name).protocol == "chat_completion":
        last = 3  # finish, usage, [DONE]
    raw = reply(name, said, streamed=True, cut=last)
    found = adapted(name, said, streamed=True, strict=strict, raw=raw)
    assert (found.status, found.failure_code) == ("rejected", "truncated_stream")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_refusal_is_an_answer_of_its_own(streamed):
    body = json.loads(reply("native_chat_completion", Said(text="x"), streamed=False))
    body["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I will not."}
    raw = json.dumps(body).encode()
    if streamed:
        body["choices"][0]["delta"] = body["choices"][0].pop("message")
        raw = b"data: " + json.dumps(body).encode() + b"\n\ndata: [DONE]\n\n"
    found = adapted("native_chat_completion", Said(), streamed=streamed, raw=raw)
    assert (found.status, found.finish) == ("native", "refusal")
    assert found.canonical_message.content == "I will not."


def test_the_first_choice_counts():
    body = json.loads(reply("native_chat_completion", Said(text="first"), streamed=False))
    second = {
        **body["choices"][0],
        "index": 1,
        "message": {"role": "assistant", "content": "second"},
    }
    body["choices"] = [second, body["choices"][0]]
    found = adapted("native_chat_completion", Said(), raw=json.dumps(body).encode())
    assert found.canonical_message.content == "first"


# --- what is rejected, in every mode ---------------------------------------------------------------

BAD_ARGUMENTS = {
    "": "arguments_not_an_object",
    "Paris": "arguments_not_an_object",
    "[1]": "arguments_not_an_object",
    '"{}"': "arguments_not_an_object",
    '{"a":1': "arguments_not_json",
    '{"a":1,"a":2}': "arguments_duplicate_key",
    '{"a":NaN}': "arguments_not_json",
    '{"a":1e400}': "arguments_number_out_of_range",
    r'{"a":"\ud83d"}': "arguments_lone_surrogate",
    '{"a":' + "[" * 100 + "]" * 100 + "}": "arguments_too_deep",
    '{"a":"' + "x" * MAX_BYTES + '"}': "arguments_too_large",
}


@pytest.mark.spec("S5-4.2", "S5-2a", "S5-9")
@BOTH
@pytest.mark.parametrize("name", ["native_chat_completion", "native_responses", "native_local"])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=lambda text: text[:20])
def test_malformed_arguments_are_rejected_and_never_mended(name, arguments, strict, streamed):
    said = Said(calls=(("c", "get_weather", arguments),))
    found = adapted(name, said, streamed=streamed, strict=strict)
    assert (found.status, found.failure_code) == ("rejected", BAD_ARGUMENTS[arguments])


@pytest.mark.spec("S5-4.2")
@BOTH
@pytest.mark.parametrize("name", ["native_messages", "native_gemini"])
@pytest.mark.parametrize("strict", [True, False])
def test_a_field_named_twice_is_seen_where_arguments_are_objects_on_the_wire(
    name, strict, streamed
):
    said = Said(calls=(("c", "get_weather", '{"city":"Paris","city":"Rome"}'),))
    found = adapted(name, said, streamed=streamed, strict=strict)
    assert found.status == "rejected"
    assert "duplicate_key" in found.failure_code


@BOTH
@EACH_TEXTUAL
@pytest.mark.parametrize("arguments", [a for a in BAD_ARGUMENTS if a], ids=lambda text: text[:20])
def test_malformed_calls_in_the_text_are_rejected(name, arguments, streamed):
    found = adapted(name, Said(calls=(("", "get_weather", arguments),)), streamed=streamed)
    assert (found.status, found.canonical_message) == ("rejected", None)
    assert "call" in found.failure_code


TEXT_CASES = {
    # syntax, text -> strict verdict, legacy verdict
    "trailing text": ("xml", "<tool_call>{c}</tool_call> Done.", "trailing_text", "trailing_text"),
    "a mark missing": ("xml", "<tool_call>{c}", "unclosed_call", "unclosed_call"),
    "a field too much": (
        "xml",
        '<tool_call>{"name":"a","arguments":{},"x":1}</tool_call>',
        "malformed_call",
        None,
    ),
    "a field too few": ("xml", '<tool_call>{"name":"a"}</tool_call>', "malformed_call", None),
    "another word for arguments": (
        "xml",
        '<tool_call>{"name":"a","args":{}}</tool_call>',
        "malformed_call",
        None,
    ),
    "arguments as text": (
        "xml",
        '<tool_call>{"name":"a","arguments":"{}"}</tool_call>',
        "malformed_call",
        None,
    ),
    "half a call": ("xml", '<tool_call>{"name":"a"', "malformed_call", None),
    "a second call that is broken": (
        "xml",
        "<tool_call>{c}</tool_call><tool_call>{",
        "malformed_call",
        None,
    ),
    "text between calls": (
        "xml",
        "<tool_call>{c}</tool_call> and <tool_call>{c}</tool_call>",
        "trailing_text",
        None,
    ),
    "a block that is no call": ("json_block", '```json\n{"a": 1}\n```', "malformed_call", None),
    "a block that is open": ("json_block", "```json\n{c}", "unclosed_call", "unclosed_call"),
    "text after a bare call": ("grammar", "{c} Done.", "unclosed_call", None),
}
TEXT_PROFILE = {"xml": "local_xml", "json_block": "local_json", "grammar": "local_grammar"}


@pytest.mark.spec("S5-4.2", "S5-2a")
@BOTH
@pytest.mark.parametrize("case", TEXT_CASES)
def test_what_a_text_does_wrong_has_a_name(case, streamed):
    syntax, text, strict_code, legacy_code = TEXT_CASES[case]
    text = text.replace("{c}", '{"name": "get_weather", "arguments": {"city": "Paris"}}')
    name = TEXT_PROFILE[syntax]
    if case == "text after a bare call":
        strict_code, legacy_code = "trailing_text", "trailing_text"
    found = adapted(name, Said(text=text), streamed=streamed)
    assert (found.status, found.failure_code) == ("rejected", strict_code)
    found = adapted(name, Said(text=text), streamed=streamed, strict=False)
    if legacy_code is None:
        assert found.status == "rejected"
    else:
        assert (found.status, found.failure_code) == ("recovered", legacy_code)
        assert found.canonical_message.tool_calls[0].arguments == {"city": "Paris"}


# --- what is recovered, outside of strict mode -----------------------------------------------------

WRITTEN = {
    "call_as_xml": 'Sure. <tool_call>{"name":"get_weather","arguments":{"city":"Paris"}}</tool_call>',
    "call_as_json_block": 'Sure.\n```json\n{"name":"get_weather","arguments":{"city":"Paris"}}\n```',
    "call_as_grammar": '{"name":"get_weather","arguments":{"city":"Paris"}}',
}
OWN = {
    "local_xml": "call_as_xml",
    "local_json": "call_as_json_block",
    "local_grammar": "call_as_grammar",
}


@pytest.mark.spec("S5-4.2", "S5-2a")
@BOTH
@EACH
@pytest.mark.parametrize("code", WRITTEN)
def test_a_call_in_another_syntax_is_text_in_strict_mode_and_recovered_outside(
    name, code, streamed
):
    if OWN.get(name) == code:
        return
    said = Said(text=WRITTEN[code])
    strict = adapted(name, said, streamed=streamed)
    assert (strict.status, strict.canonical_message.tool_calls) == ("native", ())
    loose = adapted(name, said, streamed=streamed, strict=False)
    assert (loose.status, loose.failure_code) == ("recovered", code)
    assert loose.canonical_message.tool_calls[0].arguments == {"city": "Paris"}
    assert loose.canonical_message.carried == ()


@BOTH
@pytest.mark.parametrize("name", ["native_chat_completion", "native_responses"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('```json\n{"city":"Paris"}\n```', "fenced_arguments"),
        ('{"city":"Paris"} ok', "trailing_text"),
    ],
)
def test_arguments_with_something_around_them(name, arguments, code, streamed):
    said = Said(calls=(("c", "get_weather", arguments),))
    assert adapted(name, said, streamed=streamed).status == "rejected"
    found = adapted(name, said, streamed=streamed, strict=False)
    assert (found.status, found.failure_code) == ("recovered", code)
    assert found.canonical_message.tool_calls[0].raw_arguments == '{"city":"Paris"}'


@BOTH
@EACH_TEXTUAL
def test_a_native_call_where_calls_are_written_into_the_text(name, streamed):
    raw = reply("native_chat_completion", Said(calls=(CALL,)), streamed=streamed)
    found = adapted(name, Said(), streamed=streamed, raw=raw)
    assert (found.status, found.failure_code) == ("rejected", "native_call")
    found = adapted(name, Said(), streamed=streamed, strict=False, raw=raw)
    assert (found.status, found.failure_code) == ("recovered", "native_call")


def test_an_unreadable_event():
    raw = reply("native_chat_completion", Said(calls=(CALL,)), streamed=True)
    raw = raw.replace(b"\n\n", b"\n\ndata: {not json\n\n", 1)
    found = adapted("native_chat_completion", Said(), streamed=True, raw=raw)
    assert (found.status, found.failure_code) == ("rejected", "unreadable_event")
    found = adapted("native_chat_completion", Said(), streamed=True, strict=False, raw=raw)
    assert (found.status, found.failure_code) == ("recovered", "unreadable_event")


# --- bytes that are no reply -----------------------------------------------------------------------


@pytest.mark.spec("S5-4.2")
@EACH
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "unreadable_reply"),
        (b"<html>502</html>", "unreadable_reply"),
        (b"[]", "unreadable_reply"),
        (b'{"a":1e999}', "unreadable_reply"),
        (b'{"error":{"message":"no"}}', "provider_error"),
        (b'{"error":"no"}', "provider_error"),
        (b"\xff\xfe", "unreadable_reply"),
        (b"[" * 200_000, "unreadable_reply"),
        (b'{"choices":' * 200_000, "unreadable_reply"),
    ],
)
def test_a_body_that_is_no_reply(name, raw, code):
    found = adapted(name, Said(), raw=raw)
    assert (found.status, found.failure_code) == ("rejected", code)


@EACH
def test_an_empty_stream_was_cut(name):
    assert adapted(name, Said(), streamed=True, raw=b"").failure_code == "truncated_stream"


def test_broken_characters_in_a_stream_are_not_replaced_in_silence():
    raw = reply("native_chat_completion", Said(text="Paris!!"), streamed=True)
    found = adapted(
        "native_chat_completion", Said(), streamed=True, raw=raw.replace(b"Paris", b"\xff")
    )
    assert (found.status, found.failure_code) == ("rejected", "invalid_utf8")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ({"id": "c", "type": "custom", "custom": {"name": "x", "input": "y"}}, "custom_tool_call"),
        ({"id": "c", "type": "web_search", "web_search": {}}, "foreign_call"),
        ({"id": "c", "type": "function", "function": {"arguments": "{}"}}, "malformed_name"),
        (
            {"id": "c", "type": "function", "function": {"name": "a b", "arguments": "{}"}},
            "malformed_name",
        ),
        (
            {"id": "c\ud800", "type": "function", "function": {"name": "a", "arguments": "{}"}},
            "malformed_id",
        ),
        (
            {"id": "c" * 999, "type": "function", "function": {"name": "a", "arguments": "{}"}},
            "malformed_id",
        ),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_calls_that_no_contract_can_offer(call, code, strict):
    body = json.loads(reply("native_chat_completion", Said(calls=(CALL,)), streamed=False))
    body["choices"][0]["message"]["tool_calls"] = [call]
    found = adapted("native_chat_completion", Said(), strict=strict, raw=json.dumps(body).encode())
    assert (found.status, found.failure_code) == ("rejected", code)


def test_a_provider_that_says_that_a_call_is_broken_is_believed():
    body = json.loads(reply("native_gemini", Said(text="x"), streamed=False))
    body["candidates"][0] = {"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}
    found = adapted("native_gemini", Said(), raw=json.dumps(body).encode())
    assert (found.status, found.failure_code) == ("rejected", "malformed_call")


def test_an_end_by_a_call_without_one():
    said = Said(text="I call.", finish="calls")
    found = adapted("native_chat_completion", said)
    assert (found.status, found.failure_code) == ("rejected", "missing_call")


@BOTH
def test_reasoning_travels_for_the_next_request_only(streamed):
    said = Said(reasoning="hm", calls=(CALL,))
    found = adapted("native_messages", said, streamed=streamed)
    parts = [part for message in found.canonical_message.carried for part in message.parts]
    assert [type(part) for part in parts] == [Reasoning, ToolCall]
    assert parts[0].seal.data == "c2ln"
    assert "hm" not in found.canonical_message.content
    assert all(part.source is None for part in parts)


# --- recorded traffic ------------------------------------------------------------------------------

# What a contract rightly refuses of replies that were recorded under other contracts.
_RIGHTLY = {
    "foreign_call",  # searches and other tools of the provider's own
    "custom_tool_call",
    "truncated_call",
    "arguments_not_json",  # cut off by a token limit whose word got lost
    "arguments_not_an_object",  # no arguments at all
    "malformed_call",
    "truncated_stream",
    "provider_error",
    "unreadable_reply",  # a stream that was recorded as one array
}


@pytest.mark.soak
@pytest.mark.spec("S5-9", "S5-2a")
@pytest.mark.skipif(not CORPUS.exists(), reason="the recorded traffic is not here")
@pytest.mark.parametrize("protocol_id", ["chat_completion", "responses", "messages", "gemini"])
def test_recorded_traffic_is_native_or_rightly_rejected(protocol_id):
    lines = (CORPUS / "index.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    records = [r for r in records if r["protocol"] == protocol_id and r["status"] == 200]
    records = [r for r in records if SOAK or r["tier"] == "core"]
    seen = {"native": 0, "rejected": 0}
    for record in records:
        told = json.loads((CORPUS / record["path"]).read_text("utf-8"))
        stream = "".join(told.get("sse_chunks") or ()) or told.get("sse")
        if stream is None and told.get("response") is None:
            continue
        raw = (stream or json.dumps(told["response"])).encode("utf-8", "surrogatepass")
        found = adapted(f"native_{protocol_id}", Said(), streamed=stream is not None, raw=raw)
        assert found == adapted(
            f"native_{protocol_id}", Said(), streamed=stream is not None, raw=raw
        )
        assert found.status == "native" or found.failure_code in _RIGHTLY, record["path"]
        seen[found.status] += 1
    assert seen["native"] > 2 * seen["rejected"] > 0
