"""What holds for every page alike: readable by everybody, on a phone, in both themes, and text is never markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from browser.hostile_text import ADMIN, EVIL, FOUND, PASSWORD, SCRIPT, feed, keys
from browser.sight import AXE, DESKTOP, PAGES, PHONE, Sight, tab
from browser.world import Place, Stage, config
from fakes.gateway import GatewayProcess

SERIOUS = ("serious", "critical")
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


@pytest.fixture(scope="module")
def lived_in(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Any]]:
    """A gateway that has something on every page: all of it written by somebody hostile."""
    folder = tmp_path_factory.mktemp("lived_in")
    process = GatewayProcess(folder, config(stage, keys=keys()))
    place = Place(process, stage, folder)
    yield place, feed(place)
    stage.failing.clear()
    stage.lines_of.clear()
    process.stop()


@dataclass(frozen=True)
class Seen:
    """One page, looked at in every way."""

    path: str
    text: str
    markup: list[str]  # elements that only stored text can have made
    complaints: list[str]
    findings: list[str]  # of axe, in light
    dark_findings: list[str]
    phone_width: int


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tour(browser, lived_in) -> list[Seen]:
    place, made = lived_in
    paths = [*PAGES, f"/runs/{made['run']}", "/providers/evil", f"/keys/{made['key']}"]
    paths += [f"/requests/{one}" for one in made["requests"]]
    async with tab(browser, place.url) as sight:
        first = [await _seen(sight, "/sign-in")]
        await sight.sign_in(key=ADMIN)
        return first + [await _seen(sight, path) for path in paths]


async def _seen(sight: Sight, path: str) -> Seen:
    page = sight.page
    await page.emulate_media(color_scheme="light")
    await sight.open(path)
    findings = await _judged(sight)
    await page.emulate_media(color_scheme="dark")
    dark_findings = await _judged(sight, **CONTRAST)  # nothing but colours differs
    await page.set_viewport_size(PHONE)
    width = await page.evaluate("document.documentElement.scrollWidth")
    await page.set_viewport_size(DESKTOP)
    return Seen(
        path=path,
        text=await page.locator("body").inner_text(),
        markup=await page.evaluate(FOUND),
        complaints=await sight.complaints(),
        findings=findings,
        dark_findings=dark_findings,
        phone_width=width,
    )


async def _judged(sight: Sight, **options: Any) -> list[str]:
    if not AXE.exists():
        return []
    if not await sight.page.evaluate("'axe' in window"):
        await sight.page.evaluate(AXE.read_text("utf-8"))
    asked = {"resultTypes": ["violations"], **options}
    found = await sight.page.evaluate("options => axe.run(document, options)", asked)
    assert found["passes"], "axe has looked at nothing"
    return [
        f"{row['id']} ({row['impact']}): {node['target']} {node['failureSummary']}"
        for row in found["violations"]
        if row["impact"] in SERIOUS
        for node in row["nodes"]
    ]


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: make browser")
def test_has_no_serious_finding_in_light_or_dark(tour):
    assert {seen.path: seen.findings for seen in tour if seen.findings} == {}
    assert {seen.path: seen.dark_findings for seen in tour if seen.dark_findings} == {}


def test_fits_a_phone(tour):
    """What is wider scrolls within a box of its own."""
    wide = {seen.path: seen.phone_width for seen in tour if seen.phone_width > PHONE["width"]}
    assert wide == {}


def test_stored_text_is_never_markup(tour):
    """Names, tasks, replies, errors of others: each is read by somebody who may do everything."""
    assert {seen.path: seen.markup for seen in tour if seen.markup} == {}
    assert {seen.path: seen.complaints for seen in tour if seen.complaints} == {}
    # Or else nothing was shown of it, and the test would say nothing.
    shown = {f"/{seen.path.split('/')[1]}" for seen in tour if "mz-evil" in seen.text}
    expected = "/ /keys /users /requests /runs /media /costs /providers /transforms /settings"
    assert set(expected.split()) - shown == set()


async def test_nor_is_the_name_of_whoever_signs_in(browser, lived_in):
    """It stands in the page itself, as JSON within a script element."""
    place, _ = lived_in
    async with tab(browser, place.url) as sight:
        await sight.sign_in(username=SCRIPT, password=PASSWORD)
        await sight.open("/")
        assert await sight.page.evaluate(FOUND) == []
        session = await sight.page.locator("#session").text_content()
        assert json.loads(session)["username"] == SCRIPT
        assert SCRIPT in await sight.page.get_by_role("navigation").inner_text()


async def test_nor_is_what_an_address_says(browser, lived_in):
    place, _ = lived_in
    async with tab(browser, place.url) as sight:
        sight.excuse("status of 404", "status of 400")
        await sight.sign_in(key=ADMIN)
        for path in (
            "requests?status=",
            "requests/",
            "runs/",
            "chat?model=",
            "keys?q=",
            "costs?by=",
        ):
            await sight.open(f"/{path}{EVIL}")
            assert await sight.page.evaluate(FOUND) == [], path
