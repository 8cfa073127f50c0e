"""Providers, prices and settings over the API: the file wins, secrets stay inside, changes hold at once."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import update

from fakes.databases import database_url_of_doors  # noqa: F401 - a fixture
from fakes.management import FILE_SECRET
from monoize.server.api.provider_view import ChannelView, ProviderView
from monoize.server.api.providers import NamedChannelChange, ProviderChange
from monoize.settings import ChannelSettings, ProviderSettings
from monoize.store import providers, tables

pytestmark = pytest.mark.soak  # on both databases

SECRET = "sk-upstream-canary-0123456789"
PROVIDER = {
    "id": "mine",
    "type": "chat_completion",
    "models": {"my-model": {}},
    "channels": [
        {
            "id": "one",
            "base_url": "http://127.0.0.1:9/v1",
            "api_key": SECRET,
            "headers": {"x-team": SECRET},
        }
    ],
}


async def models(api):
    return [model["id"] for model in (await api.good("GET", "/v1/models"))["data"]]


async def test_a_provider_is_used_as_soon_as_it_is_made(api):
    assert "my-model" not in await models(api)
    made = await api.good("POST", "/api/providers", PROVIDER)
    assert (made["source"], made["shadowed"], made["position"]) == ("database", False, 0)
    assert "my-model" in await models(api)
    await api.good("PATCH", "/api/providers/mine", {"enabled": False})
    assert "my-model" not in await models(api)
    await api.good("DELETE", "/api/providers/mine")
    assert (await api.call("GET", "/api/providers/mine")).status == 404


@pytest.mark.spec("T46")
async def test_secrets_go_in_and_never_come_out(api):
    answers = [await api.call("POST", "/api/providers", PROVIDER)]
    channel = "/api/providers/mine/channels/one"
    answers += [
        await api.call("PATCH", channel, {"weight": 3}),
        await api.call("POST", f"{channel}/test"),
        await api.call("GET", "/api/providers/mine"),
        await api.call("GET", "/api/providers/of-file"),
        await api.call("GET", "/api/providers"),
        await api.call("GET", "/api/audit"),
        await api.call("POST", "/api/providers", PROVIDER),
        await api.call("POST", "/api/providers", {**PROVIDER, "id": "x", "models": {}}),
    ]
    assert [answer.status for answer in answers] == [201, 200, 200, 200, 200, 200, 200, 409, 400]
    for answer in answers:
        assert SECRET.encode() not in answer.raw
        assert FILE_SECRET.encode() not in answer.raw
    (shown,) = answers[3].json["channels"]
    assert (shown["has_api_key"], shown["header_names"], shown["weight"]) == (True, ["x-team"], 3)
    (of_file,) = answers[4].json["channels"]
    assert (of_file["has_api_key"], of_file["proxy"]) == (True, "http://127.0.0.1:9")
    (kept,) = [p for p in api.house.state.settings.providers if p.id == "mine"]
    assert kept.channels[0].api_key == SECRET  # a change without a key keeps it


@pytest.mark.spec("LL#24952", "LL#37053")
async def test_a_stored_key_does_not_follow_to_another_address(api):
    await api.good("POST", "/api/providers", PROVIDER)
    change = {"base_url": "http://127.0.0.1:10/v1"}
    answer = await api.call("PATCH", "/api/providers/mine/channels/one", change)
    assert answer.status == 400
    assert "api_key" in answer.error["message"]
    change |= {"api_key": "sk-new-0123456789", "headers": {}}
    await api.good("PATCH", "/api/providers/mine/channels/one", change)


async def test_channels_are_added_changed_and_removed(api):
    await api.good("POST", "/api/providers", PROVIDER)
    path = "/api/providers/mine/channels"
    two = {"id": "two", "base_url": "http://127.0.0.1:9/v1", "weight": 2}
    made = await api.good("POST", path, two)
    assert [channel["id"] for channel in made["channels"]] == ["one", "two"]
    assert (await api.call("POST", path, two)).status == 409
    changed = await api.good("PATCH", f"{path}/one", {"enabled": False})
    assert [(c["id"], c["enabled"], c["has_api_key"]) for c in changed["channels"]] == [
        ("one", False, True),
        ("two", True, False),
    ]
    assert (await api.call("PATCH", f"{path}/three", {})).status == 404
    assert (await api.call("DELETE", f"{path}/three")).status == 404
    left = await api.good("DELETE", f"{path}/one")
    assert [channel["id"] for channel in left["channels"]] == ["two"]
    assert (await api.call("DELETE", f"{path}/two")).status == 400  # one has to stay


@pytest.mark.spec("ROUT-1")
async def test_providers_are_asked_in_the_order_that_is_said(api):
    for name in ("a", "b", "c"):
        await api.good("POST", "/api/providers", {**PROVIDER, "id": name})
    listed = await api.good("PUT", "/api/provider-order", {"order": ["c", "a", "b"]})
    assert [p["id"] for p in listed["data"]] == ["of-file", "c", "a", "b"]
    assert [p.id for p in api.house.state.settings.providers] == ["of-file", "c", "a", "b"]
    for order in (["c", "a"], ["c", "a", "a", "b"], ["c", "a", "b", "of-file"]):
        assert (await api.call("PUT", "/api/provider-order", {"order": order})).status == 400


async def test_what_the_file_has_is_read_only_and_wins(api):
    for method, path, body in (
        ("PATCH", "/api/providers/of-file", {"enabled": False}),
        ("DELETE", "/api/providers/of-file", None),
        ("POST", "/api/providers/of-file/channels", {"id": "x", "base_url": "http://127.0.0.1:9"}),
        ("PATCH", "/api/providers/of-file/channels/main", {"weight": 0}),
        ("DELETE", "/api/providers/of-file/channels/main", None),
        ("PUT", "/api/prices/priced-*", {"rates": {"input": 9, "output": 9}}),
        ("DELETE", "/api/prices/priced-*", None),
    ):
        answer = await api.call(method, path, body)
        assert (answer.status, answer.error["code"]) == (409, "read_only"), path
    taken = await api.call("POST", "/api/providers", {**PROVIDER, "id": "of-file"})
    assert (taken.status, taken.error["param"]) == (409, "id")


async def test_rules_of_a_provider_are_checked(api, rule):
    wrong = {**PROVIDER, "transforms": [{**rule, "transform": "no_such_thing"}]}
    answer = await api.call("POST", "/api/providers", wrong)
    assert answer.status == 400
    assert "no_such_thing" in answer.error["message"]
    made = await api.good("POST", "/api/providers", {**PROVIDER, "transforms": [rule]})
    assert made["transforms"][0]["transform"] == "force_stream"


async def test_a_price_holds_at_once_and_goes_back_to_the_public_one(api):
    public = await api.good("GET", "/api/prices/gpt-4o")
    assert (public["override"], public["offers"][0]["origin"]) == (None, "public")
    assert public["offers"][0]["multiplier"] == "1.5"
    put = await api.good("PUT", "/api/prices/gpt-4o", {"rates": {"input": "0.10", "output": 0.3}})
    assert put["rates"] == {"input": "0.1", "output": "0.3"}
    own = await api.good("GET", "/api/prices/gpt-4o")
    assert own["override"]["source"] == "database"
    assert own["offers"][0]["rates"] == {"input": "0.1", "output": "0.3"}
    listed = [(p["model"], p["source"]) for p in (await api.good("GET", "/api/prices"))["data"]]
    assert listed == [("priced-*", "file"), ("gpt-4o", "database")]
    await api.good("DELETE", "/api/prices/gpt-4o")
    assert (await api.good("GET", "/api/prices/gpt-4o"))["offers"] == public["offers"]
    assert (await api.call("DELETE", "/api/prices/gpt-4o")).status == 404


async def test_a_models_name_may_have_slashes(api):
    await api.good("PUT", "/api/prices/vendor/model-1", {"rates": {"input": 1, "output": 2}})
    assert (await api.good("GET", "/api/prices/vendor%2Fmodel-1"))["override"][
        "model"
    ] == "vendor/model-1"


@pytest.mark.spec("D49")
async def test_a_glob_of_the_file_wins_over_one_of_the_database(api):
    await api.good("POST", "/api/providers", {**PROVIDER, "models": {"priced-1": {}, "other": {}}})
    await api.good("PUT", "/api/prices/*", {"rates": {"input": "7", "output": "7"}})
    price = await api.good("GET", "/api/prices/priced-1")
    assert price["offers"][0]["rates"] == {"input": "1", "output": "2"}
    assert (await api.good("GET", "/api/prices/other"))["offers"][0]["rates"]["input"] == "7"


@pytest.mark.spec("MSUF-3")
async def test_a_setting_joins_the_files_and_is_taken_back(api):
    path = "/api/settings/reasoning_suffix_map"
    put = await api.good("PUT", path, {"value": {"-deep": "high", "-file": "low"}})
    assert put["effective"] == {"-deep": "high", "-file": "high"}
    await api.good("DELETE", path)
    (shown,) = (await api.good("GET", "/api/settings"))["data"]
    assert (shown["value"], shown["effective"]) == (None, {"-file": "high"})
    assert (await api.call("DELETE", path)).status == 404
    assert (await api.call("PUT", "/api/settings/revision", {"value": 1})).status == 404
    assert (await api.call("PUT", path, {"value": {"": "high"}})).status == 400


async def test_a_channel_that_does_not_answer_is_reported(api):
    await api.good("POST", "/api/providers", PROVIDER)
    path = "/api/providers/mine/channels/one/test"
    found = await api.good("POST", path)
    assert (found["success"], found["model"]) == (False, "my-model")
    assert "Connection refused" in found["error"]
    assert (await api.good("POST", path, {"model": "other"}))["model"] == "other"
    assert (await api.call("POST", "/api/providers/mine/channels/none/test")).status == 404
    health = await api.good("GET", "/api/health/channels")
    (row,) = [c for c in health["channels"] if c["provider"] == "mine"]
    assert row["consecutive_failures"] == 0  # a test is nobody's call
    await api.good("PATCH", "/api/providers/mine", {"models": {"*": {}}})
    answer = await api.call("POST", path)
    assert (answer.status, answer.error["param"]) == (400, "model")


async def test_no_transform_is_left_out(api):
    listed = (await api.good("GET", "/api/transforms"))["data"]
    assert len(listed) >= 16
    for entry in listed:
        assert entry["phases"]
        assert entry["config_schema"]["type"] == "object"
        json.dumps(entry["example_config"])


def test_every_setting_of_a_provider_can_be_seen_and_changed():
    secret = {"api_key", "headers"}
    shown = {*ChannelView.__struct_fields__} - {"has_api_key", "header_names"}
    assert shown == {*ChannelSettings.__struct_fields__} - secret
    assert {*NamedChannelChange.__struct_fields__} == {*ChannelSettings.__struct_fields__}
    about = {"source", "shadowed", "position", "updated_at"}
    assert {*ProviderView.__struct_fields__} - about == {*ProviderSettings.__struct_fields__}
    assert {"id", *ProviderChange.__struct_fields__} == {*ProviderSettings.__struct_fields__}


async def test_a_provider_that_an_older_release_stored_is_shown(api):
    await api.good("POST", "/api/providers", PROVIDER)

    def aged(connection):
        body = dict(providers.get(connection, "mine").body)
        body["channels"] = [
            {name: value for name, value in channel.items() if name != "priority"}
            for channel in body["channels"]
        ]
        body = {
            name: value for name, value in body.items() if name not in ("policy", "capabilities")
        }
        connection.execute(update(tables.providers).values(body=body))

    await api.house.state.lasting.database.write(aged)
    shown = await api.good("GET", "/api/providers/mine")
    assert (shown["channels"][0]["priority"], shown["policy"]) == (0, None)
