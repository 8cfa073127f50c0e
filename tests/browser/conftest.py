"""A browser for each worker, a fresh profile for each test, and the gateways that the walks are made at."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from browser.sight import CHROMIUM, Sight, launched, tab
from browser.world import Place, Stage, config
from fakes.gateway import GatewayProcess

HERE = f"{Path(__file__).parent}{os.sep}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser lives in one event loop, so all of these tests share one."""
    reason = None if CHROMIUM.exists() else f"there is no {CHROMIUM}: make browser"
    for item in items:
        if not str(item.path).startswith(HERE):
            continue
        if inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        found = await launched(playwright)
        yield found
        await found.close()


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with Stage() as upstream:
        yield upstream


def _placed(folder: Path, stage: Stage, **more: Any) -> Iterator[Place]:
    process = GatewayProcess(folder, config(stage, **more))
    yield Place(process, stage, folder)
    process.stop()


@pytest.fixture(scope="session")
def opened(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """As after the first start: nobody has a key, whoever sits at the machine is an admin."""
    yield from _placed(tmp_path_factory.mktemp("opened"), stage)


@pytest_asyncio.fixture(loop_scope="session")
async def sight(browser: Browser, opened: Place) -> AsyncIterator[Sight]:
    opened.stage.failing.clear()
    async with tab(browser, opened.url) as found:
        yield found
