"""Calls of the doors of agent runs, and a gateway that has tools for them."""

from __future__ import annotations

import http.client
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from fakes.speakers import SPEAKERS
from fakes.upstream import PATIENCE, FakeUpstream

ALICE = "sk-alice-0123456789abcdef"
BOB = "sk-bob-0123456789abcdef"
ADMIN = "sk-admin-0123456789abcdef"

_WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "note": {"type": "string"},
    },
    "required": ["city"],
    "additionalProperties": False,
}
# Notes each of its runs in a file, then takes its time.
_SCRIPT = """
import json, sys, time
arguments = json.load(sys.stdin)
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(arguments) + "\\n")
time.sleep(float(sys.argv[2]))
print(json.dumps({"degrees": 21}))
"""


def tool(noted: Path, *, seconds: float = 0.0, **more: Any) -> dict[str, Any]:
    """The tool that the scenario `tools` calls, as settings.agent.tools has it."""
    command = {
        "name": "get_weather",
        "description": "The weather in a city.",
        "argv": [sys.executable, "-c", _SCRIPT, str(noted), str(seconds)],
        "parameters": _WEATHER,
        **more,
    }
    return {"commands": [command]}


def settings(
    upstream: FakeUpstream, tools: dict[str, Any], database: str | None = "sqlite:///./data/m.db"
) -> dict[str, Any]:
    """A provider of every type; the model `<type>.<behaviour>` makes it behave so."""
    providers = [
        {
            "id": kind,
            "type": kind,
            "models": {f"{kind}.{name}": {"redirect": name} for name in ("tools", "text", "gated")},
            "channels": [{"id": "main", "base_url": upstream.base_url(kind), "api_key": "sk-up"}],
        }
        for kind in SPEAKERS
    ]
    return {
        "server": {"host": "127.0.0.1"},
        "database": database,
        "providers": providers,
        "keys": [
            {"name": "alice", "key": ALICE, "username": "alice"},
            {"name": "bob", "key": BOB, "username": "bob"},
            {"name": "admin", "key": ADMIN, "username": "admin", "role": "admin"},
        ],
        "settings": {
            "health": {"probe_enabled": False},
            # Whose process is gone is known at once; a process that is only slow must not be taken for dead.
            "agent": {"tools": tools, "takeover_seconds": 12},
        },
    }


class Doors:
    """Of one gateway, for one key."""

    def __init__(self, port: int, key: str = ALICE) -> None:
        self.port = port
        self._key = key

    def raw(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = None if body is None else json.dumps(body)
            named = {"authorization": f"Bearer {self._key}", **(headers or {})}
            connection.request(method, path, sent, named)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, _, raw = self.raw(method, path, body)
        return status, json.loads(raw)

    def run(self, **asked: Any) -> dict[str, Any]:
        status, reply = self.json("POST", "/v1/agent/runs", asked)
        assert status == 200, reply
        return reply

    def events(self, path: str, body: Any = None) -> list[tuple[str, dict[str, Any]]]:
        """All of them, to the end of the stream."""
        status, _, raw = self.raw("GET" if body is None else "POST", path, body)
        assert status == 200, raw
        return parsed(raw)

    def show(self, run_id: str) -> dict[str, Any]:
        status, reply = self.json("GET", f"/v1/agent/runs/{run_id}")
        assert status == 200, reply
        return reply

    def begin(self, **asked: Any) -> str:
        """Its id; the stream is hung up on at once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({**asked, "stream": True})
        named = {"authorization": f"Bearer {self._key}"}
        with closing(connection):
            connection.request("POST", "/v1/agent/runs", body, named)
            with connection.getresponse() as reply:
                assert reply.status == 200, reply.read()
                run_id = reply.getheader("x-monoize-run")
        assert run_id is not None
        return run_id

    def until(self, run_id: str, wanted: Any, seconds: float = 6 * PATIENCE) -> dict[str, Any]:
        """The run, once `wanted` is true of it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            shown = self.show(run_id)
            if wanted(shown):
                return shown
            time.sleep(0.05)
        raise AssertionError(f"it never came to that: {json.dumps(shown)[:2000]}")

    def ended(self, run_id: str, seconds: float = 6 * PATIENCE) -> dict[str, Any]:
        return self.until(run_id, lambda shown: shown["run"]["ended_at"] is not None, seconds)


def parsed(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in raw.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line[1:])
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found
