"""Agent runs that outlive their process: gone on with from the transcript, by one process at a time."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from fakes.agent_calls import Doors, settings, tool
from fakes.behaviours import BEHAVIOURS
from fakes.databases import postgresql
from fakes.mortal_gateway import MortalGateway
from fakes.upstream import FakeUpstream

__all__ = ["postgresql"]

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
DATABASES = ["sqlite:///./data/m.db", None] if SOAK else ["sqlite:///./data/m.db"]
pytestmark = pytest.mark.soak  # without a database too, with `make soak`
DRAIN = 60.0  # seconds
TASK = "How is the weather?"


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream(BEHAVIOURS) as made:
        yield made


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def is_at(state: str) -> Any:
    return lambda shown: shown["digest"]["state"] == state


def until(condition: Any, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


def assert_proved(doors: Doors, run_id: str) -> None:
    proof = doors.json("POST", f"/v1/agent/runs/{run_id}/verify")[1]
    assert proof["ok"], proof
    assert doors.json("POST", "/v1/agent/replay", {"run_id": run_id})[1]["identical"]


@pytest.mark.spec("S5-E")
@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("way", ["kill", "stop"])
def test_a_run_goes_on_after_its_process_ended(way, database, tmp_path, upstream):
    """Killed, or told to stop: a drain leaves its runs to whoever comes next."""
    with MortalGateway(tmp_path, settings(upstream, {}, database)) as gateway:
        doors = Doors(gateway.port)
        run_id = doors.begin(task=TASK, model="chat_completion.gated")
        upstream.exchange(0)
        doors.until(run_id, is_at("INFER"))
        getattr(gateway, way)()
        gateway.start()
        upstream.exchange(1).allow(1000)  # asked again: its first reply was lost
        shown = doors.ended(run_id)
        assert shown["outcome"] == "COMPLETED_CHAT_ONLY"
        assert_proved(doors, run_id)
        assert [row["run_id"] for row in doors.json("GET", "/v1/agent/runs")[1]["data"]] == [run_id]


def test_a_caller_that_waits_while_the_gateway_stops_gets_the_run_as_it_stands(tmp_path, upstream):
    given = settings(upstream, {})
    given["server"]["timeouts"] = {"drain": DRAIN}
    with (
        MortalGateway(tmp_path, given) as gateway,
        ThreadPoolExecutor() as threads,
    ):
        doors = Doors(gateway.port)
        asked = {"task": TASK, "model": "chat_completion.gated"}
        waiting = threads.submit(doors.json, "POST", "/v1/agent/runs", asked)
        upstream.exchange(0)
        began = time.monotonic()
        gateway.stop()
        assert time.monotonic() - began < DRAIN  # it does not wait for runs
        status, reply = waiting.result()
        assert (status, reply["outcome"]) == (202, None)
        gateway.start()
        upstream.exchange(1).allow(1000)
        assert doors.ended(reply["run_id"])["outcome"] == "COMPLETED_CHAT_ONLY"


@pytest.mark.parametrize("database", DATABASES)
def test_a_tool_with_side_effects_is_never_run_twice(database, tmp_path, upstream):
    noted = tmp_path / "noted"
    configured = {"outdoors": tool(noted, seconds=60, scope="write")}
    with MortalGateway(tmp_path, settings(upstream, configured, database)) as gateway:
        doors = Doors(gateway.port)
        run_id = doors.begin(task=TASK, model="chat_completion.tools", tools=["outdoors"])
        until(lambda: len(lines(noted)) == 1)
        gateway.kill()
        gateway.start()
        shown = doors.ended(run_id)
        assert shown["outcome"] == "COMPLETED_CHAT_ONLY"
        assert len(lines(noted)) == 1
        told = json.dumps(upstream.exchanges[-1].body["messages"])
        assert "whether it took effect is unknown" in told
        assert_proved(doors, run_id)


def test_a_tool_without_side_effects_runs_again(tmp_path, upstream):
    noted = tmp_path / "noted"
    slow, quick = tool(noted, seconds=60, pure=True), tool(noted, seconds=0, pure=True)
    with MortalGateway(tmp_path, settings(upstream, {"weather": slow})) as gateway:
        doors = Doors(gateway.port)
        contract = {"tool_policy": "required"}
        run_id = doors.begin(
            task=TASK, model="messages.tools", tools=["weather"], contract=contract
        )
        until(lambda: len(lines(noted)) == 1)
        gateway.kill()
        gateway.write(settings(upstream, {"weather": quick}))  # the same for the model
        gateway.start()
        assert doors.ended(run_id)["outcome"] == "COMPLETED_WITH_TOOLS"
        assert len(lines(noted)) == 2
        assert_proved(doors, run_id)


def test_a_run_whose_tools_are_gone_after_the_restart_ends_typed(tmp_path, upstream):
    noted = tmp_path / "noted"
    configured = {"weather": tool(noted, seconds=60, pure=True)}
    with MortalGateway(tmp_path, settings(upstream, configured)) as gateway:
        doors = Doors(gateway.port)
        run_id = doors.begin(task=TASK, model="messages.tools", tools=["weather"])
        until(lambda: len(lines(noted)) == 1)
        gateway.kill()
        gateway.write(settings(upstream, {}))
        gateway.start()
        shown = doors.ended(run_id)
        assert shown["outcome"] == "FAILED_CONTRACT_VIOLATION"
        assert len(lines(noted)) == 1


def test_a_run_whose_key_is_gone_after_the_restart_ends_typed(tmp_path, upstream):
    given = settings(upstream, {})
    with MortalGateway(tmp_path, given) as gateway:
        doors = Doors(gateway.port)
        run_id = doors.begin(task=TASK, model="chat_completion.gated")
        upstream.exchange(0)
        gateway.kill()
        gateway.write({**given, "keys": given["keys"][1:]})
        gateway.start()
        admin = Doors(gateway.port, given["keys"][2]["key"])
        shown = admin.ended(run_id)
        assert shown["outcome"] == "FAILED_PROVIDER"
        assert len(upstream.exchanges) == 1


def test_a_run_can_be_interrupted_while_nobody_runs_it(tmp_path, upstream):
    """A file beside the transcript is the word: whoever takes the run hears it."""
    with MortalGateway(tmp_path, settings(upstream, {})) as gateway:
        doors = Doors(gateway.port)
        run_id = doors.begin(task=TASK, model="chat_completion.gated")
        upstream.exchange(0)
        gateway.kill()
        (tmp_path / "data" / "runs" / run_id / "interrupt").write_text("from afar")
        gateway.start()
        shown = doors.ended(run_id)
        assert (shown["outcome"], shown["failure_code"]) == ("INTERRUPTED", "user_interrupt")


def test_workers_of_one_gateway_share_its_runs(tmp_path, upstream):
    noted = tmp_path / "noted"
    configured = {"outdoors": tool(noted, scope="write")}
    with MortalGateway(tmp_path, settings(upstream, configured), workers=2) as gateway:
        doors = Doors(gateway.port)
        begun = [
            doors.begin(task=TASK, model="messages.tools", tools=["outdoors"]) for _ in range(6)
        ]
        for run_id in begun:
            events = doors.events(f"/v1/agent/runs/{run_id}/events")  # at whichever worker
            assert events[-1][0] == "outcome"
            assert events[-1][1]["outcome"] == "COMPLETED_WITH_TOOLS"
        assert len(lines(noted)) == len(begun)


class Replicas:
    """Two gateways on one PostgreSQL and one folder of runs."""

    def __init__(self, folder: Path, upstream: FakeUpstream, tools: Any, url: str) -> None:
        given = settings(upstream, tools, url)
        given["settings"]["agent"] |= {
            "folder": str(folder / "runs"),
            "signing_key": str(folder / "transcript-key"),
        }
        self.first = MortalGateway(folder / "first", given)
        self.second = MortalGateway(folder / "second", given)

    def __enter__(self) -> Self:
        self.first.start()
        data = self.second.folder / "data"
        data.mkdir()
        shutil.copy(self.first.folder / "data" / "secret-key", data / "secret-key")
        self.second.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.first.stop()
        self.second.stop()


@pytest.fixture
def url(postgresql) -> Iterator[str]:
    name = postgresql.new_database("template0")
    yield postgresql.url(name)
    postgresql.drop(name)


def test_each_run_is_executed_by_one_of_two_replicas(tmp_path, upstream, url):
    noted = tmp_path / "noted"
    configured = {"outdoors": tool(noted, seconds=0.2, scope="write")}
    with Replicas(tmp_path, upstream, configured, url) as replicas:
        doors = [Doors(replicas.first.port), Doors(replicas.second.port)]
        begun = [
            doors[number % 2].begin(task=TASK, model="chat_completion.tools", tools=["outdoors"])
            for number in range(8)
        ]
        for number, run_id in enumerate(begun):  # each is watched at the other replica
            shown = doors[(number + 1) % 2].ended(run_id)
            assert shown["outcome"] == "COMPLETED_WITH_TOOLS"
            assert_proved(doors[number % 2], run_id)
        assert len(lines(noted)) == len(begun)


def test_the_runs_of_a_dead_replica_are_taken_over(tmp_path, upstream, url):
    with Replicas(tmp_path, upstream, {}, url) as replicas:
        first, second = Doors(replicas.first.port), Doors(replicas.second.port)
        run_id = first.begin(task=TASK, model="chat_completion.gated")
        upstream.exchange(0)
        replicas.first.kill()
        upstream.exchange(1).allow(1000)
        assert second.ended(run_id)["outcome"] == "COMPLETED_CHAT_ONLY"
        assert_proved(second, run_id)


def test_a_run_is_interrupted_from_another_replica(tmp_path, upstream, url):
    with Replicas(tmp_path, upstream, {}, url) as replicas:
        first, second = Doors(replicas.first.port), Doors(replicas.second.port)
        run_id = first.begin(task=TASK, model="chat_completion.gated")
        upstream.exchange(0)
        status, reply = second.json("POST", f"/v1/agent/runs/{run_id}/interrupt")
        assert (status, reply["outcome"]) == (200, "INTERRUPTED")
