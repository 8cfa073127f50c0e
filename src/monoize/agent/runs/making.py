"""From what a caller asks for to a run that can begin: profile, tools, contract and terms, made before anything happens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from monoize import __version__
from monoize.agent.boundary.grammar import mask_digest
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION
from monoize.agent.canonical_json import NotCanonical, canonical
from monoize.agent.contract import ExecutionContract
from monoize.agent.factory import ContractRequest, resolve
from monoize.agent.machine.digest import StateDigest, digest
from monoize.agent.machine.reducer import begin
from monoize.agent.machine.run_state import Terms
from monoize.agent.manifest import ToolManifest
from monoize.agent.ports import ToolAway
from monoize.agent.profile import Profile, profile, profiles
from monoize.agent.record.folder_journal import folder_of
from monoize.agent.record.recorded_run import RecordedRun, load
from monoize.agent.runs.child_runs import Continued, continued
from monoize.agent.runs.configured_tools import chosen_tools, opened_tools, tools_for
from monoize.agent.runs.execution import Surroundings
from monoize.agent.runs.files import RunFiles, RunRecord, ToolsProblem
from monoize.agent.runs.live_model import usual_profile
from monoize.agent.runs.request import (
    Framed,
    RunRequest,
    check_ceilings,
    framed,
    within_ceilings,
)
from monoize.errors import InvalidRequest, ModelNotFound
from monoize.media import ids
from monoize.media.owner import owner_of
from monoize.pipeline.call import Caller
from monoize.store.agent_runs import RunRow

__all__ = ["BUILD", "Made", "RunMaker"]

BUILD = f"monoize-{__version__} {ADAPTER_VERSION}"

_QUEUED = "QUEUED"
_GO_ON = "Go on."
_TOOLS_SECONDS = 30.0  # for all of them to say what they are


class Made(msgspec.Struct, frozen=True, kw_only=True):
    terms: Terms
    record: RunRecord
    row: RunRow
    digest: StateDigest
    payloads: Mapping[str, bytes] = {}


class _Parent(msgspec.Struct, frozen=True, kw_only=True):
    run: RecordedRun
    record: RunRecord
    continued: Continued


class RunMaker:
    def __init__(self, around: Surroundings, files: RunFiles) -> None:
        self._around = around
        self._files = files

    async def made(self, request: RunRequest, caller: Caller, address: str | None) -> Made:
        """Raises InvalidRequest; tools that cannot be asked are no mistake of the caller's: that run fails its PRECHECK."""
        parent = await self._parent(request)
        model, chosen = self._model(request, parent), self._profile(request, parent)
        if chosen is None:
            raise ModelNotFound(f"no provider has the model {model!r}", param="model")
        told = self._told(request, parent)
        names = self._tools(request, parent, caller)
        manifest, problem = await self._manifest(names)
        overrides, payloads = _without_mask(request.contract)
        settings = self._around.settings()
        contract, trace = resolve(
            ContractRequest(
                task=told.task,
                page=request.page,
                model=model,
                profile=chosen,
                manifest=manifest,
                adapter_version=ADAPTER_VERSION,
                overrides=within_ceilings(overrides, settings.ceilings),
                parent=None if parent is None else parent.run.terms.contract,
                approved_calls=() if parent is None else parent.continued.approved,
                constraints=told.constraints,
            )
        )
        check_ceilings(contract, settings.ceilings)
        now = round(self._around.clock.now() * 1000)
        terms = Terms(
            run_id=f"run_{ids.new_id(now, secrets.token_bytes(ids.RANDOM_BYTES))}",
            contract=contract,
            manifest=manifest.only(contract.allowed_tools),
            profile=chosen,
            task=told.task,
            decision_trace=trace,
            history=told.history,
            recalled=None if parent is None else parent.continued.recalled,
            build=BUILD,
        )
        record = RunRecord(
            run_id=terms.run_id,
            owner=owner_of(caller),
            key=caller.key,
            created_at=now,
            page=request.page,
            tools=names,
            parent=request.parent_run_id,
            address=address,
            tools_problem=problem,
        )
        state, _ = begin(terms)
        return Made(
            terms=terms,
            record=record,
            row=_row(terms, record, contract),
            digest=digest(state),
            payloads=payloads,
        )

    async def _parent(self, request: RunRequest) -> _Parent | None:
        if request.parent_run_id is None:
            return None
        return await asyncio.to_thread(self._read_parent, request.parent_run_id, request.approve)

    def _read_parent(self, run_id: str, approve: tuple[str, ...]) -> _Parent:
        run = load(folder_of(self._files.root, run_id))
        return _Parent(
            run=run, record=self._files.record(run_id), continued=continued(run, approve)
        )

    def _model(self, request: RunRequest, parent: _Parent | None) -> str:
        model = request.model or (None if parent is None else parent.run.terms.contract.model)
        if model is None:
            raise InvalidRequest("model: is missing", param="model")
        return model

    def _profile(self, request: RunRequest, parent: _Parent | None) -> Profile | None:
        if request.profile is not None:
            named = profile(request.profile)
            if named is None:
                known = ", ".join(sorted(profiles()))
                raise InvalidRequest(
                    f"profile: {request.profile!r} is none of {known}", param="profile"
                )
            return named
        if parent is not None and request.model in (None, parent.run.terms.contract.model):
            return parent.run.terms.profile
        return usual_profile(self._model(request, parent), self._around.kit())

    def _told(self, request: RunRequest, parent: _Parent | None) -> Framed:
        if request.reframed is not None:
            return framed(request.reframed, request.task, self._around.tags())
        if parent is not None:
            task = parent.run.terms.task if parent.continued.recalled is not None else _GO_ON
            history = parent.continued.history
            return Framed(task=request.task or task, history=history, constraints=None)
        if not (request.task or "").strip():
            raise InvalidRequest("task: is missing", param="task")
        return Framed(task=request.task or "", history=(), constraints=None)

    def _tools(
        self, request: RunRequest, parent: _Parent | None, caller: Caller
    ) -> tuple[str, ...]:
        """None are given that nobody asked for; a run that goes on has those that it had."""
        names = request.tool_names
        if names is None:
            names = () if parent is None else parent.record.tools
        return chosen_tools(names, tools_for(self._around.settings(), caller.role))

    async def _manifest(self, names: tuple[str, ...]) -> tuple[ToolManifest, ToolsProblem | None]:
        toolbox = opened_tools(names, self._around.settings().tools, self._around.folder)
        try:
            async with asyncio.timeout(_TOOLS_SECONDS):
                return await toolbox.manifest(), None
        except ToolAway as away:
            return ToolManifest(), ToolsProblem(code=away.code, reason=away.reason)
        except TimeoutError:
            reason = f"the tools did not say what they are within {_TOOLS_SECONDS:g} s"
            return ToolManifest(), ToolsProblem(code="tools_unavailable", reason=reason)
        finally:
            await toolbox.aclose()


def _without_mask(overrides: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A mask lies beside the contract, which holds its hash (V2.1's `list[float]` is taken as it is)."""
    given = dict(overrides)
    mask = given.get("logits_mask")
    if not isinstance(mask, list):
        return given, {}
    try:
        numbers = tuple(msgspec.convert(mask, list[float]))
        given["logits_mask"] = mask_digest(numbers)
        return given, {given["logits_mask"]: canonical(list(numbers))}
    except (msgspec.ValidationError, NotCanonical) as mistake:
        path = "contract.logits_mask"
        raise InvalidRequest(f"{path}: must be a list of numbers: {mistake}", param=path) from None


def _row(terms: Terms, record: RunRecord, contract: ExecutionContract) -> RunRow:
    return RunRow(
        run_id=terms.run_id,
        owner=record.owner,
        model=contract.model,
        profile=terms.profile.id,
        page=record.page,
        policy=contract.tool_policy,
        state=_QUEUED,
        contract_hash=contract.contract_hash,
        parent=record.parent,
        created_at=record.created_at,
    )
