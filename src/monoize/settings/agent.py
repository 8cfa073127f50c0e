"""Agent runs: where they lie, which tools callers may name, and how far a contract may go (spec 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from monoize.settings.section import PositiveInt, Seconds, Section

__all__ = ["AgentCeilings", "AgentSettings"]


class AgentCeilings(Section, frozen=True, kw_only=True):
    """The most that a contract may ask for over HTTP; a contract that asks for more is refused."""

    max_inferences: PositiveInt = 100
    max_tokens_consumed: Annotated[int, Meta(ge=0)] = 0  # 0: a contract needs no limit
    max_output_tokens: PositiveInt = 32_768
    max_tool_calls: PositiveInt = 500
    step_timeout_ms: PositiveInt = 600_000
    total_timeout_ms: PositiveInt = 3_600_000
    max_bytes_per_call: PositiveInt = 1024**2  # of one tool's output


class AgentSettings(Section, frozen=True, kw_only=True):
    folder: str = "./data/runs"  # transcripts; shared by all replicas that may take a run over
    signing_key: str = "./data/transcript-key"  # Ed25519, made at first use
    # Name -> a source of tools, written as in a tool file (docs/agent.md). Callers name them; nothing else can be run.
    tools: Mapping[str, Mapping[str, Any]] = {}
    admin_tools: tuple[str, ...] = ()  # of those, the ones that only admins may name
    max_concurrent: PositiveInt = 16  # runs of one process; others wait
    max_waiting: PositiveInt = 1000  # runs that have not ended, of all callers together
    max_task_bytes: PositiveInt = 1024**2
    takeover_seconds: Seconds = 60  # of silence, after which another process goes on with a run
    keep_days: PositiveInt | None = 90  # of ended runs
    ceilings: AgentCeilings = AgentCeilings()
