"""A run on disk: read back from its folder or its export, with all that it began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fakes.agent_world import SIGNER as KEY
from fakes.agent_world import LoopClock, World, answer, call, world
from monoize.agent.canonical_json import EMPTY_HASH
from monoize.agent.live.runtime import Runtime
from monoize.agent.live.terms_note import UnreadableTerms, terms_from, terms_json
from monoize.agent.machine.run_state import Recalled, RunState, Terms
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.profile import profiles
from monoize.agent.record.export import export_bytes
from monoize.agent.record.folder_journal import FolderJournal
from monoize.agent.record.recorded_run import PayloadMissing, load
from monoize.agent.record.recovery import recovered
from monoize.agent.record.replay import replay
from monoize.urp import Message, Reasoning, Role, Seal, Text, ToolCall
from monoize.wirejson import dumps, loads


async def on_disk(made: World, root: Path) -> RunState:
    journal = await FolderJournal.open(root, made.terms.run_id, signer=KEY)
    try:
        runtime = Runtime(made.model, made.toolbox, journal, LoopClock(), KEY)
        return await runtime.run(made.terms)
    finally:
        await journal.aclose()


def looked() -> World:
    return world("native_messages", [call(("look", {"path": "a"})), answer("It says 42.")])


@pytest.mark.spec("S5-E", "D45")
async def test_a_folder_is_replayed(tmp_path: Path):
    made = looked()
    state = await on_disk(made, tmp_path)
    again = replay(tmp_path / made.terms.run_id)
    assert (again.divergence, again.head, again.outcome) == (None, state.head, state.outcome)
    found = recovered(load(tmp_path / made.terms.run_id))
    assert found.state.outcome is state.outcome
    assert found.state.messages == state.messages


@pytest.mark.spec("S5-E")
async def test_an_export_is_replayed(tmp_path: Path):
    made = looked()
    state = await on_disk(made, tmp_path)
    file = tmp_path / "run.zip"
    file.write_bytes(export_bytes(tmp_path, made.terms.run_id))
    assert replay(file).head == state.head


@pytest.mark.spec("S5-E")
async def test_an_erased_payload_is_missed(tmp_path: Path):
    made = looked()
    await on_disk(made, tmp_path)
    run = load(tmp_path / made.terms.run_id)
    assert run.payload(EMPTY_HASH) == b""
    digest = run.entries[1].result_hash
    (tmp_path / made.terms.run_id / "payloads" / digest).unlink()
    with pytest.raises(PayloadMissing, match=digest):
        replay(run)


def with_history() -> Terms:
    plain = world("native_gemini", [answer("x")]).terms
    seal = Seal(protocol="gemini", data="c2VhbA==")
    carried = Message(
        role=Role.ASSISTANT,
        parts=(
            Reasoning(content="hm", seal=seal),
            Text(content="I look."),
            ToolCall(call_id="c1", name="look", arguments='{"path":"a"}', seal=seal),
        ),
        extra_body={"more": [1, {"x": None}]},
    )
    asked = ToolInvocation(
        id="c1",
        name="look",
        arguments={"path": "a"},
        source_model="m",
        raw_arguments='{"path":"a"}',
    )
    history = (
        AgentMessage(role="user", content="Look."),
        AgentMessage(role="assistant", tool_calls=(asked,), carried=(carried,)),
        AgentMessage(role="tool", content="42", tool_call_id="c1", name="look"),
    )
    recalled = Recalled(request=b"\x00q", raw=b"\xffr", streamed=True)
    return msgspec.structs.replace(
        plain, history=history, recalled=recalled, decision_trace=({"step": "page"},)
    )


@pytest.mark.parametrize("name", sorted(profiles()))
def test_terms_come_back_as_they_were(name: str):
    for terms in (world(name, [answer("x")]).terms, with_history()):
        note = loads(dumps(terms_json(terms)))
        assert terms_from(note, terms.contract, terms.manifest) == terms


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": None},
        {"history": [{"role": "nobody"}]},
        {"profile": {}},
        {"recalled": 7},
        {"history": [{"role": "user", "carried": [{"$kind": "Losses"}]}]},
    ],
)
def test_a_note_that_is_not_ours_is_refused(change: dict[str, Any]):
    terms = with_history()
    note = {**terms_json(terms), **change}
    if change == {"run_id": None}:
        del note["run_id"]
    with pytest.raises(UnreadableTerms):
        terms_from(note, terms.contract, terms.manifest)
