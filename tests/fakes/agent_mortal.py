"""A program that lives agent runs until somebody kills it: it goes on with what it left, then begins new ones.

`python agent_mortal.py ROOT [finish]`: prints a line when it begins; with `finish` it begins nothing new and leaves.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from fakes.agent_world import (
    SIGNER,
    TOOLS,
    FakeModel,
    FakeToolbox,
    answer,
    call,
    envelope,
    spoken,
    terms,
    world,
)
from monoize.agent.live.runtime import Runtime
from monoize.agent.machine.run_state import Terms
from monoize.agent.machine.states import State
from monoize.agent.profile import profiles
from monoize.agent.record.folder_journal import FolderJournal
from monoize.agent.record.recorded_run import load
from monoize.agent.record.recovery import recovered
from monoize.clock import SystemClock

ROUNDS = 4
PROFILES = ("native_chat_completion", "native_messages", "local_xml")


def done_file(root: Path) -> Path:
    return root.parent / "done.txt"


class MortalModel(FakeModel):
    """Answers by what the request holds: after a restart it goes on where the conversation is."""

    def __init__(self, run: Terms) -> None:
        super().__init__(says=lambda number, stream: [])
        self.run = run

    async def open(self, call_: Any) -> Any:
        # Each round looks once at a path of its own, and the request tells of it in the call.
        number = call_.body.decode().count(f"{self.run.run_id}-seen-")
        turn = self.turn(number)
        self.says = lambda _, stream: list(spoken(self.run.profile, turn, stream=stream))
        return await super().open(call_)

    def turn(self, number: int) -> Any:
        if number >= ROUNDS:
            return answer("All is written.")
        name = self.run.run_id
        return call(
            ("write", {"path": f"{name}-{number}-a"}),
            ("look", {"path": f"{name}-seen-{number}"}),
            ("write", {"path": f"{name}-{number}-b"}),
        )


def does(root: Path) -> Any:
    async def do(asked: Any, earlier: int) -> bytes:
        await asyncio.sleep(0.002)
        if asked.name == "write":
            handle = os.open(done_file(root), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{asked.arguments['path']}\n".encode())
            os.close(handle)
        await asyncio.sleep(0.02)
        return envelope(asked, "ok")

    return do


async def live(root: Path, number: int) -> None:
    run_id = f"run{number}"
    profile = profiles()[PROFILES[number % len(PROFILES)]]
    made = msgspec.structs.replace(terms(profile), run_id=run_id, task=f"Write all of {run_id}.")
    journal = await FolderJournal.open(root, run_id, signer=SIGNER)
    runtime = Runtime(
        MortalModel(made),
        FakeToolbox(TOOLS, does(root)),
        journal,
        SystemClock(),
        SIGNER,
        stream=number % 2 == 0,
    )
    try:
        if journal.transcript.entries:
            await runtime.resume(recovered(load(journal.path)))
        else:
            await runtime.run(made)
    finally:
        await journal.aclose()


def is_over(root: Path, number: int) -> bool:
    folder = root / f"run{number}"
    try:
        entries = load(folder).entries
    except (OSError, ValueError):
        return False
    return bool(entries) and entries[-1].to == State.TERMINATE


def left_behind(root: Path) -> list[int]:
    root.mkdir(exist_ok=True)
    begun = sorted(int(folder.name[3:]) for folder in root.iterdir())[-3:]
    print("ready", *(number for number in begun if not is_over(root, number)), flush=True)
    return begun


async def main(root: Path, *, finish: bool) -> None:
    for name in PROFILES:  # what is made at first use is there before the first life counts
        await world(name, [call(("look", {"path": "a"})), answer("fine")]).live()
    begun = left_behind(root)
    for number in begun:
        await live(root, number)  # one that has ended is only closed
    number = begun[-1] if begun else 0
    while not finish:
        number += 1
        await live(root, number)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), finish="finish" in sys.argv[2:]))
