"""Code and Runs: from a task to a proved transcript, interrupted, approved, replayed, and drawn from the digest alone."""

from __future__ import annotations

import json
import random
import re

import pytest
from playwright.async_api import expect

from browser.world import Place, spoken
from fakes.agent_calls import parsed

MODEL = "chat_completion.scripted"
EVENTS = "**/v1/agent/runs/*/events"


def wrote(path: str, content: str):
    return spoken("", call=("write_file", {"path": path, "content": content}))


async def begin(sight, task: str, model: str) -> None:
    await sight.open("/code", "Code")
    await sight.field("Task").fill(task)
    await sight.choose("Model", model)
    await sight.button("Show the contract").click()
    await expect(sight.main.get_by_role("heading", name="The contract")).to_be_visible()
    await sight.button("Start").click()


def shown(sight):
    return sight.main.get_by_role("region", name=re.compile("^Run "))


async def test_a_task_ends_in_a_transcript_that_is_verified_and_replayed(sight, opened):
    opened.stage.lines_of["scripted"] = (
        wrote("poem.txt", "Roses are red"),
        spoken("It is written."),
    )
    await begin(sight, "Write a poem to the file poem.txt", MODEL)
    await expect(shown(sight)).to_contain_text("COMPLETED_WITH_TOOLS")
    await expect(shown(sight)).to_contain_text("It is written.")
    assert (opened.folder / "project" / "poem.txt").read_text() == "Roses are red"
    await sight.main.get_by_role("link", name="Transcript").click()
    await sight.button("Verify chain").click()
    await expect(sight.main).to_contain_text(re.compile(r"Whole: \d+ entries, head [0-9a-f]{64}"))
    await sight.button("Replay").click()
    await expect(sight.main).to_contain_text(
        re.compile(r"Identical: \d+ entries, head [0-9a-f]{64}")
    )
    async with sight.page.expect_download() as coming:
        await sight.main.get_by_role("link", name="JSON Lines").click()
    lines = (await (await coming.value).path()).read_text("utf-8").splitlines()
    assert json.loads(lines[-1])


async def test_a_record_that_was_changed_is_not_whole(sight, opened):
    opened.stage.lines_of["scripted"] = (spoken("Nothing to do."),)
    task = {"task": "Say hello", "model": MODEL, "page": "chat"}
    run = opened.good("POST", "/v1/agent/runs", task)["run_id"]
    (record,) = (opened.folder / "data").rglob(f"{run}/transcript.jsonl")
    record.write_bytes(record.read_bytes().replace(b'"step-1"', b'"step-9"', 1))
    await sight.open(f"/runs/{run}")
    await sight.button("Verify chain").click()
    await expect(sight.main).to_contain_text("Not whole")


async def test_a_run_is_interrupted(sight, opened):
    opened.stage.forget()
    await begin(sight, "Write a poem to the file endless.txt", "chat_completion.gated")
    opened.stage.next_exchange()
    await expect(shown(sight)).to_contain_text("INFER")
    await sight.button("Interrupt").click()
    await sight.page.get_by_role("dialog").get_by_role("button", name="Interrupt").click()
    await expect(shown(sight)).to_contain_text("INTERRUPTED")
    assert opened.stage.exchanges[0].closed.wait(10), "the provider was not told"


async def test_a_command_waits_for_a_yes(sight, opened):
    call = ("run_command", {"argv": ["touch", "made.txt"]})
    opened.stage.lines_of["scripted"] = (spoken("", call=call), spoken("Made."))
    await begin(sight, "Run touch made.txt", MODEL)
    await expect(sight.main.get_by_role("heading", name="This needs your yes")).to_be_visible()
    await expect(shown(sight)).to_contain_text("made.txt")
    assert not (opened.folder / "project" / "made.txt").exists()
    await sight.button("Approve").click()
    await expect(shown(sight).last).to_contain_text("COMPLETED_WITH_TOOLS")
    assert (opened.folder / "project" / "made.txt").exists()


# --- invariant D ---


def _recorded(place: Place) -> tuple[str, list[tuple[str, dict]]]:
    """A run of some steps, and every event that it sent while it lasted."""
    place.stage.lines_of["scripted"] = (
        *(wrote(f"{n}.txt", "x") for n in "abc"),
        spoken("All three."),
    )
    task = {
        "task": "Write three files",
        "page": "code",
        "model": MODEL,
        "tools": ["project"],
        "stream": True,
    }
    status, headers, raw = place.ask("POST", "/v1/agent/runs", task)
    assert status == 200, raw
    return headers["x-monoize-run"], parsed(raw)


def _worse(events, dice: random.Random):
    """Dropped, doubled and shuffled, in every mixture; one digest at least comes through."""
    kept = [event for event in events if dice.random() > 0.3]
    kept += [event for event in kept if dice.random() < 0.5]
    dice.shuffle(kept)
    return kept if any("digest" in data for _, data in kept) else events[:1]


def _tampered(events, dice: random.Random):
    async def answer(route) -> None:
        worse = _stream(_worse(events, dice))
        await route.fulfill(content_type="text/event-stream", body=worse)

    return answer


async def _ended(sight) -> str:
    await expect(sight.button("Go on")).to_be_visible()
    return await sight.still(sight.main)


def _stream(events) -> str:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)


@pytest.mark.spec("S5-D")
async def test_the_page_is_the_digest_whatever_became_of_the_events(sight, opened):
    run, events = _recorded(opened)
    assert len([name for name, _ in events if name == "state"]) > 5
    await sight.open(f"/runs/{run}")
    whole = await _ended(sight)
    assert whole.count("write_file") == 3
    for seed in range(4):
        dice = random.Random(seed)
        await sight.page.route(EVENTS, _tampered(events, dice))
        await sight.open(f"/runs/{run}")
        assert await _ended(sight) == whole, f"seed {seed}"
        assert dice.getstate() != random.Random(seed).getstate(), "the page never asked for events"
        await sight.page.unroute(EVENTS)


@pytest.mark.spec("S5-D")
async def test_so_it_is_in_the_middle_of_a_run(sight, opened):
    """Of the events up to some moment nothing counts but the newest digest."""
    run, events = _recorded(opened)
    states = [
        event for event in events if event[0] == "state" and event[1]["digest"]["outcome"] is None
    ]
    heard: list[tuple[str, dict]] = []

    async def once(route) -> None:
        """The connection after it stays silent: the page is as it is."""
        told = _stream(heard)
        heard.clear()
        if told:
            await route.fulfill(content_type="text/event-stream", body=told)

    await sight.page.route(EVENTS, once)
    for moment in (2, 4, len(states)):
        texts = []
        newest = states[moment - 1]
        mixed = _worse(states[:moment], random.Random(moment))
        for mixture in ([newest], [*mixed[:2], newest, *mixed[2:]]):
            heard[:] = mixture
            await sight.open(f"/runs/{run}")
            await expect(shown(sight)).to_contain_text(newest[1]["digest"]["state"])
            texts.append(await sight.still(shown(sight)))
        assert texts[0] == texts[1]
    await sight.page.unroute_all(behavior="ignoreErrors")
