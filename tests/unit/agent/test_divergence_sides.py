"""Both sides of the first difference, for people who have to see what it is."""

from __future__ import annotations

import msgspec
import pytest

from fakes.agent_world import World, answer, call, in_virtual_time, world
from monoize.agent.record.recorded_run import RecordedRun
from monoize.agent.record.replay import Divergence, replay


@pytest.fixture(scope="module")
def made() -> World:
    lived = world("native_messages", [call(("look", {"path": "a"})), answer("It says 42.")])
    assert in_virtual_time(lived.live()) is not None
    return lived


def other(record: RecordedRun, seq: int, what: str, data: bytes) -> Divergence:
    """What comes of it when one payload of the record holds something else."""
    digest = getattr(record.entries[seq], f"{what}_hash")
    changed = msgspec.structs.replace(record, payloads={**record.payloads, digest: data})
    found = replay(changed).divergence
    assert found is not None
    return found


@pytest.mark.spec("S5-4")
def test_a_request_that_is_written_differently_is_shown_as_it_was_and_as_it_is(made):
    found = other(made.record, 1, "action", b'{"model": "another"}')
    assert (found.kind, found.seq) == ("adapter", 1)
    assert found.expected is not None
    assert found.actual is not None
    assert found.expected.action == '{"model": "another"}'
    assert found.actual.action == made.record.payload(made.record.entries[1].action_hash).decode()
    assert found.expected.entry == msgspec.to_builtins(made.record.entries[1])


@pytest.mark.spec("S5-4")
def test_a_result_that_is_another_one_is_shown_with_its_entry(made):
    at = next(one.seq for one in made.record.entries if (one.from_, one.to) == ("EXECUTE",) * 2)
    told = made.record.payload(made.record.entries[at].result_hash)
    found = other(made.record, at, "result", told.replace(b"look of", b"sight of"))
    assert (found.kind, found.seq) == ("tool_result", at)
    assert found.actual is not None
    assert "sight of" in (found.actual.result or "")
    assert found.actual.entry["head"] != made.record.entries[at].head
    assert found.actual.entry["to"] == "EXECUTE"


def test_a_long_side_is_cut(made):
    found = other(made.record, 1, "action", b"x" * 10**6)
    assert found.expected is not None
    assert len(found.expected.action or "") < 10**5
