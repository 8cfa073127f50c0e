"""`monoize agent`, as people and scripts use it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes.agent_calls import settings, tool
from fakes.behaviours import BEHAVIOURS
from fakes.command_line import ran_here
from fakes.gateway import SOURCE
from fakes.upstream import FakeUpstream
from monoize.agent.live.watching import StateSeen
from monoize.agent.machine.digest import StateDigest
from monoize.cli._agent_view import RunView

TASK = "How is the weather?"


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream(BEHAVIOURS) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, upstream: FakeUpstream) -> Path:
    """With a config, tools, and one run of each kind that the commands tell about."""
    made = tmp_path_factory.mktemp("agent")
    (made / "monoize.yaml").write_text(yaml.safe_dump(settings(upstream, {}, None)))
    (made / "tools.yaml").write_text(yaml.safe_dump(tool(made / "noted", scope="write")))
    return made


def monoize(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs begin in a process of their own; what is told of them later is told here."""
    if words[0] not in ("run", "resume"):
        return ran_here("agent", *words, folder=folder)
    return subprocess.run(
        [sys.executable, "-m", "monoize", "agent", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run(folder: Path, *words: str) -> dict[str, Any]:
    done = monoize(folder, "run", TASK, "--json", *words)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, Any]:
    return run(folder, "--model", "messages.tools", "--tools", "tools.yaml", "--policy", "required")


@pytest.mark.spec("S5-C")
def test_runs_a_task_with_the_tools_of_a_file(folder, made):
    assert made["outcome"] == "COMPLETED_WITH_TOOLS"
    assert made["contract"]["allowed_tools"] == ["get_weather"]
    assert (folder / "noted").read_text().count("\n") == 1


def test_the_output_is_on_stdout_and_all_else_on_stderr(folder):
    done = monoize(folder, "run", TASK, "--model", "chat_completion.text")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Grüße aus 東京 🌏: all good.\n"
    assert re.search(r"^INFER +step 1", done.stderr, re.MULTILINE)
    assert "COMPLETED_CHAT_ONLY" in done.stderr


def test_an_end_that_is_no_success_exits_with_1(folder):
    done = monoize(folder, "run", TASK, "--model", "chat_completion.text", "--policy", "required")
    assert done.returncode == 1
    assert "FAILED_PREFLIGHT (tools_unavailable" in done.stderr


def test_what_cannot_begin_exits_with_2_and_one_sentence(folder):
    for words, said in (
        (("run", TASK, "--model", "nobody"), "no provider has the model 'nobody'"),
        (("run", TASK, "--contract", "{"), "--contract must be a JSON object"),
        (("run", TASK, "--tools", "nothing.yaml"), "nothing.yaml: No such file"),
        (("show", "run_nothing"), "no run is called 'run_nothing'"),
    ):
        done = monoize(folder, *words)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert said in done.stderr


@pytest.mark.spec("D46")
def test_a_call_waits_for_a_yes_and_resume_gives_it(folder):
    before = (folder / "noted").read_text().count("\n") if (folder / "noted").exists() else 0
    words = ("--model", "gemini.tools", "--tools", "tools.yaml", "--ask", "scope:write")
    parent = run(folder, *words)
    assert parent["failure_code"] == "approval_required"
    shown = monoize(folder, "show", parent["run_id"])
    call = re.search(r"--approve (\S+)", shown.stdout)
    assert call is not None, shown.stdout
    words = ("resume", parent["run_id"], "--approve", call[1], "--tools", "tools.yaml", "--json")
    child = json.loads(monoize(folder, *words).stdout)
    assert child["outcome"] == "COMPLETED_WITH_TOOLS"
    assert child["contract"]["parent_contract_hash"] == parent["contract"]["contract_hash"]
    assert (folder / "noted").read_text().count("\n") == before + 1


@pytest.mark.spec("D46")
def test_a_yes_beforehand_needs_no_second_command(folder):
    words = ("--model", "gemini.tools", "--tools", "tools.yaml", "--ask", "get_weather")
    assert run(folder, *words, "--approve", "get_weather")["outcome"] == "COMPLETED_WITH_TOOLS"


def test_lists_shows_and_counts_the_runs(folder, made):
    rows = json.loads(monoize(folder, "list", "--json", "--limit", "100").stdout)
    assert made["run_id"] in [row["run_id"] for row in rows]
    assert made["run_id"] in monoize(folder, "list", "--limit", "100").stdout
    shown = monoize(folder, "show", made["run_id"][-8:])
    assert "COMMIT -> TERMINATE" in shown.stdout
    assert "It is 21 °C." in shown.stdout
    reply = json.loads(monoize(folder, "show", made["run_id"], "--json").stdout)
    assert reply["head"] == made["head"]
    found = json.loads(monoize(folder, "stats", "--json").stdout)
    assert found["runs"] == len([row for row in rows if row["outcome"]])
    assert "ran out of inferences" in monoize(folder, "stats").stdout


@pytest.mark.spec("S5-E")
def test_proves_replays_and_exports(folder, made):
    run_id = made["run_id"]
    proved = monoize(folder, "verify", run_id)
    assert (proved.returncode, made["head"] in proved.stdout) == (0, True)
    assert "identical" in monoize(folder, "replay", run_id).stdout
    assert monoize(folder, "export", run_id, "-o", "run.zip").returncode == 0
    assert "transcript.jsonl" in zipfile.ZipFile(folder / "run.zip").namelist()
    assert monoize(folder, "verify", "run.zip").returncode == 0
    assert "identical" in monoize(folder, "replay", "run.zip").stdout


@pytest.mark.spec("S5-E")
def test_a_changed_transcript_is_found_out(folder):
    run_id = run(folder, "--model", "chat_completion.text")["run_id"]
    file = folder / "data" / "runs" / run_id / "transcript.jsonl"
    file.write_text(file.read_text().replace('"INFER"', '"infer"', 1))
    assert monoize(folder, "verify", run_id).returncode == 1
    assert monoize(folder, "replay", run_id).returncode == 2


@pytest.mark.spec("D46")
def test_ctrl_c_interrupts_and_the_end_is_typed(folder, upstream):
    upstream.forget()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "monoize",
            "agent",
            "run",
            TASK,
            "--json",
            "--model",
            "chat_completion.gated",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not upstream.exchanges and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    reply = json.loads(out)
    assert (reply["outcome"], reply["failure_code"]) == ("INTERRUPTED", "user_interrupt")


@pytest.mark.spec("S5-D")
def test_the_view_is_drawn_from_the_digest_alone(folder, made, capsys):
    digest = json.loads(monoize(folder, "show", made["run_id"], "--json").stdout)["digest"]
    whole = StateDigest(
        **{**digest, "calls": tuple(digest["calls"]), "trail": tuple(map(tuple, digest["trail"]))}
    )
    with RunView("task") as view:
        view.see(StateSeen(digest=whole))
        view.see(StateSeen(digest=whole))  # the same again changes nothing
    drawn = capsys.readouterr().err
    assert drawn.count("\n") == 1
    assert drawn.startswith("TERMINATE")
