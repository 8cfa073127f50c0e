"""Agent runs over HTTP, against providers of every type on the wire."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.agent_calls import ADMIN, ALICE, BOB, Doors, settings, tool
from fakes.behaviours import BEHAVIOURS
from fakes.gateway import GatewayThread
from fakes.speakers import SPEAKERS
from fakes.upstream import FakeUpstream

REPLY = {"run_id", "outcome", "failure_code", "output", "digest", "contract", "head"}
REQUIRED = {"tool_policy": "required"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    noted = tmp_path_factory.mktemp("tools") / "calls"
    configured = {
        "weather": tool(noted, pure=True, scope="read"),
        "outdoors": tool(noted, scope="write"),
        "slow": tool(noted, seconds=60, scope="write"),
        "broken": {"commands": [{"name": "x", "argv": ["/nowhere/at-all"]}]},
        "away": {"mcp": [{"name": "gone", "argv": ["/nowhere/at-all"]}]},
    }
    with FakeUpstream(BEHAVIOURS) as upstream:
        gateway = GatewayThread(settings(upstream, configured))
        yield SimpleNamespace(port=gateway.port, noted=noted, upstream=upstream, gateway=gateway)
        gateway.stop()


@pytest.fixture
def alice(place: Any) -> Doors:
    place.noted.write_text("")
    return Doors(place.port, ALICE)


@pytest.mark.spec("S5-9", "S5-C", "S5-E")
@pytest.mark.parametrize("kind", list(SPEAKERS))
def test_a_required_run_calls_its_tool_and_proves_it(kind, alice, place):
    reply = alice.run(
        task="How is the weather?", model=f"{kind}.tools", tools=["weather"], contract=REQUIRED
    )
    assert set(reply) == REPLY
    assert (reply["outcome"], reply["output"]) == ("COMPLETED_WITH_TOOLS", "It is 21 °C.")
    assert reply["contract"]["model_profile_id"] == f"native_{kind}"
    assert json.loads(place.noted.read_text())["city"] == "Zürich"
    run_id = reply["run_id"]
    status, proof = alice.json("POST", f"/v1/agent/runs/{run_id}/verify")
    assert status == 200
    assert proof["ok"], proof
    assert proof["head"] == reply["head"]
    status, again = alice.json("POST", "/v1/agent/replay", {"run_id": run_id})
    assert (status, again["identical"], again["head"]) == (200, True, reply["head"])


@pytest.mark.spec("S5-D")
def test_every_state_event_carries_the_whole_digest_and_the_last_event_the_outcome(alice):
    events = alice.events(
        "/v1/agent/runs",
        {
            "task": "How is the weather?",
            "model": "messages.tools",
            "tools": ["weather"],
            "stream": True,
        },
    )
    names = [name for name, _ in events]
    assert set(names) == {"state", "delta", "tool", "outcome"}
    assert names[-1] == "outcome"
    assert names.count("outcome") == 1
    digests = [said["digest"] for name, said in events if name == "state"]
    assert [digest["seq"] for digest in digests] == sorted(digest["seq"] for digest in digests)
    assert all({"state", "calls", "trail", "digest"} <= digest.keys() for digest in digests)
    assert set(events[-1][1]) == REPLY
    assert events[-1][1]["digest"]["digest"] == digests[-1]["digest"]
    text = "".join(said["text"] for name, said in events if name == "delta")
    assert text == "It is 21 °C."


def test_events_of_a_run_that_is_over_are_its_outcome(alice):
    reply = alice.run(task="Hello", model="chat_completion.text")
    events = alice.events(f"/v1/agent/runs/{reply['run_id']}/events")
    assert [name for name, _ in events] == ["outcome"]
    assert events[0][1] == reply


def test_a_state_that_the_caller_has_seen_is_not_sent_again(alice, place):
    run_id = alice.begin(task="Hello", model="chat_completion.gated")
    alice.until(run_id, lambda shown: shown["digest"]["state"] == "INFER")
    path = f"/v1/agent/runs/{run_id}"
    seen = {"last-event-id": str(alice.show(run_id)["digest"]["seq"])}
    Doors(place.port).json("POST", f"{path}/interrupt")
    _, _, raw = alice.raw("GET", f"{path}/events", headers=seen)
    assert b"event: outcome" in raw


@pytest.mark.spec("D32")
def test_a_chat_page_answers_without_tools(alice):
    reply = alice.run(task="Hello", page="chat", model="responses.text")
    assert reply["outcome"] == "COMPLETED_CHAT_ONLY"
    assert reply["contract"]["tool_policy"] == "forbidden"


@pytest.mark.spec("D34")
def test_a_forbidden_call_is_never_executed(alice, place):
    reply = alice.run(task="Hello", page="chat", model="gemini.tools", tools=["weather"])
    assert (reply["outcome"], reply["failure_code"]) == (
        "FAILED_CONTRACT_VIOLATION",
        "tool_forbidden",
    )
    assert place.noted.read_text() == ""


@pytest.mark.spec("S5-C")
def test_talk_is_no_proof(alice):
    reply = alice.run(task="Hello", model="messages.text", tools=["weather"], contract={**REQUIRED})
    assert reply["outcome"] in ("FAILED_PROTOCOL_NO_TOOLS", "FAILED_PROTOCOL_MALFORMED")


# --- approval ---


@pytest.mark.spec("D46", "D51")
def test_a_call_that_needs_a_yes_waits_and_the_child_executes_that_very_call(alice, place):
    parent = alice.run(
        task="How is the weather?",
        model="messages.tools",
        tools=["outdoors"],
        contract={**REQUIRED, "approval": ["scope:write"]},
    )
    assert (parent["outcome"], parent["failure_code"]) == ("INTERRUPTED", "approval_required")
    assert place.noted.read_text() == ""
    waiting = alice.show(parent["run_id"])["waiting_for_approval"]
    assert [call["name"] for call in waiting] == ["get_weather"]
    asked_before = len(place.upstream.exchanges)
    child = alice.run(parent_run_id=parent["run_id"], approve=[waiting[0]["id"]])
    assert child["outcome"] == "COMPLETED_WITH_TOOLS"
    assert child["contract"]["parent_contract_hash"] == parent["contract"]["contract_hash"]
    assert json.loads(place.noted.read_text()) == json.loads(waiting[0]["arguments"])
    assert len(place.upstream.exchanges) == asked_before + 1  # the reply was there already


@pytest.mark.spec("D46")
def test_only_a_call_that_waits_can_be_approved(alice):
    parent = alice.run(task="Hello", model="messages.text")
    status, said = alice.json(
        "POST", "/v1/agent/runs", {"parent_run_id": parent["run_id"], "approve": ["call_1"]}
    )
    assert (status, said["error"]["param"]) == (400, "approve")


def test_a_run_goes_on_with_its_history(alice, place):
    parent = alice.run(task="My name is Ada.", model="chat_completion.text")
    alice.run(parent_run_id=parent["run_id"], task="What is my name?")
    said = place.upstream.exchanges[-1].body["messages"]
    texts = [message["content"] for message in said if message["role"] == "user"]
    assert [str(text) for text in texts][:1] != []
    assert "My name is Ada." in json.dumps(said)
    assert "What is my name?" in json.dumps(said)


# --- who sees what ---


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/transcript"),
        ("POST", "/interrupt"),
        ("POST", "/verify"),
    ],
)
def test_somebody_elses_run_does_not_exist(method, path, alice, place):
    run_id = alice.run(task="Hello", model="chat_completion.text")["run_id"]
    bob, admin = Doors(place.port, BOB), Doors(place.port, ADMIN)
    foreign = bob.raw(method, f"/v1/agent/runs/{run_id}{path}")
    unknown = bob.raw(method, f"/v1/agent/runs/run_nothing{path}")
    assert foreign[0] == unknown[0] == 404
    assert admin.raw(method, f"/v1/agent/runs/{run_id}{path}")[0] == 200


def test_somebody_elses_run_can_be_neither_replayed_nor_gone_on_with(alice, place):
    run_id = alice.run(task="Hello", model="chat_completion.text")["run_id"]
    bob = Doors(place.port, BOB)
    assert bob.json("POST", "/v1/agent/replay", {"run_id": run_id})[0] == 404
    asked = {"parent_run_id": run_id, "task": "What did she say?"}
    assert bob.json("POST", "/v1/agent/runs", asked)[0] == 404


def test_a_list_shows_ones_own_runs_page_by_page(alice, place):
    made = [alice.run(task="Hello", model="chat_completion.text")["run_id"] for _ in range(3)]
    _, first = alice.json("GET", "/v1/agent/runs?limit=2")
    _, second = alice.json("GET", f"/v1/agent/runs?limit=1&after={first['next']}")
    listed = [row["run_id"] for row in (*first["data"], *second["data"])]
    assert listed == made[::-1]
    bob = Doors(place.port, BOB)
    mine = bob.run(task="Hello", model="chat_completion.text")["run_id"]
    _, seen = bob.json("GET", "/v1/agent/runs")
    assert [row["run_id"] for row in seen["data"]] == [mine]
    _, seen = bob.json("GET", "/v1/agent/runs?owner=key:file:alice")
    assert [row["run_id"] for row in seen["data"]] == [mine]
    _, seen = Doors(place.port, ADMIN).json("GET", "/v1/agent/runs?limit=2")
    assert [row["run_id"] for row in seen["data"]] == [mine, made[-1]]


def test_a_list_is_filtered(alice):
    run_id = alice.run(task="Hello", page="chat", model="gemini.tools")["run_id"]
    _, found = alice.json("GET", "/v1/agent/runs?outcome=FAILED_CONTRACT_VIOLATION&limit=1")
    assert found["data"][0]["run_id"] == run_id
    _, found = alice.json("GET", "/v1/agent/runs?running=true")
    assert found["data"] == []
    assert alice.json("GET", "/v1/agent/runs?outcom=x")[0] == 400
    status, told = alice.json("GET", f"/v1/agent/runs?state={'x' * 257}")
    assert (status, told["error"]["param"]) == (400, "state")


# --- what may be asked for ---


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"model": "chat_completion.text"}, "task"),
        ({"task": "x"}, "model"),
        ({"task": "x", "model": "chat_completion.text", "tool": []}, ""),
        ({"task": "x", "model": "chat_completion.text", "tools": ["/bin/sh"]}, "tools"),
        ({"task": "x", "model": "chat_completion.text", "tools": [{"argv": ["sh"]}]}, "tools[0]"),
        ({"task": "x", "model": "chat_completion.text", "profile": "gpt"}, "profile"),
        (
            {"task": "x", "model": "chat_completion.text", "contract": {"max_inferences": 10_000}},
            "contract.max_inferences",
        ),
        (
            {"task": "x", "model": "chat_completion.text", "contract": {"max_inference": 1}},
            "contract.max_inference",
        ),
    ],
)
def test_a_wrong_request_is_named_and_begins_nothing(asked, param, alice):
    before = alice.json("GET", "/v1/agent/runs")[1]["data"][:1]
    status, said = alice.json("POST", "/v1/agent/runs", asked)
    assert status == 400, said
    assert (said["error"]["param"] or "").startswith(param)
    assert alice.json("GET", "/v1/agent/runs")[1]["data"][:1] == before


def test_a_model_that_nobody_has_is_not_found(alice):
    assert alice.json("POST", "/v1/agent/runs", {"task": "x", "model": "nobody"})[0] == 404


def test_tools_that_cannot_be_had_fail_the_preflight(alice):
    reply = alice.run(task="x", model="chat_completion.tools", tools=["away"])
    assert (reply["outcome"], reply["failure_code"]) == ("FAILED_PREFLIGHT", "tools_unavailable")


def test_a_tool_that_cannot_be_started_is_an_error_for_the_model(alice):
    reply = alice.run(task="x", model="chat_completion.text", tools=["broken"])
    assert reply["outcome"] == "COMPLETED_CHAT_ONLY"


# --- a reframed request ---


REFRAMED = {
    "schema_version": "1.0.0",
    "request_id": "6f1c7a52-9f0e-4b6e-8a53-7d7f4f0e3b11",
    "created_at": "2026-11-15T12:00:00Z",
    "channels": [{"channel_id": "main", "role": "user"}],
    "payload": {
        "messages": [
            {"id": "m1", "role": "system", "content": "Be brief."},
            {"id": "m2", "role": "user", "content": "How is the weather?"},
        ]
    },
    "constraints": {
        "routing": {
            "tool_budget": {"total": 2, "per_tool": [{"tool_name": "get_weather", "budget": 1}]},
            "retrieval": {"precision_threshold": 0.7, "sources": []},
        }
    },
}


def test_a_reframed_request_becomes_a_run_within_its_tool_budget(alice, place):
    status, normal = alice.json("POST", "/v1/reframe", REFRAMED)
    assert status == 200, normal
    for document in (REFRAMED, normal["normalized"], normal):
        reply = alice.run(reframed=document, model="chat_completion.tools", tools=["weather"])
        assert reply["outcome"] == "COMPLETED_WITH_TOOLS"
        assert reply["contract"]["max_tool_calls"] == 2
        assert reply["contract"]["per_tool_calls"] == {"get_weather": 1}
        said = json.dumps(place.upstream.exchanges[-1].body["messages"])
        assert "Be brief." in said
        assert "How is the weather?" in said


def test_a_request_that_the_reframer_refuses_begins_nothing(alice):
    wrong = {**REFRAMED, "payload": {"messages": []}}
    status, said = alice.json(
        "POST", "/v1/agent/runs", {"reframed": wrong, "model": "chat_completion.text"}
    )
    assert status == 400
    assert said["error"]["param"].startswith("reframed.payload.messages")


# --- ends ---


@pytest.mark.spec("D46")
@pytest.mark.parametrize("at", ["INFER", "EXECUTE"])
def test_an_interrupted_run_closes_its_calls_and_ends(at, alice):
    model = "chat_completion.gated" if at == "INFER" else "chat_completion.tools"
    run_id = alice.begin(task="How is it?", model=model, tools=["slow"])
    alice.until(run_id, lambda shown: shown["digest"]["state"] == at)
    status, reply = alice.json("POST", f"/v1/agent/runs/{run_id}/interrupt")
    assert (status, reply["outcome"], reply["failure_code"]) == (
        200,
        "INTERRUPTED",
        "user_interrupt",
    )
    assert all(call["status"] != "waiting" for call in reply["digest"]["calls"])
    assert alice.json("POST", f"/v1/agent/runs/{run_id}/verify")[1]["ok"]


def test_a_run_goes_on_when_its_caller_hangs_up(alice, place):
    run_id = alice.begin(
        task="How is the weather?", model="chat_completion.tools", tools=["weather"]
    )
    shown = alice.ended(run_id)
    assert shown["outcome"] == "COMPLETED_WITH_TOOLS"
    assert place.noted.read_text().count("\n") == 1


# --- records ---


def test_a_transcript_can_be_taken_away_and_verified_by_anybody(alice, tmp_path: Path):
    reply = alice.run(task="How is the weather?", model="responses.tools", tools=["weather"])
    path = f"/v1/agent/runs/{reply['run_id']}/transcript"
    status, headers, lines = alice.raw("GET", path)
    assert (status, headers["content-type"]) == (200, "application/x-ndjson")
    assert json.loads(lines.splitlines()[-1])["head"] == reply["head"]
    _, _, packed = alice.raw("GET", f"{path}?format=zip")
    file = tmp_path / "run.zip"
    file.write_bytes(packed)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extract("verifier.py", tmp_path)
        assert archive.read("transcript.jsonl") == lines
    command = [sys.executable, "-I", str(tmp_path / "verifier.py"), str(file)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert alice.raw("GET", f"{path}?format=exe")[0] == 400


def test_its_calls_are_logged_under_its_id_and_its_key(alice, place):
    run_id = alice.run(task="Hello", model="chat_completion.text")["run_id"]
    _, logs = Doors(place.port, ADMIN).json("GET", "/api/logs?limit=1")
    row = logs["rows"][0]
    assert row["request_id"].startswith(f"{run_id}_")
    assert row["key_name"] == "alice"


def test_the_baseline_figures_are_in_the_stats_and_in_the_metrics(alice, place):
    alice.run(task="Hello", model="chat_completion.text", tools=["weather"], contract=REQUIRED)
    _, found = alice.json("GET", "/v1/agent/stats")
    assert found["no_tool_completions"] + found["parse_failures"] >= 1
    assert found["runs"] == sum(found["outcomes"].values())
    exposed = Doors(place.port, ADMIN).raw("GET", "/metrics")[2].decode()
    for name in (
        "no_tool_completions",
        "parse_failures",
        "max_step_exits",
        "inferences",
        "run_seconds",
    ):
        assert f"monoize_agent_{name}" in exposed
