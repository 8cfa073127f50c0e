"""What the console's pages wait for: every API call that one makes when it opens, on a database of `fill.py`.

`python bench/console/measure.py FOLDER [--times 20]` starts the gateway on it and prints, in milliseconds, the first call
of a fresh process, half of the calls, 95 % of them, the slowest, and the processor's time of one: on a machine that others
keep busy, only that one means much.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAY = 86_400_000
STARTING_SECONDS = 60


def calls(about: dict[str, str], now: int) -> Iterator[tuple[str, str, str]]:
    """The page, whose key, the path."""
    month = (now // DAY - 29) * DAY
    for span in ("1h", "24h", "7d", "30d"):
        yield "overview", "admin", f"/api/overview?range={span}"
        yield "overview", "user", f"/api/overview?range={span}"
    yield "overview", "admin", "/api/health/channels"
    yield "requests", "admin", "/api/logs?limit=50"
    yield "requests", "user", "/api/logs?limit=50"
    filters = (
        "status=success", "status=interrupted", "errors_only=true", "model=gpt-4o", "model=claude-*", "model=never",
        "provider=local", "channel=batch", f"key_id={about['user_id']}", f"user_id={about['user_user']}", "key_id=nobody",
        "username=person+0150", "protocol=nothing", "text=status+500", "text=nowhere", "request_id=req_000000000000000000000007",
        f"errors_only=true&model=gpt-4o&provider=openai&since={month}", f"key_id={about['user_id']}&status=error&model=smollm2-135m",
        "status=interrupted&model=claude-opus-4-1&channel=main", f"text=nowhere&until={month}", "status=success&text=nowhere",
    )  # fmt: skip
    for one in filters:
        yield "requests", "admin", f"/api/logs?limit=50&{one}"
    for one in ("", "errors_only=true", "model=gpt-4o", "text=nowhere", "key_id=nobody"):
        yield "requests", "admin", f"/api/logs/count?{one}"
    yield "requests", "admin", "/api/logs/req_000000000000000000000007"
    for by in (
        "day",
        "key",
        "user",
        "model",
        "provider",
        "hour",
        "day,model",
        "day,user",
        "day,key",
        "user,model",
        "key,model",
    ):
        yield "costs", "admin", f"/api/usage?by={by}&since={month}&limit=1000"
    for by in ("day,key", "day,user", "day,model"):
        yield "costs", "admin", f"/api/usage?by={by}&since={month}&limit=1000&top=6"
    yield "costs", "admin", "/api/usage?by=key"
    yield "costs", "admin", f"/api/usage?by=day&user_id={about['user_user']}&since={month}"
    yield "costs", "admin", f"/api/usage?by=model&key_id={about['user_id']}&since={month}"
    for by in ("day", "key", "model"):
        yield "costs", "user", f"/api/usage?by={by}&since={month}"
    yield "keys", "admin", "/api/keys?limit=50"
    yield "keys", "admin", "/api/keys?limit=1000"
    yield "keys", "admin", "/api/keys?search=agent&limit=50"
    yield "keys", "admin", "/api/keys?search=nothing+like+it&limit=50"
    yield "users", "admin", "/api/users?limit=50"
    yield "runs", "admin", "/v1/agent/runs"
    for one in ("running=true", "outcome=failed", "model=gpt-5", "state=FAILED", "model=never", "parent=none", "owner=user:none",
                "state=NONE&outcome=failed"):  # fmt: skip
        yield "runs", "admin", f"/v1/agent/runs?{one}"
    yield "runs", "user", "/v1/agent/runs"
    yield "runs", "admin", "/v1/agent/stats"
    for path in (
        "/api/me",
        "/api/providers",
        "/api/prices",
        "/api/settings",
        "/api/audit",
        "/api/transforms",
        "/v1/models",
    ):
        yield "others", "admin", path


@contextmanager
def gateway(folder: Path) -> Iterator[tuple[int, int]]:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "monoize",
        "serve",
        "--config",
        "monoize.yaml",
        "--port",
        str(port),
    ]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + STARTING_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit((folder / "serve.log").read_text()) from None
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def processor_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


class Caller:
    def __init__(self, port: int, about: dict[str, str]) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._about = about

    def timed(self, role: str, path: str) -> tuple[float, int, int]:
        """Milliseconds, status, bytes."""
        began = time.perf_counter()
        self._line.request("GET", path, headers={"authorization": f"Bearer {self._about[role]}"})
        answer = self._line.getresponse()
        body = answer.read()
        return (time.perf_counter() - began) * 1000, answer.status, len(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument(
        "--wait", type=float, default=0, help="seconds before the first call, for roll-ups"
    )
    parser.add_argument("--only", default="", help="a text in the path")
    asked = parser.parse_args()
    about = json.loads((asked.folder / "keys.json").read_text())
    print(
        f"{'page':9} {'as':5} {'first':>7} {'p50':>7} {'p95':>7} {'worst':>7} {'cpu':>7} {'bytes':>7}  call"
    )
    slowest = dearest = 0.0
    with gateway(asked.folder) as (port, pid):
        caller = Caller(port, about)
        caller.timed("admin", "/api/me")  # what every first request of a process loads
        time.sleep(asked.wait)
        for page, role, path in calls(about, round(time.time() * 1000)):
            if asked.only not in path:
                continue
            first, status, size = caller.timed(role, path)
            count = 2 if first > 3000 else asked.times
            before = processor_ms(pid)
            times = sorted(caller.timed(role, path)[0] for _ in range(count))
            own = (processor_ms(pid) - before) / count
            p95 = times[min(len(times) - 1, round(len(times) * 0.95))]
            slowest, dearest = max(slowest, p95, first), max(dearest, own)
            numbers = " ".join(
                f"{n:7.1f}" for n in (first, statistics.median(times), p95, times[-1], own)
            )
            note = "" if status == 200 else f"  -> {status}"
            print(f"{page:9} {role:5} {numbers} {size:7}  {path}{note}", flush=True)
    print(f"the slowest: {slowest:.0f} ms; the dearest: {dearest:.0f} ms of the processor")


if __name__ == "__main__":
    main()
