"""Results and digests under any input: the output budget in bytes, hostile envelopes, a page drawn from digests in any order."""

from __future__ import annotations

import os
import random
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import example, given, settings

from fakes.agent_steps import Run, call, calls, prechecked, prose, returned, terms
from monoize.agent.contract import ToolOutputBudget
from monoize.agent.machine.digest import StateDigest, digest, newer
from monoize.agent.machine.observe import Envelope, cut, envelope_bytes, read_envelope, result_text
from monoize.agent.machine.schema import value_problem
from monoize.agent.manifest import ToolSpec

pytestmark = pytest.mark.soak

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
MANY = settings(max_examples=10_000 if SOAK else 300, deadline=None, derandomize=True)

TEXTS = st.text(st.characters(codec=None), max_size=400) | st.text("aä語𝄞\ud800", max_size=400)
MARKERS = st.sampled_from(("[TRUNCATED]", "", "…", "[gekürzt: 語]", "x" * 99))


@pytest.mark.spec("S5-4.1")
@MANY
@given(text=TEXTS, budget=st.integers(1, 200), marker=MARKERS)
@example(text="語" * 100, budget=1, marker="…")
def test_an_output_never_has_more_bytes_than_its_budget(
    text: str, budget: int, marker: str
) -> None:
    limits = ToolOutputBudget(max_bytes_per_call=budget, truncation_marker=marker)
    told, was_cut = cut(text, limits)
    raw = told.encode()  # whole characters only: this would raise
    plain = text.encode("utf-8", "replace")
    assert len(raw) <= budget
    assert was_cut is (len(plain) > budget)
    if not was_cut:
        assert raw == plain
        return
    if marker and len(marker.encode()) <= budget:
        head, found, tail = told.partition(marker)
        assert found == marker
        if marker not in text:
            assert plain.decode().startswith(head)
            assert plain.decode().endswith(tail)
            assert len(raw) > budget - 7  # no more is lost than the two characters at the edges


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
SPEC = ToolSpec(name="read", result_schema={"type": "object", "required": ["n"]})


def _mutilated(raw: bytes, dice: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(data) + 1)
        match dice.randrange(4):
            case 0:
                del data[place : place + dice.randint(1, 9)]
            case 1:
                data[place:place] = dice.randbytes(dice.randint(1, 4))
            case 2:
                data[place:place] = dice.choice(
                    (
                        b"{",
                        b'"',
                        b"NaN",
                        b"1e999",
                        b"[" * 300,
                        b"\\ud800",
                        b',"status":"ok"',
                        b"null",
                        b"9" * 30,
                    )
                )
            case _:
                data[place : place + 1] = bytes((dice.randrange(256),))
    return bytes(data)


@pytest.mark.spec("S5-5")
@MANY
@given(
    fields=st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from(("ok", "error", "OK", 1, None)),
            "tool": st.sampled_from(("read", "look", "", 3)),
            "tool_call_id": st.sampled_from(("c1", "c2", None)),
            "result": JSON,
            "error": JSON,
            "retryable": st.sampled_from((True, False, "yes", 0)),
            "more": JSON,
        },
    ),
    seed=st.integers(0, 2**32),
    breaks=st.booleans(),
    has_schema=st.booleans(),
)
def test_any_bytes_are_an_envelope_or_a_reason(
    fields: dict[str, Any], seed: int, breaks: bool, has_schema: bool
) -> None:
    raw = msgspec.json.encode(fields)
    if breaks:
        raw = _mutilated(raw, random.Random(seed))
    found, problem = read_envelope(raw, call(), SPEC if has_schema else None)
    assert (found is None) is bool(problem)
    problem.encode()
    if found is None:
        return
    assert isinstance(found, Envelope)
    assert (found.tool, found.tool_call_id) == ("read", "c1")
    assert found.status == "ok" or found.error is not None
    if has_schema and found.status == "ok":
        assert isinstance(found.result, dict)
        assert "n" in found.result
    result_text(found).encode()


@pytest.mark.spec("D46")
@MANY
@given(reason=TEXTS)
def test_our_own_envelopes_are_always_good_ones(reason: str) -> None:
    found, problem = read_envelope(envelope_bytes(call(), "not_executed", reason), call(), None)
    assert found is not None, problem
    assert found.status == "error"


@MANY
@given(value=JSON | st.text(st.characters(codec=None), max_size=5))
def test_holding_a_value_against_a_schema_never_raises(value: Any) -> None:
    problem = value_problem({"type": "object", "additionalProperties": {"type": "string"}}, value)
    assert problem is None or problem


# --- digests -------------------------------------------------------------------------------------


def _rendered(seen: StateDigest) -> bytes:
    return msgspec.json.encode(seen)


def _digests() -> list[StateDigest]:
    run = Run(terms(tool_policy="required", parallel_tools=True))
    events = (
        prechecked(at=1),
        calls(call(), call("look", "c2"), at=2),
        returned("c2", "look", at=3),  # early: the state is another, the record is the same
        returned(at=4),
        calls(call("write", "c3"), at=5),
        returned("c3", "write", at=6),
        prose(at=7),
    )
    return [digest(run.state), *(digest(run.tell(event).state) for event in events)]


@pytest.mark.spec("S5-D")
@MANY
@given(order=st.lists(st.integers(0, 7), min_size=1, max_size=30))
def test_any_shuffle_of_digests_draws_the_newest_of_them(order: list[int]) -> None:
    digests = _DIGESTS
    page = digests[order[0]]
    for index in order:
        page = newer(page, digests[index])
    assert _rendered(page) == _rendered(digests[max(order)])


@pytest.mark.spec("S5-D")
def test_a_digest_alone_tells_how_the_run_stands() -> None:
    """Whoever saw only the last one knows as much as whoever saw all of them."""
    last = _DIGESTS[-1]
    assert (last.state, last.outcome, last.output) == ("TERMINATE", "COMPLETED_WITH_TOOLS", "done")
    assert [tuple(way[2:]) for way in last.trail][-1] == ("COMMIT", "TERMINATE")
    assert len(last.trail) == last.seq
    assert (last.inferences_used, last.tool_calls_used, last.tools_succeeded) == (3, 3, 3)
    for seen in _DIGESTS:
        assert seen.trail == last.trail[: seen.seq]
        assert seen.output == ("done" if seen is last else "")


@pytest.mark.spec("S5-D")
def test_times_are_shown_and_not_hashed() -> None:
    early, late = (digest(Run(terms()).tell(prechecked(at=at)).state) for at in (1, 9))
    assert early.elapsed_ms != late.elapsed_ms
    assert early.digest == late.digest


_DIGESTS = _digests()
