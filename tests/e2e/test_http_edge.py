"""The HTTP edge as a caller without an SDK meets it: paths, keys, sites, limits, headers, models, counting."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from fakes.behaviours import BEHAVIOURS
from fakes.caller import CALLERS, Caller, assert_error_dialect, body, path
from fakes.gateway import CHANNEL_KEY, KEY, GatewayThread
from fakes.speakers import SPEAKERS
from fakes.upstream import FakeUpstream

OPENAI = ("chat_completion", "responses")


@pytest.fixture(scope="module")
def small_gateway(session_upstream: FakeUpstream) -> Iterator[GatewayThread]:
    """A gateway that takes small requests only."""
    gateway = GatewayThread(session_upstream, limits={"body_bytes": 4096, "header_bytes": 8192})
    yield gateway
    gateway.stop()


# --- health and the front door ---


def test_head_on_the_root_answers_without_a_body(caller):
    reply = caller.send("HEAD", "/", headers={})
    assert (reply.status, reply.raw) == (200, b"")


@pytest.mark.parametrize("target", ["/healthz", "/readyz", "/"])
def test_health_needs_no_key(caller, target):
    assert caller.send("GET", target, headers={}).status == 200


def test_ready_names_the_providers(caller):
    assert caller.get("/readyz").json["providers"] == len(SPEAKERS)


# --- models ---


def _all_models() -> set[str]:
    return {f"{kind}.{name}" for kind in SPEAKERS for name in BEHAVIOURS}


@pytest.mark.spec("D49")
def test_models_in_openai_shape(caller, upstream):
    listed = caller.get("/v1/models").json
    assert listed["object"] == "list"
    assert {row["id"] for row in listed["data"]} == _all_models() | {"globbed-one"}
    assert all(row["object"] == "model" for row in listed["data"])


@pytest.mark.spec("D49")
@pytest.mark.parametrize("header", ["anthropic_version", "x_api_key"])
def test_models_in_anthropic_shape(caller, upstream, header):
    value = KEY if header == "x_api_key" else "2023-06-01"
    listed = caller.get("/v1/models", **{header: value}).json
    assert {row["id"] for row in listed["data"]} == _all_models() | {"globbed-one"}
    assert all(row["type"] == "model" and row["created_at"] for row in listed["data"])
    assert listed["has_more"] is False
    assert listed["first_id"] == listed["data"][0]["id"]


@pytest.mark.spec("D49")
def test_models_in_google_shape(caller, upstream):
    listed = caller.get("/v1beta/models").json["models"]
    expected = {f"models/{name}" for name in _all_models() | {"globbed-one"}}
    assert {row["name"] for row in listed} == expected
    assert all("generateContent" in row["supportedGenerationMethods"] for row in listed)


def test_one_model_in_each_shape(caller):
    assert caller.get("/v1/models/messages.text").json["object"] == "model"
    theirs = caller.get("/v1/models/messages.text", anthropic_version="2023-06-01").json
    assert theirs["type"] == "model"
    assert caller.get("/v1beta/models/messages.text").json["name"] == "models/messages.text"


@pytest.mark.parametrize(
    ("target", "dialect"), [("/v1/models/x", "chat_completion"), ("/v1beta/models/x", "gemini")]
)
def test_a_model_nobody_has_is_404(caller, target, dialect):
    reply = caller.get(target)
    assert reply.status == 404
    assert_error_dialect(dialect, reply)


# --- keys ---


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer {KEY}"},
        {"x-api-key": KEY},
        {"x-goog-api-key": KEY},
    ],
    ids=["bearer", "lower-case-bearer", "x-api-key", "x-goog-api-key"],
)
def test_the_key_is_taken_from_whichever_header_an_sdk_sends(caller, upstream, protocol, headers):
    model = "chat_completion.text"
    data = json.dumps(body(protocol, model)).encode()
    assert caller.send("POST", path(protocol, model), data, headers).status == 200


@pytest.mark.spec("D18")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer sk-wrong-key-000000"},
        {"authorization": "Basic abc"},
        {"authorization": "Bearer"},
        {"x-api-key": KEY[:-1]},
        {"x-goog-api-key": "Ünïcode".encode().decode("latin-1")},
    ],
    ids=["none", "wrong", "basic", "empty", "prefix", "bytes"],
)
def test_without_a_valid_key_there_is_a_401_in_the_callers_dialect(
    caller, upstream, protocol, headers
):
    data = json.dumps(body(protocol, "chat_completion.text")).encode()
    reply = caller.send("POST", path(protocol, "chat_completion.text"), data, headers)
    assert reply.status == 401
    assert_error_dialect(protocol, reply)
    assert upstream.exchanges == []


@pytest.mark.parametrize("target", ["/v1/models", "/v1beta/models", "/v1/models/messages.text"])
def test_lists_need_a_key_too(caller, target):
    assert caller.send("GET", target, headers={}).status == 401


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_a_provider_gets_its_channels_key_and_never_the_callers(
    caller, upstream, protocol, provider
):
    caller.ask(protocol, f"{provider}.text", x_api_key=KEY, x_goog_api_key=KEY, cookie=f"k={KEY}")
    sent = upstream.last
    assert not any(KEY in value for value in sent.headers.values())
    assert KEY not in sent.target
    assert KEY.encode() not in sent.raw
    key = CHANNEL_KEY.format(provider)
    header = {"messages": "x-api-key", "gemini": "x-goog-api-key"}.get(provider, "authorization")
    assert sent.headers[header] in (key, f"Bearer {key}")
    assert {"cookie", "x-forwarded-for"}.isdisjoint(sent.headers)


# --- sites ---


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "evil.example:80@127.0.0.1"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.example"},
    ],
    ids=["host", "host-that-starts-well", "host-with-user", "origin", "null-origin", "origin-that-starts-well"],
)  # fmt: skip
def test_a_web_page_elsewhere_does_not_reach_the_gateway(caller, upstream, headers):
    data = json.dumps(body("chat_completion", "chat_completion.text")).encode()
    reply = caller.send("POST", "/v1/chat/completions", data, {**caller.headers, **headers})
    assert reply.status == 403
    assert_error_dialect("chat_completion", reply)
    assert upstream.exchanges == []


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:1"])
def test_pages_of_this_machine_may_call(caller, upstream, origin):
    assert caller.ask("chat_completion", "chat_completion.text", origin=origin).status == 200


# --- bodies that are none ---


@pytest.mark.spec("D18")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"42",
        b"{} {}",
        b'{"model": NaN}',
        b"\xff\xfe{}",
        b'{"model": "\xe6\x9d"}',
        b"[" * 100_000,
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
    ],
    ids=["empty", "blank", "half", "null", "list", "string", "number", "two", "nan", "utf16",
         "invalid-utf8", "brackets", "deep"],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_a_400(caller, upstream, protocol, data):
    reply = caller.send("POST", path(protocol, "chat_completion.text"), data)
    assert reply.status == 400
    assert_error_dialect(protocol, reply)
    assert upstream.exchanges == []


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_deep_nesting_in_an_unknown_field_is_a_400_or_passes(caller, upstream, protocol, provider):
    """As deep as the reader takes it: the writer must not fall over."""
    deep: object = 1
    for _ in range(400):
        deep = [deep]
    sent = {**body(protocol, f"{provider}.text"), "metadata_of_mine": deep}
    reply = caller.post(path(protocol, f"{provider}.text"), sent)
    assert reply.status in (200, 400)


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("coding", ["gzip", "br", "deflate"])
def test_a_compressed_body_is_refused_in_words(caller, upstream, protocol, coding):
    data = gzip.compress(json.dumps(body(protocol, "chat_completion.text")).encode())
    headers = {**caller.headers, "content-encoding": coding}
    reply = caller.send("POST", path(protocol, "chat_completion.text"), data, headers)
    assert reply.status == 400
    assert "content-encoding" in assert_error_dialect(protocol, reply)["message"]


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_a_body_beyond_the_limit_is_a_413(small_gateway, upstream, protocol, declared):
    caller = Caller(small_gateway.port)
    data = json.dumps(body(protocol, "chat_completion.text", user="x" * 9000)).encode()
    # An iterable is sent in chunks, without a length.
    sent = data if declared else iter([data[:5000], data[5000:]])
    reply = caller.send("POST", path(protocol, "chat_completion.text"), sent)
    assert reply.status == 413
    assert "4096" in assert_error_dialect(protocol, reply)["message"]
    assert upstream.exchanges == []


def test_headers_beyond_the_limit_are_a_431(small_gateway):
    reply = Caller(small_gateway.port).get("/healthz", x_long="y" * 9000)
    assert reply.status == 431


# --- requests of the wrong shape ---

_USER = {"role": "user", "content": "hi"}
_CHAT = {"model": "chat_completion.text", "messages": [_USER]}
_RESPONSES = {"model": "chat_completion.text", "input": "hi"}
_MESSAGES = {"model": "chat_completion.text", "max_tokens": 9, "messages": [_USER]}
_GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}

# protocol, what is changed, the name that the error must mention
BAD_REQUESTS = [
    ("chat_completion", {"model": None}, "model"),
    ("chat_completion", {"model": 7}, "model"),
    ("chat_completion", {"model": ""}, "model"),
    ("chat_completion", {"model": ["a"]}, "model"),
    ("chat_completion", {"messages": None}, "messages"),
    ("chat_completion", {"messages": "hi"}, "messages"),
    ("chat_completion", {"messages": {}}, "messages"),
    ("chat_completion", {"messages": ["hi"]}, "messages[0]"),
    ("chat_completion", {"messages": [None]}, "messages[0]"),
    ("chat_completion", {"messages": [_USER, {"content": "x"}]}, "messages[1]"),
    ("chat_completion", {"messages": [{"role": "robot", "content": "x"}]}, "role"),
    ("chat_completion", {"messages": [{"role": 3, "content": "x"}]}, "role"),
    ("chat_completion", {"messages": [{"role": "user", "content": 5}]}, "content"),
    ("chat_completion", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "text"),
    ("chat_completion", {"messages": [{"role": "assistant", "tool_calls": "x"}]}, "tool_calls"),
    ("chat_completion", {"messages": [{"role": "assistant", "tool_calls": [1]}]}, "tool_calls[0]"),
    ("chat_completion", {"stream": "yes"}, "stream"),
    ("chat_completion", {"temperature": "hot"}, "temperature"),
    ("chat_completion", {"temperature": True}, "temperature"),
    ("chat_completion", {"max_tokens": "many"}, "max_tokens"),
    ("chat_completion", {"max_tokens": 1.5}, "max_tokens"),
    ("chat_completion", {"n": "two"}, "n"),
    ("chat_completion", {"stop": 5}, "stop"),
    ("chat_completion", {"stop": [5]}, "stop"),
    ("chat_completion", {"tools": "all"}, "tools"),
    ("chat_completion", {"tools": ["x"]}, "tools[0]"),
    ("chat_completion", {"tools": [{"type": "function"}]}, "function"),
    ("chat_completion", {"tools": [{"type": "function", "function": {}}]}, "name"),
    ("chat_completion", {"tool_choice": 5}, "tool_choice"),
    ("chat_completion", {"response_format": "json"}, "response_format"),
    ("chat_completion", {"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ("chat_completion", {"stream_options": 3}, "stream_options"),
    ("responses", {"model": None}, "model"),
    ("responses", {"model": 7}, "model"),
    ("responses", {"input": 5}, "input"),
    ("responses", {"input": {}}, "input"),
    ("responses", {"input": ["x"]}, "input[0]"),
    ("responses", {"input": [{"role": "robot", "content": "x"}]}, "role"),
    ("responses", {"input": [{"role": "user", "content": 5}]}, "content"),
    ("responses", {"input": [{"role": "user", "content": ["x"]}]}, "content[0]"),
    ("responses", {"input": [{"type": "function_call_output", "output": "x"}]}, "call_id"),
    ("responses", {"input": [{"type": "function_call", "name": "x"}]}, "call_id"),
    ("responses", {"input": [{"type": 5}]}, "type"),
    ("responses", {"instructions": 5}, "instructions"),
    ("responses", {"stream": "yes"}, "stream"),
    ("responses", {"temperature": "hot"}, "temperature"),
    ("responses", {"max_output_tokens": "many"}, "max_output_tokens"),
    ("responses", {"tools": "all"}, "tools"),
    ("responses", {"tools": ["x"]}, "tools[0]"),
    ("responses", {"tools": [{"type": "function"}]}, "name"),
    ("responses", {"tool_choice": 5}, "tool_choice"),
    ("responses", {"reasoning": "much"}, "reasoning"),
    ("responses", {"text": "json"}, "text"),
    ("messages", {"model": None}, "model"),
    ("messages", {"model": 7}, "model"),
    ("messages", {"max_tokens": "many"}, "max_tokens"),
    ("messages", {"messages": None}, "messages"),
    ("messages", {"messages": "hi"}, "messages"),
    ("messages", {"messages": [{"role": "robot", "content": "x"}]}, "role"),
    ("messages", {"messages": [{"content": "x"}]}, "role"),
    ("messages", {"messages": [{"role": "user", "content": 5}]}, "content"),
    ("messages", {"messages": [{"role": "user"}]}, "content"),
    ("messages", {"messages": [{"role": "user", "content": ["x"]}]}, "content[0]"),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "text"),
    ("messages", {"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "type"),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "tool_use_id"),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "content[0]"),
    ("messages", {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]}, "content[0]"),
    ("messages", {"system": 5}, "system"),
    ("messages", {"system": ["x"]}, "system"),
    ("messages", {"stream": "yes"}, "stream"),
    ("messages", {"temperature": "hot"}, "temperature"),
    ("messages", {"tools": "all"}, "tools"),
    ("messages", {"tools": ["x"]}, "tools[0]"),
    ("messages", {"tools": [{"input_schema": {}}]}, "name"),
    ("messages", {"tool_choice": "auto"}, "tool_choice"),
    ("messages", {"thinking": "on"}, "thinking"),
    ("gemini", {"contents": None}, "contents"),
    ("gemini", {"contents": 5}, "contents"),
    ("gemini", {"contents": [5]}, "contents[0]"),
    ("gemini", {"contents": [{"role": "robot", "parts": []}]}, "role"),
    ("gemini", {"contents": [{"role": "user", "parts": [{"text": 5}]}]}, "text"),
    ("gemini", {"contents": [{"role": "user", "parts": [{"inlineData": 5}]}]}, "inlineData"),
    ("gemini", {"contents": [{"role": "model", "parts": [{"functionCall": 5}]}]}, "functionCall"),
    ("gemini", {"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]}, "name"),
    ("gemini", {"systemInstruction": 5}, "systemInstruction"),
    ("gemini", {"generationConfig": 5}, "generationConfig"),
    ("gemini", {"generationConfig": {"temperature": "hot"}}, "temperature"),
    ("gemini", {"generationConfig": {"maxOutputTokens": "many"}}, "maxOutputTokens"),
    ("gemini", {"tools": 5}, "tools"),
    ("gemini", {"tools": ["x"]}, "tools[0]"),
    ("gemini", {"tools": [{"functionDeclarations": [{}]}]}, "name"),
    ("gemini", {"toolConfig": 5}, "toolConfig"),
]  # fmt: skip


def _bad_id(row: tuple) -> str:
    return f"{row[0]}-{json.dumps(row[1])}"


@pytest.mark.spec("D18")
@pytest.mark.parametrize("row", BAD_REQUESTS, ids=_bad_id)
def test_a_wrong_type_is_a_400_that_names_the_field(caller, upstream, row):
    protocol, change, name = row
    good = {
        "chat_completion": _CHAT,
        "responses": _RESPONSES,
        "messages": _MESSAGES,
        "gemini": _GEMINI,
    }
    bad = {**good[protocol], **change}

    reply = caller.post(path(protocol, "chat_completion.text"), bad)

    assert reply.status == 400, reply.raw
    error = assert_error_dialect(protocol, reply)
    assert name in error["message"] or name in str(error.get("param"))
    assert upstream.exchanges == []


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        ("chat_completion", {"messages": [{"role": "user", "content": ["hello"]}]}),
        ("messages", {"messages": ["hello"]}),
        ("gemini", {"contents": ["hello"]}),
        ("gemini", {"contents": {"parts": {"text": "hello"}}}),
        ("gemini", {"contents": [{"role": "user", "parts": "hello"}]}),
        ("gemini", {"contents": [{"role": "user", "parts": ["hello"]}]}),
    ],
)
def test_a_bare_string_where_an_object_is_due_is_read_as_text_or_refused(
    caller, upstream, protocol, change
):
    model = "grok.text"  # a protocol that nobody here speaks, so that nothing is just passed on
    reply = caller.post(path(protocol, model), {**body(protocol, model), **change})
    if reply.status == 200:
        assert upstream.last.heard.said == [("user", "hello")]
    else:
        assert reply.status == 400
        assert_error_dialect(protocol, reply)


@pytest.mark.spec("D18")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("value", [None, True, 3, 2.5, "x", [], [1], {}, {"a": 1}], ids=json.dumps)
def test_no_value_of_any_field_makes_the_gateway_stumble(
    caller, upstream, protocol, provider, value
):
    """Every field of the protocol with every type of JSON: an answer or a 4xx, never a 500."""
    for field in FIELDS[protocol]:
        sent = body(protocol, f"{provider}.text")
        reply = caller.post(path(protocol, f"{provider}.text"), {**sent, field: value})
        assert reply.status < 500, (field, reply.raw)


FIELDS = {
    "chat_completion": ("messages", "tools", "tool_choice", "response_format", "stop", "n", "seed",
        "reasoning_effort", "reasoning", "max_tokens", "max_completion_tokens", "metadata", "user",
        "logit_bias", "logprobs", "top_logprobs", "modalities", "audio", "prediction", "functions",
        "function_call", "service_tier", "verbosity", "web_search_options", "cache_control"),
    "responses": ("input", "instructions", "tools", "tool_choice", "text", "reasoning", "include",
        "metadata", "max_output_tokens", "parallel_tool_calls", "truncation", "top_logprobs",
        "prompt_cache_key", "safety_identifier", "service_tier", "user", "max_tool_calls", "store"),
    "messages": ("messages", "system", "tools", "tool_choice", "thinking", "metadata", "max_tokens",
        "stop_sequences", "top_k", "top_p", "container", "mcp_servers", "context_management",
        "output_config", "service_tier", "cache_control"),
    "gemini": ("contents", "systemInstruction", "system_instruction", "tools", "toolConfig",
        "tool_config", "generationConfig", "generation_config", "safetySettings", "cachedContent",
        "labels"),
}  # fmt: skip


# --- paths and models ---


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/nowhere", 404),
        ("POST", "/v1/nothing", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("POST", "/v1/chat/../models", 404),
        ("POST", "//v1/models", 404),
        ("GET", "/v1/chat/completions", 405),
        ("PUT", "/v1/messages", 405),
        ("DELETE", "/v1/responses", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1beta/models/x:generateContent", 404),
    ],
)
def test_unknown_paths_and_methods_are_refused_in_json(caller, method, target, status):
    reply = caller.send(method, target, b"{}" if method != "GET" else None)
    assert reply.status == status
    assert reply.json["error"]["message"]


@pytest.mark.spec("D18", "ROUT-8")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_an_unknown_model_is_404_in_the_callers_dialect(caller, upstream, protocol, stream):
    reply = caller.ask(protocol, "no-such-model", stream=stream)
    assert reply.status == 404
    assert "no-such-model" in assert_error_dialect(protocol, reply)["message"]


def test_a_model_with_slashes_and_colons_is_found_in_googles_path(caller, upstream):
    reply = caller.post("/v1beta/models/globbed-a%2Fb%3Ac:generateContent", _GEMINI)
    assert upstream.last.model == "globbed-a/b:c"
    assert reply.status == 404  # the provider's own word


# --- reply headers and losses ---


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.spec("T41")
def test_a_reply_tells_its_route(caller, upstream, protocol, provider, stream):
    reply = caller.ask(protocol, f"{provider}.text", stream=stream)
    assert reply.headers["x-request-id"]
    assert reply.headers["x-monoize-provider"] == provider
    assert reply.headers["x-monoize-channel"] == f"{provider}-main"
    assert reply.headers["x-monoize-attempts"] == "1"
    assert reply.headers["x-monoize-translation"] == "lossless"
    assert float(reply.headers["x-monoize-overhead-ms"]) >= 0


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("status", [400, 503])
def test_a_failure_tells_its_route_too(caller, upstream, status, stream):
    reply = caller.ask("messages", f"gemini.status_{status}", stream=stream)
    assert reply.status >= 400
    assert reply.headers["x-monoize-provider"] == "gemini"
    assert reply.headers["x-monoize-attempts"] == "1"


def test_every_request_has_an_id_of_its_own(caller):
    ids = {caller.get("/nowhere").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


def test_a_loss_is_named_and_a_strict_caller_refuses_it(caller, upstream):
    sent = body("messages", "chat_completion.text", top_k=5, metadata_of_mine=1)
    lossy = caller.post("/v1/messages", sent)
    assert lossy.status == 200
    assert lossy.headers["x-monoize-translation"] == "lossy; dropped=top_k"
    upstream.forget()

    refused = caller.post("/v1/messages", sent, x_monoize_strict="true")
    assert refused.status == 400
    assert "top_k" in assert_error_dialect("messages", refused)["message"]
    assert upstream.exchanges == []


@pytest.mark.parametrize("protocol", CALLERS)
def test_a_strict_caller_whose_request_fits_is_served(caller, upstream, protocol):
    for provider in SPEAKERS:
        assert caller.ask(protocol, f"{provider}.text", x_monoize_strict="true").status == 200


@pytest.mark.spec("T35")
@pytest.mark.parametrize("provider", SPEAKERS)
def test_beta_flags_travel_to_their_own_vendor_only(caller, upstream, provider):
    beta = {"anthropic_beta": "interleaved-thinking-2025-05-14", "anthropic_version": "2023-06-01"}
    caller.ask("messages", f"{provider}.text", **beta, openai_beta="x=1", x_mine="y")
    sent = upstream.last.headers
    own = provider == "messages"
    assert sent.get("anthropic-beta") == ("interleaved-thinking-2025-05-14" if own else None)
    assert ("anthropic-version" in sent) == own
    assert {"openai-beta", "x-mine"}.isdisjoint(sent)


@pytest.mark.spec("T35")
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("protocol", OPENAI)
def test_openai_flags_travel_to_their_own_protocol_only(caller, upstream, protocol, provider):
    caller.ask(protocol, f"{provider}.text", openai_beta="x=1", anthropic_beta="y")
    same = provider == protocol or (protocol, provider) == ("responses", "grok")
    sent = upstream.last.headers
    assert "anthropic-beta" not in sent
    if not same:
        assert "openai-beta" not in sent


@pytest.mark.spec("T14")
def test_providers_are_asked_not_to_compress_and_proxies_not_to_buffer(caller, upstream):
    reply = caller.ask("chat_completion", "messages.text", stream=True)
    assert upstream.last.headers["accept-encoding"] == "identity"
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["cache-control"] == "no-cache"


# --- the end of streams ---


@pytest.mark.spec("T10")
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("protocol", CALLERS)
def test_done_is_written_once_for_chat_and_never_for_others(caller, upstream, protocol, provider):
    events = caller.ask(protocol, f"{provider}.text", stream=True).events
    marks = [n for n, event in enumerate(events) if event.data == "[DONE]"]
    assert marks == ([len(events) - 1] if protocol == "chat_completion" else [])


@pytest.mark.spec("T8")
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not-asked"])
def test_a_usage_chunk_comes_exactly_when_it_was_asked_for(caller, upstream, provider, asked):
    options = {"stream_options": {"include_usage": True}} if asked else {}
    sent = body("chat_completion", f"{provider}.text", stream=True, **options)
    events = caller.post("/v1/chat/completions", sent).events
    chunks = [event.json for event in events if event.data != "[DONE]"]
    with_usage = [chunk for chunk in chunks if chunk.get("usage")]
    assert len(with_usage) == (1 if asked else 0)
    if asked:
        assert with_usage[0]["usage"]["total_tokens"] == 60


@pytest.mark.parametrize("provider", SPEAKERS)
def test_google_streams_are_a_json_array_without_alt_sse(caller, upstream, provider):
    model = f"{provider}.text"
    reply = caller.post(f"/v1beta/models/{model}:streamGenerateContent", _GEMINI)
    assert reply.headers["content-type"].startswith("application/json")
    parts = [
        p
        for answer in reply.json
        for p in answer["candidates"][0].get("content", {}).get("parts", [])
    ]
    assert "".join(p.get("text", "") for p in parts) == "Grüße aus 東京 🌏: all good."


@pytest.mark.spec("D16")
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("protocol", CALLERS)
def test_replies_name_the_model_that_the_caller_asked_for(caller, upstream, protocol, provider):
    model = f"{provider}.text"
    raw = b"".join(caller.ask(protocol, model, stream=s).raw for s in (False, True))
    key = "modelVersion" if protocol == "gemini" else "model"
    assert f'"{key}":"{model}"'.encode() in raw.replace(b": ", b":")
    assert upstream.last.model == "text"
    assert f'"{key}":"text"'.encode() not in raw.replace(b": ", b":")


@pytest.mark.spec("T30")
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_citations_arrive_all_or_their_loss_is_told(caller, upstream, protocol, provider, stream):
    reply = caller.ask(protocol, f"{provider}.citations", stream=stream)
    urls = (b"https://example.org/tower", b"https://example.net/heights")
    told = (
        "lossy" in reply.headers["x-monoize-translation"]
        or b": monoize-translation lossy" in reply.raw
    )
    assert all(url in reply.raw for url in urls) or told


# --- what a provider refuses ---


@pytest.mark.spec("D18", "D9", "ROUT-6")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_a_providers_own_no_is_passed_on(caller, upstream, protocol, provider, stream):
    for status in (400, 401, 403, 404, 413, 422):
        reply = caller.ask(protocol, f"{provider}.status_{status}", stream=stream)
        assert reply.status == status
        assert f"the provider says {status}" in assert_error_dialect(protocol, reply)["message"]


@pytest.mark.spec("D18", "D9", "ROUT-8")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_what_might_work_elsewhere_is_a_502_when_there_is_nobody_else(
    caller, upstream, protocol, provider, stream
):
    for status in (409, 429, 500, 503, 529):
        reply = caller.ask(protocol, f"{provider}.status_{status}", stream=stream)
        assert reply.status == 502
        assert f"the provider says {status}" in assert_error_dialect(protocol, reply)["message"]


@pytest.mark.parametrize("protocol", CALLERS)
def test_a_caller_of_the_same_protocol_gets_the_refusal_unchanged(caller, upstream, protocol):
    reply = caller.ask(protocol, f"{protocol}.status_400")
    assert reply.json == SPEAKERS[protocol].error(400, "the provider says 400")


# --- counting ---


@pytest.mark.parametrize("provider", SPEAKERS)
def test_tokens_are_counted_by_the_provider_or_estimated_and_marked(caller, upstream, provider):
    counts = provider in ("messages", "gemini", "responses")
    anthropic = caller.post("/v1/messages/count_tokens", body("messages", f"{provider}.text"))
    google = caller.post(f"/v1beta/models/{provider}.text:countTokens", _GEMINI)
    assert anthropic.status == google.status == 200
    for reply, key in ((anthropic, "input_tokens"), (google, "totalTokens")):
        assert reply.json[key] == 4711 if counts else 0 < reply.json[key] < 100
        assert (reply.headers.get("x-monoize-estimated") == "true") is not counts
        assert bool(reply.json.get("estimated")) is not counts
    assert len(upstream.exchanges) == (2 if counts else 0)


def test_counting_needs_no_output_limit_and_takes_googles_wrapped_request(caller, upstream):
    sent = {"model": "messages.text", "messages": [_USER]}
    assert caller.post("/v1/messages/count_tokens", sent).json["input_tokens"] == 4711
    wrapped = {"generateContentRequest": {"model": "models/gemini.text", **_GEMINI}}
    reply = caller.post("/v1beta/models/gemini.text:countTokens", wrapped)
    assert (reply.status, reply.json.get("totalTokens")) == (200, 4711)


@pytest.mark.parametrize(
    ("target", "dialect"),
    [("/v1/messages/count_tokens", "messages"), ("/v1beta/models/x:countTokens", "gemini")],
)
def test_counting_for_an_unknown_model_is_404(caller, target, dialect):
    sent = {**_GEMINI, "model": "x", "messages": [_USER]} if dialect == "messages" else _GEMINI
    reply = caller.post(target, sent)
    assert reply.status == 404
    assert_error_dialect(dialect, reply)


# --- the dry run ---


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_the_dry_run_shows_what_a_call_would_send(caller, upstream, protocol, provider):
    model = f"{provider}.text"
    shown = caller.post(
        "/v1/translate", {"from": protocol, "model": model, "request": body(protocol, model)}
    ).json
    caller.ask(protocol, model)

    assert (shown["from"], shown["to"], shown["lossless"]) == (protocol, provider, True)
    assert shown["body"] == upstream.last.body
    assert shown["path"].partition("?")[0].endswith(upstream.last.path.partition("/")[2])


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ({}, "request"),
        ({"request": 5}, "request"),
        ({"from": "klingon", "request": {}}, "from"),
        ({"from": "messages", "to": "klingon", "request": body("messages", "messages.text")}, "to"),
        ({"from": "messages", "request": {}, "wish": 1}, "wish"),
        ({"from": "messages", "model": 5, "request": body("messages", "messages.text")}, "model"),
        ({"from": ["messages"], "request": {}}, "from"),
    ],
)
def test_a_bad_dry_run_is_a_400_that_names_the_field(caller, sent, name):
    reply = caller.post("/v1/translate", sent)
    assert reply.status == 400
    assert name in reply.json["error"]["message"]
