"""What the pipeline needs from outside: clients, clock and dice, and who may answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from monoize.clock import Clock, Dice, OrderedIdSource
from monoize.engine import Engine
from monoize.media.desk import MediaDesk
from monoize.pipeline.admission import Admission
from monoize.pipeline.line import Lines
from monoize.routing.affinity import Affinity
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.policy import LoadBoard, policy_of
from monoize.routing.shortcut import Shortcuts
from monoize.settings import (
    LimitSettings,
    OperationId,
    OperationSettings,
    PolicySettings,
    TimeoutSettings,
)
from monoize.transform import Rule
from monoize.upstream.client import UpstreamClient

__all__ = ["Kit"]


class Kit(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    client: UpstreamClient
    engines: UpstreamClient
    clock: Clock
    dice: Dice
    ids: OrderedIdSource
    limits: LimitSettings
    timeouts: TimeoutSettings
    catalog: Catalog
    board: HealthBoard
    budget: RetryBudget
    affinity: Affinity
    load: LoadBoard | None = (
        None  # what policies remember; None: nothing from one request to the next
    )
    admission: Admission
    provider_rules: Mapping[str, tuple[Rule, ...]] = {}  # by provider id (PIPE-3)
    local: Mapping[str, Engine] = {}  # engines of this machine, by id
    operations: Mapping[OperationId, OperationSettings] = {}
    media: MediaDesk | None = None  # None: references are left as they are
    inline_bytes: int = 256 * 1024  # of media in an envelope's answer, where it asks for that
    suffixes: Mapping[str, str] = {}  # the operator's own, beside the built-in ones (MSUF-3)
    lines: Lines = msgspec.field(default_factory=Lines)

    @cached_property
    def shortcuts(self) -> Shortcuts:
        """The short way of plain calls, by model."""
        return Shortcuts(
            self.catalog, self.board, self.load, self.default_policy("chat_completions")
        )

    def default_policy(self, operation: OperationId) -> PolicySettings | None:
        """The operation's own, for providers that have none."""
        tuning = self.operations.get(operation)
        return None if tuning is None else policy_of(tuning.policy)
