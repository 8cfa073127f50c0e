"""The console draws a run from its newest digest: dropped, doubled and shuffled events give the same page (invariant D)."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fakes.agent_world import World, answer, call, in_virtual_time, world
from monoize.agent.live.watching import Ended, Seen, StateSeen
from monoize.agent.machine.digest import newer

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(
    NODE is None, reason="node is not installed: nothing runs the console's JavaScript"
)

FILE = Path(__file__).parents[2] / "src/monoize/console/parts/digest_view.js"
SEEDS = 200  # ways in which the events of each run come
LOOK, WRITE = ("look", {"path": "a"}), ("write", {"path": "b"})

RUNS = {
    "tools": lambda: world("native_messages", [call(LOOK), call(WRITE, text="So."), answer("42.")]),
    "two calls at once": lambda: world(
        "native_chat_completion", [call(LOOK, ("count", {"path": "a"})), answer("Two.")]
    ),
    "approval": lambda: world("native_gemini", [call(WRITE)], approval=("scope:write",)),
    "talk instead of tools": lambda: world("native_responses", [answer("I would rather talk.")]),
    "budget": lambda: world("native_messages", [call(LOOK)], max_tool_calls=2),
    "text by the local grammar": lambda: world(
        "local_grammar", [call(LOOK), answer("A long answer, in pieces.")]
    ),
    "interrupted": lambda: _interrupted(world("native_messages", [call(LOOK), answer("42.")])),
}

# Reads {runs: [{events, ways: [[index…]…], newest: [index…]}]}; tells the ways that do not come out as the newest digest.
SCRIPT = """
import { readFileSync } from "node:fs";
const { hear, latest, spoken, view } = await import(process.argv[1]);
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const told = JSON.parse(readFileSync(0, "utf8")).map(({events, ways, newest}) => {
  const wrong = ways.flatMap((way, number) => {
    const digest = latest(way.map((at) => events[at]));
    return same(view(digest), view(events[newest[number]].data.digest)) ? [] : [number];
  });
  const deltas = events.filter(({event, data}) => event === "delta" && data.kind === "text").map(({data}) => data);
  const texts = {};
  for (const {step_id: step, text} of deltas) texts[step] = (texts[step] ?? "") + text;
  const heard = {};
  for (const delta of [...deltas, ...deltas].reverse()) hear(heard, delta); // each twice, and the last first
  const states = events.filter(({data}) => data.digest).map(({data}) => data.digest);
  return {
    wrong, texts, last: view(states.at(-1)), drawn: new Set(states.map((one) => JSON.stringify(view(one)))).size,
    spoken: states.map((one) => [one.step, one.outcome, spoken(heard, one)]), nothing: latest([]),
  };
});
console.log(JSON.stringify(told));
"""


def _interrupted(made: World) -> World:
    made.interrupt_at = 12
    return made


def _events(made: World) -> list[Seen]:
    made.seen = []
    assert in_virtual_time(made.live()) is not None
    return made.seen


def _as_sent(seen: Seen) -> dict[str, Any]:
    fields = msgspec.to_builtins(seen)
    return {"event": fields.pop("event"), "data": fields}


def _ways(seen: list[Seen]) -> Iterator[tuple[list[int], int]]:
    """Some of them, some twice, in any order, with at least one digest; and which of these is the newest, as the runtime judges."""
    digests = {at: one.digest for at, one in enumerate(seen) if isinstance(one, StateSeen | Ended)}
    for seed in range(SEEDS):
        dice = random.Random(seed)
        way = [at for at in range(len(seen)) if dice.random() < 0.6]
        way += dice.choices(range(len(seen)), k=dice.randint(0, 5))
        way.append(dice.choice(list(digests)))
        dice.shuffle(way)
        newest = reduce(newer, (digests[at] for at in way if at in digests))
        yield way, next(at for at in way if at in digests and digests[at] == newest)


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    asked, runs = [], {name: _events(make()) for name, make in RUNS.items()}
    for seen in runs.values():
        ways = list(_ways(seen))
        asked.append(
            {
                "events": [_as_sent(one) for one in seen],
                "ways": [way for way, _ in ways],
                "newest": [newest for _, newest in ways],
            }
        )
    done = subprocess.run(
        [NODE or "", "--input-type=module", "-e", SCRIPT, FILE.as_uri()],
        input=json.dumps(asked).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return dict(zip(runs, json.loads(done.stdout), strict=True))


@pytest.mark.spec("S5-D")
@pytest.mark.parametrize("name", RUNS)
def test_events_in_any_order_with_gaps_and_doubles_draw_the_newest_digest(name, told):
    assert told[name]["wrong"] == []
    assert told[name]["drawn"] > 2  # there was something to mistake
    assert told[name]["nothing"] is None


@pytest.mark.spec("S5-D")
@pytest.mark.parametrize(
    ("name", "badge", "waits"),
    [
        ("tools", "COMPLETED_WITH_TOOLS", False),
        ("approval", "INTERRUPTED", True),
        ("talk instead of tools", "FAILED_PROTOCOL_NO_TOOLS", False),
        ("interrupted", "INTERRUPTED", False),
    ],
)
def test_the_page_shows_how_a_run_ended(name, badge, waits, told):
    last = told[name]["last"]
    assert (last["badge"]["text"], last["hasEnded"], last["needsApproval"]) == (badge, True, waits)
    assert [state["seq"] for state in last["trail"]] == list(range(last["entries"]))
    assert last["trail"][-1]["to"] == "TERMINATE"


@pytest.mark.spec("S5-D", "S5-F")
@pytest.mark.parametrize("name", RUNS)
def test_what_is_just_being_said_goes_with_its_step_and_with_the_run(name, told):
    texts = told[name]["texts"]
    for step, outcome, text in told[name]["spoken"]:
        assert text == ("" if outcome else texts.get(f"step-{step}", ""))
