"""A newcomer's way in: one address, no sign-in, and it says so."""

from __future__ import annotations

import re

from playwright.async_api import expect

from browser.sight import PAGES


async def test_opens_without_signing_in_and_says_so(sight):
    await sight.open("/", "Overview")
    await expect(sight.page.get_by_role("navigation")).to_contain_text("There are no users yet")
    await expect(sight.button("Sign out")).to_have_count(0)
    asked = "performance.getEntriesByType('resource').map((entry) => new URL(entry.name).origin)"
    assert set(await sight.page.evaluate(asked)) == {sight.url}  # it works without any other host


async def test_every_page_is_one_click_away(sight):
    await sight.open("/")
    for path, title in PAGES.items():
        await sight.go(title)
        await expect(sight.page).to_have_url(re.compile(re.escape(sight.url + path) + r"(\?.*)?$"))
        await expect(sight.main.get_by_role("heading", level=1)).to_have_text(title)
        await expect(sight.page).to_have_title(f"{title} · Monoize")
        current = sight.page.get_by_role("navigation").locator("[aria-current=page]")
        await expect(current).to_have_text(title)


async def test_back_and_reload_bring_the_same_page(sight):
    await sight.open("/requests")
    await sight.go("Costs")
    await sight.page.go_back()
    await sight.settled("Requests")
    await sight.page.reload()
    await sight.settled("Requests")


async def test_an_address_that_is_none_says_so(sight):
    sight.excuse("status of 404")
    await sight.open("/requests/req_nobodyhasthis")
    await sight.shows(re.compile("no request", re.IGNORECASE))
