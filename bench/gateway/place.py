"""Where measuring happens: a folder, the cores, the mock provider, and gateways that are started for a while."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from gateway.cells import Cell, Pace, Request
from gateway.load import Job, Tally
from gateway.processes import Bill, Cores, Program, billed, running
from gateway.targets import Launch, launched

_FOLDER_OF_PACKAGE = str(Path(__file__).resolve().parent.parent)
_ENVIRONMENT = {"PYTHONPATH": _FOLDER_OF_PACKAGE}
_LOAD_PATIENCE = 900.0


class Failed(Exception):
    """It could not be measured; in words."""


@dataclass(frozen=True)
class Running:
    """A gateway that answers."""

    program: Program
    port: int
    launch: Launch
    cold: float  # seconds from its start to the first answer of a model

    def request(self, cell: Cell, pace: Pace | None = None, **given: Any) -> Request:
        wanted = cell.request(pace, **{"model": self.launch.model, **given})
        return Request(self.launch.prefix + wanted.path, wanted.headers, wanted.body)


class Place:
    """`with Place(folder) as place:`; the mock provider runs meanwhile."""

    def __init__(self, folder: Path, cores: Cores | None = None) -> None:
        self.folder = folder
        self.cores = Cores.of_this_machine() if cores is None else cores
        self._number = 0

    def __enter__(self) -> Self:
        folder = self.fresh_folder("provider")
        command = [sys.executable, "-m", "gateway.mock"]
        self._mock = Program(command, folder, self.cores.provider, _ENVIRONMENT)
        told = ""
        while not told and self._mock.is_running and time.monotonic() < self._mock.began + 20:
            time.sleep(0.02)
            told = self._mock.output().strip()
        if not told.isdigit():
            self._mock.stop()
            raise Failed(f"the mock provider did not start: {told or 'it says nothing'}")
        self.provider = int(told)
        return self

    def __exit__(self, *_: object) -> None:
        self._mock.stop()

    def fresh_folder(self, name: str) -> Path:
        self._number += 1
        folder = self.folder / f"{self._number:03d}-{name}"
        folder.mkdir(parents=True)
        return folder

    def calls(self) -> int:
        """How often the provider was asked so far."""
        status, body = fetched(self.provider, "GET", "/calls")
        if status != 200:
            raise Failed("the mock provider does not count")
        return sum(json.loads(body).values())

    @contextmanager
    def started(
        self, launch: Launch, folder: Path, first: Request, cores: frozenset[int] | None = None
    ) -> Iterator[Running]:
        """Until the first call of a model has its answer."""
        where = self.cores.gateway if cores is None else cores
        with running(Program(launch.command, folder, where, launch.environment)) as program:
            port, cold = _first_answer(program, launch, first)
            yield Running(program, port, launch, cold)

    @contextmanager
    def gateway(
        self,
        config: Mapping[str, Any],
        *,
        folder: Path | None = None,
        first: Request | None = None,
        workers: int = 1,
        cores: frozenset[int] | None = None,
    ) -> Iterator[Running]:
        """Ours, with this config; in a folder of its own, or in one that is kept."""
        where = self.fresh_folder("monoize") if folder is None else folder
        asked = first or Cell("chat", "chat").request()
        with self.started(launched(config, where, workers), where, asked, cores) as found:
            yield found
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)

    def drive(
        self, gateway: Running, request: Request, *, everywhere: bool = False, **job: Any
    ) -> tuple[Tally, Bill]:
        """Callers keep a gateway busy: what they got, and what it cost."""
        cores = self.cores.everything if everywhere else self.cores.gateway
        wanted = _job(gateway.port, request, job)
        return billed(gateway.program, cores, lambda: self._loaded(wanted, everywhere))

    def directly(self, request: Request, **job: Any) -> Tally:
        """The same without a gateway: callers ask the provider."""
        return self._loaded(_job(self.provider, request, job))

    def _loaded(self, job: Job, everywhere: bool = False) -> Tally:
        cores = self.cores.everything if everywhere else self.cores.load
        try:
            done = subprocess.run(
                [sys.executable, "-m", "gateway.load"],
                input=msgspec.json.encode(job),
                capture_output=True,
                env={**os.environ, **_ENVIRONMENT},
                timeout=_LOAD_PATIENCE,
                check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"the callers were not done after {_LOAD_PATIENCE:.0f} s") from None
        if done.returncode:
            raise Failed(f"the callers gave up: {done.stderr.decode()[-500:]}")
        return msgspec.json.decode(done.stdout, type=Tally)


def _job(port: int, request: Request, more: Mapping[str, Any]) -> Job:
    return Job(port=port, path=request.path, headers=request.headers, body=request.body, **more)


def fetched(
    port: int, method: str, path: str, headers: Mapping[str, str] = {}, body: bytes | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"{method} {path}: {error!r}") from error
    finally:
        connection.close()


def _first_answer(program: Program, launch: Launch, request: Request) -> tuple[int, float]:
    heard = "nothing"
    path = launch.prefix + request.path
    while time.monotonic() - program.began < launch.patience:
        if not program.is_running:
            raise Failed(f"it ended: {program.output()}")
        port = launch.port()
        try:
            if port is not None:
                status, body = fetched(port, "POST", path, request.headers, request.body)
                if status == 200:
                    return port, time.monotonic() - program.began
                heard = f"{status} {body[:300].decode('utf-8', 'replace')}"
        except Failed as failed:
            heard = str(failed)
        time.sleep(0.005)
    raise Failed(f"no answer within {launch.patience:.0f} s ({heard}): {program.output()}")
