"""A fetcher that is made for the first address does what the one behind it does."""

import subprocess
import sys

import pytest

from fakes.far_host import FarHost, reply
from monoize.errors import Forbidden, InvalidRequest
from monoize.media.late_fetch import LateFetcher
from monoize.settings import HttpUrlSettings

PICTURE = b"\x89PNG\r\n\x1a\n"


@pytest.mark.spec("D30")
async def test_what_may_not_be_fetched_is_refused():
    off, on = LateFetcher(HttpUrlSettings()), LateFetcher(HttpUrlSettings(enabled=True))
    assert (off.enabled, on.enabled) == (False, True)
    with pytest.raises(Forbidden):
        async with off.fetched("https://files.example.org/a"):
            pass
    for url in ("file:///etc/passwd", "http://127.0.0.1/a"):
        with pytest.raises((Forbidden, InvalidRequest)):
            async with on.fetched(url):
                pass


async def test_a_file_comes_through_the_fetcher_that_is_made_for_it(monkeypatch):
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE)
        late = LateFetcher(HttpUrlSettings(enabled=True))
        far = host.fetcher()
        monkeypatch.setattr(late, "_policy", far._policy)
        monkeypatch.setattr(late, "_made", lambda: far)
        for _ in range(2):
            async with late.fetched(host.url()) as blob:
                assert b"".join([chunk async for chunk in blob.chunks()]) == PICTURE


def test_refusing_imports_no_client():
    script = (
        "import asyncio, sys\n"
        "from monoize.errors import Forbidden\n"
        "from monoize.media.late_fetch import LateFetcher\n"
        "from monoize.settings import HttpUrlSettings\n"
        "async def ask():\n"
        "    async with LateFetcher(HttpUrlSettings()).fetched('https://files.example.org/a'):\n"
        "        pass\n"
        "try:\n"
        "    asyncio.run(ask())\n"
        "except Forbidden:\n"
        "    print('aiohttp' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "False\n", done.stderr
