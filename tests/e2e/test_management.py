"""The running program under management: accounts, the log as it grows, and the command line beside it."""

from __future__ import annotations

import csv
import http.client
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.caller import PATIENCE, Caller
from fakes.gateway import SOURCE, GatewayProcess, config
from fakes.upstream import FakeUpstream

ADMIN = "sk-admin-0123456789abcdef"
MODEL = "chat_completion.text"


@pytest.fixture(scope="module")
def running(
    session_upstream: FakeUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    given = config(session_upstream)
    given["keys"] = [{"name": "admin", "key": ADMIN, "role": "admin", "username": "boss"}]
    given["settings"]["prices"] = {"chat_completion.*": {"input": "1", "output": "2"}}
    process = GatewayProcess(tmp_path_factory.mktemp("managed"), given)
    yield process
    process.stop()


@pytest.fixture
def admin(running: GatewayProcess) -> Caller:
    return Caller(running.port, {"authorization": f"Bearer {ADMIN}"})


def command(process: GatewayProcess, *words: str) -> Any:
    file = process.log.parent / "monoize.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "monoize", *words, "--json", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=process.log.parent,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def account(admin: Caller, name: str, **more: Any) -> tuple[dict[str, Any], Caller]:
    user = admin.post("/api/users", {"username": name, **more}).json
    key = admin.post("/api/keys", {"user_id": user["id"], "name": name}).json
    return user, Caller(admin.port, {"authorization": f"Bearer {key['key']}"})


class Watch:
    """A caller that reads the live log."""

    def __init__(self, caller: Caller) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", caller.port, timeout=PATIENCE)
        self._line.request("GET", "/api/logs/stream", headers=caller.headers)
        self._answer = self._line.getresponse()
        assert self._answer.getheader("content-type") == "text/event-stream"
        assert self._answer.readline() == b": watching\n"

    def row(self) -> dict[str, Any]:
        while not (line := self._answer.readline()).startswith(b"data: "):
            assert line
        return json.loads(line[6:])

    def close(self) -> None:
        self._line.close()


def test_a_call_is_seen_as_it_ends_and_found_again(admin, upstream):
    _, alice = account(admin, "alice")
    _, bob = account(admin, "bob")
    everything, own = Watch(admin), Watch(bob)
    try:
        first = alice.ask("chat_completion", MODEL)
        second = bob.ask("chat_completion", MODEL)
        rows = [everything.row(), everything.row()]
        assert [row["request_id"] for row in rows] == [
            first.headers["x-request-id"],
            second.headers["x-request-id"],
        ]
        assert own.row() == rows[1]  # nothing of alice's came before it
    finally:
        everything.close()
        own.close()
    seen = rows[0]
    assert (seen["status"], seen["username"], seen["provider"]) == (
        "success",
        "alice",
        "chat_completion",
    )
    assert seen["charge"] > 0
    found = alice.get(f"/api/logs/{seen['request_id']}").json
    assert found == {**seen, "id": found["id"]}
    assert bob.get(f"/api/logs/{seen['request_id']}").status == 404
    assert [row["username"] for row in bob.get("/api/logs").json["rows"]] == ["bob"]


def test_sums_pages_and_csv_agree(admin, upstream):
    user, carol = account(admin, "carol", balance=10**9)
    for _ in range(5):
        assert carol.ask("chat_completion", MODEL).status == 200
    assert carol.ask("chat_completion", "no-such-model").status == 404
    rows, target = [], "/api/logs?limit=2"
    while True:
        page = carol.get(target).json
        rows += page["rows"]
        if page["next"] is None:
            break
        target = f"/api/logs?limit=2&before={page['next']}"
    charged = sum(row["charge"] or 0 for row in rows)
    total = carol.get("/api/usage?by=model").json["total"]
    assert (total["calls"], total["errors"], total["charge"]) == (len(rows), 1, charged)
    left = admin.get(f"/api/users/{user['id']}").json
    assert left["balance"] == 10**9 - charged
    answer = carol.get("/api/logs.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    lines = list(csv.DictReader(io.StringIO(answer.raw.decode())))
    assert [line["request_id"] for line in lines] == [row["request_id"] for row in rows]
    assert sum(int(line["charge"] or 0) for line in lines) == charged


def test_a_channel_that_answers_passes_its_test(admin, upstream):
    answer = admin.post(
        "/api/providers/messages/channels/messages-main/test", {"model": "messages.text"}
    ).json
    assert (answer["success"], answer["model"], answer["error"]) == (True, "messages.text", None)
    assert answer["latency_ms"] >= 0
    (exchange,) = upstream.exchanges
    assert exchange.body["max_tokens"] == 16
    bad = admin.post(
        "/api/providers/messages/channels/messages-main/test", {"model": "messages.status_401"}
    ).json
    assert not bad["success"]
    assert bad["error"]


@pytest.mark.spec("T45")
def test_what_the_command_line_changes_the_server_notices(running, admin):
    command(running, "users", "create", "dave", "--balance", "2.5")
    made = command(running, "keys", "create", "laptop", "--user", "dave")
    dave = Caller(running.port, {"authorization": f"Bearer {made['key']}"})
    _until(lambda: dave.get("/api/me").status == 200)
    assert dave.get("/api/me").json["user"]["balance_usd"] == "2.5"
    command(running, "keys", "revoke", made["id"])
    _until(lambda: dave.get("/api/me").status == 401)
    actors = {entry["actor"] for entry in admin.get("/api/audit?action=key.delete").json["data"]}
    assert actors == {"command line"}


def test_the_command_line_shows_what_the_server_did(running, admin, upstream):
    _, erin = account(admin, "erin")
    assert erin.ask("chat_completion", MODEL).status == 200
    (row,) = command(running, "logs", "--user", "erin")["data"]
    assert row["requested_model"] == MODEL
    assert command(running, "logs", row["request_id"]) == row
    total = command(running, "usage", "--by", "user", "--user", "erin")["total"]
    assert (total["calls"], total["charge"]) == (1, row["charge"])
    (tested,) = command(running, "providers", "test", "chat_completion", "--model", MODEL)["data"]
    assert tested["success"]


def _until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_secrets_of_the_file_are_in_no_answer(running, admin):
    answer = admin.get("/api/providers")
    assert answer.status == 200
    assert b"sk-channel-" not in answer.raw
    assert Path(running.log).read_text("utf-8").count(ADMIN) == 0
