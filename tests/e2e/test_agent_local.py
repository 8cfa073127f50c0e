"""Agent runs on the real local model, over HTTP: bound by our grammar it cannot but call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.agent_calls import ALICE, Doors
from fakes.gateway import GatewayThread
from monoize.server.state import local_engines

ENGINE = local_engines({})["smollm2"]
STATUS = ENGINE.available()
pytestmark = pytest.mark.skipif(
    not STATUS.installed, reason=f"the local engine is not installed: {STATUS.reason}"
)

TIME = {
    "commands": [
        {
            "name": "get_time",
            "description": "The time in a city.",
            "argv": ["/bin/sh", "-c", "cat >/dev/null; echo '\"12:00\"'"],
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Paris", "Rome"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
            "pure": True,
        }
    ]
}


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    gateway = GatewayThread(
        {
            "providers": [
                {
                    "id": "here",
                    "type": "local",
                    "engine": "smollm2",
                    "models": {name: {} for name in ENGINE.models()},
                }
            ],
            "keys": [{"name": "alice", "key": ALICE, "username": "alice"}],
            "settings": {"agent": {"tools": {"clock": TIME}}},
        }
    )
    yield Doors(gateway.port)
    gateway.stop()


@pytest.mark.spec("S5-F", "S5-C", "S5-E")
def test_a_required_run_calls_validly_and_is_proved(doors):
    """What so small a model says after that is its own affair: the run ends typed, within its budgets."""
    reply = doors.run(
        task="What time is it in Rome?",
        model=ENGINE.models()[0],
        profile="local_grammar",
        tools=["clock"],
        contract={
            "tool_policy": "required",
            "max_inferences": 2,
            "max_output_tokens": 64,
            "step_timeout_ms": 120_000,
        },
    )
    digest = reply["digest"]
    assert reply["contract"]["token_gate"]
    assert (digest["tools_succeeded"] >= 1, digest["format_retries_used"]) == (True, 0)
    assert reply["outcome"] in ("COMPLETED_WITH_TOOLS", "FAILED_BUDGET_EXHAUSTED")
    assert doors.json("POST", f"/v1/agent/runs/{reply['run_id']}/verify")[1]["ok"]
    again = doors.json("POST", "/v1/agent/replay", {"run_id": reply["run_id"]})[1]
    assert again["identical"], again


def test_the_usual_profile_of_the_local_engine_is_its_own(doors):
    reply = doors.run(
        task="Hello",
        page="chat",
        model=ENGINE.models()[0],
        contract={"max_output_tokens": 8, "step_timeout_ms": 120_000},
    )
    assert reply["contract"]["model_profile_id"] == "native_local"
    assert reply["outcome"] == "COMPLETED_CHAT_ONLY"
