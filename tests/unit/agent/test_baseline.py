"""`make agent-baseline` (spec 5, phase 1): its prompts, its corpus, its page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from fakes.agent_world import MODEL, TOOLS
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION
from monoize.agent.factory import ContractRequest, resolve
from monoize.agent.profile import profiles
from monoize.telemetry.agent_runs import EndedRun

ROOT = Path(__file__).parents[3]
PROMPTS = yaml.safe_load((ROOT / "bench" / "agent_prompts.yaml").read_text("utf-8"))
POLICIES = {"required": "required", "explanatory": "optional", "chat": "forbidden"}


@pytest.fixture(scope="module")
def baseline() -> ModuleType:
    file = ROOT / "bench" / "agent_baseline.py"
    spec = importlib.util.spec_from_file_location("agent_baseline", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["agent_baseline"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.spec("S5-1", "S5-2b")
@pytest.mark.parametrize(
    ("kind", "task"), [(kind, task) for kind, tasks in PROMPTS.items() for task in tasks]
)
def test_the_factory_finds_the_policy_that_a_prompts_kind_says(
    baseline: ModuleType, kind: str, task: str
):
    for name in baseline.LIVE:
        contract, _ = resolve(
            ContractRequest(
                task=task,
                page=baseline.PAGES[kind],
                model=MODEL,
                profile=profiles()[name],
                manifest=TOOLS,
                adapter_version=ADAPTER_VERSION,
                overrides=baseline.LIMITS,
            )
        )
        assert contract.tool_policy == POLICIES[kind]


@pytest.mark.spec("S5-1")
def test_the_prompts_are_enough_and_none_stands_twice():
    every = [task for tasks in PROMPTS.values() for task in tasks]
    assert set(PROMPTS) == set(POLICIES)
    assert len(set(every)) == len(every) >= 40
    assert min(map(len, PROMPTS.values())) >= 10


@pytest.mark.spec("S5-1", "S5-9")
def test_the_corpus_is_all_of_it(baseline: ModuleType):
    found = baseline.corpus()
    assert all(one.as_expected for one in found)
    assert {one.run.profile for one in found} == set(profiles())
    scenarios = {one.name for one in found}
    assert len(scenarios) == 6
    each = len(profiles()) * 2  # streamed and not
    assert len(found) == each * (6 + 1)  # narration with and without the gate
    assert {one.run.outcome for one in found} == {
        "COMPLETED_WITH_TOOLS",
        "FAILED_CONTRACT_VIOLATION",
        "FAILED_PROTOCOL_MALFORMED",
        "FAILED_PROTOCOL_NO_TOOLS",
        "FAILED_TIMEOUT",
    }


@pytest.mark.spec("S5-1")
def test_a_run_that_comes_out_otherwise_is_seen(
    baseline: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    whole = baseline._loaded

    def spoilt(file: Path) -> ModuleType:
        module = whole(file)
        module.LONG = "short"  # the oversized result is none
        return module

    monkeypatch.setattr(baseline, "_loaded", spoilt)
    monkeypatch.setattr(baseline, "profiles", lambda: ("native_grok",))
    wrong = {one.name for one in baseline.corpus() if not one.as_expected}
    assert wrong == {"test_5_an_oversized_result_is_cut_to_its_budget"}


def run(profile: str, outcome: str, **more: object) -> EndedRun:
    usual = {"policy": "required", "failure_code": None, "inferences": 2, "format_retries": 0}
    return EndedRun(profile=profile, outcome=outcome, **{**usual, "seconds": 1.5, **more})  # type: ignore[arg-type]


@pytest.mark.spec("S5-1")
def test_the_page_tells_the_five_figures_of_each_profile(baseline: ModuleType):
    said = [
        run("native_local", "COMPLETED_WITH_TOOLS"),
        run("native_local", "FAILED_PROTOCOL_NO_TOOLS", failure_code="no_tool_call"),
        run("native_local", "FAILED_PROTOCOL_MALFORMED", format_retries=1),
        run("native_local", "FAILED_BUDGET_EXHAUSTED", failure_code="max_inferences", inferences=4),
    ]
    page = baseline.page([], [baseline.Answered("required", one) for one in said], 90.0)
    assert (
        "| `native_local` | 4 | 1 of 4 (25%) | 2 of 10 (20%) | 2.50 | 4 | 1.50 | 1.50 | 1 |" in page
    )
    assert "| `FAILED_BUDGET_EXHAUSTED` | `max_inferences` | 1 |" in page
    assert "1.5 minutes" in page


@pytest.mark.spec("S5-1")
def test_the_published_page_is_one_of_this_command(baseline: ModuleType):
    page = baseline.PAGE.read_text("utf-8")
    for name in (*baseline.LIVE, *profiles()):
        assert f"| `{name}` |" in page, name
    assert f"| command | `{baseline.COMMAND}` |" in page
    assert f"\n{baseline.COMMAND.removeprefix('make ')}:" in (ROOT / "Makefile").read_text("utf-8")
    assert sum(map(len, PROMPTS.values())) == int(
        page.partition(" prompts (")[0].rpartition("\n")[2]
    )
