"""The transforms that rules of keys and providers may use, and a dry run of rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from monoize import wirejson
from monoize.account import Role
from monoize.errors import Forbidden, PayloadTooLarge, RateLimited
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.settings import RuleSettings
from monoize.store import key_rules
from monoize.transform import transforms
from monoize.transform_docs import description
from monoize.transform_trial import Step, Trial, TrialReport, rehearsed

__all__ = ["ENDPOINTS"]

# The answer holds what goes out after each rule that changed it.
_MOST_RULES = 32
_LONGEST = 1024**2
_SECONDS = 3.0  # after which no further rule is begun
_AT_A_TIME = 2  # or threads that others need would all be taken


class TransformView(msgspec.Struct, frozen=True, kw_only=True):
    type_id: str
    phases: Sequence[str]
    description: str
    needs_whole_response: bool
    for_admins_only: bool  # on keys: a normal user's key may not carry it
    config_schema: Mapping[str, Any]
    example_config: Mapping[str, Any] | None


class TransformList(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[TransformView]


class TrialBody(Trial, frozen=True, kw_only=True, rename={"source": "from"}):
    """What to try: one of `request`, `response` and `stream` as `from` writes it, and the rules."""

    rules: Annotated[tuple[RuleSettings, ...], Meta(max_length=_MOST_RULES)]


class TrialChange(msgspec.Struct, frozen=True, kw_only=True):
    """Without `before` it was added, without `after` it was removed."""

    path: str
    before: Any | UnsetType = UNSET
    after: Any | UnsetType = UNSET


class TrialStep(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `changes` is null where it did not run: `why_not` says why, `path` where in the rule."""

    rule: str
    transform: str
    changes: Sequence[TrialChange] | None
    why_not: str | None
    path: str | None
    body: Any  # what would go out were this the last rule; null: the same as before it


class TrialAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`before` and `result` are bodies as `to` writes them, or the payloads of a stream; null: see `refused`."""

    to: str
    before: Any
    steps: Sequence[TrialStep]
    result: Any
    refused: str | None  # why the protocol `to` cannot carry the result
    dropped: Sequence[str]  # what it has no place for


@endpoint("GET", "/api/transforms", role="user", answer=TransformList)
async def list_transforms(context: Context, given: Given[None, None]) -> TransformList:
    """Every transform: where it may run, what its options are, an example."""
    del context, given
    listed = [
        TransformView(
            type_id=name,
            phases=[str(phase) for phase in found.supported_phases()],
            description=description(found),
            needs_whole_response=found.needs_whole_response,
            for_admins_only=name not in key_rules.ALLOWED,
            config_schema=found.config_schema(),
            example_config=found.example_config(),
        )
        for name, found in transforms().items()
    ]
    return TransformList(data=listed)


@endpoint(
    "POST",
    "/api/transforms/trial",
    role="user",
    body=TrialBody,
    answer=TrialAnswer,
    refusals=(429,),
)
async def try_rules(context: Context, given: Given[None, TrialBody]) -> TrialAnswer:
    """Apply rules to a request, a reply or a stream and show what each changes; nothing is sent or kept."""
    trial = given.body
    size = len(wirejson.dumps([trial.request, trial.response, trial.stream]))
    if size > _LONGEST:
        raise PayloadTooLarge(f"a trial takes bodies of at most {_LONGEST} bytes")
    role: Role = "admin" if context.is_admin else "user"
    clock = context.state.kit.clock
    ends = clock.monotonic() + _SECONDS
    veto, is_late = partial(_veto, role), lambda: clock.monotonic() > ends
    # Comparing long conversations takes its time, and others wait for this thread.
    return _answer(await _beside(partial(rehearsed, trial, veto, is_late)))


_under_way: set[asyncio.Task[TrialReport]] = set()


async def _beside(work: Callable[[], TrialReport]) -> TrialReport:
    """A caller who leaves does not end the thread, so it keeps its place until it is done."""
    if len(_under_way) >= _AT_A_TIME:
        busy = RateLimited("others try rules at this moment", code="too_many_trials")
        busy.headers["retry-after"] = "1"
        raise busy
    task = asyncio.create_task(asyncio.to_thread(work))
    _under_way.add(task)
    task.add_done_callback(_done)
    return await asyncio.shield(task)


def _done(task: asyncio.Task[TrialReport]) -> None:
    _under_way.discard(task)
    if not task.cancelled():
        task.exception()  # or asyncio complains of one that nobody waited for


def _veto(role: Role, rule: RuleSettings) -> str | None:
    """What the key of a normal user may not carry is not tried by one either."""
    try:
        key_rules.check_rules([rule], role)
    except Forbidden as refused:
        return refused.message
    return None


def _answer(report: TrialReport) -> TrialAnswer:
    return TrialAnswer(
        to=report.to,
        before=report.before,
        steps=[_step(step) for step in report.steps],
        result=report.result,
        refused=report.refused,
        dropped=report.dropped,
    )


def _step(step: Step) -> TrialStep:
    made = step.changes
    return TrialStep(
        rule=step.rule,
        transform=step.transform,
        changes=None if made is None else [TrialChange(**change.as_json()) for change in made],
        why_not=step.why_not,
        path=step.path,
        body=step.body,
    )


ENDPOINTS = (list_transforms, try_rules)
