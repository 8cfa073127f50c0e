"""Worlds in which things go wrong, each made from a number: the same number, the same world."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from fakes.agent_world import (
    BROKEN,
    TOOLS,
    FakeJournal,
    FakeModel,
    FakeToolbox,
    Reply,
    Step,
    World,
    answer,
    call,
    envelope,
    spoken,
    terms,
)
from fakes.scenarios import Refuse, Say, Think, Tokens, Turn
from fakes.speakers import SPEAKERS
from monoize.agent.contract import ContextBudget, ToolOutputBudget
from monoize.agent.machine.run_state import Terms
from monoize.agent.outcome import FailureCode
from monoize.agent.ports import ToolAway
from monoize.agent.profile import Profile, profiles
from monoize.errors import UpstreamFailed, UpstreamRefused, UpstreamTimeout

NAMES = ("look", "count", "write")
WORDS = ("It says: 42.", "Grüße aus 東京 🌏, all is well.", "[PROTOCOL_ERROR: x]", '{"name": "no"')
FOREVER = 10_000.0


def seeded_world(seed: int) -> World:
    dice = random.Random(seed)
    profile = profiles()[dice.choice(sorted(profiles()))]
    made = terms(profile, **_contract(dice, profile))
    clumsy = dice.random() < 0.6  # else nothing goes wrong but what the model says
    made_world = World(
        terms=made,
        model=FakeModel(_says(random.Random(f"{seed} model"), made, clumsy=clumsy)),
        toolbox=FakeToolbox(TOOLS, _does(random.Random(f"{seed} tools"), clumsy=clumsy)),
        journal=FakeJournal(),
        stream=dice.random() < 0.7,
        seen=[] if dice.random() < 0.3 else None,
    )
    match dice.randrange(12):
        case 0:
            made_world.interrupt_at = dice.randrange(120)
        case 1:
            made_world.cancel_at = dice.randrange(120)
        case 2:
            made_world.journal.room = dice.randrange(40)
        case 3 if dice.random() < 0.2:
            made_world.model.problem = "nobody is there"
        case 4 if dice.random() < 0.2:
            made_world.toolbox.changed = type(TOOLS)(tools=TOOLS.tools[:2])
    return made_world


def _contract(dice: random.Random, profile: Profile) -> dict[str, Any]:
    policy = dice.choice(("required", "required", "optional", "forbidden"))
    fields: dict[str, Any] = {
        "tool_policy": policy,
        "token_gate": dice.random() < 0.5,
        "max_format_retries": dice.randrange(2 if profile.strict else 4),
        "max_inferences": dice.choice((1, 4, 8, 16)),
        "max_tokens_consumed": dice.choice((0, 0, 6_000, 40_000)),
        "max_output_tokens": dice.choice((64, 512)),
        "max_tool_calls": dice.choice((2, 8, 60, 60)),
        "step_timeout_ms": dice.choice((1_000, 30_000)),
        "total_timeout_ms": dice.choice((1_500, 60_000)),
        "parallel_tools": dice.random() < 0.5,
        "speculative_exec": dice.random() < 0.4,
        "expose_reasoning": dice.random() < 0.3,
        "required_proof": dice.choice(("succeeded", "executed")),
        "context_budget": ContextBudget(context_window=dice.choice((2_048, 32_768))),
    }
    if dice.random() < 0.2:
        fields["tool_output_budget"] = ToolOutputBudget(
            max_bytes_per_call=64, summarizer_model=dice.choice((None, "short-1"))
        )
    if dice.random() < 0.15:
        fields["cycle_forbid"] = (("write", "write"),)
    if dice.random() < 0.15:
        fields["max_identical_calls"] = 1
    if dice.random() < 0.1:
        fields["per_tool_calls"] = {"look": 1}
    if dice.random() < 0.1:
        fields["approval"] = ("scope:write",)
    return fields


# --- the model ---


def _says(dice: random.Random, made: Terms, *, clumsy: bool) -> Any:
    profile, policy = made.profile, made.contract.tool_policy

    def says(number: int, stream: bool) -> Reply:
        if clumsy and dice.random() < 0.06:
            return dice.choice(_REFUSALS)()
        turn = _turn(dice, number, policy)
        pieces = [piece for frame in spoken(profile, turn, stream=stream) for piece in [frame]]
        steps: list[Step] = list(_cut(b"".join(pieces), dice)) if stream else list(pieces)
        if clumsy and dice.random() < 0.25:
            return _spoiled(steps, dice, profile)
        return steps

    return says


_REFUSALS = (
    lambda: UpstreamFailed("429: slow down"),
    lambda: UpstreamFailed("503: overloaded"),
    lambda: UpstreamRefused("400: no"),
    lambda: UpstreamTimeout("no answer"),
    lambda: ConnectionResetError("reset"),
    lambda: RuntimeError("a defect of ours"),
)


def _turn(dice: random.Random, number: int, policy: str) -> Turn:
    counted = Tokens(input=200 + 150 * number, cached=0, output=20, reasoning=0)
    tokens = counted if dice.random() < 0.8 else Tokens(0, 0, 0, 0)
    if dice.random() < 0.15:
        return dice.choice(_ODD)(tokens)
    if dice.random() < (0.9 if policy == "forbidden" else 0.05 + 0.08 * number):
        return answer(dice.choice(WORDS), tokens=tokens)
    said = call(*_calls(dice, dice.choice((1, 1, 1, 2, 4))), tokens=tokens)
    before: tuple[Any, ...] = ()
    if dice.random() < 0.2:
        before = (dice.choice((Think("First look.", "U2VhbA=="), Say(("I will ", "look.")))),)
    return Turn((*before, *said.parts), said.finish, tokens)


# What a model should not have said.
_ODD = (
    lambda tokens: call(("look", BROKEN), tokens=tokens),
    lambda tokens: call(("fly", {"path": "a"}), tokens=tokens),
    lambda tokens: call(("look", {"file": 7}), tokens=tokens),
    lambda tokens: answer("", tokens=tokens),
    lambda tokens: Turn((Refuse("I cannot."),), "refusal", tokens),
    lambda tokens: answer("This is cut in the mid", "length", tokens),
)


def _calls(dice: random.Random, count: int) -> list[tuple[str, Any]]:
    names = (
        [dice.choice(("look", "count")) for _ in range(count)]
        if dice.random() < 0.5
        else [dice.choice(NAMES) for _ in range(count)]
    )
    return [(name, {"path": f"{name}{dice.randrange(6)}.txt"}) for name in names]


def _cut(raw: bytes, dice: random.Random) -> list[bytes]:
    """Anywhere, also inside of a letter."""
    chunks, at = [], 0
    while at < len(raw):
        size = dice.choice((1, 7, 100, 400, 1500))
        chunks.append(raw[at : at + size])
        at += size
    return chunks


def _spoiled(steps: list[Step], dice: random.Random, profile: Profile) -> Reply:
    at = dice.randrange(len(steps) + 1)
    match dice.randrange(9):
        case 0:
            return [*steps[:at], ConnectionResetError("reset")]
        case 1:
            return [*steps[:at], UpstreamFailed("the stream broke")]
        case 2:
            return [*steps[:at], FOREVER, *steps[at:]]
        case 3:  # the connection ends at any byte, and nobody says so
            raw = b"".join(step for step in steps if isinstance(step, bytes))
            return [raw[: dice.randrange(len(raw))]]
        case 4:
            return [*steps[:at], *steps[at : at + 1], *steps[at:]]
        case 5:
            at = min(at, max(0, len(steps) - 2))
            return [*steps[:at], *reversed(steps[at : at + 2]), *steps[at + 2 :]]
        case 6:
            return [*steps[:at], bytes(dice.randrange(256) for _ in range(20)), *steps[at:]]
        case 7:
            return [*steps[:at], SPEAKERS[profile.protocol].error_frame("overloaded")]
        case _:
            return [0.4 if dice.random() < 0.5 else 0.05, *steps[:at], 0.3, *steps[at:]]


# --- the tools ---


def _does(dice: random.Random, *, clumsy: bool) -> Any:
    async def does(asked: Any, earlier: int) -> bytes:
        fate, pause = dice.randrange(40), dice.choice((0.0, 0.01, 0.2))
        await asyncio.sleep(pause)
        if not clumsy:
            return _good(asked, dice)
        match fate:
            case 0:
                await asyncio.sleep(FOREVER)
            case 1:
                raise RuntimeError("the tool broke")
            case 2:
                return b'{"status": "ok"'
            case 3:
                return envelope(asked, result="of another").replace(asked.name.encode(), b"other")
            case 4:
                raise ToolAway(FailureCode.INPUT_REQUIRED, "which one?")
            case 5:
                raise ToolAway(FailureCode.MANIFEST_CHANGED, "the tools are others")
            case 6:
                raise asyncio.CancelledError
            case 7 | 8 | 9:
                return envelope(asked, error={"code": "tool_error", "message": "no such file"})
            case 10:
                return json.dumps([1, 2]).encode()
            case 11:
                raise ToolAway("nonsense", "half a character: \ud800")
            case 12:
                raise TimeoutError
        return _good(asked, dice)

    return does


def _good(asked: Any, dice: random.Random) -> bytes:
    if asked.name == "count":
        return envelope(asked, dice.randrange(100))
    return envelope(asked, dice.choice(("short", "ß" * 200, {"a": [1, 2]}, "")))
