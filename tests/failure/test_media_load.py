"""Media in numbers and in size: none mixed up, and the server's memory stays flat."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.mortal_gateway import MortalGateway

pytestmark = pytest.mark.soak

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
MIB = 1024**2
KEYS = ("sk-media-one-0123456789", "sk-media-two-0123456789")
AT_A_TIME = 100
BASE = random.Random(5).randbytes(10 * MIB)
PATIENCE = aiohttp.ClientTimeout(total=None, sock_read=120)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[MortalGateway]:
    settings = {
        "keys": [{"name": key, "key": key} for key in KEYS],
        "media": {"max_bytes": 2 * 1024**3, "quota_bytes": 16 * 1024**3},
    }
    with MortalGateway(tmp_path, settings) as running:
        yield running
    shutil.rmtree(tmp_path / "data" / "media")  # gigabytes; pytest would keep them


def memory(gateway: MortalGateway, name: str) -> float:
    """MiB: VmRSS is what it takes now, VmHWM the most it ever took."""
    text = Path(f"/proc/{gateway._process.pid}/status").read_text("ascii")
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) / 1024


def data_of(number: int) -> bytes:
    """Five MiB, of each number others."""
    start = number * 4099 % (5 * MIB)
    return BASE[start : start + 5 * MIB]


class Client:
    def __init__(self, gateway: MortalGateway) -> None:
        self._base = f"http://127.0.0.1:{gateway.port}/v1/media"
        connector = aiohttp.TCPConnector(limit=AT_A_TIME)
        self.session = aiohttp.ClientSession(connector=connector, timeout=PATIENCE)

    def headers(self, number: int) -> dict[str, str]:
        return {"authorization": f"Bearer {KEYS[number % 2]}"}

    async def put(self, number: int, data: Any, **headers: str) -> dict[str, Any]:
        given = {**self.headers(number), **headers}
        url = f"{self._base}?name=n{number}"
        async with self.session.post(url, data=data, headers=given) as reply:
            assert reply.status == 201, await reply.text()
            return await reply.json()

    async def put_form(self, number: int, data: bytes) -> dict[str, Any]:
        form = aiohttp.FormData()
        form.add_field("file", BytesIO(data), filename=f"n{number}", content_type="video/mp4")
        return await self.put(number, form)

    async def digest(self, number: int, media_id: str) -> str:
        """Of what comes back, without keeping it."""
        found = hashlib.sha256()
        given = self.headers(number)
        async with self.session.get(f"{self._base}/{media_id}", headers=given) as reply:
            assert reply.status == 200, await reply.text()
            async for piece in reply.content.iter_any():
                found.update(piece)
        return found.hexdigest()

    async def usage(self, number: int) -> dict[str, Any]:
        async with self.session.get(self._base, headers=self.headers(number)) as reply:
            return (await reply.json())["usage"]


async def at_once(work: Any, numbers: range | list[int]) -> dict[int, Any]:
    """All of them, some at a time."""
    turns = asyncio.Semaphore(AT_A_TIME)

    async def one(number: int) -> tuple[int, Any]:
        async with turns:
            return number, await work(number)

    return dict(await asyncio.gather(*map(one, numbers)))


@pytest.mark.spec("D29", "S4-3.3")
async def test_many_uploads_and_downloads_at_once_are_not_mixed_up(gateway: MortalGateway):
    total = 1000 if SOAK else 50
    client = Client(gateway)
    before = memory(gateway, "VmRSS")

    async def put(number: int) -> dict[str, Any]:
        data = data_of(number)
        if number % 3 == 0:
            made = await client.put_form(number, data)
        else:
            made = await client.put(number, BytesIO(data))
        assert made["sha256"] == hashlib.sha256(data).hexdigest()
        assert (made["name"], made["size"]) == (f"n{number}", 5 * MIB)
        return made

    async def get(number: int) -> str:
        return await client.digest(number, made[number]["id"])

    try:
        made = await at_once(put, range(total))
        assert len({one["id"] for one in made.values()}) == total
        order = list(range(total))
        random.Random(7).shuffle(order)
        found = await at_once(get, order)
        assert found == {number: one["sha256"] for number, one in made.items()}
        for owner in (0, 1):
            usage = await client.usage(owner)
            assert (usage["files"], usage["bytes"]) == (total // 2, total // 2 * 5 * MIB)
    finally:
        await client.session.close()
    peak = memory(gateway, "VmHWM")
    print(
        f"{total} of 5 MiB, {AT_A_TIME} at a time: {before:.0f} MiB before, {peak:.0f} MiB at most"
    )
    assert peak - before < 400
    assert "Traceback" not in gateway.log_text()


@pytest.mark.spec("D29", "S4-3.3")
@pytest.mark.parametrize("kind", ["body", "unsized body", "form"])
async def test_a_large_upload_takes_no_more_memory_than_a_small_one(
    gateway: MortalGateway, kind: str
):
    size = 1024 * MIB if SOAK else 128 * MIB
    piece, digest = BASE[:MIB], hashlib.sha256()
    for _ in range(size // MIB):
        digest.update(piece)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size // MIB):
            yield piece

    client = Client(gateway)
    try:
        await client.digest(0, (await client.put(0, b"warm"))["id"])
        before = memory(gateway, "VmHWM")
        match kind:
            case "body":
                made = await client.put(0, pieces(), **{"content-length": str(size)})
            case "unsized body":
                made = await client.put(0, pieces())
            case _:
                form = aiohttp.FormData()
                form.add_field("file", pieces(), filename="large")
                made = await client.put(0, form)
        after = memory(gateway, "VmHWM")
        assert (made["size"], made["sha256"]) == (size, digest.hexdigest())
        assert await client.digest(0, made["id"]) == made["sha256"]
        at_last = memory(gateway, "VmHWM")
    finally:
        await client.session.close()
    print(f"{size // MIB} MiB ({kind}): {before:.0f} MiB, {after:.0f} up, {at_last:.0f} down")
    assert after - before < 64
    assert at_last - before < 64
