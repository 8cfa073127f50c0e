"""What attacks need: a gateway on both databases, one with a port, and a place where nobody may ever call."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fakes.databases import database_url
from fakes.management import api, storeless

__all__ = ["api", "database_url", "storeless"]


class Trap:
    """A port to which nobody may connect, whoever names it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"

    @property
    def is_untouched(self) -> bool:
        try:
            line, _ = self._socket.accept()
        except BlockingIOError:
            return True
        line.close()
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    made = Trap()
    yield made
    made.close()
