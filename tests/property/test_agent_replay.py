"""Recorded runs told again: the identical head, or the first divergence, where and of which kind."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from fakes.agent_faults import seeded_world
from fakes.agent_world import FakeModel, FakeToolbox, VirtualLoop, in_virtual_time
from monoize import wirejson
from monoize.agent.canonical_json import canonical, sha256
from monoize.agent.contract import sealed
from monoize.agent.machine.states import State
from monoize.agent.record.comparing import compared
from monoize.agent.record.recorded_run import RecordedRun
from monoize.agent.record.replay import Replayed, replay

pytestmark = pytest.mark.soak

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
REPLAYS = 500 if SOAK else 25
PER_CLASS = 50 if SOAK else 3


async def recorded(seed: int) -> tuple[RecordedRun, Any] | None:
    """A run of this seed that came to its end on record."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.begin_anew()
    made = seeded_world(seed)
    state = await made.live()
    entries = made.journal.entries
    if state is None or not entries or entries[-1].to != State.TERMINATE:
        return None
    return made.record, state


@cache
def runs(count: int, first: int = 0) -> list[tuple[RecordedRun, Any]]:
    async def live() -> list[tuple[RecordedRun, Any]]:
        found = []
        seed = first
        while len(found) < count:
            if (run := await recorded(seed)) is not None:
                found.append(run)
            seed += 1
        return found

    return in_virtual_time(live())


@pytest.mark.spec("S5-E", "D45")
def test_a_replay_gives_the_identical_head():
    for run, state in runs(REPLAYS):
        again = replay(run)
        assert again == Replayed(
            head=state.head, outcome=state.outcome, entries=len(run.entries), divergence=None
        )


@pytest.mark.spec("D45")
def test_a_replay_of_a_beginning_gives_the_head_of_that_beginning():
    for run, _ in runs(REPLAYS)[:25]:
        for size in range(len(run.entries)):
            cut = msgspec.structs.replace(run, entries=run.entries[:size])
            again = replay(cut)
            assert again.divergence is None
            assert again.outcome is None
            assert again.head == (run.entries[size - 1].head if size else "")


# --- seven kinds of divergence ---

Changed = tuple[RecordedRun, int]  # and where it shows


def rechained(run: RecordedRun, seq: int, payloads: dict[str, bytes], **fields: Any) -> RecordedRun:
    """As another program would have written it: entry `seq` differs, and the chain is whole all the same."""
    entries = list(run.entries)
    entries[seq] = msgspec.structs.replace(entries[seq], **fields)
    prev = entries[seq].prev
    for at in range(seq, len(entries)):
        entries[at] = entries[at].chained(prev)
        prev = entries[at].head
    return msgspec.structs.replace(
        run, entries=tuple(entries), payloads={**run.payloads, **payloads}
    )


def rewritten(run: RecordedRun, seq: int, field: str, value: bytes) -> RecordedRun:
    return rechained(run, seq, {sha256(value): value}, **{field: sha256(value)})


def places(run: RecordedRun, start: State, end: State | None = None) -> list[int]:
    return [
        entry.seq
        for entry in run.entries
        if entry.from_ == start and (end is None or entry.to == end)
    ]


def other_contract(run: RecordedRun, dice: random.Random) -> Changed | None:
    limits = {
        "max_inferences": run.terms.contract.max_inferences + 1,
        "step_timeout_ms": run.terms.contract.step_timeout_ms + 1,
        "cycle_forbid": (("look", "write"), ("write", "look")),
    }
    name = dice.choice(sorted(limits))
    contract = sealed(msgspec.structs.replace(run.terms.contract, **{name: limits[name]}))
    terms = msgspec.structs.replace(run.terms, contract=contract)
    return msgspec.structs.replace(run, terms=terms), 0


def other_model(run: RecordedRun, dice: random.Random) -> Changed | None:
    asked = places(run, State.INFER, State.VALIDATE_CALLS)
    if not asked:
        return None
    seq = dice.choice(asked)
    if dice.random() < 0.5:
        return rechained(run, seq, {}, model_fingerprint="another-2"), seq
    raw = bytearray(run.payload(run.entries[seq].result_hash))
    raw[dice.randrange(len(raw))] ^= 1
    payloads = {**run.payloads, run.entries[seq].result_hash: bytes(raw)}
    # The same bytes may answer twice: the first time is where it shows.
    digest = run.entries[seq].result_hash
    seq = next(s for s in asked if run.entries[s].result_hash == digest)
    return msgspec.structs.replace(run, payloads=payloads), seq


def other_adapter(run: RecordedRun, dice: random.Random) -> Changed | None:
    asked = places(run, State.INFER, State.VALIDATE_CALLS)
    if not asked:
        return None
    seq = dice.choice(asked)
    match dice.randrange(3):
        case 0:
            return rechained(run, seq, {}, adapter_version="monoize-0"), seq
        case 1:  # it wrote the request in another way
            request = run.payload(run.entries[seq].action_hash) + b" "
            return rewritten(run, seq, "action_hash", request), seq
    meta = run.meta(run.entries[seq])
    meta["facts"]["adapted"]["finish"] = "other"
    if meta == run.meta(run.entries[seq]):
        meta["facts"]["adapted"]["finish"] = "stop"
    return rewritten(run, seq, "meta_hash", canonical(meta)), seq


def other_validation(run: RecordedRun, dice: random.Random) -> Changed | None:
    judged = places(run, State.VALIDATE_CALLS)
    if not judged:
        return None
    seq = dice.choice(judged)
    verdict = wirejson.loads(run.payload(run.entries[seq].result_hash))
    verdict["verdict"] = "of another mind"
    return rewritten(run, seq, "result_hash", canonical(verdict)), seq


def other_result(run: RecordedRun, dice: random.Random) -> Changed | None:
    returned = [
        seq
        for seq in places(run, State.EXECUTE, State.EXECUTE)
        if run.meta(run.entries[seq])["event"]["kind"] == "tool_returned"
    ]
    if not returned:
        return None
    digest = run.entries[dice.choice(returned)].result_hash
    seq = next(s for s in returned if run.entries[s].result_hash == digest)
    payloads = {**run.payloads, digest: run.payload(digest) + b" "}
    return msgspec.structs.replace(run, payloads=payloads), seq


def other_clock(run: RecordedRun, dice: random.Random) -> Changed | None:
    """A reply or a result comes too late: no call is begun any more, or COMMIT ends the run."""
    found = [shown for entry in run.entries if (shown := shows(run, entry.seq)) is not None]
    if not found:
        return None
    event, seq = dice.choice(found)
    late = {"elapsed_ms": run.terms.contract.total_timeout_ms + 1}
    entries = list(run.entries)
    entries[event] = msgspec.structs.replace(entries[event], observed=late)
    return msgspec.structs.replace(run, entries=tuple(entries)), seq


def shows(run: RecordedRun, event: int) -> tuple[int, int] | None:
    """Where a late event would show; None where it would not, or where somebody else ends the run already."""
    kind = run.meta(run.entries[event])["event"]["kind"]
    if kind not in ("inferred", "tool_returned"):
        return None
    following = run.entries[event + 1]
    if following.to == State.EXECUTE:
        is_due = run.meta(following)["event"]["kind"] != "follows"
        return (event, event + 1) if is_due else None
    seq = next(s for s in places(run, State.COMMIT) if s > event)
    kinds = {run.meta(run.entries[s])["event"]["kind"] for s in range(event + 1, seq)}
    verdict = wirejson.loads(run.payload(run.entries[seq].result_hash))
    # Whether a reply has another try depends on the time, too.
    plain = ("succeeded",) if kind == "inferred" else ("succeeded", "goes_on")
    if verdict["predicate"] not in plain or kinds - {"proceed", "follows"}:
        return None
    return (event, seq)


def other_build(run: RecordedRun, dice: random.Random) -> Changed | None:
    if dice.random() < 0.5:
        return msgspec.structs.replace(
            run, terms=msgspec.structs.replace(run.terms, build="another")
        ), 0
    decided = places(run, State.COMMIT)
    seq = dice.choice(decided)
    verdict = wirejson.loads(run.payload(run.entries[seq].result_hash))
    verdict["predicate"] = "of another program"
    return rewritten(run, seq, "result_hash", canonical(verdict)), seq


CLASSES: dict[str, Callable[[RecordedRun, random.Random], Changed | None]] = {
    "contract": other_contract,
    "model": other_model,
    "adapter": other_adapter,
    "validation": other_validation,
    "tool_result": other_result,
    "clock": other_clock,
    "build": other_build,
}


def changed(kind: str) -> Iterator[Changed]:
    dice, given = random.Random(kind), 0
    for run, _ in runs(PER_CLASS * 12, first=20_000):
        found = CLASSES[kind](run, dice)
        if found is not None:
            given += 1
            yield found
        if given == PER_CLASS:
            return
    raise AssertionError(f"too few runs for {kind}")


@pytest.mark.spec("S5-E", "D45")
@pytest.mark.parametrize("kind", CLASSES)
def test_a_divergence_is_named_with_its_place_and_kind(kind: str):
    for run, seq in changed(kind):
        again = replay(run)
        assert again.divergence is not None
        assert (again.divergence.kind, again.divergence.seq) == (kind, seq), again.divergence
        assert again.entries == seq
        assert again.head == (run.entries[seq - 1].head if seq else "")


# --- against the world of today ---


@pytest.mark.spec("D45")
def test_a_model_that_says_something_else_today_is_named():
    async def compare() -> None:
        from fakes.agent_world import answer, call, scripted, world

        turns = [call(("look", {"path": "a"})), call(("look", {"path": "b"})), answer("fine")]
        made = world("native_messages", turns)
        await made.live()
        same = FakeModel(scripted(made.terms.profile, turns))
        assert (await compared(made.record, model=same)).divergence is None
        other = FakeModel(scripted(made.terms.profile, [turns[0], answer("fine")]))
        found = (await compared(made.record, model=other)).divergence
        assert found is not None
        asked = places(made.record, State.INFER)
        assert (found.kind, found.seq) == ("model", asked[1])

    in_virtual_time(compare())


@pytest.mark.spec("D45")
def test_a_tool_that_gives_something_else_today_is_named_and_one_with_side_effects_is_not_called():
    async def compare() -> None:
        from fakes.agent_world import TOOLS, answer, call, envelope, world

        turns = [
            call(("write", {"path": "w"}), ("look", {"path": "a"})),
            call(("look", {"path": "b"})),
            answer("fine"),
        ]
        made = world("native_gemini", turns)
        await made.live()
        same = FakeToolbox(TOOLS)
        assert (await compared(made.record, tools=same)).divergence is None
        assert {called.name for called in same.begun} == {"look"}

        async def other(asked: Any, earlier: int) -> bytes:
            return envelope(asked, "something else")

        found = (await compared(made.record, tools=FakeToolbox(TOOLS, other))).divergence
        assert found is not None
        returned = places(made.record, State.EXECUTE, State.EXECUTE)
        assert (found.kind, found.seq) == ("tool_result", returned[1])

    in_virtual_time(compare())
