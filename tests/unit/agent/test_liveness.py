"""Which processes that run agents are alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from monoize.agent.runs.durable import system_url
from monoize.agent.runs.liveness import Liveness, place_of
from monoize.store.recovery import this_host


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def said(root: Path, name: str, host: str, pid: int) -> Path:
    folder = root / ".alive"
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(json.dumps({"host": host, "pid": pid}))
    return file


def test_whoever_left_no_file_is_gone(tmp_path):
    assert Liveness(tmp_path, Clock(), 60).dead({"a"}) == {"a"}


def test_a_process_of_this_machine_that_ended_is_gone_at_once(tmp_path):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    said(tmp_path, "ended", this_host(), done.pid)
    said(tmp_path, "lives", this_host(), os.getpid())
    assert Liveness(tmp_path, Clock(), 60).dead({"ended", "lives"}) == {"ended"}


def test_one_elsewhere_is_gone_when_it_was_silent_for_as_long_as_somebody_watched(tmp_path):
    clock = Clock()
    file = said(tmp_path, "far", "another machine", 1)
    liveness = Liveness(tmp_path, clock, 60)
    assert liveness.dead({"far"}) == set()
    clock.time = 59
    assert liveness.dead({"far"}) == set()
    os.utime(file, (1, 1))  # it said something
    assert liveness.dead({"far"}) == set()
    clock.time = 118
    assert liveness.dead({"far"}) == set()
    clock.time = 119
    assert liveness.dead({"far"}) == {"far"}
    liveness.forget({"far"})
    assert not file.exists()


def test_a_beat_makes_the_file_and_leaving_removes_it(tmp_path):
    liveness = Liveness(tmp_path, Clock(), 60)
    liveness.beat()
    liveness.beat()
    assert json.loads((tmp_path / ".alive" / liveness.name).read_text())["pid"] == os.getpid()
    assert Liveness(tmp_path, Clock(), 60).dead({liveness.name}) == set()
    liveness.leave()
    liveness.leave()
    assert Liveness(tmp_path, Clock(), 60).dead({liveness.name}) == {liveness.name}


def test_a_name_that_would_leave_the_folder_removes_nothing(tmp_path):
    other = tmp_path / "precious"
    other.write_text("x")
    Liveness(tmp_path, Clock(), 60).forget({"../precious"})
    assert other.exists()


def test_all_who_share_the_folder_share_its_name(tmp_path):
    assert place_of(tmp_path / "a") == place_of(tmp_path / "a")
    assert place_of(tmp_path / "a") != place_of(tmp_path / "b")


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        (None, "sqlite:////runs/durable.db"),
        ("sqlite:///./data/m.db", "sqlite:////here/data/agent-runs.db"),
        ("sqlite:////far/m.db", "sqlite:////far/agent-runs.db"),
        ("postgresql+asyncpg://u:p%40@h:1/n", "postgresql://u:p%40@h:1/n"),
        ("postgres://u@h/n", "postgresql://u@h/n"),
        ("postgresql://u@h/n?ssl=require", "postgresql://u@h/n?sslmode=require"),
    ],
)
def test_runs_are_scheduled_beside_what_the_gateway_remembers(database, expected):
    assert system_url(database, Path("/here"), Path("/runs")) == expected
