"""A program that lives agent runs is killed again and again: records stay whole, runs come to an end, no side effect happens twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from fakes import agent_mortal
from monoize.agent.machine.events import ToolFailed
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.record import verifier
from monoize.agent.record.recorded_run import load
from monoize.agent.record.replay import replay
from monoize.agent.record.retelling import Answered
from monoize.agent.record.transcript import check_chain, read_transcript

pytestmark = pytest.mark.soak

KILLS = 200 if os.environ.get("MONOIZE_SOAK") == "1" else 10
ENOUGH = KILLS // 3  # that came while a run was under way
SEED = 20_261_115
LONGEST = 1.0  # seconds of life after it began, about a run's


class Mortal:
    def __init__(self, root: Path, *, finish: bool = False) -> None:
        tests = Path(agent_mortal.__file__).parent.parent
        environment = {**os.environ, "PYTHONPATH": f"{tests.parent / 'src'}:{tests}"}
        self.process = subprocess.Popen(
            [sys.executable, agent_mortal.__file__, str(root), *(["finish"] if finish else [])],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def began(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        _, words = self.process.communicate(timeout=120)
        assert self.process.returncode == -signal.SIGKILL, words


@pytest.mark.spec("S5-E", "D46")
def test_a_killed_program_leaves_whole_records_and_does_nothing_twice(tmp_path: Path):
    root, dice, interrupted = tmp_path / "runs", random.Random(SEED), 0
    for number in range(4 * KILLS):
        if number >= KILLS and interrupted >= ENOUGH:
            break  # on a busy machine more of them come before anything has begun
        mortal = Mortal(root)
        interrupted += len(mortal.began().split()) - 1
        time.sleep(dice.random() * LONGEST)
        mortal.kill()
        for transcript in root.glob("*/transcript.jsonl"):  # a kill may come before the first line
            check_chain(read_transcript(transcript.read_bytes()).lines)
        assert_nothing_twice(root)
    last = Mortal(root, finish=True)
    _, words = last.process.communicate(timeout=300)
    assert last.process.returncode == 0, words

    assert interrupted >= ENOUGH, "the kills came too late to matter"
    assert_nothing_twice(root)
    unknown = sum(assert_ended(file.parent) for file in root.glob("*/transcript.jsonl"))
    assert unknown >= KILLS // 20, "no kill hit a call that ran"
    print(f"{KILLS} kills, {interrupted} runs cut, {unknown} calls whose effect is unknown")


def assert_nothing_twice(root: Path) -> None:
    done = agent_mortal.done_file(root)
    lines = done.read_text().splitlines() if done.exists() else []
    twice = [line for line, count in Counter(lines).items() if count > 1]
    assert not twice


def assert_ended(folder: Path) -> int:
    """How many calls of it nobody knows the effect of."""
    report = verifier.verify(folder)
    assert report["ok"], report
    assert report["public_key"] == agent_mortal.SIGNER.public_key
    seen: list[Answered] = []
    run = load(folder)
    again = replay(run, heard=seen.append)
    assert again.divergence is None
    assert again.head == report["head"]
    assert again.outcome == AgentOutcome.COMPLETED_WITH_TOOLS
    done = agent_mortal.done_file(folder.parent).read_text().splitlines()
    written = [line for line in done if line.startswith(f"{run.terms.run_id}-")]
    unknown = [
        answered
        for answered in seen
        if isinstance(answered.event, ToolFailed)
        and answered.event.failure.code is FailureCode.UNKNOWN_EFFECT
    ]
    # Whatever was not left open was done, exactly once.
    assert 2 * agent_mortal.ROUNDS - len(unknown) <= len(written) <= 2 * agent_mortal.ROUNDS
    return len(unknown)
