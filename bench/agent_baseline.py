"""The five baseline figures of agent runs (spec 5, phase 1), written to docs/agent-baseline.md.

    .venv/bin/python bench/agent_baseline.py            # all of it, under ten minutes on one core
    .venv/bin/python bench/agent_baseline.py --most 3   # three prompts of each kind, and nothing is written

Two parts. The conformance corpus of section 9 comes from wire bytes, for every profile, in virtual time; each run is judged by
the corpus's own test. The prompts of agent_prompts.yaml are put to the real local model through the whole gateway: contract factory,
pipeline, tools, transcript; profiles that need no more than that model. The figures are those of `monoize agent stats` and /metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import inspect
import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import yaml

from monoize import __version__
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION
from monoize.agent.contract import FORMAT_VERSION
from monoize.agent.machine.run_state import RunState
from monoize.agent.profile import profiles
from monoize.agent.record.verifier import verify
from monoize.agent.runs.execution import ended_run
from monoize.agent.runs.request import RunRequest
from monoize.agent.runs.service import RunService
from monoize.pipeline.call import NOBODY
from monoize.server.house import House
from monoize.server.state import local_engines
from monoize.settings import load
from monoize.telemetry.agent_runs import EndedRun, Figures, figures

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
CORPUS = TESTS / "unit" / "agent" / "test_conformance_corpus.py"
PROMPTS = HERE / "agent_prompts.yaml"
PAGE = HERE.parent / "docs" / "agent-baseline.md"
COMMAND = "make agent-baseline"

ENGINE, MODEL = "smollm2", "smollm2-135m"
LIVE = ("native_local", "local_xml", "local_json", "local_grammar")
PAGES = {"required": "code", "explanatory": "code", "chat": "chat"}
# A model of this size answers in a few words, or goes on for ever.
LIMITS: dict[str, Any] = {"max_output_tokens": 48, "max_inferences": 3, "step_timeout_ms": 60_000}
TOOLS = ("list_files", "read_file", "write_file")
PACKAGES = ("xllamacpp", "llguidance", "jsonschema-rs", "msgspec")
FILES = {
    "notes.txt": "Buy milk.\nCall Ana about teh boat.\n",
    "config.yaml": "port: 8080\nhost: 127.0.0.1\n",
    "README.md": "# Sample\n\nA small program.\n",
    "src/app.py": "from util import parse_config\n\n\ndef greet(name):\n    return 'Hello ' + nam  # TODO\n",
    "src/util.py": "def parse_config(text):\n    return dict(line.split(': ') for line in text.splitlines())\n",
}


class Scenario(NamedTuple):
    name: str
    run: EndedRun
    as_expected: bool


class Answered(NamedTuple):
    kind: str
    run: EndedRun


# --- the corpus, from wire bytes -------------------------------------------------------------------


def corpus() -> list[Scenario]:
    module = _loaded(CORPUS)
    lived, states = module.lived, []

    def noted(made: Any) -> RunState:
        state: RunState = lived(made)
        states.append(state)
        return state

    module.lived = noted  # type: ignore[attr-defined]
    found = []
    tests = {name: test for name, test in vars(module).items() if name[:6] in _NUMBERED}
    for name, test in sorted(tests.items()):
        for profile in sorted(profiles()):
            for case in _cases(test, profile):
                states.clear()
                try:
                    test(**case)
                    as_expected = True
                except AssertionError:
                    as_expected = False
                found += [Scenario(name, _ended(state), as_expected) for state in states]
    return found


_NUMBERED = frozenset(f"test_{number}" for number in range(1, 7))


def _cases(test: Any, profile: str) -> Iterator[dict[str, Any]]:
    gates = (True, False) if "gated" in inspect.signature(test).parameters else (None,)
    for stream in (True, False):
        for gated in gates:
            case = {"profile": profile, "stream": stream}
            yield case if gated is None else {**case, "gated": gated}


def _loaded(file: Path) -> ModuleType:
    sys.path.append(str(TESTS))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _ended(state: RunState) -> EndedRun:
    return EndedRun(
        policy=state.terms.contract.tool_policy,
        profile=state.terms.profile.id,
        outcome=state.outcome or "",
        failure_code=state.failure.code if state.failure else None,
        inferences=state.counters.inferences,
        format_retries=state.counters.format_retries,
        seconds=state.elapsed_ms / 1000,
    )


# --- the prompts, on the local model ---------------------------------------------------------------


async def answered(prompts: dict[str, list[str]], folder: Path) -> list[Answered]:
    house = House(lambda: load(_config(folder)), folder=folder, durable=False)
    await house.start()
    try:
        agents = house.state.lasting.agents
        assert agents is not None
        service = await agents.service()
        return [
            Answered(kind, await _run(service, profile, kind, task))
            for profile in LIVE
            for kind, tasks in prompts.items()
            for task in _told(tasks, f"{profile}, {kind}")
        ]
    finally:
        await house.aclose()


async def _run(service: RunService, profile: str, kind: str, task: str) -> EndedRun:
    request = RunRequest(
        task=task,
        page="chat" if PAGES[kind] == "chat" else "code",
        model=MODEL,
        profile=profile,
        tools=("files",),
        contract=LIMITS,
    )
    run_id = await service.create(request, NOBODY)
    row = (await service.ended(run_id)).row
    checked = verify(service.files.root / run_id)
    assert checked["ok"], checked  # a figure counts only when its transcript is whole
    return ended_run(row)


def _config(folder: Path) -> Path:
    workspace = folder / "workspace"
    for name, text in FILES.items():
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    provider = {
        "id": "local",
        "type": "local",
        "engine": ENGINE,
        "engine_options": {"threads": 1, "slots": 1},
        "models": {MODEL: {}},
        "channels": [{"id": "engine"}],
    }
    functions = {
        "file": str(HERE / "agent_files.py"),
        "functions": list(TOOLS),
        "env": {"FILES": str(workspace)},
    }
    tools = {"files": {"python": [functions]}}
    config = {
        "providers": [provider],
        "settings": {"agent": {"folder": str(folder / "runs"), "tools": tools}},
    }
    file = folder / "monoize.yaml"
    file.write_text(json.dumps(config), "utf-8")  # YAML, too
    return file


def _told(tasks: list[str], label: str) -> Iterator[str]:
    began = time.monotonic()
    yield from tasks
    print(f"{label}: {len(tasks)} runs in {time.monotonic() - began:.0f} s", file=sys.stderr)


# --- the page --------------------------------------------------------------------------------------

_HEADINGS = (
    "| {} | runs | no-tool completions of required runs | parse failures of inferences | inferences avg | p95 "
    "| seconds avg | p95 | max-step exits |"
)
_RULE = "|---|---|---|---|---|---|---|---|---|"


def page(scenarios: Sequence[Scenario], answers: Sequence[Answered], seconds: float) -> str:
    expected = sum(one.as_expected for one in scenarios)
    by_profile = _grouped((one.run.profile, one.run) for one in answers)
    return "\n".join(
        (
            "# Agent baseline",
            "",
            f"Written by `{COMMAND}`; no number on this page is typed by hand. It is phase 1 of the agent contract: five figures, taken the",
            "same way as those of `monoize agent stats` and `/metrics`.",
            "",
            *_circumstances(seconds),
            "",
            "## The local model",
            "",
            f"{_amounts(answers)} put to `{MODEL}` through the whole gateway, under the contract that the factory makes of each of them, with",
            f"{', '.join(f'`{name}: {value}`' for name, value in LIMITS.items())} and the tools {', '.join(f'`{name}`' for name in TOOLS)}.",
            "A model of 135 million parameters knows next to nothing; what counts here is that each failure has its name. A reply without a call",
            "where one was due is asked for again once in the text profiles (D41) and counts as one that could not be used. Every transcript",
            "was verified.",
            "",
            *_table("profile", by_profile),
            "",
            "Required-action prompts alone:",
            "",
            *_table(
                "profile",
                _grouped((one.run.profile, one.run) for one in answers if one.kind == "required"),
            ),
            "",
            "How the runs ended:",
            "",
            *_outcomes(one.run for one in answers),
            "",
            "## The conformance corpus",
            "",
            f"Section 9: six scenarios, every profile, streamed and not, from the wire bytes of that provider. {expected} of {len(scenarios)} runs came",
            "out as the contract says. Time is virtual there: the seconds are those of the scenario whose tool hangs.",
            "",
            *_table("profile", _grouped((one.run.profile, one.run) for one in scenarios)),
            "",
        )
    )


def _circumstances(seconds: float) -> list[str]:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    rows = {
        "command": f"`{COMMAND}`",
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{_processor()}, {os.cpu_count()} cores (the model uses one), {platform.system()} {platform.machine()}",
        "versions": f"Monoize {__version__}, contract {FORMAT_VERSION}, adapter {ADAPTER_VERSION}, Python {platform.python_version()}, {packages}",
        "took": f"{seconds / 60:.1f} minutes",
    }
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown processor"


def _amounts(answers: Sequence[Answered]) -> str:
    of_one = Counter(one.kind for one in answers if one.run.profile == LIVE[0])
    kinds = ", ".join(f"{count} {kind}" for kind, count in of_one.items())
    return f"{sum(of_one.values())} prompts ({kinds})"


def _grouped(pairs: Iterable[tuple[str, EndedRun]]) -> dict[str, Figures]:
    groups: dict[str, list[EndedRun]] = {}
    for name, run in pairs:
        groups.setdefault(name, []).append(run)
    return {name: figures(runs) for name, runs in groups.items()}


def _table(what: str, groups: dict[str, Figures]) -> list[str]:
    return [_HEADINGS.format(what), _RULE, *(_row(name, one) for name, one in groups.items())]


def _row(name: str, one: Figures) -> str:
    cells = (
        f"`{name}`",
        one.runs,
        _share(one.no_tool_completions, one.required_runs, one.no_tool_rate),
        _share(one.parse_failures, one.inferences, one.parse_failure_rate),
        f"{one.inferences_avg:.2f}",
        f"{one.inferences_p95:.0f}",
        f"{one.seconds_avg:.2f}",
        f"{one.seconds_p95:.2f}",
        one.max_step_exits,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _share(part: int, whole: int, rate: float) -> str:
    return f"{part} of {whole} ({rate:.0%})"


def _outcomes(runs: Iterable[EndedRun]) -> list[str]:
    counts = Counter((run.outcome, run.failure_code or "", run.profile) for run in runs)
    rows = [
        f"| `{outcome}` | {f'`{code}`' if code else ''} | "
        f"{' | '.join(str(counts[outcome, code, profile]) for profile in LIVE)} |"
        for outcome, code in sorted({(outcome, code) for outcome, code, _ in counts})
    ]
    head = f"| outcome | failure code | {' | '.join(f'`{name}`' for name in LIVE)} |"
    return [head, "|---" * (len(LIVE) + 2) + "|", *rows]


# --- the command -----------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--most", type=int, help="prompts of each kind; the page is only printed")
    most = parser.parse_args().most
    status = local_engines({})[ENGINE].available()
    if not status.installed:
        print(f"the local engine is not installed: {status.reason}", file=sys.stderr)
        return 1
    logging.getLogger("monoize").setLevel(logging.ERROR)
    began = time.monotonic()
    scenarios = corpus()
    prompts = {kind: tasks[:most] for kind, tasks in yaml.safe_load(PROMPTS.read_text()).items()}
    with tempfile.TemporaryDirectory() as folder:
        answers = asyncio.run(answered(prompts, Path(folder)))
    text = page(scenarios, answers, time.monotonic() - began)
    if most is None:
        PAGE.write_text(text, "utf-8")
    print(text)
    return 0 if all(one.as_expected for one in scenarios) else 1


if __name__ == "__main__":
    sys.exit(main())
