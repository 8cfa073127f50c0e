"""How long a page of the console takes until it can be used: real pages in a real Chromium, on a database of `fill.py`.

`python bench/console/pages.py FOLDER [--times 7]` starts the gateway on it, signs in with the admin's key and opens each
page several times. Usable means: nothing on the page is loading any more, counted from the moment the browser asks for
it, with the console's files in the browser's cache as after any first page. It prints milliseconds, and exits with 1
where half of the openings of a page took longer than --most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path

from measure import gateway
from playwright.async_api import Page, async_playwright

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from browser.sight import DESKTOP, PAGES, launched

# A frame after the last piece that was loading has come: then it is drawn.
_USABLE = """() => new Promise((done) => {
  const isUsable = () => document.querySelector("main h1") && !document.querySelector("main [aria-busy], main .skeleton");
  const look = () => isUsable() ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 2);
  look();
})"""


async def opened(page: Page, url: str) -> float:
    await page.goto(url, wait_until="commit")
    return float(await page.evaluate(_USABLE))


async def measured(url: str, key: str, times: int) -> dict[str, list[float]]:
    async with async_playwright() as playwright:
        browser = await launched(playwright)
        context = await browser.new_context(viewport=DESKTOP, base_url=url)
        await context.request.post(f"{url}/api/session", data={"key": key}, headers={"origin": url})
        page = await context.new_page()
        found: dict[str, list[float]] = {}
        for path in PAGES:  # each once, so that every file is in the cache and every door imported
            await opened(page, f"{url}{path}")
        for _ in range(times):
            for path in PAGES:
                found.setdefault(path, []).append(await opened(page, f"{url}{path}"))
        await browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--most", type=float, default=300.0, help="milliseconds")
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    about = json.loads((folder / "keys.json").read_text("utf-8"))
    with gateway(folder) as (port, _):
        found = asyncio.run(measured(f"http://localhost:{port}", about["admin"], asked.times))
    print(f"{'page':14}{'fastest':>9}{'half':>9}{'slowest':>9}   ms until it can be used")
    for path, took in found.items():
        print(f"{path:14}{min(took):9.0f}{statistics.median(took):9.0f}{max(took):9.0f}")
    slow = [path for path, took in found.items() if statistics.median(took) > asked.most]
    if slow:
        raise SystemExit(f"more than {asked.most:g} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
