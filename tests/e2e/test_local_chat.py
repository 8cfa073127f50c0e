"""The embedded default as a newcomer meets it: no config, the local model, every protocol."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes.gateway import SOURCE
from fakes.ports import free_port
from monoize.server.state import local_engines

ROOT = Path(__file__).parents[2]
STATUS = local_engines({})["smollm2"].available()
pytestmark = pytest.mark.skipif(
    not STATUS.installed, reason=f"the local engine is not installed: {STATUS.reason}"
)


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")


@contextmanager
def served(folder, *arguments):
    """`monoize serve` in `folder`: its URL and what it prints."""
    port = free_port()
    log = folder / "out.txt"
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "monoize", "serve", "--port", str(port), *arguments],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(SOURCE)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    try:
        yield url, log
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """In an empty folder, without a config: its URL, its key, what it printed."""
    folder = tmp_path_factory.mktemp("newcomer")
    with served(folder) as (url, log):
        yield url, (folder / "data" / "first-key").read_text("utf-8").strip(), log


@pytest.mark.spec("ROUT-7")
def test_the_failover_example_carries_on_and_tells(tmp_path):
    with served(tmp_path, "--config", str(ROOT / "examples" / "failover.yaml")) as (url, _):
        said = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}
        call = urllib.request.Request(
            f"{url}/v1/chat/completions", data=json.dumps(said).encode(), method="POST"
        )
        with urllib.request.urlopen(call, timeout=300) as answer:
            assert answer.headers["x-monoize-provider"] == "backup"
            assert answer.headers["x-monoize-attempts"] == "2"
        with urllib.request.urlopen(f"{url}/api/health/channels", timeout=60) as answer:
            away, engine = json.load(answer)["channels"]
        assert (away["channel"], away["totals"]["failure"]) == ("away", 1)
        assert (engine["health"], engine["totals"]["success"]) == ("healthy", 1)
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
            page = answer.read().decode()
        labels = 'channel="away",model="",outcome="failure",provider="primary"'
        assert f"monoize_channel_attempts_total{{{labels}}} 1.0" in page


def test_prints_the_key_and_a_curl_for_each_protocol(running):
    url, key, log = running
    said = log.read_text("utf-8")
    assert key in said
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", ":generateContent"):
        assert path in said
    assert f"curl -s {url}" in said


@needs_curl
def test_the_printed_curls_work_as_they_stand(running):
    _, _, log = running
    calls = [c for c in log.read_text("utf-8").split("\n\n") if c.lstrip().startswith("curl")]
    assert len(calls) == 4
    for call in calls:
        done = subprocess.run(
            ["bash", "-c", call], capture_output=True, text=True, timeout=300, check=True
        )
        assert "error" not in json.loads(done.stdout) or json.loads(done.stdout)["error"] is None, (
            done.stdout
        )


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_every_example_runs_and_gets_an_answer(running, example):
    url, key, _ = running
    environment = {
        **os.environ,
        "MONOIZE_URL": url,
        "MONOIZE_KEY": key,
        "MONOIZE_MODEL": "smollm2-135m",
    }
    done = subprocess.run(
        [sys.executable, str(example)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


README = (ROOT / "README.md").read_text("utf-8")
CALLS = re.findall(r"```\n(curl (?:(?!```).)*)\n```\n```json\n(.*?)\n```", README, re.DOTALL)
VOLATILE = ("id", "created", "responseId", "usage", "usageMetadata", "request_id")
REFERENCE = re.compile(r"smsfile://\w+")


@needs_curl
@pytest.mark.parametrize("call", CALLS, ids=[call[0].split()[2] for call in CALLS])
def test_every_call_of_the_readme_gives_the_answer_that_it_shows(running, call):
    command, shown = call[0], json.loads(call[1])
    if REFERENCE.search(command):  # what the call before it has stored
        before = _answered(running, CALLS[CALLS.index(call) - 1][0])
        command = REFERENCE.sub(REFERENCE.search(before)[0], command)
    got = json.loads(_answered(running, command))
    got = {name: value for name, value in got.items() if name in shown and name not in VOLATILE}
    assert _steady(got) == _steady({k: v for k, v in shown.items() if k not in VOLATILE})


def _answered(running, command):
    url, key, _ = running
    done = subprocess.run(
        ["bash", "-c", command.replace("http://127.0.0.1:8080", url)],
        env={**os.environ, "KEY": key},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout


def _steady(value):
    """Without what is new in every answer."""
    if isinstance(value, dict):
        return {k: _steady(v) for k, v in value.items() if k not in ("id", "uri", "latency_ms")}
    return [_steady(v) for v in value] if isinstance(value, list) else value
