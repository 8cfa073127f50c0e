"""`monoize agent`: run a task under a contract, see what happened, prove it, replay it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter

from monoize.agent.record.export import export_run
from monoize.agent.record.folder_journal import RunIsHeld, folder_of
from monoize.agent.record.recorded_run import load
from monoize.agent.record.recovery import CannotRecover, recovered
from monoize.agent.record.replay import replay as replay_run
from monoize.agent.record.verifier import verify as verify_run
from monoize.agent.runs.child_runs import Waiting, waiting_calls
from monoize.agent.runs.execution import ended_run
from monoize.agent.runs.files import RunFiles
from monoize.agent.runs.making import BUILD
from monoize.agent.runs.request import RunRequest
from monoize.agent.runs.service import Shown
from monoize.cli._agent_place import FILE, found_run, open_service, run_files, tool_sources
from monoize.cli._agent_session import chosen, concluded, printable, until_settled, watched
from monoize.cli._desk import AsJson, moment_text, show, show_json
from monoize.errors import InvalidRequest, MonoizeError
from monoize.globs import is_glob
from monoize.pipeline.call import NOBODY
from monoize.server.state import State
from monoize.telemetry.agent_runs import figures

__all__ = ["app"]

app = App(
    name="agent",
    help="Agent runs under a contract: run a task, see what happened, prove it, replay it.",
)

Config = Annotated[
    Path | None,
    Parameter(help="the YAML file whose models and runs are meant; else monoize.yaml, else ./data"),
]
RunId = Annotated[
    str,
    Parameter(name="run", help="its id, or enough of its beginning or end; `last` is the newest"),
]
Approve = Annotated[
    tuple[str, ...],
    Parameter(
        name="--approve",
        negative="",
        help="say yes to calls of this tool, or to this call by its id; `all` to every one",
    ),
]
Policy = Literal["required", "optional", "forbidden"]
_FAILED, _UNUSABLE = 1, 2  # exit codes


@app.command
def run(  # noqa: PLR0913 - one for each thing that a contract is made of
    task: Annotated[str, Parameter(help="what is to be done, in words")],
    *,
    model: Annotated[str | None, Parameter(help="a model of the config; else its first")] = None,
    tools: Annotated[Path | None, Parameter(help="a file of tools (docs/agent.md)")] = None,
    workspace: Annotated[
        Path | None, Parameter(help="a folder to read, change and run commands in")
    ] = None,
    policy: Annotated[
        Policy | None, Parameter(help="whether a tool has to be called; else the task decides")
    ] = None,
    page: Annotated[Literal["chat", "code"] | None, Parameter(help="the kind of page")] = None,
    profile: Annotated[str | None, Parameter(help="how the model is spoken to")] = None,
    ask: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="tools that need your yes, or scope:write, scope:execute"),
    ] = (),
    approve: Approve = (),
    contract: Annotated[
        str | None, Parameter(help='more of the contract, as JSON: {"max_inferences": 5}')
    ] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Run a task to its typed end. Ctrl-C interrupts it. Exit codes: 0 completed, 1 not, 2 could not begin."""

    async def work() -> int:
        sources = tool_sources(tools, workspace)
        async with open_service(config, sources) as (service, state):
            request = RunRequest(
                task=task,
                page=page or ("code" if sources else None),
                model=model or _first_model(state),
                profile=profile,
                tools=(FILE,) if sources else (),
                contract=_overrides(contract, policy, ask),
            )
            shown = await until_settled(service, request, approve, quiet=as_json)
        return concluded(shown, as_json=as_json)

    return _exit_code(work)


@app.command
def resume(
    run: RunId,
    *,
    approve: Approve = (),
    task: Annotated[str | None, Parameter(help="what to say to it now")] = None,
    tools: Annotated[Path | None, Parameter(help="the file of tools that it had")] = None,
    workspace: Annotated[Path | None, Parameter(help="the folder that it had")] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Go on: with a run that was cut off as it stands, with one that has ended as its child."""

    async def work() -> int:
        sources = tool_sources(tools, workspace)
        async with open_service(config, sources) as (service, _):
            run_id = found_run(service.files, run)
            if (await service.shown(run_id, NOBODY)).has_ended:
                calls = await service.waiting(run_id, NOBODY)
                request = RunRequest(
                    task=task,
                    parent_run_id=run_id,
                    approve=chosen(calls, approve),
                    tools=(FILE,) if sources else None,
                )
                shown = await until_settled(service, request, approve, quiet=as_json)
            else:
                await service.go_on(run_id)
                shown = await watched(service, run_id, task or "", quiet=as_json)
        return concluded(shown, as_json=as_json)

    return _exit_code(work)


@app.command(name="list")
def show_all(
    *,
    outcome: Annotated[str | None, Parameter(help="only those that ended so")] = None,
    limit: Annotated[int, Parameter(help="how many, the newest first")] = 20,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Show the runs, the newest first."""

    async def work() -> int:
        found = (one.row for one in run_files(config).newest_first())
        rows = [row for row in found if outcome in (None, row.outcome)][:limit]
        if as_json:
            show_json([msgspec.to_builtins(row) for row in rows])
            return 0
        headings = ("run", "begun (UTC)", "model", "policy", "outcome", "calls", "tokens", "s")
        show(
            headings,
            [
                (
                    row.run_id,
                    moment_text(row.created_at),
                    row.model,
                    row.policy,
                    row.outcome or row.state,
                    row.tool_calls,
                    row.tokens,
                    f"{row.elapsed_ms / 1000:.1f}",
                )
                for row in rows
            ],
            empty="there are no runs",
        )
        return 0

    return _exit_code(work)


@app.command(name="show")
def show_one(run: RunId, *, as_json: AsJson = False, config: Config = None) -> int:
    """Show one run: its end, its budgets, every transition, and what waits for your yes."""

    async def work() -> int:
        files = run_files(config)
        run_id = found_run(files, run)
        summary = files.summary(run_id)
        if summary is None or summary.digest is None:
            raise InvalidRequest(f"{run_id} has not begun")
        shown = Shown(row=summary.row, digest=summary.digest, contract=files.contract(run_id))
        waiting = _waiting(files, run_id) if shown.has_ended else ()
        if as_json:
            more = {"waiting_for_approval": msgspec.to_builtins(waiting)}
            show_json({**shown.reply(), "run": msgspec.to_builtins(shown.row), **more})
        else:
            _describe(shown, waiting)
        return 0

    return _exit_code(work)


@app.command
def verify(
    run: Annotated[str, Parameter(help="a run, or the file of an export (.zip)")],
    *,
    public_key: Annotated[
        str | None, Parameter(help="the only key that may have signed it, 64 hex digits")
    ] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Prove that a transcript is whole: every hash, every link, every signature. Exit codes: 0 whole, 1 not."""

    async def work() -> int:
        place, is_open = _place(run, config)
        result = verify_run(place, public_key, is_open)
        if as_json:
            show_json(result)
        elif result["ok"]:
            print(f"{result['run_id']}: whole, {result['entries']} entries, head {result['head']}")
        for fault in () if as_json else result["faults"]:
            print(f"line {fault['line'] or '-'}: {fault}", file=sys.stderr)
        return 0 if result["ok"] else _FAILED

    return _exit_code(work)


@app.command
def replay(
    run: Annotated[str, Parameter(help="a run, or the file of an export (.zip)")],
    *,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Run a record once more, asking nobody: the identical head, or the first difference and what is to blame."""

    async def work() -> int:
        place, _ = _place(run, config)
        recorded = load(place)
        again = replay_run(recorded, build=BUILD)
        if as_json:
            show_json(again)
        elif again.divergence is None:
            print(f"identical: {again.entries} entries, head {again.head}")
        else:
            odd = again.divergence
            print(f"differs at entry {odd.seq} ({odd.kind}): {odd.detail}", file=sys.stderr)
        return 0 if again.divergence is None else _FAILED

    return _exit_code(work)


@app.command
def export(
    run: RunId,
    *,
    output: Annotated[
        Path | None, Parameter(name=["-o", "--output"], help="file to write; else <run>.zip")
    ] = None,
    config: Config = None,
) -> int:
    """Write a run into one zip file, with a verifier that needs nothing but Python."""

    async def work() -> int:
        files = run_files(config)
        run_id = found_run(files, run)
        target = output or Path(f"{run_id}.zip")
        with target.open("wb") as handle:
            export_run(files.root, run_id, handle)
        print(target)
        return 0

    return _exit_code(work)


@app.command
def stats(*, as_json: AsJson = False, config: Config = None) -> int:
    """Show the five baseline figures, and how the runs ended."""

    async def work() -> int:
        rows = [one.row for one in run_files(config).newest_first() if one.row.outcome]
        found = figures(ended_run(row) for row in rows)
        if as_json:
            show_json(found)
            return 0
        show(
            ("", ""),
            [
                ("runs", found.runs),
                (
                    "no tool though required",
                    f"{found.no_tool_completions} of {found.required_runs}",
                ),
                ("replies that could not be used", f"{found.parse_failures} of {found.inferences}"),
                ("inferences", f"avg {found.inferences_avg:.2f}, p95 {found.inferences_p95:.0f}"),
                ("seconds", f"avg {found.seconds_avg:.2f}, p95 {found.seconds_p95:.2f}"),
                ("ran out of inferences", found.max_step_exits),
                *found.outcomes.items(),
            ],
            empty="",
        )
        return 0

    return _exit_code(work)


# --- what is given and what is said --------------------------------------------------------------


def _overrides(text: str | None, policy: Policy | None, ask: tuple[str, ...]) -> Mapping[str, Any]:
    try:
        given = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"--contract must be a JSON object: {error}") from None
    if policy is not None:
        given["tool_policy"] = policy
    if ask:
        given["approval"] = list(ask)
    return given


def _first_model(state: State) -> str:
    names = (
        name
        for provider in state.catalog.providers
        for name in provider.models
        if not is_glob(name) and "chat_completions" in _operations(state, provider)
    )
    found = next(names, None)
    if found is None:
        raise InvalidRequest("--model is missing, and the config names no model of its own")
    return found


def _operations(state: State, provider: Any) -> Any:
    return state.catalog.capabilities(provider).operations


def _place(run: str, config: Path | None) -> tuple[Path, bool]:
    """A file of its own, or a run's folder; and whether the run may still be going on."""
    if Path(run).is_file():
        return Path(run), False
    files = run_files(config)
    run_id = found_run(files, run)
    summary = files.summary(run_id)
    return folder_of(files.root, run_id), summary is not None and summary.row.ended_at is None


def _waiting(files: RunFiles, run_id: str) -> tuple[Waiting, ...]:
    try:
        return waiting_calls(recovered(load(folder_of(files.root, run_id))).state)
    except CannotRecover:
        return ()


def _describe(shown: Shown, waiting: tuple[Waiting, ...]) -> None:
    row, digest, contract = shown.row, shown.digest, shown.contract
    why = f" ({digest.failure_code}: {digest.reason})" if digest.failure_code else ""
    show(
        ("", ""),
        [
            ("run", row.run_id),
            ("begun (UTC)", moment_text(row.created_at)),
            ("model", f"{row.model} by {row.profile}"),
            ("policy", row.policy),
            ("tools", ", ".join(contract["allowed_tools"] or ()) or "-"),
            ("end", f"{digest.outcome or digest.state}{printable(why)}"),
            ("inferences", f"{row.inferences} of {contract['max_inferences']}"),
            ("tool calls", f"{row.tool_calls} of {contract['max_tool_calls']}"),
            ("tokens", row.tokens),
            ("seconds", f"{row.elapsed_ms / 1000:.2f}"),
            ("contract", row.contract_hash),
            ("head", digest.head),
            ("parent", row.parent),
        ],
        empty="",
    )
    for seq, step, start, end in digest.trail:
        print(f"  {seq:>4}  {step:<8} {start} -> {end}")
    if digest.output:
        print(f"\n{digest.output}")
    for call in waiting:
        print(f"\nwaits for your yes: {call.name} {printable(call.arguments)}")
        print(f"  monoize agent resume {row.run_id} --approve {call.id}")


def _exit_code(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    try:
        return asyncio.run(work())
    except (MonoizeError, RunIsHeld) as error:
        said = error.message if isinstance(error, MonoizeError) else str(error)
        print(f"monoize: {' '.join(said.split())}", file=sys.stderr)
    except (OSError, ValueError) as error:  # a file that is none, a transcript that cannot be read
        print(f"monoize: {error}", file=sys.stderr)
    return _UNUSABLE
