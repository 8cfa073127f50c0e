"""A world for agent runs, made from a seed: a model that speaks its protocol's bytes, tools, a journal, a clock, and their faults.

Time is virtual: where nothing happens until a timer fires, it fires at once.
"""

from __future__ import annotations

import asyncio
import errno
import json
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fakes.scenarios import Refuse, Say, Tokens, Turn, Use
from fakes.speakers import SPEAKERS
from monoize.agent.boundary.local_syntax import written
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION
from monoize.agent.contract import ContextBudget, ExecutionContract, sealed
from monoize.agent.live.runtime import Runtime
from monoize.agent.machine.run_state import RunState, Terms
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.ports import Journal, Model, ModelReply, Toolbox
from monoize.agent.profile import Profile, profiles
from monoize.agent.record.recorded_run import RecordedRun
from monoize.agent.record.signing import SigningKey

START = 4096.0  # seconds; a power of two, so that milliseconds come out the same in every run
MODEL = "fake-1"
SIGNER = SigningKey.from_seed(b"0123456789abcdef0123456789abcdef")

# --- virtual time ---


class VirtualLoop(asyncio.SelectorEventLoop):
    """Also counts its turns: `at_turn(n, do)` does something at every place where a task waits."""

    def __init__(self) -> None:
        self.moment = START
        self.turns = 0
        self._planned: tuple[int, Callable[[], None]] | None = None
        super().__init__(_Skipping(self))

    def time(self) -> float:
        return self.moment

    def begin_anew(self) -> None:
        self.moment, self.turns, self._planned = START, 0, None

    def at_turn(self, turn: int, do: Callable[[], None]) -> None:
        self._planned = (self.turns + turn, do)

    def _run_once(self) -> None:
        self.turns += 1
        if self._planned is not None and self.turns >= self._planned[0]:
            do, self._planned = self._planned[1], None
            do()
        super()._run_once()


class _Skipping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nobody will ever go on"
        if timeout > 0:
            self._loop.moment += timeout
            return []
        return []


class LoopClock:
    def now(self) -> float:
        return 1_800_000_000 + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def in_virtual_time(work: Awaitable[Any]) -> Any:
    async def run() -> Any:
        return await work

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


# --- what a model may say, on the wire ---

BROKEN = object()  # arguments that are no JSON object


def spoken(profile: Profile, turn: Turn, *, stream: bool) -> list[bytes]:
    """A reply as the provider of this profile writes it, whole frames."""
    speaker = SPEAKERS[profile.protocol]
    turn = _worded(profile, turn)
    if stream:
        return speaker.events(turn, MODEL)
    return [json.dumps(speaker.unary(turn, MODEL), ensure_ascii=False).encode()]


def _worded(profile: Profile, turn: Turn) -> Turn:
    if profile.syntax == "native":
        # A body that holds NaN would be no JSON as a whole; arguments that are text in the body may hold it.
        broken: Any = (
            "oops" if profile.protocol in ("messages", "gemini") else {"path": float("nan")}
        )
        parts = tuple(
            Use(part.name, broken, part.seal)
            if isinstance(part, Use) and part.arguments is BROKEN
            else part
            for part in turn.parts
        )
        return Turn(parts, turn.finish, turn.tokens)
    said: list[Any] = []
    for part in turn.parts:
        if isinstance(part, Use):
            raw = '{"path": ' if part.arguments is BROKEN else json.dumps(part.arguments)
            said.append(written(part.name, raw, profile.syntax))
        elif isinstance(part, Say):
            said.append(part.text)
        else:
            continue
    text = "\n".join(said)
    cut = max(1, len(text) // 3)
    pieces = tuple(text[at : at + cut] for at in range(0, len(text), cut))
    finish = "stop" if turn.finish == "tool_calls" else turn.finish
    refusals = tuple(part for part in turn.parts if isinstance(part, Refuse))
    return Turn((*((Say(pieces),) if text else ()), *refusals), finish, turn.tokens)


def call(*calls: tuple[str, Any], text: str = "", tokens: Tokens | None = None) -> Turn:
    said = (Say((text,)),) if text else ()
    uses = tuple(Use(name, arguments) for name, arguments in calls)
    return Turn((*said, *uses), "tool_calls", tokens or Tokens(reasoning=0))


def answer(text: str, finish: str = "stop", tokens: Tokens | None = None) -> Turn:
    return Turn((Say((text,)),), finish, tokens or Tokens(reasoning=0))


# --- the ports ---

# One piece of a reply: bytes, seconds to wait, or what goes wrong there.
Step = bytes | float | Exception
Reply = list[Step] | Exception
Says = Callable[[int, bool], Reply]  # the n-th inference, streamed or not


@dataclass
class FakeReply(ModelReply):
    steps: list[Step]
    streamed: bool
    is_closed: bool = False

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self.steps:
            assert not self.is_closed
            if isinstance(step, bytes):
                await asyncio.sleep(0)
                yield step
            elif isinstance(step, float):
                await asyncio.sleep(step)
            else:
                raise step

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.is_closed = True


@dataclass
class FakeModel(Model):
    says: Says
    requests: list[Any] = field(default_factory=list)
    replies: list[FakeReply] = field(default_factory=list)
    problem: str | None = None

    async def open(self, call: Any) -> ModelReply:
        self.requests.append(call)
        await asyncio.sleep(0)
        reply = self.says(len(self.requests) - 1, call.stream)
        if isinstance(reply, Exception):
            raise reply
        self.replies.append(FakeReply(reply, call.stream))
        return self.replies[-1]

    async def probe(self, model: str) -> str | None:
        await asyncio.sleep(0)
        return self.problem


Does = Callable[[Any, int], Awaitable[bytes]]  # a call, and how many came before it


def envelope(call: Any, result: Any = "done", error: Any = None) -> bytes:
    return json.dumps(
        {
            "status": "ok" if error is None else "error",
            "tool": call.name,
            "tool_call_id": call.id,
            "result": result if error is None else None,
            "error": error,
            "retryable": False,
        }
    ).encode()


async def obeys(call: Any, earlier: int) -> bytes:
    await asyncio.sleep(0.01)
    return envelope(call, f"{call.name} of {call.raw_arguments}")


@dataclass
class FakeToolbox(Toolbox):
    tools: ToolManifest
    does: Does = obeys
    begun: list[Any] = field(default_factory=list)
    running: int = 0
    changed: ToolManifest | None = None

    async def manifest(self) -> ToolManifest:
        await asyncio.sleep(0)
        return self.changed or self.tools

    async def call(self, call: Any, timeout_seconds: float) -> bytes:
        self.begun.append(call)
        self.running += 1
        try:
            return await self.does(call, len(self.begun) - 1)
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        return


@dataclass
class FakeJournal(Journal):
    """In memory; full after `room` writes."""

    room: int = 10**9
    entries: list[Any] = field(default_factory=list)
    payloads: dict[str, bytes] = field(default_factory=dict)
    checkpoints: list[Any] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    lines: list[Any] = field(default_factory=list)

    async def append(self, entry: Any, payloads: Any) -> None:
        await self._write()
        self.payloads.update(payloads)
        self.entries.append(entry)
        self.lines.append(entry)

    async def seal(self, checkpoint: Any) -> None:
        await self._write()
        if self.lines and self.lines[-1] is not self.entries[-1]:
            return
        self.checkpoints.append(checkpoint)
        self.lines.append(checkpoint)

    async def note(self, name: str, body: Any) -> None:
        await self._write()
        self.notes[name] = body

    async def _write(self) -> None:
        await asyncio.sleep(0)
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 1


# --- a whole run ---

PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
LOOK = ToolSpec(name="look", description="Reads.", parameters=PATH, pure=True)
COUNT = ToolSpec(
    name="count", parameters=PATH, result_schema={"type": "integer"}, pure=True, scope="read"
)
WRITE = ToolSpec(name="write", description="Writes.", parameters=PATH, scope="write")
TOOLS = ToolManifest(tools=(LOOK, COUNT, WRITE))


@dataclass
class World:
    terms: Terms
    model: FakeModel
    toolbox: FakeToolbox
    journal: FakeJournal = field(default_factory=FakeJournal)
    stream: bool = True
    seen: list[Any] | None = None
    interrupt_at: int | None = None  # a turn of the loop
    cancel_at: int | None = None
    runtime: Runtime | None = None

    async def live(self, go_on: Any = None) -> RunState | None:
        """The run to its end; None where its task was cancelled."""
        loop = asyncio.get_running_loop()
        runtime = self.runtime = Runtime(
            self.model,
            self.toolbox,
            self.journal,
            LoopClock(),
            SIGNER,
            stream=self.stream,
            **({} if self.seen is None else {"watch": self.seen.append}),
        )
        work = runtime.run(self.terms) if go_on is None else runtime.resume(go_on)
        task = asyncio.ensure_future(work)
        if isinstance(loop, VirtualLoop):
            if self.interrupt_at is not None:
                loop.at_turn(self.interrupt_at, runtime.interrupt)
            if self.cancel_at is not None:
                loop.at_turn(self.cancel_at, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            return None

    @property
    def record(self) -> RecordedRun:
        return RecordedRun(
            terms=self.terms, entries=tuple(self.journal.entries), payloads=self.journal.payloads
        )


def contract(profile: Profile, manifest: ToolManifest = TOOLS, **fields: Any) -> ExecutionContract:
    fields = {
        "tool_policy": "required",
        "model": MODEL,
        "strict_mode": profile.strict,
        "context_budget": ContextBudget(context_window=32_768),
        **fields,
    }
    return sealed(
        ExecutionContract(
            model_profile_id=profile.id,
            adapter_version=ADAPTER_VERSION,
            tool_manifest_hash=manifest.digest(),
            **fields,
        )
    )


def terms(profile: Profile | str, manifest: ToolManifest = TOOLS, **fields: Any) -> Terms:
    chosen = profiles()[profile] if isinstance(profile, str) else profile
    return Terms(
        run_id="run_1",
        contract=contract(chosen, manifest, **fields),
        manifest=manifest,
        profile=chosen,
        task="Look at the file and tell what it says.",
        build="test",
    )


def scripted(profile: Profile, turns: list[Turn | Reply]) -> Says:
    """One turn per inference, the last one again and again."""

    def says(number: int, stream: bool) -> Reply:
        turn = turns[min(number, len(turns) - 1)]
        return list(spoken(profile, turn, stream=stream)) if isinstance(turn, Turn) else turn

    return says


def world(
    profile: Profile | str,
    turns: list[Turn | Reply],
    *,
    does: Does = obeys,
    stream: bool = True,
    manifest: ToolManifest = TOOLS,
    **fields: Any,
) -> World:
    made = terms(profile, manifest, **fields)
    return World(
        terms=made,
        model=FakeModel(scripted(made.profile, turns)),
        toolbox=FakeToolbox(manifest, does),
        stream=stream,
    )
