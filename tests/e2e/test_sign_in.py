"""Signing in over the wire: a browser's cookie calls models, pays, is seen in the log, and ends when it should."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.caller import PATIENCE, Reply, body
from fakes.gateway import SOURCE, GatewayProcess, config
from fakes.upstream import FakeUpstream

ADMIN = "sk-admin-0123456789abcdef"
MODEL = "chat_completion.text"
PASSWORD = "correct horse battery"
CHAT = body("chat_completion", MODEL)


class Page:
    """A browser on a page of ours, at one of the gateway's processes after the other."""

    def __init__(self, port: int, name: str = "localhost") -> None:
        self.name = f"{name}:{port}"
        self.cookie = ""
        self.csrf = ""

    def open(
        self, method: str, target: str, sent: Any = None, port: int | None = None, **more: str
    ) -> http.client.HTTPConnection:
        at = port or int(self.name.rpartition(":")[2])
        line = http.client.HTTPConnection("127.0.0.1", at, timeout=PATIENCE)
        headers = {
            "host": self.name,
            "origin": f"http://{self.name}",
            "sec-fetch-site": "same-origin",
            "cookie": self.cookie,
            "x-monoize-csrf": self.csrf,
            "content-type": "application/json",
            **more,
        }
        raw = None if sent is None else json.dumps(sent)
        line.request(method, target, raw, {name: value for name, value in headers.items() if value})
        return line

    def call(self, method: str, target: str, sent: Any = None, **more: Any) -> Reply:
        line = self.open(method, target, sent, **more)
        answer = line.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        reply = Reply(answer.status, headers, answer.read())
        line.close()
        if "set-cookie" in headers:
            self.cookie = headers["set-cookie"].partition(";")[0]
        return reply

    def good(self, method: str, target: str, sent: Any = None, **more: Any) -> Any:
        reply = self.call(method, target, sent, **more)
        assert reply.status in (200, 201), reply.raw
        if target == "/api/session":
            self.csrf = reply.json["csrf"] or ""
        return reply.json

    def sign_in(self, name: str, password: str = PASSWORD) -> Any:
        return self.good("POST", "/api/session", {"username": name, "password": password})


def settings(upstream: FakeUpstream, folder: Path) -> dict[str, Any]:
    given = config(upstream)
    given["database"] = f"sqlite:///{folder / 'shared.db'}"
    given["server"] = {**given.get("server", {}), "console": {"local": True}}
    given["keys"] = [{"name": "admin", "key": ADMIN, "role": "admin"}]
    given["settings"]["prices"] = {"chat_completion.*": {"input": "1", "output": "2"}}
    return given


@pytest.fixture
def gateway(
    upstream: FakeUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GatewayProcess]:
    monkeypatch.setenv("MONOIZE_SECRET_KEY", "of every process of this test")
    process = GatewayProcess(tmp_path / "one", settings(upstream, tmp_path))
    yield process
    process.stop()


def command(process: GatewayProcess, *words: str, said: str = "") -> subprocess.CompletedProcess:
    file = process.log.parent / "monoize.yaml"
    return subprocess.run(
        [sys.executable, "-m", "monoize", *words, "--json", "--config", str(file)],
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def test_from_the_first_start_to_passwords(gateway):
    first = Page(gateway.port)
    view = first.good("GET", "/api/session")
    assert (view["signed_in"], view["ways"]) == (False, ["local", "key"])
    view = first.good("POST", "/api/session", {})
    assert (view["how"], view["role"]) == ("local", "admin")
    assert first.call("POST", "/v1/chat/completions", CHAT).status == 200

    made = command(
        gateway, "users", "create", "ada", "--role", "admin", "--password", said=PASSWORD
    )
    assert json.loads(made.stdout)["has_password"], made.stderr
    assert PASSWORD not in made.stdout
    assert first.call("GET", "/api/users").status == 401
    assert first.call("POST", "/v1/chat/completions", CHAT).status == 401
    view = first.good("GET", "/api/session")
    assert view["ways"] == ["password", "key"]

    ada = Page(gateway.port)
    view = ada.sign_in("ada")
    assert (view["how"], view["username"], view["role"]) == ("password", "ada", "admin")
    assert ada.good("GET", "/api/me")["username"] == "ada"
    done = command(gateway, "users", "password", "ada", said=f"another {PASSWORD}\n")
    assert done.returncode == 0, done.stderr
    assert ada.call("GET", "/api/me").status == 401
    assert command(gateway, "users", "password", "ada", said="short").returncode == 1
    ada.sign_in("ada", f"another {PASSWORD}")
    assert ada.good("DELETE", "/api/session")["signed_in"] is False
    assert ada.call("GET", "/api/me").status == 401


def test_a_call_by_cookie_is_paid_for_by_its_user(gateway):
    root = Page(gateway.port)
    root.good("POST", "/api/session", {"key": ADMIN})
    user = {"username": "ann", "password": PASSWORD, "balance": 10**9}
    user = root.good("POST", "/api/users", user)
    ann = Page(gateway.port)
    ann.sign_in("ann")
    reply = ann.call("POST", "/v1/chat/completions", CHAT)
    assert reply.status == 200
    assert "set-cookie" not in reply.headers
    assert ann.call("POST", "/v1/chat/completions", CHAT, **{"x-monoize-csrf": ""}).status == 403
    rows = ann.good("GET", "/api/logs")["rows"]
    assert [(row["user_id"], row["username"], row["key_id"]) for row in rows] == [
        (user["id"], "ann", f"console:{user['id']}")
    ]
    left = ann.good("GET", "/api/me")["user"]["balance"]
    assert left == 10**9 - rows[0]["charge"]
    assert rows[0]["charge"] > 0
    root.good("PATCH", f"/api/users/{user['id']}", {"balance": 0})
    assert ann.call("POST", "/v1/chat/completions", CHAT).status == 402


def test_every_process_knows_the_session(gateway, upstream, tmp_path):
    other = GatewayProcess(tmp_path / "two", settings(upstream, tmp_path))
    try:
        page = Page(gateway.port)
        page.good("POST", "/api/session", {"key": ADMIN})
        assert page.good("GET", "/api/me", port=other.port)["role"] == "admin"
        page.good("DELETE", "/api/session", port=other.port)
        assert page.call("GET", "/api/me").status == 401
    finally:
        other.stop()


def test_whoever_watches_is_shown_out_with_the_session(gateway):
    page = Page(gateway.port)
    page.good("POST", "/api/session", {})
    line = page.open("GET", "/api/logs/stream")
    watching = line.getresponse()
    assert watching.readline() == b": watching\n"
    assert page.call("POST", "/v1/chat/completions", CHAT).status == 200
    while not (seen := watching.readline()).startswith(b"data: "):
        assert seen
    page.good("DELETE", "/api/session")
    key = Page(gateway.port)
    key.call("POST", "/v1/chat/completions", CHAT, authorization=f"Bearer {ADMIN}")
    assert b"data: " not in watching.read()  # to its end
    line.close()


HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "content-type": "",
    "x-monoize-csrf": "",
}
VISITORS: dict[str, tuple[dict[str, str], int]] = {
    "our own page": ({}, 404),  # let in: there is just no such model
    "another site": ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, 403),
    "another port": ({"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, 403),
    "another port, old browser": ({"origin": "http://localhost:3000", "sec-fetch-site": ""}, 403),
    "a sandboxed frame": ({"origin": "null", "sec-fetch-site": ""}, 403),
    "a program with the cookie": ({"origin": "", "sec-fetch-site": ""}, 403),
    "a rebound name": ({"host": "evil.example"}, 403),
    "our own page, signed out": ({"cookie": ""}, 401),
}


def test_a_websocket_opens_for_our_own_page_alone(gateway):
    seen = {}
    for name, (said, _) in VISITORS.items():
        page = Page(gateway.port)
        page.good("POST", "/api/session", {})
        reply = page.call("GET", "/v1/realtime?model=nobody-has-this", **HANDSHAKE | said)
        seen[name] = reply.status
    assert seen == {name: status for name, (_, status) in VISITORS.items()}
