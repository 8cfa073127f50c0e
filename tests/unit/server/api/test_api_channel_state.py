"""Channels as an operator sees them: how they are and why, what went wrong last, and which models are behind them."""

from __future__ import annotations

import pytest
from sqlalchemy import insert

from fakes.behaviours import BEHAVIOURS
from fakes.management import FILE_USER
from fakes.upstream import FakeUpstream
from monoize.store.tables import request_logs

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def provider(name, *channels, **more):
    return {"id": name, "type": "chat_completion", "channels": list(channels), **more}


async def states(api):
    listed = await api.good("GET", "/api/health/channels", key=FILE_USER)
    return {(row["provider"], row["channel"]): row for row in listed["channels"]}


@pytest.fixture
def upstream():
    with FakeUpstream(BEHAVIOURS) as running:
        yield running


@pytest.mark.spec("HEALTH-1")
async def test_a_channel_says_why_it_gets_no_traffic(api, upstream):
    url = upstream.base_url("chat_completion")
    channels = [
        {"id": "off", "base_url": url, "enabled": False},
        {"id": "light", "base_url": url, "weight": 0},
        {"id": "bad", "base_url": url, "weight": 3, "health": {"failure_threshold": 1}},
    ]
    models = {"good": {"redirect": "text"}, "bad": {"redirect": "status_503"}}
    await api.good("POST", "/api/providers", provider("mine", *channels, models=models))
    assert (await states(api))["mine", "bad"]["reason"] is None
    await api.good("POST", "/v1/chat/completions", {**CHAT, "model": "good"})
    well = (await states(api))["mine", "bad"]
    assert (well["reason"], well["weight"], well["in_flight"]) == (None, 3, 0)
    assert well["latency_ms"] >= 0
    await api.call("POST", "/v1/chat/completions", {**CHAT, "model": "bad"})
    found = await states(api)
    assert found["mine", "off"]["reason"] == "switched off"
    assert found["mine", "light"]["reason"] == "its weight is 0"
    unwell = found["mine", "bad"]
    assert (unwell["health"], unwell["eligible"]) == ("unhealthy", False)
    assert unwell["reason"] == "unhealthy for 7 s more, after 1 failure in a row"  # as it asked


async def test_the_last_errors_of_a_channel_are_found_in_the_log(api, upstream):
    url = upstream.base_url("chat_completion")
    models = {name: {"redirect": name} for name in ("status_503", "status_401", "status_400")}
    first, second = {"id": "one", "base_url": url}, {"id": "two", "base_url": url}
    await api.good("POST", "/api/providers", provider("mine", first, models=models))
    await api.good("POST", "/api/providers", provider("next", second, models=models))
    asked = {}
    for model in models:
        answer = await api.call("POST", "/v1/chat/completions", {**CHAT, "model": model})
        asked[model] = answer.headers["x-request-id"]
    listed = (await api.good("GET", "/api/health/errors"))["data"]
    assert [(e["provider"], e["channel"], e["status"], e["model"]) for e in listed] == [
        ("mine", "one", 401, "status_401"),
        ("next", "two", 503, "status_503"),
        ("mine", "one", 503, "status_503"),
    ]
    assert [e["request_id"] for e in listed] == [
        asked["status_401"],
        asked["status_503"],
        asked["status_503"],
    ]
    assert "503" in listed[-1]["message"]
    assert (await api.call("GET", "/api/health/errors", key=FILE_USER)).status == 403


async def test_only_the_newest_errors_are_kept_in_sight(api):
    tried = [{"provider": "p", "channel": "c", "message": "x" * 999, "status": None}]
    rows = [
        {
            "request_id": f"req_{number}",
            "status": "success",
            "created_at": 1_800_000_000_000 + number,
            "operation": "chat_completions",
            "is_stream": False,
            "attempts": tried,
        }
        for number in range(9)
    ]
    await api.house.state.lasting.database.write(lambda c: c.execute(insert(request_logs), rows))
    listed = (await api.good("GET", "/api/health/errors"))["data"]
    assert [e["request_id"] for e in listed] == [f"req_{n}" for n in (8, 7, 6, 5, 4)]
    assert {len(e["message"]) for e in listed} == {300}


async def test_without_a_store_there_is_no_error_to_be_found(storeless):
    assert await storeless.good("GET", "/api/health/errors") == {"data": []}


@pytest.mark.spec("D49")
async def test_a_provider_is_asked_for_its_models(api, upstream):
    url = upstream.base_url("chat_completion")
    channel = {"id": "one", "base_url": url}
    await api.good("POST", "/api/providers", provider("mine", channel, models={"*": {}}))
    listed = await api.good("GET", "/api/providers/mine/models")
    assert listed["data"] == ["globbed-one", "other-two"]
    assert (await api.good("GET", "/api/providers/of-file/models"))["data"] == []  # nobody answers
    assert (await api.call("GET", "/api/providers/nobody/models")).status == 404
    assert (await api.call("GET", "/api/providers/mine/models", key=FILE_USER)).status == 403
