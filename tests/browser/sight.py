"""One tab of a real browser, and everything that it complains about."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, Playwright, expect
from playwright.async_api import Error as PlaywrightError

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox",  # the tests may run as root; they open nothing but loopback
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
PATIENCE_MS = int(os.environ.get("MONOIZE_BROWSER_PATIENCE_MS", "30000"))
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
PAGES = {
    "/": "Overview",
    "/chat": "Chat",
    "/code": "Code",
    "/runs": "Runs",
    "/providers": "Providers",
    "/transforms": "Transforms",
    "/keys": "Keys",
    "/users": "Users",
    "/requests": "Requests",
    "/costs": "Costs",
    "/reframer": "Reframer",
    "/media": "Media",
    "/settings": "Settings",
}
# Before any script of the page: what it may never do is noted, wherever in its life it happens.
_WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
# A page that is left stops its streams; that is no failure.
_LEFT = "net::ERR_ABORTED"


async def launched(playwright: Playwright) -> Browser:
    expect.set_options(timeout=PATIENCE_MS)
    return await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


class Sight:
    """A tab at one gateway. `excuse` names complaints that a test means to cause."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self._complaints: list[str] = []
        self._excuses: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._complaints.append(f"uncaught: {error}"))
        page.on("requestfailed", self._failed)
        page.on("request", self._asked)
        page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            place = message.location.get("url", "").removeprefix(self.url)
            self._complaints.append(f"{message.type}: {message.text} [{place}]")

    def _failed(self, request: Any) -> None:
        if request.failure != _LEFT:
            self._complaints.append(f"failed: {request.method} {request.url} {request.failure}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self._complaints.append(f"asked a stranger: {request.url}")

    async def _dialog(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":
            await dialog.accept()
            return
        self._complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def excuse(self, *parts: str) -> None:
        self._excuses += parts

    async def complaints(self) -> list[str]:
        found = list(self._complaints)
        with suppress(PlaywrightError):  # the tab may be closed, or at an error page
            violations = await self.page.evaluate("window.__violations ?? []")
            found += [f"policy: {violation}" for violation in violations]
        return [one for one in found if not any(part in one for part in self._excuses)]

    async def sign_in(self, **who: str) -> None:
        """By the API, as the page itself does it."""
        reply = await self.page.request.post(f"{self.url}/api/session", data=who)
        assert reply.ok, await reply.text()

    # --- going about ---

    async def open(self, path: str = "/", title: str | None = None) -> None:
        """The page, once it has drawn what it had to load."""
        await self.page.goto(f"{self.url}{path}", wait_until="domcontentloaded")
        await self.settled(title)

    async def settled(self, title: str | None = None) -> None:
        heading = self.main.get_by_role("heading", level=1)
        await (expect(heading).to_have_text(title) if title else expect(heading).to_be_visible())
        await expect(self.main.locator("[aria-busy=true]")).to_have_count(0)

    async def go(self, link: str) -> None:
        await self.page.get_by_role("navigation").get_by_role("link", name=link).click()
        await self.settled()

    @property
    def main(self) -> Locator:
        return self.page.get_by_role("main")

    def button(self, name: str | re.Pattern[str], **more: Any) -> Locator:
        return self.page.get_by_role("button", name=name, **more)

    def field(self, name: str, kind: Any = "textbox") -> Locator:
        return self.page.get_by_role(kind, name=name, exact=True)

    async def choose(self, name: str, value: str) -> None:
        await self.field(name, "combobox").select_option(value)

    async def shows(self, text: str | re.Pattern[str]) -> None:
        await expect(self.main.get_by_text(text).first).to_be_visible()

    async def still(self, place: Locator) -> str:
        """Its text, once it has stopped changing: what is asked for behind the scenes has come."""
        seen = ""
        while seen != (seen := await place.inner_text()):
            await self.page.wait_for_timeout(300)
        return seen


@asynccontextmanager
async def tab(browser: Browser, url: str, **options: Any) -> AsyncIterator[Sight]:
    """A fresh profile; whatever the page complained about fails the test at the end."""
    context: BrowserContext = await browser.new_context(
        **{"viewport": DESKTOP, "base_url": url, "locale": "en-GB", "timezone_id": "UTC"} | options
    )
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(_WATCH)
    sight = Sight(await context.new_page(), url)
    try:
        yield sight
        found = await sight.complaints()
        assert not found, "\n".join(found)
    finally:
        await context.close()
