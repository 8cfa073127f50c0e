"""The table of states: what the spec draws, drawn again for the docs, and the same in the verifier that stands alone."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from monoize.agent.machine.states import TRANSITIONS, State, diagram
from monoize.agent.record import verifier


@pytest.mark.spec("S5-5", "D35")
def test_commit_is_the_only_door_to_the_end_and_no_state_is_a_dead_end() -> None:
    assert [state for state, ways in TRANSITIONS.items() if State.TERMINATE in ways] == [
        State.COMMIT
    ]
    assert [state for state, ways in TRANSITIONS.items() if not ways] == [State.TERMINATE]
    reached, waiting = {State.PRECHECK}, [State.PRECHECK]
    while waiting:
        found = TRANSITIONS[waiting.pop()] - reached
        reached |= found
        waiting += found
    assert reached == set(State)


@pytest.mark.spec("S5-5")
def test_the_spec_s_own_path_is_in_the_table() -> None:
    path = "PRECHECK INFER VALIDATE_CALLS EXECUTE OBSERVE COMMIT INFER".split()
    for start, end in pairwise(path):
        assert State(end) in TRANSITIONS[State(start)]


@pytest.mark.spec("S5-5")
def test_the_diagram_shows_every_way_once_and_no_other() -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+): .+$", diagram(), re.MULTILINE)
    assert sorted(drawn) == sorted(
        (start, end) for start, ways in TRANSITIONS.items() for end in ways
    )


@pytest.mark.spec("S5-E")
def test_the_verifier_knows_the_same_ways() -> None:
    ways = {str(start): {str(end) for end in ends} for start, ends in TRANSITIONS.items() if ends}
    assert {start: set(ends) for start, ends in verifier.WAYS.items() if ends} == ways
