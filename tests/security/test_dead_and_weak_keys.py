"""CVE-2026-35029: no endpoint that the OpenAPI document lists works for a key without the role, or for a dead one."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest

from fakes.management import FILE_USER, Api

OPEN = {
    "/openapi.json",
    "/docs",
    "/",
    "/api/session",
    "/healthz",
    "/readyz",
    "/v1/health",
    "/v1/schemas/{name}",
}
# What a user's key may touch; everything else that begins with /api is for admins, whatever its document says.
FOR_USERS = re.compile(
    r"[A-Z]+ /api/session|PUT /api/me/password|GET /api/(me|users/\{user_id\}|health/channels|transforms|prices/\{model\}|usage|overview|logs.*)"
    r"|POST /api/transforms/trial"
    r"|[A-Z]+ /api/keys(/\{key_id\}(/rotate)?)?"
)
OVERRIDES = {"x-http-method-override": "GET", "x-original-url": "/healthz", "x-user-role": "admin"}


class Operation(NamedTuple):
    method: str
    path: str
    is_open: bool

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"

    def target(self, values: dict[str, str]) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "x"), self.path)


async def operations(api: Api) -> list[Operation]:
    paths = (await api.good("GET", "/openapi.json", key=None))["paths"]
    found = [
        Operation(method.upper(), path, entry.get("security") == [])
        for path, entries in paths.items()
        for method, entry in entries.items()
        if isinstance(entry, dict) and "responses" in entry
    ]
    assert len(found) > 40  # the document is not just empty
    return found


async def dead_keys(api: Api) -> dict[str, str | None]:
    """Admins' keys, all of them good once; and none at all."""
    boss = await api.user("boss", role="admin")
    made = {name: await api.key(boss, name) for name in ("off", "late", "old", "gone")}
    banned = await api.user("banned", role="admin")
    made["banned"] = await api.key(banned)
    for key in made.values():
        assert (await api.call("GET", "/api/settings", key=key["key"])).status == 200
    await api.good("PATCH", f"/api/keys/{made['off']['id']}", {"enabled": False})
    await api.good("PATCH", f"/api/keys/{made['late']['id']}", {"expires_at": 1})
    await api.good("POST", f"/api/keys/{made['old']['id']}/rotate")
    await api.good("DELETE", f"/api/keys/{made['gone']['id']}")
    await api.good("PATCH", f"/api/users/{banned['id']}", {"enabled": False})
    unknown = {"none": None, "unknown": "sk-unknown-0123456789"}
    return {**{name: key["key"] for name, key in made.items()}, **unknown}


async def everything(api: Api) -> str:
    """What an admin sees: nobody without a right may have changed it."""
    names = ("users", "keys", "providers", "prices", "settings", "audit")
    seen = [await api.good("GET", f"/api/{name}") for name in names]
    text = json.dumps(seen, sort_keys=True)
    return re.sub(r'"last_used_at": \w+', "", text)


@pytest.mark.spec("CVE-2026-35029")
async def test_cve_2026_35029_a_dead_key_opens_nothing_that_the_document_lists(api):
    dead = await dead_keys(api)
    before = await everything(api)
    for operation in await operations(api):
        if operation.is_open:
            assert operation.path in OPEN, operation
            continue
        for name, key in dead.items():
            for headers in ({}, OVERRIDES):
                answer = await api.call(
                    operation.method, operation.target({}), {}, key=key, headers=headers
                )
                assert answer.status == 401, (operation, name, answer.raw)
    assert await everything(api) == before


@pytest.mark.spec("CVE-2026-35029")
async def test_cve_2026_35029_a_users_key_changes_nothing_but_its_own(api):
    user = await api.user("ann")
    weak = await api.key(user)
    values = {
        "user_id": user["id"],  # even where it is about themselves: no role, no money
        "key_id": weak["id"],
        "provider_id": "of-file",
        "channel_id": "main",
        "model": "gpt-4o",
        "name": "reasoning_suffix_map",
    }
    before = await everything(api)
    refused = 0
    for operation in await operations(api):
        if not operation.path.startswith("/api/") or FOR_USERS.fullmatch(operation.label):
            continue
        for key in (weak["key"], FILE_USER):
            for headers in ({}, OVERRIDES):
                sent: Any = {"role": "admin", "value": {}, "delta": 1}
                answer = await api.call(
                    operation.method, operation.target(values), sent, key=key, headers=headers
                )
                assert answer.status == 403, (operation, answer.raw)
                refused += 1
    assert refused >= 4 * 20
    assert await everything(api) == before


@pytest.mark.spec("CVE-2026-35029")
async def test_cve_2026_35029_a_user_cannot_become_more_through_a_key_of_their_own(api):
    user = await api.user("ann")
    weak = (await api.key(user))["key"]
    made = {"name": "more", "user_id": user["id"]}
    for more in ({"role": "admin"}, {"policy": {"role": "admin"}}, {"user": {"role": "admin"}}):
        answer = await api.call("POST", "/api/keys", {**made, **more}, key=weak)
        assert answer.status == 400, answer.raw
    fresh = await api.good("POST", "/api/keys", made, key=weak)
    assert (await api.good("GET", "/api/me", key=fresh["key"]))["role"] == "user"
    assert (await api.call("GET", "/api/settings", key=fresh["key"])).status == 403
