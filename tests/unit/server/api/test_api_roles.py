"""Every endpoint states who may call it, and means it (CVE-2026-35029)."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest
from sqlalchemy import insert

from fakes.management import FILE_USER, Api, opened
from monoize.server import app
from monoize.server.api.table import ENDPOINTS
from monoize.store.tables import captures, request_logs

CANARY = "somebody-elses"
LABELS = [f"{e.method} {e.path}" for e in ENDPOINTS]
OPEN = {"/openapi.json", "/docs", "/api/session"}

# What a normal user's key may call at all; everything else is for admins.
FOR_USERS = {
    "GET /api/me",
    "PUT /api/me/password",
    "GET /api/users/{user_id}",
    "GET /api/keys",
    "POST /api/keys",
    "GET /api/keys/{key_id}",
    "PATCH /api/keys/{key_id}",
    "POST /api/keys/{key_id}/rotate",
    "DELETE /api/keys/{key_id}",
    "GET /api/health/channels",
    "GET /api/transforms",
    "POST /api/transforms/trial",
    "GET /api/prices/{model}",
    "GET /api/logs",
    "GET /api/logs.csv",
    "GET /api/logs/count",
    "GET /api/logs/stream",
    "GET /api/logs/{request_id}",
    "GET /api/logs/{request_id}/capture",
    "GET /api/usage",
    "GET /api/overview",
}
# Bodies that are in order, so that nothing but the role can be the reason of a refusal.
BODIES: dict[str, Any] = {
    "POST /api/users": {"username": "intruder", "role": "admin"},
    "PATCH /api/users/{user_id}": {"role": "admin"},
    "PUT /api/me/password": {"current": "not mine at all", "new": "mine, from now on"},
    "POST /api/users/{user_id}/balance": {"delta": 1, "reason": "gift"},
    "POST /api/keys": {"name": "stolen"},
    "PATCH /api/keys/{key_id}": {"name": "stolen"},
    "POST /api/transforms/trial": {
        "from": "chat_completion",
        "request": {"model": "m", "messages": []},
        "rules": [],
    },
    "POST /api/providers": {
        "id": "mine",
        "type": "chat_completion",
        "models": {"*": {}},
        "channels": [{"id": "c", "base_url": "http://127.0.0.1:9"}],
    },
    "PATCH /api/providers/{provider_id}": {"enabled": False},
    "PUT /api/provider-order": {"order": []},
    "POST /api/providers/{provider_id}/channels": {"id": "c", "base_url": "http://127.0.0.1:9"},
    "PATCH /api/providers/{provider_id}/channels/{channel_id}": {"weight": 0},
    "PUT /api/prices/{model}": {"rates": {"input": 0, "output": 0}},
    "PUT /api/settings/{name}": {"value": {"-x": "high"}},
}


def filled(path: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path
    return path


async def world(api: Api) -> dict[str, Any]:
    """Two users with a key each, and a request of the other one in the log."""
    own, other = await api.user("alice"), await api.user(CANARY)
    key, others_key = await api.key(own), await api.key(other, CANARY)
    row = {
        "request_id": f"req_{CANARY}",
        "status": "success",
        "created_at": 1_800_000_000_000,
        "key_id": others_key["id"],
        "key_name": CANARY,
        "user_id": other["id"],
        "username": CANARY,
        "operation": "chat",
        "is_stream": False,
        "requested_model": CANARY,
    }

    def work(connection: Any) -> None:
        connection.execute(insert(request_logs).values(row))
        body = {"request_id": row["request_id"], "body": {"said": CANARY}, "created_at": 1}
        connection.execute(insert(captures).values(body))

    await api.house.state.lasting.database.write(work)
    values = {
        "user_id": other["id"],
        "key_id": others_key["id"],
        "request_id": f"req_{CANARY}",
        "provider_id": "of-file",
        "channel_id": "main",
        "model": "gpt-4o",
        "name": "reasoning_suffix_map",
    }
    return {"key": key["key"], "other": other, "others_key": others_key, "values": values}


def test_every_endpoint_is_in_one_of_the_two_lists():
    assert {
        label for label, e in zip(LABELS, ENDPOINTS, strict=True) if e.role == "user"
    } == FOR_USERS
    assert {e.path for e in ENDPOINTS if e.role is None} == OPEN
    assert len(set(LABELS)) == len(LABELS)


def test_nothing_of_the_api_has_another_door():
    assert not [route for route in app.ROUTES if route.pattern.pattern.startswith("/api")]


@pytest.mark.spec("CVE-2026-35029")
async def test_without_a_key_no_endpoint_answers(api):
    for endpoint, label in zip(ENDPOINTS, LABELS, strict=True):
        if endpoint.role is None:
            continue
        target = filled(endpoint.path, dict.fromkeys(endpoint.names, "x"))
        for key in (None, "sk-unknown-0123456789", "sk-mz-0000000000000000-" + "0" * 40):
            answer = await api.call(endpoint.method, target, BODIES.get(label), key=key)
            assert answer.status == 401, (label, key, answer.raw)
            assert answer.error["type"] == "authentication_error"


@pytest.mark.spec("CVE-2026-35029")
async def test_a_users_key_gets_403_or_its_own_data_only(api):
    made = await world(api)
    before = await _others(api, made)
    for key in (made["key"], FILE_USER):
        for endpoint, label in zip(ENDPOINTS, LABELS, strict=True):
            if endpoint.role is None or label == "GET /api/logs/stream":
                continue  # the stream is read in tests/e2e
            target = filled(endpoint.path, {n: made["values"][n] for n in endpoint.names})
            body = BODIES.get(label)
            if label == "POST /api/keys":
                body = {**body, "user_id": made["other"]["id"]}
            answer = await api.call(endpoint.method, target, body, key=key)
            if endpoint.role == "admin":
                assert answer.status == 403, (label, answer.raw)
            else:
                assert CANARY.encode() not in answer.raw or answer.status == 404, (
                    label,
                    answer.raw,
                )
                assert answer.status in (200, 403, 404), (label, answer.raw)
    assert await _others(api, made) == before


async def _others(api: Api, made: dict[str, Any]) -> str:
    """Everything that the other one has, as an admin sees it."""
    user = await api.good("GET", f"/api/users/{made['other']['id']}")
    keys = await api.good("GET", f"/api/keys?user_id={made['other']['id']}")
    settings = await api.good("GET", "/api/settings")
    providers = await api.good("GET", "/api/providers")
    return json.dumps([user, keys, settings, providers], sort_keys=True)


async def test_a_user_may_not_ask_for_the_data_of_others(api):
    made = await world(api)
    other, key = made["other"]["id"], made["key"]
    for target in (
        f"/api/keys?user_id={other}",
        f"/api/logs?user_id={other}",
        f"/api/logs.csv?user_id={other}",
        f"/api/usage?user_id={other}",
    ):
        answer = await api.call("GET", target, key=key)
        assert (answer.status, answer.error["code"]) == (403, "not_your_own")
    for target in (f"/api/logs?username={CANARY}", f"/api/logs?key_id={made['others_key']['id']}"):
        assert (await api.good("GET", target, key=key))["rows"] == []
    assert (await api.good("GET", "/api/usage?since=0", key=key))["total"]["calls"] == 0
    assert (await api.good("GET", "/api/usage?since=0"))["total"]["calls"] == 1


async def test_an_admin_of_the_database_may_do_what_the_files_admin_may(api):
    boss = await api.key(await api.user("boss", role="admin"))
    assert (await api.call("GET", "/api/users", key=boss["key"])).status == 200
    assert (
        await api.call("PATCH", f"/api/users/{boss['user_id']}", {"role": "user"})
    ).status == 200
    assert (await api.call("GET", "/api/users", key=boss["key"])).status == 403


ODD_PATHS = "//api/users /api//users /API/users /api/users/ /v1/../api/users /api/./users"


@pytest.mark.spec("BF#5763")
async def test_a_path_that_is_written_oddly_is_no_way_in(api):
    made = await api.key(await api.user("alice"))
    for target in ODD_PATHS.split():
        for key in (None, made["key"]):
            assert (await api.call("GET", target, key=key)).status in (401, 403, 404), target


async def test_an_encoded_path_is_checked_like_any_other(api):
    assert (await api.call("GET", "/api/%75sers", key=None)).status == 401
    assert (await api.call("GET", "/api/%75sers", key=FILE_USER)).status == 403


async def test_head_needs_the_same_role_as_get(api):
    assert (await api.call("HEAD", "/api/users", key=FILE_USER)).status == 403
    answer = await api.call("HEAD", "/api/users")
    assert (answer.status, answer.raw) == (200, b"")


async def test_a_stream_is_not_waited_for_by_head(api):
    for target in ("/api/logs/stream", "/api/logs.csv"):
        answer = await api.call("HEAD", target)
        assert (answer.status, answer.raw) == (200, b"")


async def test_a_gateway_without_keys_is_open_until_there_is_one(keyless):
    user = await keyless.good("POST", "/api/users", {"username": "me", "role": "admin"}, key=None)
    assert (await keyless.good("GET", "/api/me", key=None))["role"] == "admin"
    body = {"user_id": user["id"], "name": "first"}
    made = await keyless.good("POST", "/api/keys", body, key=None)
    assert (await keyless.call("GET", "/api/users", key=None)).status == 401
    assert (await keyless.call("GET", "/v1/models", key=None)).status == 401
    assert (await keyless.call("GET", "/api/users", key=made["key"])).status == 200


async def test_bodies_are_shown_to_their_own_user_and_to_admins(api):
    made = await world(api)
    path = f"/api/logs/req_{CANARY}/capture"
    assert (await api.good("GET", path))["body"] == {"said": CANARY}
    rotated = await api.good("POST", f"/api/keys/{made['others_key']['id']}/rotate")
    assert (await api.good("GET", path, key=rotated["key"]))["body"] == {"said": CANARY}
    assert (await api.call("GET", path, key=made["key"])).status == 404


async def test_a_key_of_the_file_reads_its_own_requests(api):
    made = await world(api)
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
    refused = await api.call("POST", "/v1/chat/completions", asked, key=FILE_USER)
    assert (
        refused.status == 502
    )  # nobody is there; a call that was tried is in the log when it is answered
    rows = (await api.good("GET", "/api/logs", key=FILE_USER))["rows"]
    assert [row["request_id"] for row in rows] == [refused.headers["x-request-id"]]
    other = f"/api/logs?key_id={made['others_key']['id']}"
    assert (await api.call("GET", other, key=FILE_USER)).status == 403


async def test_whoever_watches_the_log_stops_with_its_key(database_url, tmp_path):
    """A stream may be open for days; a key that is revoked meanwhile must not see another row."""
    timeouts = {"keep_alive": 0.05}
    house = await opened(tmp_path, database_url, server={"timeouts": timeouts})
    api = Api(house)
    try:
        made = await api.key(await api.user("eve", role="admin"))
        async with aclosing(api.watch("/api/logs/stream", key=made["key"])) as watching:
            assert await anext(watching) == b": watching\n\n"
            assert await anext(watching) == b": waiting\n\n"
            await api.good("DELETE", f"/api/keys/{made['id']}")
            async for piece in watching:  # to its end: there is one
                assert piece == b": waiting\n\n"
    finally:
        await house.aclose()
