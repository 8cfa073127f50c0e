"""Who could answer and who is passed over, with the reason in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Literal

import msgspec

from monoize.routing.breaker import Breaker, Health
from monoize.routing.capability import Capabilities
from monoize.routing.catalog import Candidate, Catalog, Terms
from monoize.routing.health import HealthBoard
from monoize.settings import (
    ChannelSettings,
    OperationId,
    PolicySettings,
    ProviderSettings,
    Transport,
)

__all__ = [
    "Explanation",
    "Ground",
    "NobodyCode",
    "Objection",
    "Offer",
    "Wanted",
    "explained",
    "health_objection",
    "is_anybody_able",
    "looked_at",
    "objection",
    "offered",
    "provider_objection",
    "surveyed",
    "whole_provider",
]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What routing needs to know of a request."""

    model: str
    ceiling: Decimal | None = None  # of the multiplier (PIPE-4, D17)
    conversation: Callable[[], str] | None = None  # asked only where a provider has affinity (D12)
    operation: OperationId = "chat_completions"
    operations: frozenset[OperationId] = frozenset()  # that must be there beside it
    features: frozenset[str] = frozenset()
    transports: frozenset[Transport] = frozenset({"http"})
    amounts: Mapping[str, float] = {}  # by the limit that each must not pass
    backend: str | None = None  # the only one that may be asked; of spec 4's routing hints
    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    preferred: tuple[str, ...] = ()
    policy: PolicySettings | None = None  # instead of the provider's own
    default_policy: PolicySettings | None = None  # where the provider has none of its own
    pool: bool = False  # every provider's channels in one pot
    sticky: str = ""  # what consistent_hash hashes


Ground = Literal[
    "disabled",
    "operation",
    "features",
    "transports",
    "limit",
    "backend",
    "allowed",
    "denied",
    "ceiling",
    "model",
    "channels",  # all switched off
    "health",  # all unwell: as a last resort one may be asked all the same (D11)
]
NobodyCode = Literal["no_candidate_backend", "missing_capabilities", "backend_not_enabled"]  # D27
_CAPABILITY: frozenset[Ground] = frozenset({"operation", "features", "transports", "limit"})


class Objection(msgspec.Struct, frozen=True):
    """Why a whole provider is passed over."""

    ground: Ground
    reason: str
    missing: frozenset[str] = frozenset()  # features


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that has the model; `channel` is None where the whole provider is passed over."""

    provider: ProviderSettings
    channel: ChannelSettings | None
    upstream_model: str
    reason: str | None = None  # why it is passed over; None: eligible


def surveyed(wanted: Wanted, catalog: Catalog, board: HealthBoard, now: float) -> list[Offer]:
    """Every provider that has the model, switched off or not, in configured order; nothing is reserved."""
    found = []
    for provider in catalog.configured:
        terms = catalog.terms_of(provider, wanted.model)
        if terms is None:
            continue
        against = provider_objection(terms, wanted)
        if against is not None:
            found.append(whole_provider(terms, against.reason))
            continue
        for candidate, _, reason in looked_at(terms, board, now):
            found.append(offered(candidate, reason))
    return found


def provider_objection(terms: Terms, wanted: Wanted) -> Objection | None:
    """ROUT-2, but for the model itself; and what spec 4 adds to it."""
    provider = terms.provider
    if not provider.enabled:
        return _DISABLED
    against = objection(wanted, provider.id, terms.capabilities)
    if against is not None:
        return against
    if wanted.ceiling is not None and terms.multiplier > wanted.ceiling:
        return Objection(
            "ceiling", f"multiplier {terms.multiplier} is above the ceiling {wanted.ceiling}"
        )
    return None


_DISABLED = Objection("disabled", "provider is disabled")


def objection(wanted: Wanted, backend: str, can: Capabilities) -> Objection | None:
    """What is asked for and cannot be done here, then what the request's own hints rule out, in this order."""
    if wanted.operation not in can.operations or not wanted.operations <= can.operations:
        unable = {wanted.operation, *wanted.operations} - can.operations
        return Objection("operation", f"missing operation: {', '.join(sorted(unable))}")
    if not wanted.features <= can.features:
        missing = wanted.features - can.features
        return Objection("features", f"missing features: {', '.join(sorted(missing))}", missing)
    if not wanted.transports <= can.transports:
        absent = wanted.transports - can.transports
        return Objection("transports", f"missing transports: {', '.join(sorted(absent))}")
    for name, amount in wanted.amounts.items():
        limit = can.limits.get(name)
        if limit is not None and amount > limit:
            return Objection(
                "limit", f"{name} is {_number(limit)}, the request has {_number(amount)}"
            )
    if wanted.backend is not None and backend != wanted.backend:
        return Objection("backend", "not the named backend")
    if wanted.allowed is not None and backend not in wanted.allowed:
        return Objection("allowed", "not on the allow list")
    if backend in wanted.denied:
        return Objection("denied", "on the deny list")
    return None


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Who was looked at, and what speaks against each that is passed over (spec 4, section 2.3)."""

    candidates_checked: tuple[str, ...]  # every configured provider
    objections: Mapping[str, Objection]
    lacking: Mapping[str, frozenset[str]]  # who would do but for these features (D28)
    code: NobodyCode | None  # None: somebody may be asked, be it as a last resort

    @property
    def rejected_reasons(self) -> dict[str, str]:
        return {name: against.reason for name, against in self.objections.items()}


def explained(wanted: Wanted, catalog: Catalog, board: HealthBoard, now: float) -> Explanation:
    """Everybody who is configured, whether they have the model or not; nothing is reserved."""
    plainer = msgspec.structs.replace(wanted, features=frozenset())
    found: dict[str, Objection] = {}
    lacking: dict[str, frozenset[str]] = {}
    have_it: list[str] = []
    somebody = False
    for provider in catalog.configured:
        terms = catalog.terms_of(provider, wanted.model)
        if terms is not None:
            have_it.append(provider.id)
        against = _said_against(provider, terms, wanted, catalog, board, now)
        somebody = somebody or _may_be_asked(against)
        if against is None:
            continue
        found[provider.id] = against
        if against.missing and _may_be_asked(
            _said_against(provider, terms, plainer, catalog, board, now)
        ):
            lacking[provider.id] = against.missing
    return Explanation(
        candidates_checked=tuple(provider.id for provider in catalog.configured),
        objections=found,
        lacking=lacking,
        code=None if somebody else _code(_meant(wanted, have_it, found)),
    )


def is_anybody_able(wanted: Wanted, catalog: Catalog) -> bool:
    """Whether `explained` would find somebody who may be asked, be it as a last resort; looks only at those with the model."""
    return any(
        provider_objection(terms, wanted) is None
        and any(c.channel.enabled and c.channel.weight > 0 for c in terms.candidates)
        for terms in catalog.listing(wanted.model).terms
    )


def _may_be_asked(against: Objection | None) -> bool:
    return against is None or against.ground == "health"


def _said_against(
    provider: ProviderSettings,
    terms: Terms | None,
    wanted: Wanted,
    catalog: Catalog,
    board: HealthBoard,
    now: float,
) -> Objection | None:
    if terms is None:
        if not provider.enabled:
            return _DISABLED
        against = objection(wanted, provider.id, catalog.capabilities(provider))
        return against or Objection("model", f"does not offer the model {wanted.model!r}")
    against = provider_objection(terms, wanted)
    if against is not None:
        return against
    reasons = []
    ground: Ground = "channels"
    for candidate, breaker, reason in looked_at(terms, board, now):
        if reason is None:
            return None
        if breaker is not None:
            ground = "health"
        reasons.append(f"{candidate.channel.id}: {reason}")
    return Objection(ground, "; ".join(reasons))


def _meant(wanted: Wanted, have_it: list[str], found: Mapping[str, Objection]) -> list[Objection]:
    """Those whose no counts: the named backend, else those that have the model, else all."""
    if wanted.backend is not None:
        return [found[wanted.backend]] if wanted.backend in found else []
    return [found[name] for name in have_it] or list(found.values())


def _code(objections: list[Objection]) -> NobodyCode:
    grounds = {against.ground for against in objections}
    if grounds == {"disabled"}:
        return "backend_not_enabled"
    unable = grounds - {"disabled"}
    return "missing_capabilities" if unable and unable <= _CAPABILITY else "no_candidate_backend"


def looked_at(
    terms: Terms, board: HealthBoard, now: float
) -> Iterator[tuple[Candidate, Breaker | None, str | None]]:
    """The channels with what speaks against each; a breaker only for those that may get traffic at all (ROUT-3)."""
    for candidate in terms.candidates:
        channel, breaker = candidate.channel, None
        if not channel.enabled:
            reason: str | None = "channel is disabled"
        elif channel.weight <= 0:
            reason = "weight is 0"
        else:
            breaker = board.breaker(terms.provider, channel, terms.upstream_model)
            reason = health_objection(breaker, now)
        yield candidate, breaker, reason


def offered(candidate: Candidate, reason: str | None) -> Offer:
    return Offer(
        provider=candidate.provider,
        channel=candidate.channel,
        upstream_model=candidate.upstream_model,
        reason=reason,
    )


def health_objection(breaker: Breaker, now: float) -> str | None:
    if breaker.eligible(now):
        return None
    match breaker.health(now):
        case Health.HEALTHY:
            return f"resting for {_seconds(breaker.resting_until - now)} s more (Retry-After)"
        case Health.UNHEALTHY:
            return f"unhealthy for {_seconds(breaker.cooldown_until - now)} s more"
        case Health.PROBING:
            return "probing: another request is on its way"


def whole_provider(terms: Terms, reason: str) -> Offer:
    return Offer(
        provider=terms.provider,
        channel=None,
        upstream_model=terms.upstream_model,
        reason=reason,
    )


def _seconds(left: float) -> int:
    return math.ceil(left)
