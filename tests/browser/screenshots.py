"""Renews docs/console: every page of the console, light and dark, at a gateway with a day of ordinary work in it."""

from __future__ import annotations

import asyncio
import io
import re
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import av
import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from playwright.async_api import async_playwright  # noqa: E402

from browser import demo  # noqa: E402
from browser.sight import PAGES, Sight, launched, tab  # noqa: E402
from browser.world import Place, Stage  # noqa: E402
from fakes.gateway import GatewayProcess  # noqa: E402

TARGET = ROOT / "docs" / "console"
COLOURS = 256
THEMES = ("light", "dark")


def small(picture: bytes) -> bytes:
    """The same picture with a palette: a page has few colours, and its rare ones are edges of letters."""
    with av.open(io.BytesIO(picture)) as container:
        pixels = next(container.decode(video=0)).to_ndarray(format="rgb24")
    height, width, _ = pixels.shape
    packed = pixels.reshape(-1, 3).astype(np.uint32) @ np.array([65536, 256, 1], dtype=np.uint32)
    found, places, often = np.unique(packed, return_inverse=True, return_counts=True)
    kept = found[np.argsort(-often, kind="stable")[:COLOURS]]
    palette = _parts(kept)
    distance = ((_parts(found)[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2)
    rows = distance.argmin(axis=1).astype(np.uint8)[places].reshape(height, width)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", palette.astype(np.uint8).tobytes()))
    data = (*chunks, (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in data)


def _parts(colours: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.stack([colours >> 16 & 255, colours >> 8 & 255, colours & 255], axis=1).astype(
        np.int64
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


async def taken(sight: Sight, path: str, name: str) -> int:
    await sight.open(f"{path}?provider=workshop" if path == "/transforms" else path)
    await PREPARED.get(path, _nothing)(sight)
    size = 0
    for theme in THEMES:
        await sight.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        await sight.page.wait_for_timeout(100)
        data = small(await sight.page.screenshot(animations="disabled", caret="hide"))
        (TARGET / f"{name}-{theme}.png").write_bytes(data)
        size += len(data)
    return size


async def _nothing(_: Sight) -> None: ...


async def _talked(sight: Sight) -> None:
    await sight.choose("Protocol", "messages")
    await sight.field("Model", "combobox").fill("gpt-5.2")
    await sight.field("Message").fill("When it is 09:00 in Paris, what time is it in Tokyo?")
    await sight.button("Send").click()
    await sight.shows("08:00")
    await sight.main.get_by_text("Reasoning", exact=True).click()
    await sight.shows("$")  # what it cost comes a moment later
    await sight.main.get_by_role("heading", level=1).click()


async def _contracted(sight: Sight) -> None:
    await sight.field("Task").fill("Write a greeting to the file hello.txt")
    await sight.field("Workspace", "combobox").select_option(label="project (./project)")
    await sight.choose("Model", "gpt-5.2")
    await sight.button("Show the contract").click()
    await sight.shows("Budgets")
    await sight.main.get_by_role("heading", level=1).click()


async def _tried(sight: Sight) -> None:
    await sight.button("Run", exact=True).click()
    await sight.shows("1. inject_system_prompt")
    await sight.main.get_by_role("heading", level=1).click()


async def _reframed(sight: Sight) -> None:
    await sight.shows(re.compile("is good"))


# What somebody has done on a page before its picture is taken.
PREPARED: dict[str, Any] = {
    "/chat": _talked,
    "/code": _contracted,
    "/reframer": _reframed,
    "/transforms": _tried,
}


async def pictures(place: Place, made: Any) -> int:
    """Users and keys come last: with the first of them the gateway asks for a sign-in."""
    async with async_playwright() as playwright:
        browser = await launched(playwright)
        size = 0
        async with tab(browser, place.url) as sight:
            for path, title in PAGES.items():
                if path not in ("/users", "/keys"):
                    size += await taken(sight, path, title.lower())
            size += await taken(sight, f"/runs/{made['run']}", "run")
            size += await taken(sight, f"/requests/{made['request']}", "request")
        key = demo.settle(place, made["people"])
        async with tab(browser, place.url) as sight:
            size += await taken(sight, "/sign-in", "sign-in")
            await sight.sign_in(key=key)
            for path in ("/users", "/keys"):
                size += await taken(sight, path, PAGES[path].lower())
        await browser.close()
    return size


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    with Stage() as stage, tempfile.TemporaryDirectory() as folder:
        demo.set_stage(stage)
        process = GatewayProcess(Path(folder), demo.config(stage))
        try:
            place = Place(process, stage, Path(folder))
            size = asyncio.run(pictures(place, demo.feed(place)))
        finally:
            process.stop()
    print(
        f"docs/console has {len(list(TARGET.glob('*.png')))} pictures, {size / 1000:.0f} kB in all"
    )


if __name__ == "__main__":
    main()
