"""The program under test: as a process of its own, or in a thread with other settings."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
import yaml

from fakes.behaviours import BEHAVIOURS
from fakes.ports import free_port
from fakes.speakers import SPEAKERS
from fakes.upstream import PATIENCE, FakeUpstream

KEY = "sk-caller-0123456789abcdef"
CHANNEL_KEY = "sk-channel-{}"
SOURCE = Path(__file__).parents[2] / "src"


def config(upstream: FakeUpstream, **server: Any) -> dict[str, Any]:
    """A provider of every type; `<type>.<behaviour>` is the model that makes it behave so."""
    providers = [
        {
            "id": kind,
            "type": kind,
            "models": {f"{kind}.{name}": {"redirect": name} for name in BEHAVIOURS},
            "channels": [
                {
                    "id": f"{kind}-main",
                    "base_url": upstream.base_url(kind),
                    "api_key": CHANNEL_KEY.format(kind),
                }
            ],
        }
        for kind in SPEAKERS
    ]
    providers[0]["models"]["globbed-*"] = {}
    # A probe would be one exchange more than a test has made.
    return configured(providers, health={"probe_enabled": False}, **server)


def configured(
    providers: list[dict[str, Any]], health: dict[str, Any], **server: Any
) -> dict[str, Any]:
    return {
        "server": {"host": "127.0.0.1", **server},
        "providers": providers,
        "keys": [{"name": "tests", "key": KEY, "username": "tests"}],
        "settings": {"health": health},
    }


def _text(source: FakeUpstream | dict[str, Any], server: dict[str, Any]) -> str:
    """The config file: a provider of every type at one upstream, or just what was given."""
    given = config(source, **server) if isinstance(source, FakeUpstream) else source
    return yaml.safe_dump(given, sort_keys=False)


class GatewayProcess:
    """`python -m monoize serve` on a free port; its log is in `log`."""

    def __init__(self, folder: Path, source: FakeUpstream | dict[str, Any], **server: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "gateway.log"
        self.port = free_port()
        file = folder / "monoize.yaml"
        file.write_text(_text(source, server), "utf-8")
        command = [sys.executable, "-m", "monoize", "serve", "--config", str(file)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/healthz")
                ready = connection.getresponse().status == 200
                connection.close()
            except OSError:
                time.sleep(0.05)
                continue
            if ready:
                return
        self.stop()
        raise AssertionError(f"the gateway did not start:\n{self.log_text()}")

    def log_text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait(PATIENCE)


class GatewayThread:
    """The same application in this process, for settings that one test file needs."""

    def __init__(self, source: FakeUpstream | dict[str, Any], **server: Any) -> None:
        from monoize.server.app import App
        from monoize.server.connection import Connection
        from monoize.server.house import House
        from monoize.settings import parse

        class _Noting(App):
            """Knows the loop that it runs in."""

            async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                self.loop = asyncio.get_running_loop()
                await super().__call__(scope, receive, send)

        text = _text(source, server)
        self._folder = TemporaryDirectory(prefix="monoize-")
        self._app = _Noting(House(lambda: parse(text, {}), folder=Path(self._folder.name)))
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app,
                port=0,
                http=Connection,
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 60
        while not self._server.started:
            assert time.monotonic() < deadline, "the gateway did not start"
            time.sleep(0.01)
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]
        self._resident = self._tasks()

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self._app.loop

    def _tasks(self) -> Counter[str]:
        found = [task.get_coro() for task in asyncio.all_tasks(self._loop)]
        return Counter(getattr(coro, "__qualname__", type(coro).__name__) for coro in found)

    def unfinished(self) -> list[str]:
        """Tasks beyond those that have run since the start, and what routing still counts as under way."""
        budget = self._app.house.state.kit.budget
        held = ["a request"] * budget.requests + ["a repeat"] * budget.repeats
        return [*(self._tasks() - self._resident).elements(), *held]

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._folder.cleanup()
