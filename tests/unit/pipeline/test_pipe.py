"""PIPE-1 from end to end without a network: which step sees what, in which order."""

import json

import msgspec
import pytest

from fakes.bench import Bench, Said, provider, says, status, well
from fakes.caller import CALLERS, body, end_of, text_of
from fakes.speakers import SPEAKERS
from monoize.errors import (
    ConfigError,
    Forbidden,
    InvalidRequest,
    LossRefused,
    ModelNotFound,
    MonoizeError,
    UnsupportedByTarget,
    UpstreamExhausted,
    UpstreamRefused,
)
from monoize.transform import WholeResponseTransform, transforms
from monoize.urp import USERNAME_FIELD

KEY = {"name": "dev", "key": "sk-dev-0123456789", "username": "ann"}
GREETING = "Grüße aus 東京 🌏: all good."


def rule(transform, phase="request", models=None, **config):
    return {"transform": transform, "phase": phase, "models": models, "config": config}


def gateway(*providers, scripts=None, key=None, **settings):
    keys = [{**KEY, **(key or {})}]
    return Bench({"providers": list(providers), "keys": keys, "settings": settings}, scripts)


# --- the order of the steps ---


@pytest.mark.spec("PIPE-1", "PIPE-3", "TF-3")
async def test_key_rules_come_before_provider_rules_and_the_redirect_between():
    """Each rule appends what it sees, so the upstream's model name tells the order."""
    key = {
        "transforms": [
            rule("reasoning_effort_to_model_suffix", rules=[{"pattern": "a", "suffix": "-key"}])
        ]
    }
    mine = provider(
        "p",
        models={"a-key": {"redirect": "upstream"}},
        transforms=[
            rule(
                "reasoning_effort_to_model_suffix", rules=[{"pattern": "upstream", "suffix": "-p"}]
            )
        ],
    )
    bench = gateway(mine, key=key)
    reply = await bench.ask("a", key="dev", reasoning_effort="low")
    assert bench.sent[0].body["model"] == "upstream-p"
    assert reply.json["model"] == "a"  # PIPE-1b
    assert bench.trace.upstream_model == "upstream-p"


@pytest.mark.spec("PIPE-1", "PIPE-1b", "D16")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("caller", CALLERS)
async def test_replies_name_the_model_that_the_caller_sent(caller, kind, stream):
    bench = gateway(provider("p", kind, models={"gpt-5": {"redirect": "vendor-name"}}))
    reply = await bench.ask("gpt-5-high", caller, stream=stream, key="dev")
    assert "vendor-name" in (bench.sent[0].call.url + json.dumps(bench.sent[0].body))
    assert b"gpt-5-high" in reply.raw
    assert b"vendor-name" not in reply.raw
    assert end_of(caller, reply, stream=stream) == "complete"


@pytest.mark.spec("PIPE-1", "STR-4", "D5")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
async def test_provider_response_rules_come_before_the_keys(stream):
    """The provider's rule makes think tags of reasoning, the key's makes reasoning of think tags again."""
    there = provider("p", transforms=[rule("reasoning_to_think_xml", "response", tag="think")])
    back = {"transforms": [rule("think_xml_to_reasoning", "response", tag="think")]}
    plain = gateway(there, scripts={"p": says("reasoning")})
    shown = await plain.ask("m", stream=stream, key="dev")
    assert "<think>First the weather" in text_of("chat_completion", shown, stream=stream)

    both = gateway(there, scripts={"p": says("reasoning")}, key=back)
    reply = await both.ask("m", stream=stream, key="dev")
    assert "<think>" not in reply.raw.decode()
    assert "First the weather, 先に天気. " in reply.raw.decode()
    assert text_of("chat_completion", reply, stream=stream) == ""


@pytest.mark.spec("PIPE-1b", "D16")
@pytest.mark.parametrize(
    ("models", "applies"), [(["gpt-5"], True), (["vendor-*"], False), (["gpt-5-high"], False)]
)
async def test_provider_and_response_rules_match_the_name_after_the_suffix_and_before_the_redirect(
    models, applies
):
    mine = provider(
        "p",
        models={"gpt-5": {"redirect": "vendor-name"}},
        transforms=[
            rule("override_max_tokens", models=models, value=77),
            rule("set_field", "response", models=models, path="seen", value="yes"),
        ],
    )
    bench = gateway(
        mine,
        key={"transforms": [rule("set_field", "response", models=models, path="too", value=1)]},
    )
    reply = await bench.ask("gpt-5-high", key="dev")
    assert (bench.sent[0].body.get("max_completion_tokens") == 77) is applies
    assert ("seen" in reply.json, "too" in reply.json) == (applies, applies)


@pytest.mark.spec("TF-4", "D16")
async def test_key_request_rules_match_the_name_as_it_stands():
    key = {
        "transforms": [
            rule("override_max_tokens", models=["gpt-5-high"], value=11),
            rule("override_max_tokens", models=["gpt-5"], value=22),
        ]
    }
    bench = gateway(provider("p", models={"gpt-5": {}}), key=key)
    await bench.ask("gpt-5-high", key="dev")
    assert bench.sent[0].body["max_completion_tokens"] == 11


@pytest.mark.spec("ENC-1", "PIPE-1")
async def test_without_a_rule_a_call_in_the_providers_protocol_is_byte_honest():
    bench = gateway(provider("p"))
    raw = b'{ "model":"m","messages":[{"role":"user","content":"hi"}] , "temperature": 1.0 }'
    incoming = msgspec.structs.replace(bench.incoming(json.loads(raw), key="dev"), raw=raw)
    reply = await bench.send(incoming)
    assert bench.sent[0].call.body == raw
    assert reply.raw == b"".join(bench.sent[0].reply.pieces)


# --- who calls (CTX) ---

SPIES = [rule("auto_cache_user_id")]
MARKED = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
    }
]


@pytest.mark.spec("CTX-1", "CTX-2", "DEF-4")
@pytest.mark.parametrize("scope", ["key", "provider"])
async def test_rules_of_both_scopes_know_the_user_and_the_provider_does_not(scope):
    rules = {"transforms": SPIES}
    mine = provider("p", "messages", **(rules if scope == "provider" else {}))
    bench = gateway(mine, key=rules if scope == "key" else None)
    await bench.ask("m", "messages", key="dev", messages=MARKED)
    assert bench.sent[0].body["metadata"] == {"user_id": "ann"}
    assert USERNAME_FIELD.encode() not in bench.sent[0].call.body


@pytest.mark.spec("CTX-3")
async def test_a_key_without_a_user_tells_rules_nothing():
    bench = gateway(provider("p", "messages", transforms=SPIES), key={"username": None})
    await bench.ask("m", "messages", key="dev", messages=MARKED)
    assert "metadata" not in bench.sent[0].body


@pytest.mark.spec("CTX-1", "CTX-2")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(
    "rules", [[], SPIES, [rule("force_stream", enabled=True)]], ids=["none", "spy", "force"]
)
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("caller", CALLERS)
async def test_the_users_name_reaches_no_provider_under_its_inner_name(caller, kind, rules, stream):
    """Not the gateway's own, not one that a caller invents, on no path: tried, failed forward, counted, dry."""
    bench = gateway(
        provider("bad", kind),
        provider("p", kind, transforms=rules),
        scripts={"bad": status(503)},
        key={"transforms": rules},
    )
    forged = {USERNAME_FIELD: "mallory", "__monoize_other": 1}
    reply = await bench.ask("m", caller, stream=stream, key="dev", **forged)
    assert len(bench.sent) == 2
    for sent in bench.sent:
        assert b"__monoize" not in sent.call.body
        assert b"mallory" not in sent.call.body
    assert "__monoize_username" in reply.headers["x-monoize-translation"]
    wire = {"from": caller, "model": "m", "request": {**body(caller, "m"), **forged}}
    assert "__monoize" not in json.dumps(bench.translate(wire, "dev")["body"])


@pytest.mark.spec("CTX-2")
async def test_counting_tokens_tells_nobody_who_asks():
    bench = gateway(
        provider("p", "messages"),
        scripts={"p": lambda _: Said(pieces=(b'{"input_tokens": 5}',))},
    )
    wire = {"model": "m", "messages": MARKED, USERNAME_FIELD: "mallory"}
    reply = await bench.count(bench.incoming(wire, "messages", key="dev"))
    assert reply.json == {"input_tokens": 5}
    assert b"__monoize" not in bench.sent[0].call.body


# --- suffixes (MSUF) ---


@pytest.mark.parametrize(
    ("models", "asked", "model", "effort"),
    [
        pytest.param(
            ["m"], "m", "m", None, marks=pytest.mark.spec("MSUF-1", "MSUF-2"), id="exists"
        ),
        pytest.param(
            ["m", "m-high"],
            "m-high",
            "m-high",
            None,
            marks=pytest.mark.spec("MSUF-2"),
            id="exists with it",
        ),
        pytest.param(
            ["m"], "m-none", "m", "none", marks=pytest.mark.spec("MSUF-3", "MSUF-5"), id="none"
        ),
        pytest.param(
            ["m"], "m-minimum", "m", "minimal", marks=pytest.mark.spec("MSUF-3", "D8"), id="minimum"
        ),
        pytest.param(["m"], "m-low", "m", "low", marks=pytest.mark.spec("MSUF-3"), id="low"),
        pytest.param(
            ["m"], "m-medium", "m", "medium", marks=pytest.mark.spec("MSUF-3"), id="medium"
        ),
        pytest.param(["m"], "m-high", "m", "high", marks=pytest.mark.spec("MSUF-3"), id="high"),
        pytest.param(["m"], "m-xhigh", "m", "xhigh", marks=pytest.mark.spec("MSUF-3"), id="xhigh"),
        pytest.param(
            ["m"], "m-max", "m", "xhigh", marks=pytest.mark.spec("MSUF-3", "D8"), id="max"
        ),
        pytest.param(
            ["m"], "m-thinking", "m", "high", marks=pytest.mark.spec("MSUF-3"), id="configured"
        ),
        pytest.param(
            ["m"],
            "m-deep-thinking",
            "m",
            "xhigh",
            marks=pytest.mark.spec("MSUF-4"),
            id="longer first",
        ),
        pytest.param(
            ["m"],
            "m-low-ish",
            "m",
            "minimal",
            marks=pytest.mark.spec("MSUF-4"),
            id="configured first",
        ),
        pytest.param(
            ["cl-*"],
            "cl-x-thinking",
            "cl-x",
            "high",
            marks=pytest.mark.spec("D49"),
            id="before globs",
        ),
        pytest.param(
            ["cl-*"], "cl-x", "cl-x", None, marks=pytest.mark.spec("MSUF-6", "D49"), id="glob"
        ),
        pytest.param(
            ["*"],
            "cl-x-high",
            "cl-x-high",
            None,
            marks=pytest.mark.spec("MSUF-6", "D49"),
            id="bare glob",
        ),
    ],
)
async def test_the_effort_behind_a_model_name(models, asked, model, effort):
    suffixes = {
        "-thinking": "high",
        "-deep-thinking": "xhigh",
        "-low-ish": "minimum",
        "-ish": "none",
    }
    bench = gateway(
        provider("p", models={name: {} for name in models}), reasoning_suffix_map=suffixes
    )
    reply = await bench.ask(asked, key="dev")
    sent = bench.sent[0].body
    assert (sent["model"], sent.get("reasoning_effort")) == (model, effort)
    assert reply.json["model"] == asked


@pytest.mark.spec("MSUF-6")
async def test_an_unknown_base_leaves_the_request_alone():
    bench = gateway(provider("p"))
    with pytest.raises(ModelNotFound, match="'other-high'"):
        await bench.ask("other-high", key="dev")
    with pytest.raises(ModelNotFound):
        await bench.ask("-high", key="dev")


@pytest.mark.spec("MSUF-2", "MSUF-5")
async def test_a_disabled_provider_has_no_models():
    bench = gateway(provider("off", models={"m-high": {}}, enabled=False), provider("p"))
    await bench.ask("m-high", key="dev")
    assert bench.sent[0].body["reasoning_effort"] == "high"


@pytest.mark.spec("MSUF-5", "D8", "T33")
@pytest.mark.parametrize("kind", SPEAKERS)
async def test_the_suffix_overrules_an_effort_or_a_budget_of_the_request(kind):
    bench = gateway(provider("p", kind, models={"claude-opus-4-5": {}}))
    thinking = {"type": "enabled", "budget_tokens": 2000}
    await bench.ask(
        "claude-opus-4-5-none", "messages", key="dev", max_tokens=9000, thinking=thinking
    )
    assert b"2000" not in bench.sent[0].call.body


@pytest.mark.spec("MSUF-1", "PIPE-1")
async def test_a_key_rule_may_give_the_name_its_suffix():
    key = {
        "transforms": [
            rule(
                "reasoning_effort_to_model_suffix", rules=[{"pattern": "*", "suffix": "-{effort}"}]
            )
        ]
    }
    bench = gateway(provider("p"), key=key)
    await bench.ask("m", key="dev", reasoning_effort="low")
    assert (bench.sent[0].body["model"], bench.sent[0].body["reasoning_effort"]) == ("m", "low")


# --- ceilings (PIPE-2, PIPE-4, D17) ---

DEAR = provider("dear", models={"m": {"multiplier": "2"}})
CHEAP = provider("cheap", models={"m": {"multiplier": "0.5"}})


@pytest.mark.spec("PIPE-2", "PIPE-4", "D17", "ROUT-2")
@pytest.mark.parametrize(
    ("of_key", "in_body", "in_header", "taken"),
    [
        (None, None, None, "dear"),
        ("2", None, None, "dear"),
        ("1.99", None, None, "cheap"),
        (None, 1, None, "cheap"),
        (None, "1.5", None, "cheap"),
        (None, None, "1", "cheap"),
        (None, 3, "1", "dear"),  # the body is asked first
        ("1", 3, None, "cheap"),  # a request can only lower it
        ("3", 1, None, "cheap"),
    ],
)
async def test_the_lower_ceiling_holds(of_key, in_body, in_header, taken):
    bench = gateway(DEAR, CHEAP, key={"max_multiplier": of_key})
    more = {} if in_body is None else {"max_multiplier": in_body}
    headers = {} if in_header is None else {"x-max-multiplier": in_header}
    reply = await bench.ask("m", key="dev", headers=headers, **more)
    assert reply.headers["x-monoize-provider"] == taken
    assert b"max_multiplier" not in bench.sent[0].call.body


@pytest.mark.spec("D17")
async def test_too_low_a_ceiling_is_told_with_the_price():
    with pytest.raises(Forbidden, match=r"at least 0\.5, above the ceiling 0\.1") as told:
        await gateway(DEAR, CHEAP).ask("m", key="dev", max_multiplier=0.1)
    assert told.value.error_code == "max_multiplier_exceeded"


@pytest.mark.spec("D17")
@pytest.mark.parametrize("value", [0, -1, "cheap", True, [1], "NaN", "inf", {}])
async def test_a_ceiling_that_is_none_is_refused(value):
    with pytest.raises(InvalidRequest) as told:
        await gateway(DEAR).ask("m", key="dev", max_multiplier=value)
    assert told.value.param == "max_multiplier"


# --- streams and whole replies (D5, PIPE-1a, force_stream) ---


class CountWords(WholeResponseTransform):
    """Needs the last word before the first: it writes how many there are."""

    id = "count_words"

    def apply(self, value, state, context):
        from monoize.urp import Text, replace

        (choice,) = value.choices
        text = "".join(p.content for m in choice.messages for p in m.parts if isinstance(p, Text))
        counted = Text(content=f"{len(text.split())} words: {text}")
        message = replace(choice.messages[-1], parts=(counted,))
        return replace(value, choices=(replace(choice, messages=(message,)),))


@pytest.fixture
def count_words(monkeypatch):
    known = {**transforms(), "count_words": CountWords()}
    monkeypatch.setattr("monoize.transform.transforms", lambda: known)


@pytest.mark.spec("PIPE-1a", "STR-5", "D5")
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_rule_that_needs_the_whole_reply_gets_it_and_the_caller_still_gets_a_stream(
    count_words, caller, kind
):
    bench = gateway(provider("p", kind, transforms=[rule("count_words", "response")]))
    reply = await bench.ask("m", caller, stream=True, key="dev")
    assert text_of(caller, reply, stream=True) == f"6 words: {GREETING}"
    assert end_of(caller, reply, stream=True) == "complete"
    assert reply.headers["x-monoize-stream"] == "synthesized"
    upstream = bench.sent[0]
    assert not upstream.body.get("stream")
    assert "stream_options" not in upstream.body
    assert ":streamGenerateContent" not in upstream.call.url


@pytest.mark.spec("D5")
async def test_rules_that_work_event_by_event_leave_the_stream_alive():
    bench = gateway(
        provider("p", transforms=[rule("strip_reasoning", "response")]),
        scripts={"p": says("reasoning")},
    )
    reply = await bench.ask("m", stream=True, key="dev")
    assert bench.sent[0].body["stream"] is True
    assert "x-monoize-stream" not in reply.headers
    assert "weather, 先" not in reply.raw.decode()


@pytest.mark.spec("D6")
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("scope", ["key", "provider"])
async def test_a_forced_stream_is_collected_for_a_caller_that_wants_one_reply(caller, kind, scope):
    force = {"transforms": [rule("force_stream", enabled=True)]}
    bench = gateway(
        provider("p", kind, **(force if scope == "provider" else {})),
        key=force if scope == "key" else None,
        scripts={"p": says("text_then_tool")},
    )
    reply = await bench.ask("m", caller, key="dev")
    sent = bench.sent[0]
    assert sent.body.get("stream") or ":streamGenerateContent" in sent.call.url
    assert reply.headers["content-type"] == "application/json"
    assert text_of(caller, reply, stream=False) == "Looking it up."
    assert b"get_weather" in reply.raw


@pytest.mark.spec("D6")
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_stream_that_is_forced_off_is_synthesised(caller):
    mine = provider("p", transforms=[rule("force_stream", enabled=False)])
    bench = gateway(mine)
    reply = await bench.ask(
        "m",
        caller,
        stream=True,
        key="dev",
        **({"stream_options": {"include_usage": True}} if caller == "chat_completion" else {}),
    )
    assert text_of(caller, reply, stream=True) == GREETING
    assert not bench.sent[0].body.get("stream")
    assert "stream_options" not in bench.sent[0].body
    assert reply.headers["x-monoize-stream"] == "synthesized"


async def test_a_forced_stream_that_breaks_off_fails_forward():
    from monoize.errors import UpstreamFailed

    def broken(sent):
        good = says("text")(sent)
        return Said(
            headers=good.headers,
            pieces=(*good.pieces[:3], UpstreamFailed("the provider broke off")),
        )

    force = [rule("force_stream", enabled=True)]
    bench = gateway(provider("a", transforms=force), provider("b"), scripts={"a": broken})
    reply = await bench.ask("m", key="dev")
    assert text_of("chat_completion", reply, stream=False) == GREETING
    assert reply.headers["x-monoize-attempts"] == "2"


# --- the end of the waterfall ---


@pytest.mark.spec("ROUT-6")
@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
async def test_a_final_refusal_is_passed_on_at_once(code):
    bench = gateway(provider("a"), provider("b"), scripts={"a": status(code)})
    with pytest.raises(UpstreamRefused, match=f"the provider says {code}") as told:
        await bench.ask("m", key="dev")
    assert told.value.http_status == code
    assert told.value.headers["x-monoize-provider"] == "a"
    assert len(bench.sent) == 1


@pytest.mark.spec("ROUT-5", "ROUT-7")
@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_a_passing_failure_is_somebody_elses_turn(code):
    bench = gateway(provider("a"), provider("b", "gemini"), scripts={"a": status(code)})
    reply = await bench.ask("m", key="dev")
    assert (reply.headers["x-monoize-provider"], reply.headers["x-monoize-attempts"]) == ("b", "2")


@pytest.mark.spec("ROUT-8")
async def test_exhaustion_is_a_502_that_says_what_was_tried():
    off = provider("off", channels=[{"id": "x", "base_url": "http://off", "enabled": False}])
    bench = gateway(provider("a"), provider("b"), off, scripts={"a": status(503), "b": status(429)})
    with pytest.raises(UpstreamExhausted) as told:
        await bench.ask("m", key="dev")
    assert told.value.http_status == 502
    assert "a/main: the provider says 503; b/main: the provider says 429" in told.value.message
    assert "off/x was passed over: channel is disabled" in told.value.message
    assert told.value.headers["x-monoize-attempts"] == "2"
    assert "retry-after" not in told.value.headers


@pytest.mark.spec("ROUT-8", "D9")
async def test_when_everybody_asks_for_a_pause_the_caller_hears_the_shortest():
    scripts = {"a": status(429, retry_after="30"), "b": status(503, retry_after_ms="4000")}
    with pytest.raises(UpstreamExhausted) as told:
        await gateway(provider("a"), provider("b"), scripts=scripts).ask("m", key="dev")
    assert told.value.headers["retry-after"] == "4"


@pytest.mark.spec("D9")
async def test_a_pause_that_was_asked_for_is_kept():
    bench = gateway(provider("a"), provider("b"), scripts={"a": status(429, retry_after="30")})
    await bench.ask("m", key="dev")
    await bench.ask("m", key="dev")
    assert [sent.host for sent in bench.sent] == ["a", "b", "b"]
    bench.clock.moment += 31
    await bench.ask("m", key="dev")
    assert bench.sent[3].host == "a"


@pytest.mark.spec("ROUT-8")
async def test_a_listed_refusal_that_nobody_can_mend_is_a_502_as_well():
    bench = gateway(provider("a", fail_forward_on=[401]), scripts={"a": status(401)})
    with pytest.raises(UpstreamExhausted, match="the provider says 401") as told:
        await bench.ask("m", key="dev")
    assert told.value.http_status == 502


@pytest.mark.spec("D9")
async def test_a_repeat_goes_to_the_same_channel():
    bench = gateway(provider("a", channel_retries=1))
    bench.client.scripts["a"] = lambda sent: (status(500) if sent is bench.sent[0] else well)(sent)
    reply = await bench.ask("m", key="dev")
    assert reply.headers["x-monoize-attempts"] == "2"


@pytest.mark.spec("D13")
async def test_a_provider_that_cannot_carry_the_request_is_passed_over():
    bench = gateway(provider("chat"), provider("own", "responses"))
    reply = await bench.ask("m", "responses", key="dev", previous_response_id="resp_1")
    assert reply.headers["x-monoize-provider"] == "own"
    assert len(bench.sent) == 1
    with pytest.raises(UnsupportedByTarget) as told:
        await gateway(provider("chat")).ask("m", "responses", key="dev", previous_response_id="r")
    assert (told.value.http_status, told.value.error_code) == (400, "server_state_not_supported")


async def test_a_strict_caller_gets_the_provider_that_loses_nothing():
    strict = {"x-monoize-strict": "true"}
    bench = gateway(provider("gem", "gemini"), provider("chat"))
    reply = await bench.ask("m", key="dev", headers=strict, logit_bias={"5": 1})
    assert reply.headers["x-monoize-provider"] == "chat"
    assert reply.headers["x-monoize-translation"] == "lossless"
    with pytest.raises(LossRefused, match="logit_bias"):
        await gateway(provider("gem", "gemini")).ask(
            "m", key="dev", headers=strict, logit_bias={"5": 1}
        )


@pytest.mark.spec("T17")
async def test_losses_of_a_failed_attempt_are_not_the_answers():
    bench = gateway(provider("gem", "gemini"), provider("chat"), scripts={"gem": status(503)})
    reply = await bench.ask("m", key="dev", logit_bias={"5": 1})
    assert reply.headers["x-monoize-translation"] == "lossless"


@pytest.mark.spec("D11")
async def test_when_everybody_is_unwell_one_is_asked_and_stays_unwell():
    bench = gateway(provider("a"), scripts={"a": status(500)})
    for _ in range(3):
        with pytest.raises(MonoizeError):
            await bench.ask("m", key="dev")
    bench.client.scripts["a"] = says("text")
    await bench.ask("m", key="dev")
    (row,) = bench.kit.board.snapshot(bench.settings.providers, bench.clock.moment)
    assert row.health == "unhealthy"


@pytest.mark.spec("D12")
async def test_a_conversation_stays_on_its_channel():
    channels = [{"id": c, "base_url": f"http://{c}", "api_key": "k"} for c in "xyz"]
    bench = gateway(
        provider("p", "responses", channels=channels, affinity={}), scripts={"x": status(503)}
    )
    first = await bench.ask("m", "responses", key="dev")
    again = await bench.ask("m", "responses", key="dev", previous_response_id=first.json["id"])
    del bench.client.scripts["x"]
    third = await bench.ask("m", "responses", key="dev")
    other = await bench.ask("m", "responses", key="dev", input="Something else.")
    taken = [r.headers["x-monoize-channel"] for r in (first, again, third, other)]
    assert taken == ["y", "y", "y", "x"]


@pytest.mark.spec("D3")
def test_a_bad_rule_is_found_when_the_config_is_read():
    with pytest.raises(ConfigError, match=r"\$\.providers\[0\]\.transforms\[0\]\.config"):
        gateway(provider("p", transforms=[rule("override_max_tokens", value=0)]))
    with pytest.raises(ConfigError, match=r"\$\.keys\[0\]\.transforms\[0\]\.transform"):
        gateway(provider("p"), key={"transforms": [rule("no_such")]})
