"""Users and keys over the API: what is changed, what is shown, and when it holds."""

from __future__ import annotations

import pytest

from fakes.management import FILE_USER

MODELS = "/v1/models"


async def may_call(api, key):
    return (await api.call("GET", MODELS, key=key)).status == 200


async def test_a_user_is_made_changed_and_removed(api):
    made = await api.user("alice", balance=1_500_000_000)
    assert (made["balance"], made["balance_usd"], made["role"]) == (1_500_000_000, "1.5", "user")
    path = f"/api/users/{made['id']}"
    changed = await api.good("PATCH", path, {"username": "alicia"})
    assert (changed["username"], changed["balance"]) == ("alicia", 1_500_000_000)  # T46
    assert (await api.good("PATCH", path, {"balance": None}))["balance_usd"] is None
    assert await api.good("DELETE", path) == {"id": made["id"], "deleted": True}
    assert (await api.call("GET", path)).status == 404


async def test_a_balance_is_adjusted_by_nano_dollars(api):
    made = await api.user("alice", balance=0)
    path = f"/api/users/{made['id']}/balance"
    assert (await api.good("POST", path, {"delta": 1, "reason": "a gift"}))[
        "balance_usd"
    ] == "0.000000001"
    answer = await api.call("POST", path, {"delta": -2, "reason": "too much"})
    assert (answer.status, answer.error["param"]) == (400, "balance")
    unpaid = await api.user("bob")
    answer = await api.call(
        "POST", f"/api/users/{unpaid['id']}/balance", {"delta": 1, "reason": "x"}
    )
    assert (answer.status, answer.error["code"]) == (409, "not_prepaid")


async def test_users_come_in_pages(api):
    names = {(await api.user(f"user-{n}"))["id"] for n in range(5)}
    seen, after = set(), ""
    while True:
        page = await api.good("GET", f"/api/users?limit=2{after}")
        seen |= {user["id"] for user in page["data"]}
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == names


@pytest.mark.spec("GHSA-69x8-hrgq-fjj8")
async def test_a_key_is_shown_once_and_never_again(api):
    made = await api.key(await api.user("alice"))
    secret = made["key"].rpartition("-")[2]
    for target in (f"/api/keys/{made['id']}", "/api/keys", "/api/audit", "/api/me"):
        answer = await api.call("GET", target)
        assert answer.status == 200
        assert secret.encode() not in answer.raw
        assert b"digest" not in answer.raw
    assert (await api.call("GET", "/api/me", key=made["key"])).headers[
        "cache-control"
    ] == "no-store"


@pytest.mark.spec("T45")
async def test_every_change_of_a_key_holds_with_the_next_call(api):
    made = await api.key(await api.user("alice"))
    path, text = f"/api/keys/{made['id']}", made["key"]
    assert await may_call(api, text)
    await api.good("PATCH", path, {"enabled": False})
    assert not await may_call(api, text)
    await api.good("PATCH", path, {"enabled": True})
    assert await may_call(api, text)
    rotated = await api.good("POST", f"{path}/rotate")
    assert rotated["id"] == made["id"]
    assert not await may_call(api, text)
    assert await may_call(api, rotated["key"])
    await api.good("DELETE", path)
    assert not await may_call(api, rotated["key"])


async def test_a_user_that_is_switched_off_cannot_call(api):
    user = await api.user("alice")
    made = await api.key(user)
    assert await may_call(api, made["key"])
    await api.good("PATCH", f"/api/users/{user['id']}", {"enabled": False})
    assert not await may_call(api, made["key"])


@pytest.mark.spec("T46")
async def test_a_policy_keeps_what_a_change_does_not_name(api):
    policy = {"models": ["gpt-*"], "budgets": {"day": 5, "total": 7}, "requests_per_minute": 3}
    made = await api.key(await api.user("alice"), policy=policy)
    change = {
        "policy": {"budgets": {"day": None, "month": 2_500_000_000}, "requests_per_minute": None}
    }
    changed = await api.good("PATCH", f"/api/keys/{made['id']}", change)
    assert changed["policy"]["models"] == ["gpt-*"]
    assert changed["policy"]["budgets"] == {"day": None, "month": 2_500_000_000, "total": 7}
    assert changed["policy"]["requests_per_minute"] is None
    assert changed["budgets_usd"] == {"day": None, "month": "2.5", "total": "0.000000007"}


async def test_a_user_manages_their_own_keys(api):
    user = await api.user("alice")
    mine = await api.key(user)
    second = await api.good("POST", "/api/keys", {"name": "second"}, key=mine["key"])
    assert second["user_id"] == user["id"]
    listed = await api.good("GET", "/api/keys", key=mine["key"])
    assert {key["id"] for key in listed["data"]} == {mine["id"], second["id"]}
    path = f"/api/keys/{second['id']}"
    assert (await api.good("PATCH", path, {"name": "other"}, key=mine["key"]))["name"] == "other"
    await api.good("DELETE", path, key=mine["key"])
    me = await api.good("GET", "/api/me", key=mine["key"])
    assert (me["role"], me["username"], me["key_id"]) == ("user", "alice", mine["id"])


LIMITS = [
    {"policy": {"budgets": {"total": 1}}},
    {"policy": {"models": ["gpt-4o"]}},
    {"policy": {"addresses": ["127.0.0.1"]}},
    {"policy": {"capture": "all"}},
    {"expires_at": 4_000_000_000_000},
]


async def test_a_key_with_limits_cannot_get_round_them_with_another(api):
    user = await api.user("alice")
    free = await api.key(user)
    for limits in LIMITS:
        limited = await api.key(user, **limits)
        for method, path, body in (
            ("POST", "/api/keys", {"name": "free"}),
            ("PATCH", f"/api/keys/{limited['id']}", {"expires_at": None}),
            ("POST", f"/api/keys/{free['id']}/rotate", None),
            ("DELETE", f"/api/keys/{free['id']}", None),
        ):
            answer = await api.call(method, path, body, key=limited["key"])
            assert (answer.status, answer.error["code"]) == (403, "key_is_limited"), (limits, path)
        rotated = await api.good("POST", f"/api/keys/{limited['id']}/rotate", key=limited["key"])
        assert rotated["policy"] == limited["policy"]
    assert await may_call(api, free["key"])


async def test_transforms_for_admins_stay_with_admins(api, rule):
    user = await api.user("alice")
    body = {"user_id": user["id"], "name": "k", "policy": {"transforms": [rule]}}
    answer = await api.call("POST", "/api/keys", body)
    assert (answer.status, answer.error["code"]) == (403, "transform_not_allowed")
    listed = {t["type_id"]: t for t in (await api.good("GET", "/api/transforms"))["data"]}
    assert listed["force_stream"]["for_admins_only"]
    assert not listed["strip_reasoning"]["for_admins_only"]
    boss = await api.user("boss", role="admin")
    made = await api.key(boss, policy={"transforms": [rule]})
    assert made["policy"]["transforms"][0]["transform"] == "force_stream"


async def test_keys_of_the_file_are_listed_and_read_only(api):
    listed = (await api.good("GET", "/api/keys"))["data"]
    assert [(k["id"], k["source"]) for k in listed] == [("file:root", "file"), ("file:app", "file")]
    assert (await api.good("GET", "/api/keys/file:app"))["name"] == "app"
    for method, path in (
        ("PATCH", "/api/keys/file:app"),
        ("DELETE", "/api/keys/file:app"),
        ("POST", "/api/keys/file:app/rotate"),
    ):
        answer = await api.call(method, path, {} if method == "PATCH" else None)
        assert (answer.status, answer.error["code"]) == (409, "read_only")
        assert "config file" in answer.error["message"]


async def test_a_key_of_the_file_sees_itself_and_has_no_user(api):
    listed = await api.good("GET", "/api/keys", key=FILE_USER)
    assert [key["id"] for key in listed["data"]] == ["file:app"]
    assert (await api.call("GET", "/api/keys/file:root", key=FILE_USER)).status == 404
    answer = await api.call("POST", "/api/keys", {"name": "k"}, key=FILE_USER)
    assert (answer.status, answer.error["code"]) == (403, "no_user")
    assert (await api.good("GET", "/api/me", key=FILE_USER))["user"] is None


async def test_a_key_shows_what_it_has_spent(api):
    made = await api.key(await api.user("alice"))
    spend = (await api.good("GET", f"/api/keys/{made['id']}"))["spend"]
    assert spend["day"] == {"spent": 0, "spent_usd": "0", "reserved": 0, "reserved_usd": "0"}


async def test_every_change_is_in_the_audit_with_who_made_it(api):
    user = await api.user("alice")
    made = await api.key(user)
    await api.good("POST", "/api/keys", {"name": "second"}, key=made["key"])
    entries = (await api.good("GET", "/api/audit"))["data"]
    assert [(e["action"], e["actor"]) for e in entries] == [
        ("key.create", f"alice ({made['id']})"),
        ("key.create", "root (file:root)"),
        ("user.create", "root (file:root)"),
    ]
    page = await api.good("GET", "/api/audit?limit=1")
    assert page["next"] == entries[0]["id"]
    rest = await api.good("GET", f"/api/audit?before={page['next']}&action=user.create")
    assert [entry["subject"] for entry in rest["data"]] == [user["id"]]
