"""After `make run`, with nothing configured: the local model, from a task to a transcript that is verified."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from browser.sight import tab
from browser.world import EmbeddedProcess, Place, Stage
from monoize.server.state import local_engines

STATUS = local_engines({})["smollm2"].available()
pytestmark = pytest.mark.skipif(
    not STATUS.installed, reason=f"the local engine is not installed: {STATUS.reason}"
)
SLOW_MS = 120_000  # what the model takes on a machine that has other things to do


@pytest.fixture(scope="module")
def newcomer(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("newcomer")
    process = EmbeddedProcess(folder)
    yield Place(process, stage, folder)
    process.stop()


@pytest.mark.spec("S5-F", "S5-C")
async def test_a_required_tool_run_on_the_local_model_is_verified_and_replayed(browser, newcomer):
    async with tab(browser, newcomer.url) as sight:
        await sight.open("/", "Overview")
        await expect(sight.page.get_by_role("navigation")).to_contain_text("no users yet")
        await sight.go("Code")
        await sight.field("Task").fill("Write a greeting to the file hello.txt")
        await sight.choose("Model", "smollm2-135m")
        for tool in ("list_files", "read_file", "search_files", "patch_file", "run_command"):
            await sight.main.get_by_role("checkbox", name=re.compile(f"^{tool}")).uncheck()
        await sight.button("Show the contract").click()
        await sight.shows("A tool has to be used, or the run fails.")
        await sight.shows(re.compile("the task orders something to be done"))
        await sight.shows("Budgets")
        await sight.button("Start").click()
        run = sight.main.get_by_role("region", name=re.compile("^Run "))
        await expect(run).to_contain_text("COMPLETED_WITH_TOOLS", timeout=SLOW_MS)
        assert any((newcomer.folder / "data" / "workspace").iterdir())
        await sight.go("Runs")
        await sight.main.get_by_role("row").nth(1).get_by_role("link").click()
        await sight.button("Verify chain").click()
        await expect(sight.main).to_contain_text(
            re.compile(r"Whole: \d+ entries, head [0-9a-f]{64}")
        )
        await sight.button("Replay").click()
        await expect(sight.main).to_contain_text(re.compile(r"Identical: \d+ entries"))
