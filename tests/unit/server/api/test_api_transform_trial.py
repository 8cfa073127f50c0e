"""A dry run of rules over the API: every rule shows what it changes, and one that is wrong says where."""

from __future__ import annotations

import json

import pytest

from fakes.databases import database_url_of_doors  # noqa: F401 - a fixture
from fakes.management import FILE_USER

pytestmark = pytest.mark.soak  # on both databases

TRIAL = "/api/transforms/trial"
CHAT = {"model": "gpt-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
PROMPT = {
    "transform": "inject_system_prompt",
    "phase": "request",
    "config": {"content": "Be kind.", "position": "prepend"},
}
CAP = {"transform": "override_max_tokens", "phase": "request", "config": {"value": 5}}
THINK = {"transform": "think_xml_to_reasoning", "phase": "response", "config": {"tag": "think"}}


def trial(*rules, **more):
    return {"from": "chat_completion", "request": CHAT, "rules": list(rules), **more}


async def tried(api, *rules, key=None, **more):
    keys = {} if key is None else {"key": key}
    return await api.good("POST", TRIAL, trial(*rules, **more), **keys)


@pytest.mark.spec("TF-3")
async def test_shows_the_body_after_each_rule(api):
    report = await tried(api, PROMPT, CAP)
    assert (report["to"], report["before"]) == ("chat_completion", CHAT)
    first, second = report["steps"]
    assert first["body"]["messages"][0] == {"role": "system", "content": "Be kind."}
    assert first["body"]["max_tokens"] == 9
    assert second["body"] == {**first["body"], "max_tokens": 5} == report["result"]
    assert second["changes"] == [{"path": "max_output_tokens", "before": 9, "after": 5}]
    assert (report["refused"], report["dropped"]) == (None, [])


@pytest.mark.spec("TF-4")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"enabled": False}, "it is switched off"),
        ({"models": ["claude-*"]}, "none of its models fits 'gpt-5'"),
        (THINK, "it works in phase response, and this is a request"),
    ],
)
async def test_a_rule_that_does_not_run_says_why(api, change, reason):
    (step,) = (await tried(api, {**CAP, **change}))["steps"]
    assert (step["changes"], step["body"], step["path"]) == (None, None, None)
    assert step["why_not"] == reason


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("rule", "path", "words"),
    [
        ({**CAP, "config": {"value": "many"}}, "config.value", "int"),
        ({**CAP, "config": {"value": 5, "more": 1}}, "config", "more"),
        ({**CAP, "transform": "no_such_thing"}, "transform", "no_such_thing"),
        ({**CAP, "phase": "response"}, "phase", "works in phase request"),
        ({**CAP, "enabled": False, "config": {}}, "config", "value"),
    ],
)
async def test_a_rule_that_is_wrong_names_the_place_and_the_others_are_tried(
    api, rule, path, words
):
    report = await tried(api, rule, PROMPT)
    wrong, right = report["steps"]
    assert (wrong["path"], wrong["changes"]) == (path, None)
    assert words in wrong["why_not"]
    assert right["body"] == report["result"]
    assert len(report["result"]["messages"]) == 2


async def test_a_rule_that_changes_nothing_has_no_body_of_its_own(api):
    (step,) = (await tried(api, {**CAP, "config": {"value": 9}}))["steps"]
    assert (step["changes"], step["body"]) == ([], None)


async def test_the_bodies_are_those_of_the_provider_protocol(api):
    report = await tried(api, PROMPT, to="messages", request={**CHAT, "logit_bias": {"1": 1}})
    assert "system" not in report["before"]
    assert "Be kind." in json.dumps(report["steps"][0]["body"]["system"])
    assert report["dropped"] == ["logit_bias"]


async def test_a_reply_and_a_stream_are_tried_as_well(api):
    message = {"role": "assistant", "content": "<think>hm</think>hello"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    wire = {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    report = await tried(api, THINK, CAP, request=None, response=wire)
    assert report["steps"][0]["body"]["choices"][0]["message"]["content"] == "hello"
    assert report["steps"][1]["why_not"] == "it works in phase request, and this is a response"
    delta = {"index": 0, "delta": message, "finish_reason": "stop"}
    chunk = {**wire, "object": "chat.completion.chunk", "choices": [delta]}
    report = await tried(api, THINK, request=None, stream=[chunk, "[DONE]"])
    assert report["before"][-1] == report["result"][-1] == "[DONE]"
    assert "<think>" in json.dumps(report["before"])
    assert "<think>" not in json.dumps(report["result"])


async def test_a_user_tries_only_what_their_keys_may_carry(api):
    report = await tried(api, CAP, PROMPT, key=FILE_USER)
    refused, allowed = report["steps"]
    assert (refused["path"], refused["changes"]) == ("transform", None)
    assert "admins only" in refused["why_not"]
    assert allowed["changes"]
    assert report["result"]["max_tokens"] == 9


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"from": "chat_completion", "rules": []}, 400, "one of `request`"),
        (trial(**{"from": "telex"}), 400, "from: must be one of"),
        (trial(to="telex"), 400, "to: must be one of"),
        (trial({**CAP, "phase": "late"}), 400, "rules[0].phase"),
        (trial(*[CAP] * 33), 400, "length <= 32"),
        (trial(request={"model": "m", "messages": "hi"}), 400, "messages"),
        (trial(request=None, response=[1]), 400, "response"),
        (trial(more=1), 400, "more"),
    ],
)
async def test_a_trial_that_cannot_be_read_is_one_clear_sentence(api, body, status, words):
    answer = await api.call("POST", TRIAL, body)
    assert answer.status == status, answer.raw
    assert words in answer.error["message"]


async def test_a_trial_is_no_place_for_large_bodies(api):
    long = {**CHAT, "messages": [{"role": "user", "content": "a" * 1024**2}]}
    raw = json.dumps(trial(request=long)).encode()
    assert (await api.call("POST", TRIAL, raw=raw)).status == 413


async def test_what_the_target_cannot_carry_is_said_and_a_rule_may_mend_it(api):
    request = {"model": "m", "input": "hi", "previous_response_id": "resp_1"}
    drop = {
        "transform": "remove_field",
        "phase": "request",
        "config": {"path": "previous_response_id"},
    }
    body = {"from": "responses", "to": "messages", "request": request, "rules": [drop]}
    report = await api.good("POST", TRIAL, body)
    assert report["before"] is None
    assert report["steps"][0]["body"] == report["result"]
    assert report["refused"] is None
    report = await api.good("POST", TRIAL, {**body, "rules": []})
    assert report["result"] is None
    assert "previous_response_id" in report["refused"]
