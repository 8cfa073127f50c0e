"""The program as an operator runs it, on one folder and one port: started, killed, started again, its file rewritten."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import yaml

from fakes.gateway import SOURCE
from fakes.ports import free_port
from fakes.upstream import PATIENCE

_STARTING = 60.0  # seconds; it takes one on an idle machine


class MortalGateway:
    """`with MortalGateway(folder, settings) as gateway:`; the folder holds the config, the data and the log."""

    def __init__(self, folder: Path, settings: dict[str, Any], *, workers: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.file = folder / "monoize.yaml"
        self.log = folder / "gateway.log"
        self.port = free_port()
        self._workers = workers
        self._process: subprocess.Popen[bytes] | None = None
        self.write(settings)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- its file ---

    def write(self, settings: dict[str, Any]) -> None:
        self.write_text(yaml.safe_dump(settings, sort_keys=False))

    def write_text(self, text: str) -> None:
        """Whole from one moment to the other, as editors and config maps do it."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text, "utf-8")
        fresh.replace(self.file)

    def log_text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    # --- its life ---

    def start(self) -> None:
        command = [sys.executable, "-m", "monoize", "serve", "--config", str(self.file)]
        command += ["--port", str(self.port), "--workers", str(self._workers)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdout=log,
                stderr=log,
                start_new_session=True,  # workers go with it when it is killed
            )
        deadline = time.monotonic() + _STARTING
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"the gateway did not start:\n{self.log_text()[-4000:]}")

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """SIGKILL, to all of its processes: no word of farewell."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE)
            self._process = None

    def stop(self) -> int:
        """SIGTERM, as an operator does it."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(3 * PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it does not end:\n{self.log_text()[-4000:]}") from error
        finally:
            self.kill()
