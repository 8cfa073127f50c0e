"""The program killed in the middle of uploads: what was acknowledged is there, what was not leaves no trace."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import select

from fakes.databases import database_url  # noqa: F401 - a fixture
from fakes.mortal_gateway import MortalGateway
from fakes.seaweedfs import BUCKET, S3Server, s3_server  # noqa: F401 - a fixture
from fakes.shelves import ShelfBench
from monoize.store.database import Database
from monoize.store.tables import media as media_table

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
KEY = "sk-media-0123456789"
OWNER = f"key:file:{KEY}"
MIB = 1024**2


def settings(url: str, **media: Any) -> dict[str, Any]:
    return {"database": url, "keys": [{"name": KEY, "key": KEY}], "media": media}


async def put(session: aiohttp.ClientSession, port: int, data: bytes) -> dict[str, Any]:
    url, headers = f"http://127.0.0.1:{port}/v1/media", {"authorization": f"Bearer {KEY}"}
    while True:
        async with session.post(url, data=BytesIO(data), headers=headers) as reply:
            if reply.status != 503:  # a busy machine: try again
                return {"status": reply.status, **await reply.json()}


async def upload_until(killed: asyncio.Event, port: int, seed: int, stored: dict[str, str]) -> None:
    """Into `stored`: ids of what was acknowledged, with their hashes."""
    dice = random.Random(seed)
    async with aiohttp.ClientSession() as session:
        while not killed.is_set():
            data = dice.randbytes(dice.choice([100, 300_000, 3 * MIB]))
            try:
                made = await put(session, port, data)
            except (aiohttp.ClientError, OSError):
                break
            if made["status"] == 201:
                stored[made["id"]] = hashlib.sha256(data).hexdigest()


async def until_something_is(stored: dict[str, str]) -> None:
    async with asyncio.timeout(60):
        while not stored:  # noqa: ASYNC110 - many write to it
            await asyncio.sleep(0.05)


async def left_over(url: str, folder: Path, **media: Any) -> ShelfBench:
    database = await Database.open(url, folder)
    bench = await ShelfBench.open(database, folder, **media)
    bench.clock.moment += 1_000_000_000  # long after: every upload under way is given up
    return bench


async def check_after(bench: ShelfBench, stored: dict[str, str], *, tries: int = 1) -> None:
    """`tries`: of a store that may still carry out what it was asked before the kill."""
    while await bench.shelf.sweep():
        pass
    for left in reversed(range(tries)):
        await bench.shelf.reconcile()
        try:
            await bench.check()
            break
        except AssertionError:
            if not left:
                raise
            await asyncio.sleep(0.2)
    rows = await bench.rows()
    assert stored.keys() <= rows.keys()
    for media_id, digest in stored.items():
        blob = await bench.shelf.blob(OWNER, media_id)
        assert hashlib.sha256(await blob.read(16 * MIB)).hexdigest() == digest


async def is_any_pending(url: str, folder: Path) -> bool:
    database = await Database.open(url, folder)
    try:
        found = select(media_table.c.id).where(media_table.c.state == "pending")
        return bool(await database.read(lambda c: c.execute(found).first() is not None))
    finally:
        await database.aclose()


@pytest.mark.soak
@pytest.mark.spec("D29")
async def test_killed_in_the_middle_of_uploads(
    database_url: str,  # noqa: F811
    tmp_path: Path,
):
    media = {"keep_days": None, "store": "./media"}
    gateway = MortalGateway(tmp_path, settings(database_url, **media))
    stored: dict[str, str] = {}
    cut = False  # in the middle of one; on a busy machine it may take more than one kill
    for round_ in range(20 if SOAK else 8):
        await asyncio.to_thread(gateway.start)
        killed = asyncio.Event()
        uploads = [
            asyncio.create_task(upload_until(killed, gateway.port, 100 * round_ + number, stored))
            for number in range(8)
        ]
        await asyncio.sleep(0.6 + random.Random(round_).random())
        await until_something_is(stored)
        await asyncio.to_thread(gateway.kill)
        killed.set()
        await asyncio.gather(*uploads)
        cut = cut or await is_any_pending(database_url, tmp_path)
        if stored and cut and not SOAK:
            break
    assert stored
    assert cut
    bench = await left_over(database_url, tmp_path, **media)
    try:
        await check_after(bench, stored)
        assert (await bench.shelf.usage(OWNER)).files == len(await bench.rows())
    finally:
        await bench.database.aclose()


@pytest.mark.spec("D29")
async def test_killed_in_the_middle_of_uploads_to_s3(
    s3_server: S3Server,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    media = {"keep_days": None, "store": f"s3://{BUCKET}/crash"}
    url = f"sqlite:///{tmp_path}/monoize.db"
    gateway = MortalGateway(tmp_path, settings(url, **media))
    await asyncio.to_thread(gateway.start)
    killed = asyncio.Event()
    stored: dict[str, str] = {}
    uploads = [
        asyncio.create_task(upload_until(killed, gateway.port, number, stored))
        for number in range(4)
    ]
    await asyncio.sleep(1.5)
    await until_something_is(stored)
    await asyncio.to_thread(gateway.kill)
    killed.set()
    await asyncio.gather(*uploads)
    bench = await left_over(url, tmp_path, **media)
    try:
        await check_after(bench, stored, tries=100)
    finally:
        await bench.database.aclose()


@pytest.mark.spec("D29")
async def test_two_workers_and_room_for_one(
    database_url: str,  # noqa: F811
    tmp_path: Path,
):
    """Fifty uploads over HTTP at once: the quota holds over processes, to the byte."""
    data = bytes(MIB)
    media = {"quota_bytes": 2 * MIB - 1, "store": "./media"}
    gateway = MortalGateway(tmp_path, settings(database_url, **media), workers=2)
    await asyncio.to_thread(gateway.start)
    try:
        # A connection of its own for each: the workers share them.
        async with contextlib.AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(aiohttp.ClientSession()) for _ in range(50)]
            replies = await asyncio.gather(*(put(s, gateway.port, data) for s in sessions))
    finally:
        await asyncio.to_thread(gateway.stop)
    won = [reply for reply in replies if reply["status"] == 201]
    lost = [reply for reply in replies if reply["status"] != 201]
    assert len(won) == 1
    assert {reply["status"] for reply in lost} == {413}
    assert {reply["error"]["code"] for reply in lost} == {"media_quota_exceeded"}
    bench = await left_over(database_url, tmp_path, **media, keep_days=None)
    try:
        await bench.check()
        assert set(await bench.rows()) == await bench.objects() == {won[0]["id"]}
    finally:
        await bench.database.aclose()
    assert "Traceback" not in gateway.log_text()
