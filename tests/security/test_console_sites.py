"""Web pages from elsewhere, rebound names, planted cookies and spoofed headers reach neither the admin API nor the tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fakes.databases import database_url_of_doors  # noqa: F401 - a fixture
from fakes.management import ADMIN, Answer, Api, opened
from monoize.store import keys, users

pytestmark = pytest.mark.soak  # on both databases

HOST = {"host": "localhost:8080"}
PAGE = {**HOST, "origin": "http://localhost:8080", "sec-fetch-site": "same-origin"}
JSON = {"content-type": "application/json"}
PASSWORD = "correct horse battery"
# What a page elsewhere would like to have done: tools on this machine, money, keys.
WISHES: list[tuple[str, str, Any]] = [
    ("POST", "/v1/agent/runs", {"task": "rm -rf", "model": "m", "page": "code"}),
    ("POST", "/v1/chat/completions", {"model": "gpt-4o", "messages": []}),
    ("POST", "/v1/agent/replay", {}),
    ("POST", "/api/users", {"username": "intruder", "role": "admin"}),
    ("PUT", "/api/settings/reasoning_suffix_map", {"value": {}}),
    ("DELETE", "/api/providers/of-file", None),
    ("POST", "/api/session", {}),
    ("GET", "/api/users", None),
    ("GET", "/v1/models", None),
    ("GET", "/api/logs/stream", None),
]
SIMPLE = [
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": "multipart/form-data; boundary=x"},
    {},
]
FOREIGN: dict[str, dict[str, str]] = {
    "another site": {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    "another site, old browser": {"origin": "https://evil.example"},
    "a sandboxed frame": {"origin": "null", "sec-fetch-site": "cross-site"},
    "a sandboxed frame, old browser": {"origin": "null"},
    "another port": {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"},
    "a subresource": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "a form": {
        "origin": "https://evil.example",
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    },
    "a rebound name": {"host": "evil.example:8080", "origin": "http://evil.example:8080"},
    "a rebound name, typed": {"host": "evil.example:8080", "sec-fetch-site": "none"},
    "a rebound name without a port": {"host": "evil.example"},
    "a name with a user": {"host": "localhost:8080@evil.example"},
}


class Browser:
    """Keeps the cookie that it was given, and sends what a page of ours would."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.cookie = ""
        self.csrf = ""

    async def call(self, method: str, target: str, body: Any = None, **said: str | None) -> Answer:
        headers: dict[str, Any] = {**PAGE, **JSON, "cookie": self.cookie}
        headers |= {"x-monoize-csrf": self.csrf}
        headers |= {name.replace("_", "-"): value for name, value in said.items()}
        sent = {name: value for name, value in headers.items() if value}
        answer = await self.api.call(method, target, body, key=None, headers=sent)
        given = answer.headers.get("set-cookie")
        if given is not None:
            self.cookie = given.partition(";")[0]
        if target == "/api/session" and answer.status == 200:
            self.csrf = answer.json["csrf"] or ""
        return answer

    async def sign_in(self, **credentials: str) -> Answer:
        answer = await self.call("POST", "/api/session", credentials)
        assert answer.status == 200, answer.raw
        return answer


@pytest_asyncio.fixture
async def keyless(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    """Nobody needs a key, and whoever gets in is an admin."""
    house = await opened(tmp_path, database_url, keys=[])
    yield Api(house)
    await house.aclose()


async def everything(api: Api) -> list[Any]:
    names = ("users", "keys", "providers", "settings", "audit")
    return [await api.good("GET", f"/api/{name}") for name in names]


@pytest.mark.parametrize("name", FOREIGN)
async def test_a_page_from_elsewhere_reaches_nothing_where_nobody_needs_a_key(keyless, name):
    before = await everything(keyless)
    for method, target, body in WISHES:
        for kind in (*SIMPLE, JSON):
            headers = {**HOST, **kind, **FOREIGN[name]}
            answer = await keyless.call(method, target, body, key=None, headers=headers)
            assert answer.status == 403, (method, target, kind, answer.raw)
            assert "set-cookie" not in answer.headers
    assert await everything(keyless) == before


@pytest.mark.parametrize("name", FOREIGN)
async def test_a_page_from_elsewhere_reaches_nothing_with_the_cookie_of_somebody_signed_in(
    api, name
):
    """Should a browser ever send it along: SameSite keeps it at home."""
    browser = Browser(api)
    await browser.sign_in()  # at the machine itself, as an admin
    before = await everything(api)
    for method, target, body in WISHES:
        for token in (browser.csrf, None):
            said: dict[str, Any] = {k.replace("-", "_"): v for k, v in FOREIGN[name].items()}
            said = {"sec_fetch_site": None, "origin": None, **said, "x_monoize_csrf": token}
            answer = await Browser.call(browser, method, target, body, **said)
            assert answer.status == 403, (method, target, answer.raw)
    assert await everything(api) == before


async def test_a_form_on_a_page_of_ours_changes_nothing_either(keyless, api):
    """Text that got into a page must not become a request."""
    for place in (keyless, api):
        browser = Browser(place)
        await browser.sign_in()
        for method, target, body in WISHES:
            if method == "GET" or target == "/api/session":
                continue
            for kind in SIMPLE:
                said = {"content_type": kind.get("content-type"), "x_monoize_csrf": None}
                answer = await browser.call(method, target, body, **said)
                assert answer.status == 403, (method, target, kind, answer.raw)
                assert answer.error["code"] == "csrf_needed"


async def test_a_missing_or_wrong_token_changes_nothing(api):
    browser, other = Browser(api), Browser(api)
    await browser.sign_in()
    await other.sign_in()
    body = {"username": "bob"}
    for wrong in (None, "x", other.csrf, browser.csrf[:-1]):
        answer = await browser.call("POST", "/api/users", body, x_monoize_csrf=wrong)
        assert (answer.status, answer.error["code"]) == (403, "csrf_needed")
        assert (await browser.call("DELETE", "/api/session", x_monoize_csrf=wrong)).status == 403
    assert (await browser.call("GET", "/api/users", x_monoize_csrf=None)).status == 200
    assert (await browser.call("POST", "/api/users", body)).status == 201


async def test_programs_go_on_as_before(keyless):
    kinds = (*SIMPLE, JSON, {**JSON, "sec-fetch-mode": "cors", "accept-language": "*"})
    for number, kind in enumerate(kinds):
        answer = await keyless.call("GET", "/api/users", key=None, headers=kind)
        assert answer.status == 200
        answer = await keyless.call(
            "POST", "/api/users", {"username": f"u{number}"}, key=None, headers=kind
        )
        assert answer.status == 201, answer.raw


async def test_a_planted_cookie_is_never_taken_over(api):
    user = await api.user("ada", password=PASSWORD, role="admin")
    planted = f"monoize_session_8080={'A' * 43}"
    browser = Browser(api)
    browser.cookie = planted
    await browser.sign_in(username="ada", password=PASSWORD)
    assert browser.cookie != planted
    first = browser.cookie
    await browser.sign_in(username="ada", password=PASSWORD)
    assert browser.cookie != first
    for old in (planted, first):
        answer = await browser.call("GET", "/api/users", cookie=old)
        assert answer.status == 401
    both = await browser.call("GET", "/api/users", cookie=f"{first}; {browser.cookie}")
    assert both.status == 401
    assert (await browser.call("GET", f"/api/users/{user['id']}")).status == 200


@pytest.mark.parametrize("change", ["disable", "delete", "password", "role"])
async def test_a_session_is_worth_what_its_user_is(api, change):
    user = await api.user("ada", password=PASSWORD, role="admin")
    browser = Browser(api)
    await browser.sign_in(username="ada", password=PASSWORD)
    target = f"/api/users/{user['id']}"
    assert (await browser.call("GET", "/api/users")).status == 200
    match change:
        case "disable":
            await api.good("PATCH", target, {"enabled": False})
        case "delete":
            await api.good("DELETE", target)
        case "password":
            await api.good("PATCH", target, {"password": "another " + PASSWORD})
        case _:
            await api.good("PATCH", target, {"role": "user"})
    answer = await browser.call("GET", "/api/users")
    assert answer.status == (403 if change == "role" else 401)
    view = (await browser.call("GET", "/api/session")).json
    assert view["signed_in"] is (change == "role")


async def test_signing_out_ends_it_for_whoever_copied_the_cookie(api):
    browser = Browser(api)
    await browser.sign_in()
    copied, token = browser.cookie, browser.csrf
    assert (await browser.call("GET", "/api/users")).status == 200
    answer = await browser.call("DELETE", "/api/session")
    assert answer.status == 200
    assert "Max-Age=0" in answer.headers["set-cookie"]
    for method in ("GET", "POST"):
        said = {"cookie": copied, "x_monoize_csrf": token}
        assert (await browser.call(method, "/api/users", {}, **said)).status == 401


async def test_the_first_user_ends_the_time_without_sign_in(api):
    browser = Browser(api)
    view = (await browser.sign_in()).json
    assert (view["how"], view["role"]) == ("local", "admin")
    assert "no users" in view["notice"]
    await api.user("ada")
    assert (await browser.call("GET", "/api/users")).status == 401
    answer = await browser.call("POST", "/api/session", {})
    assert (answer.status, answer.error["code"]) == (403, "no_sign_in")


@pytest.mark.parametrize(
    "header",
    [
        "x-forwarded-for",
        "forwarded",
        "via",
        "x-real-ip",
        "x-forwarded-user",
        "x-remote-user",
    ],
)
async def test_a_spoofed_header_signs_nobody_in(api, header):
    await api.user("ada", password=PASSWORD, role="admin")
    for value in ("ada", "127.0.0.1", "for=127.0.0.1"):
        browser = Browser(api)
        said = {header.replace("-", "_"): value}
        assert (await browser.call("GET", "/api/users", **said)).status == 401
        assert (await browser.call("POST", "/api/session", {}, **said)).status == 403


async def test_a_trusted_proxys_header_is_believed_from_its_address_alone(database_url, tmp_path):
    server = {
        "host": "127.0.0.1",
        "hosts": ["gw.example"],
        "trusted_proxies": ["10.0.0.2"],
        "console": {"user_header": "X-Remote-User"},
    }
    house = await opened(tmp_path, database_url, server=server)
    api = Api(house)
    await api.user("ada")
    browser = Browser(api)  # its address is 127.0.0.1, which is no proxy here
    answer = await browser.call("POST", "/api/session", {}, x_remote_user="ada")
    assert answer.status == 403
    await house.aclose()
    house = await opened(
        tmp_path, database_url, server={**server, "trusted_proxies": ["127.0.0.1"]}
    )
    browser = Browser(Api(house))
    answer = await browser.call("POST", "/api/session", {}, x_remote_user="ada")
    assert (answer.json["how"], answer.json["username"]) == ("proxy", "ada")
    assert (await browser.call("GET", "/api/me", x_remote_user="ada")).status == 200
    for spoofed in (None, "bob"):
        assert (await browser.call("GET", "/api/me", x_remote_user=spoofed)).status == 401
    await house.aclose()


async def test_guessing_passwords_gets_slower(api):
    await api.user("ada", password=PASSWORD)
    seen = []
    for _ in range(7):
        browser = Browser(api)
        credentials = {"username": "ada", "password": "wrong " + PASSWORD}
        answer = await browser.call("POST", "/api/session", credentials)
        seen.append(answer.status)
    assert seen == [401] * 5 + [429] * 2
    assert int(answer.headers["retry-after"]) > 0
    assert answer.error["code"] == "too_many_attempts"


async def test_no_cookie_is_ever_given_to_callers_of_models(api):
    browser = Browser(api)
    await browser.sign_in()
    for method, target, body in [*WISHES, ("GET", "/healthz", None), ("GET", "/metrics", None)]:
        if target in ("/api/session", "/api/logs/stream"):
            continue
        for more in ({}, {"cookie": "monoize_session_8080=dead"}, {"x_monoize_csrf": None}):
            answer = await asyncio.wait_for(browser.call(method, target, body, **more), 30)
            assert "set-cookie" not in answer.headers, target


async def test_nothing_tells_a_password_or_a_token(api):
    user = await api.user("ada", password=PASSWORD, role="admin")
    browser = Browser(api)
    shown = [(await browser.sign_in(username="ada", password=PASSWORD)).raw]
    token = browser.cookie.partition("=")[2]
    seen = ("users", f"users/{user['id']}", "me", "session", "audit")
    shown += [(await browser.call("GET", f"/api/{name}")).raw for name in seen]
    text = b"".join(shown).decode()
    assert PASSWORD not in text
    assert "argon2" not in text
    assert token not in text
    assert "session.create" in text  # who signed in is in the audit


async def test_what_is_done_by_somebody_signed_in_is_theirs(api):
    user = await api.user("ada", password=PASSWORD, role="admin")
    browser = Browser(api)
    await browser.sign_in(username="ada", password=PASSWORD)
    assert (await browser.call("POST", "/api/users", {"username": "bob"})).status == 201
    newest = (await api.good("GET", "/api/audit"))["data"][0]
    assert newest["action"] == "user.create"
    assert newest["actor"] == f"ada (console:{user['id']})"


async def test_a_member_sees_and_makes_what_is_their_own(api):
    user = await api.user("ann", password=PASSWORD)
    other = await api.key(await api.user("bob"))
    browser = Browser(api)
    await browser.sign_in(username="ann", password=PASSWORD)
    made = await browser.call("POST", "/api/keys", {"name": "mine"})
    assert made.status == 201
    listed = (await browser.call("GET", "/api/keys")).json["data"]
    assert [key["id"] for key in listed] == [made.json["id"]]
    assert (await browser.call("GET", f"/api/keys/{other['id']}")).status == 404
    assert (await browser.call("GET", "/api/users")).status == 403
    assert (await browser.call("DELETE", f"/api/users/{user['id']}")).status == 403
    assert (await browser.call("POST", "/api/keys", {"name": "x", "user_id": other["user_id"]})).status == 403  # fmt: skip


async def test_a_password_ends_the_time_in_which_nobody_needs_a_key(keyless):
    assert (await keyless.call("GET", "/api/users", key=None)).status == 200
    await keyless.good(
        "POST", "/api/users", {"username": "ada", "role": "admin", "password": PASSWORD}, key=None
    )
    assert (await keyless.call("GET", "/api/users", key=None)).status == 401
    browser = Browser(keyless)
    await browser.sign_in(username="ada", password=PASSWORD)
    assert (await browser.call("GET", "/api/users")).status == 200


async def test_ones_own_password_is_changed_with_the_old_one(api):
    await api.user("ada", password=PASSWORD)
    browser, elsewhere = Browser(api), Browser(api)
    await browser.sign_in(username="ada", password=PASSWORD)
    await elsewhere.sign_in(username="ada", password=PASSWORD)
    new = "another " + PASSWORD
    wrong = await browser.call("PUT", "/api/me/password", {"current": new, "new": new})
    assert (wrong.status, wrong.error["param"]) == (403, "current")
    short = await browser.call("PUT", "/api/me/password", {"current": PASSWORD, "new": "short"})
    assert short.status == 400
    done = await browser.call("PUT", "/api/me/password", {"current": PASSWORD, "new": new})
    assert done.status == 200
    browser.csrf = done.json["csrf"]
    assert (await browser.call("GET", "/api/me")).status == 200
    assert (await elsewhere.call("GET", "/api/me")).status == 401
    again = {"username": "ada", "password": PASSWORD}
    assert (await Browser(api).call("POST", "/api/session", again)).status == 401


async def test_a_key_signs_in_and_its_end_signs_out(api):
    key = await api.key(await api.user("ada"))
    browser = Browser(api)
    view = (await browser.sign_in(key=key["key"])).json
    assert (view["how"], view["username"], view["role"]) == ("key", "ada", "user")
    assert (await browser.call("GET", "/api/me")).json["key_id"] == key["id"]
    await api.good("DELETE", f"/api/keys/{key['id']}")
    assert (await browser.call("GET", "/api/me")).status == 401
    wrong = await Browser(api).call("POST", "/api/session", {"key": "sk-wrong-0123456789"})
    assert wrong.status == 401
    assert "set-cookie" not in wrong.headers


async def test_a_key_that_was_just_rotated_begins_no_session(api):
    """Another process may remember the old secret for a moment longer."""
    key = await api.key(await api.user("ada"))
    lasting = api.house.state.lasting
    assert (await api.call("GET", "/api/me", key=key["key"])).status == 200  # remembered here
    by = {"actor": "elsewhere", "now": 1}
    work = partial(keys.rotate, key_id=key["id"], vault=lasting.vault, ids=lasting.ids, **by)
    await lasting.database.write(work)
    answer = await Browser(api).call("POST", "/api/session", {"key": key["key"]})
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


async def test_the_old_password_does_not_win_over_one_that_was_set_meanwhile(api, monkeypatch):
    """A thief changes it at the moment when an admin locks the thief out."""
    user = await api.user("ada", password=PASSWORD)
    thief = Browser(api)
    await thief.sign_in(username="ada", password=PASSWORD)
    sessions, database = api.house.state.access.sessions, api.house.state.lasting.database
    hashed, rescue = sessions.hashed, "the admin's own " + PASSWORD

    async def meanwhile(password: str) -> str:
        by = {"actor": "root", "now": 1}
        await database.write(
            partial(
                users.set_password, user_id=user["id"], password_hash=await hashed(rescue), **by
            )
        )
        return await hashed(password)

    monkeypatch.setattr(sessions, "hashed", meanwhile)
    form = {"current": PASSWORD, "new": "the thief's " + PASSWORD}
    answer = await thief.call("PUT", "/api/me/password", form)
    assert (answer.status, answer.error["param"]) == (403, "current")
    await Browser(api).sign_in(username="ada", password=rescue)


async def test_a_key_in_the_file_is_needed_at_the_machine_itself_too(database_url, tmp_path):
    """A proxy on the same machine may add no header and say `Host: 127.0.0.1`, and its visitors are everybody."""
    house = await opened(tmp_path, database_url, server={})
    browser = Browser(Api(house))
    assert (await browser.call("GET", "/api/session")).json["ways"] == ["key"]
    answer = await browser.call("POST", "/api/session", {}, host="127.0.0.1:8080", origin=None)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    await house.aclose()


async def test_without_a_store_a_key_of_the_file_signs_in(storeless):
    browser = Browser(storeless)
    await browser.sign_in(key=ADMIN)
    assert (await browser.call("GET", "/api/me")).json["role"] == "admin"
    assert (await browser.call("POST", "/api/session", {"username": "a", "password": PASSWORD})).status == 401  # fmt: skip
