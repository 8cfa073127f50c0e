"""The doors behind the Code and Runs pages: a contract before the run, tools to name, entries, payloads, both sides of a divergence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.agent_calls import ADMIN, ALICE, BOB, Doors, settings, tool
from fakes.behaviours import BEHAVIOURS
from fakes.gateway import GatewayThread
from fakes.upstream import FakeUpstream

TASK = "Run the tests and fix the bug in src/app.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("preview")
    configured = {
        "weather": tool(folder / "calls", pure=True, scope="read"),
        "program": tool(folder / "calls"),  # what does not say counts as execute
        "away": {"mcp": [{"name": "gone", "argv": ["/nowhere/at-all"]}]},
        "project": {"workspace": {"folder": str(folder / "project"), "create": True}},
    }
    with FakeUpstream(BEHAVIOURS) as upstream:
        made = settings(upstream, configured)
        made["settings"]["agent"] |= {
            "admin_tools": ["project"],
            "folder": str(folder / "runs"),
        }
        gateway = GatewayThread(made)
        yield SimpleNamespace(
            port=gateway.port, noted=folder / "calls", runs=folder / "runs", upstream=upstream
        )
        gateway.stop()


@pytest.fixture
def alice(place: Any) -> Doors:
    place.noted.write_text("")
    return Doors(place.port, ALICE)


def preview(doors: Doors, **asked: Any) -> tuple[int, Any]:
    return doors.json("POST", "/v1/agent/contract", asked)


# --- the contract before the run ---


@pytest.mark.spec("S5-2b", "D44")
@pytest.mark.parametrize(
    "asked",
    [
        {"task": TASK, "page": "code", "model": "messages.tools", "tools": ["weather"]},
        {"task": "What is a closure?", "page": "code", "model": "gemini.text", "tools": "weather"},
        {"task": "Hello", "page": "chat", "model": "responses.text"},
        {
            "task": TASK,
            "model": "chat_completion.tools",
            "tools": ["weather"],
            "contract": {"max_inferences": 3, "tool_policy": "required"},
        },
    ],
)
def test_the_run_gets_the_very_contract_that_was_shown(asked, alice):
    status, shown = preview(alice, **asked)
    assert status == 200, shown
    assert shown["refusals"] == []
    assert shown["contract_hash"] == shown["contract"]["contract_hash"]
    assert alice.run(**asked)["contract"] == shown["contract"]


def test_a_preview_begins_nothing_and_asks_nobody(alice, place):
    before = alice.json("GET", "/v1/agent/runs")[1]["data"][:1]
    asked = len(place.upstream.exchanges)
    assert preview(alice, task=TASK, model="messages.tools", tools=["program"])[0] == 200
    assert alice.json("GET", "/v1/agent/runs")[1]["data"][:1] == before
    assert len(place.upstream.exchanges) == asked
    assert place.noted.read_text() == ""


def test_it_says_why_and_what_each_tool_may_do(alice):
    _, shown = preview(alice, task=TASK, page="code", model="messages.tools", tools=["program"])
    policy = next(one for one in shown["decisions"] if one["field"] == "tool_policy")
    assert (policy["value"], policy["rule"], policy["matched"]) == (
        "required",
        "page_code.run",
        "run the tests and fix the bug in src/app.py",
    )
    assert "orders something" in policy["why"]
    assert [
        (one["name"], one["scope"], one["needs_approval"], one["description"])
        for one in shown["tools"]
    ] == [("get_weather", "execute", True, "The weather in a city.")]


@pytest.mark.parametrize(
    ("asked", "codes", "says"),
    [
        ({"tools": ["away"]}, {"tools_unavailable"}, "gone"),
        ({"contract": {"tool_policy": "required"}}, {"tools_unavailable"}, "none is allowed"),
        (
            {"contract": {"context_budget": {"context_window": 100}}},
            {"context_infeasible"},
            "the window has 100",
        ),
        ({"contract": {"approval": ["rm"]}}, {"contract_invalid"}, "approval names 'rm'"),
    ],
)
def test_what_the_preflight_would_refuse_is_told_in_sentences(asked, codes, says, alice):
    body = {"task": "Hello", "model": "chat_completion.text", **asked}
    status, shown = preview(alice, **body)
    assert status == 200
    assert {one["code"] for one in shown["refusals"]} == codes
    assert any(says in one["reason"] for one in shown["refusals"]), shown["refusals"]
    assert alice.run(**body)["outcome"] == "FAILED_PREFLIGHT"


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "x"},
        {"task": "x", "model": "nobody"},
        {"task": "x", "model": "chat_completion.text", "tools": ["/bin/sh"]},
        {"task": "x", "model": "chat_completion.text", "contract": {"max_inferences": 10_000}},
        {"task": "x", "model": "chat_completion.text", "contract": {"max_inference": 1}},
        {"parent_run_id": "run_nothing", "task": "x"},
    ],
)
def test_what_no_run_may_ask_for_no_preview_may(asked, alice):
    status, said = alice.json("POST", "/v1/agent/contract", asked)
    as_run, refused = alice.json("POST", "/v1/agent/runs", asked)
    assert (status, said["error"]) == (as_run, refused["error"])
    assert status in (400, 404)


def test_a_preview_of_a_run_that_goes_on_is_for_its_owner(alice, place):
    parent = alice.run(task="Hello", model="chat_completion.text")
    status, shown = preview(alice, parent_run_id=parent["run_id"], task="And now?")
    assert status == 200
    assert shown["contract"]["parent_contract_hash"] == parent["contract"]["contract_hash"]
    foreign = preview(Doors(place.port, BOB), parent_run_id=parent["run_id"], task="And now?")
    assert foreign[0] == 404


# --- programs need a yes on the code page ---


@pytest.mark.spec("D46", "D51")
def test_a_program_on_the_code_page_waits_for_a_person(alice, place):
    asked = {"task": TASK, "page": "code", "model": "messages.tools", "tools": ["program"]}
    parent = alice.run(**asked)
    assert (parent["outcome"], parent["failure_code"]) == ("INTERRUPTED", "approval_required")
    assert place.noted.read_text() == ""
    shown = alice.show(parent["run_id"])
    assert shown["task"] == TASK
    call = shown["waiting_for_approval"][0]
    child = alice.run(parent_run_id=parent["run_id"], approve=[call["id"]])
    assert child["outcome"] == "COMPLETED_WITH_TOOLS"
    free = alice.run(**asked, contract={"approval": []})
    assert free["outcome"] == "COMPLETED_WITH_TOOLS"


# --- tools to name ---


def test_callers_see_what_they_may_name_and_admins_more(alice, place):
    status, mine = alice.json("GET", "/v1/agent/tools")
    assert status == 200
    assert [source["name"] for source in mine["data"]] == ["weather", "program", "away"]
    assert mine["data"][0]["tools"] == [
        {
            "name": "get_weather",
            "description": "The weather in a city.",
            "scope": "read",
            "pure": True,
        }
    ]
    assert mine["data"][2]["complete"] is False
    _, all_ = Doors(place.port, ADMIN).json("GET", "/v1/agent/tools")
    assert [source["name"] for source in all_["data"]][-1] == "project"
    assert all_["data"][-1]["folder"].endswith("/project")
    asked = {"task": "x", "model": "chat_completion.text", "tools": ["project"]}
    for path in ("/v1/agent/runs", "/v1/agent/contract"):
        status, said = alice.json("POST", path, asked)
        assert (status, said["error"]["param"]) == (400, "tools")
        assert "project" not in said["error"]["message"].partition("(")[2]


def test_without_a_key_nobody_learns_of_tools_or_contracts(place):
    nobody = Doors(place.port, "sk-nobody-0123456789abcdef")
    assert nobody.json("GET", "/v1/agent/tools")[0] == 401
    assert preview(nobody, task="x", model="chat_completion.text")[0] == 401


# --- entries and payloads ---


@pytest.fixture(scope="module")
def ended(place: Any) -> dict[str, Any]:
    return Doors(place.port, ALICE).run(task="Hi", model="messages.tools", tools=["weather"])


def test_a_transcript_is_read_page_by_page(alice, ended):
    path, found, first = f"/v1/agent/runs/{ended['run_id']}", [], 0
    while first is not None:
        status, page = alice.json("GET", f"{path}/entries?from={first}&limit=3")
        assert status == 200, page
        found += page["data"]
        first = page["next"]
    _, _, raw = alice.raw("GET", f"{path}/transcript")
    written = [json.loads(line) for line in raw.decode().splitlines()]
    assert [{k: v for k, v in one.items() if k != "line"} for one in found] == written
    assert found[-2]["head"] == ended["head"]
    assert found[-1]["checkpoint"] is True


def test_payloads_come_along_or_one_by_one(alice, ended):
    path = f"/v1/agent/runs/{ended['run_id']}"
    _, page = alice.json("GET", f"{path}/entries?payloads=true")
    executed = next(
        one for one in page["data"] if (one.get("from"), one.get("to")) == ("EXECUTE", "EXECUTE")
    )
    assert json.loads(page["payloads"][executed["result_hash"]]["text"])["result"] == {
        "degrees": 21
    }
    status, alone = alice.json("GET", f"{path}/payloads/{executed['action_hash']}")
    assert (status, alone["cut"]) == (200, False)
    assert hashlib.sha256(alone["text"].encode()).hexdigest() == executed["action_hash"]
    for wrong in ("0" * 64, "contract.json", "..%2Fcontract.json"):
        assert alice.json("GET", f"{path}/payloads/{wrong}")[0] == 404


@pytest.mark.parametrize("query", ["from=-1", "from=x", "limit=0", "payloads=yes", "form=1"])
def test_a_wrong_page_is_refused(query, alice, ended):
    assert alice.json("GET", f"/v1/agent/runs/{ended['run_id']}/entries?{query}")[0] == 400


@pytest.mark.parametrize("path", ["/entries", "/payloads/{action}"])
def test_somebody_elses_entries_do_not_exist(path, alice, ended, place):
    _, page = alice.json("GET", f"/v1/agent/runs/{ended['run_id']}/entries?limit=1")
    wanted = path.format(action=page["data"][0]["action_hash"])
    foreign = Doors(place.port, BOB).json("GET", f"/v1/agent/runs/{ended['run_id']}{wanted}")
    assert foreign[0] == 404
    assert (
        Doors(place.port, ADMIN).json("GET", f"/v1/agent/runs/{ended['run_id']}{wanted}")[0] == 200
    )


# --- both sides of a divergence ---


@pytest.mark.spec("S5-4")
def test_a_replay_that_differs_shows_both_sides(alice, place):
    run = alice.run(task="How is the weather?", model="messages.tools", tools=["weather"])
    _, same = alice.json("POST", "/v1/agent/replay", {"run_id": run["run_id"]})
    assert (same["identical"], same["divergence"]) == (True, None)
    note = Path(place.runs) / run["run_id"] / "terms.json"
    note.write_text(note.read_text("utf-8").replace("How is the weather?", "How was it?"), "utf-8")
    status, other = alice.json("POST", "/v1/agent/replay", {"run_id": run["run_id"]})
    assert (status, other["identical"]) == (200, False)
    found = other["divergence"]
    assert (found["seq"], found["kind"]) == (0, "contract")
    recorded, now = found["expected"], found["actual"]
    assert recorded["entry"]["head"] != now["entry"]["head"]
    assert "How is the weather?" in recorded["action"]
    assert "How was it?" in now["action"]
    assert recorded["result"] == now["result"]
