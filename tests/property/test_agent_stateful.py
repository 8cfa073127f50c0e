"""Random runs of the reducer under random contracts: whatever happens, in whatever order, the rules hold and the record replays."""

from __future__ import annotations

import os
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fakes.agent_alphabet import DISHONEST, letters
from fakes.agent_steps import Run, answers_every_call, terms, whole
from monoize.agent.machine.digest import StateDigest, digest, newer
from monoize.agent.machine.effects import Append, CallTool, Infer
from monoize.agent.machine.events import Event, Interrupted, ToolFailed, ToolReturned
from monoize.agent.machine.reducer import waits
from monoize.agent.machine.states import State
from monoize.agent.outcome import COMPLETED

pytestmark = [pytest.mark.soak, pytest.mark.spec("S5-5", "S5-C", "S5-D", "S5-E", "D33", "D35")]

SOAK = os.environ.get("MONOIZE_SOAK") == "1"

CONTRACTS = st.fixed_dictionaries(
    {
        "tool_policy": st.sampled_from(("required", "optional", "forbidden")),
        "strict_mode": st.booleans(),
        "token_gate": st.booleans(),
        "required_proof": st.sampled_from(("executed", "succeeded")),
        "parallel_tools": st.booleans(),
        "max_inferences": st.integers(1, 8),
        "max_tokens_consumed": st.sampled_from((0, 2_000, 6_000, 20_000)),
        "max_output_tokens": st.sampled_from((1, 100, 4_000)),
        "max_format_retries": st.integers(0, 3),
        "max_tool_calls": st.integers(0, 6),
        "per_tool_calls": st.dictionaries(
            st.sampled_from(("read", "write", "look")), st.integers(0, 3)
        ),
        "total_timeout_ms": st.sampled_from((4_000, 60_000)),
        "approval": st.sampled_from(((), (), ("write",), ("scope:read",))),
        "cycle_forbid": st.sampled_from(((), (), (("read", "read"),), (("read", "write"),))),
        "max_identical_calls": st.integers(0, 2),
        "tool_output_budget": st.fixed_dictionaries(
            {
                "max_bytes_per_call": st.sampled_from((1, 16, 64, 4_096)),
                "summarizer_model": st.sampled_from((None, "s")),
            }
        ),
        "context_budget": st.fixed_dictionaries(
            {
                "context_window": st.sampled_from((600, 1_500, 100_000)),
                "reserved_system": st.sampled_from((0, 100)),
                "reserved_synthesis": st.sampled_from((1, 300)),
            }
        ),
    }
)


class AgentRun(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.run: Run
        self.early: dict[str, Event] = {}
        self.story: list[Event] = []  # events in the order of their entries, as a replay has them
        self.is_honest = True
        self.digests: list[StateDigest] = []

    @initialize(fields=CONTRACTS)
    def begins(self, fields: dict[str, Any]) -> None:
        self.run = Run(terms(**fields))
        self.digests.append(digest(self.run.state))

    @precondition(lambda self: self.run.state.outcome is None)
    @rule(data=st.data(), after=st.integers(0, 300))
    def something_happens(self, data: st.DataObject, after: int) -> None:
        name, event = data.draw(st.sampled_from(letters(self.run.state)))
        # Most of the time nobody interrupts: else no run would get far.
        if name == "stop" and not data.draw(st.integers(0, 4)):
            return
        before = self.run.state
        self.is_honest &= name not in DISHONEST
        self._tell(msgspec.structs.replace(event, elapsed_ms=event.elapsed_ms + after))
        self.digests.append(digest(self.run.state))
        assert self.run.state.elapsed_ms >= before.elapsed_ms
        if self.run.state.seq == before.seq:
            assert name in ("ok_early", "error_early", "again")

    def _tell(self, event: Event) -> None:
        self.run.tell(event)
        if isinstance(event, ToolReturned | ToolFailed):
            self.early.setdefault(event.call_id, event)
        for entry in self.run.of(Append):
            told = msgspec.json.decode(entry.payloads[entry.entry.meta_hash])["event"]
            if told["kind"] in ("follows", "proceed"):
                continue
            happened = (
                self.early.pop(told["call_id"]) if told["kind"].startswith("tool_") else event
            )
            self.story.append(
                msgspec.structs.replace(happened, elapsed_ms=self.run.state.elapsed_ms)
            )
        if self.run.state.at is not State.EXECUTE:
            self.early.clear()

    @precondition(lambda self: self.run.state.outcome is not None)
    @rule(data=st.data())
    def something_comes_too_late(self, data: st.DataObject) -> None:
        before = self.run.state
        assert self.run.tell(Interrupted(elapsed_ms=10**6)).state is before

    @invariant()
    def waits_or_is_over(self) -> None:
        if hasattr(self, "run"):
            assert waits(self.run.state)
            assert (self.run.state.outcome is None) is (self.run.state.at is not State.TERMINATE)

    @invariant()
    def keeps_to_its_limits(self) -> None:
        if not hasattr(self, "run"):
            return
        contract, used = self.run.state.terms.contract, self.run.state.counters
        assert used.inferences <= contract.max_inferences
        assert used.tool_calls <= contract.max_tool_calls
        assert used.format_retries <= contract.max_format_retries
        assert all(
            used.per_tool.get(tool, 0) <= most for tool, most in contract.per_tool_calls.items()
        )
        if contract.max_tokens_consumed and self.is_honest:
            assert used.tokens <= contract.max_tokens_consumed
        asked = [effect for effect in self.run.wanted if isinstance(effect, Infer)]
        assert len(asked) + len(self.run.summaries) <= contract.max_inferences
        assert (
            len([effect for effect in self.run.wanted if isinstance(effect, CallTool)])
            <= used.tool_calls
        )
        budget = contract.tool_output_budget.max_bytes_per_call
        assert all(len(told.encode()) <= budget for told in self._executed_results())

    def _executed_results(self) -> list[str]:
        """As the model was told them; a call that was refused whole has only our own word."""
        batches = self.run.state.messages
        return [
            message.content
            for message in batches
            if message.role == "tool" and "not_executed" not in message.content
        ]

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        if self.run.state.outcome is None:
            self._tell(Interrupted(elapsed_ms=self.run.state.elapsed_ms))
            self.digests.append(digest(self.run.state))
        whole(self.run)
        answers_every_call(self.run.state.messages)
        self._one_entry_after_the_other()
        self._any_order_of_digests_shows_the_end()
        replayed = Run(self.run.state.terms).tell(*self.story).state
        assert (replayed.head, replayed.outcome) == (self.run.state.head, self.run.state.outcome)

    def _one_entry_after_the_other(self) -> None:
        """Every payload of every entry is there, under its own hash."""
        for effect in self.run.wanted:
            if isinstance(effect, Append):
                hashes = {
                    effect.entry.action_hash,
                    effect.entry.result_hash,
                    effect.entry.meta_hash,
                }
                assert set(effect.payloads) <= hashes

    def _any_order_of_digests_shows_the_end(self) -> None:
        last = self.digests[0]
        for seen in (*reversed(self.digests), *self.digests):
            last = newer(last, seen)
        assert last == digest(self.run.state)
        assert last.outcome == self.run.state.outcome
        assert bool(last.output) <= (self.run.state.outcome in COMPLETED)


TestAgentRun = AgentRun.TestCase
TestAgentRun.settings = settings(
    max_examples=2_000 if SOAK else 60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    print_blob=True,
)
