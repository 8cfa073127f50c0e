"""The dry run: the exact upstream body that a request would become, what it would lose, and why it goes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.errors import CallerError, InvalidRequest, UpstreamExhausted
from monoize.pipeline.attempt import Attempt, encoded_for
from monoize.pipeline.call import NOBODY, Call, Caller, Incoming, Trace
from monoize.pipeline.decode import decoded, without_username
from monoize.pipeline.kit import Kit
from monoize.pipeline.prepare import key_rules_applied, model_checked, suffix_resolved
from monoize.pipeline.route import check_offer
from monoize.protocol import Protocol, WireRequest, protocol, protocol_ids
from monoize.routing.catalog import Candidate
from monoize.routing.waterfall import Offer, surveyed
from monoize.settings import ChannelSettings, ProviderSettings
from monoize.transform import Rule
from monoize.urp import Losses, UrpRequest
from monoize.urp.diff import changes

__all__ = ["translated", "translated_to"]

_KINDS = {"from": str, "to": str, "model": str, "stream": bool, "trace": bool, "request": dict}


def translated(
    wire: Mapping[str, Any], kit: Kit, caller: Caller = NOBODY, request_id: str = "dry-run"
) -> dict[str, Any]:
    """`from`: the caller's protocol; `to`: a provider's, or absent to take the way that the model would go."""
    incoming = _incoming(wire, caller, request_id)
    record = _Record()
    trace = Trace(observe=record.rule)
    call = key_rules_applied(decoded(incoming), kit, trace)
    if wire.get("to") is None:
        call = model_checked(record.suffix(call, suffix_resolved(call, kit)))
        attempt = _way(call, kit, trace, record)
        record.models(call, attempt)
        report = _report(
            incoming.protocol, attempt.protocol, attempt.encoded(), trace.request_losses
        )
        report |= _destination(attempt)
    else:
        target, losses = _named(wire, "to"), Losses()
        body = encoded_for(target, incoming.protocol, without_username(call.request), losses)
        report = _report(incoming.protocol, target, body, losses)
    return {**report, "trace": record.as_json()} if wire.get("trace") else report


def translated_to(wire: Mapping[str, Any]) -> dict[str, Any]:
    """The same where there is no gateway: no rules, no routing, only the two protocols."""
    incoming, target, losses = _incoming(wire, NOBODY, "dry-run"), _named(wire, "to"), Losses()
    body = encoded_for(target, incoming.protocol, decoded(incoming).request, losses)
    return _report(incoming.protocol, target, body, losses)


def _incoming(wire: Mapping[str, Any], caller: Caller, request_id: str) -> Incoming:
    unknown = sorted(set(wire) - set(_KINDS))
    if unknown:
        raise InvalidRequest(
            f"{unknown[0]}: unknown field; known are {', '.join(sorted(_KINDS))}", param=unknown[0]
        )
    for field, kind in _KINDS.items():
        if wire.get(field) is not None and not isinstance(wire[field], kind):
            raise InvalidRequest(f"{field}: must be a {kind.__name__}", param=field)
    if wire.get("request") is None:
        raise InvalidRequest(
            "request: must be the JSON object that a caller would send", param="request"
        )
    return Incoming(
        protocol=_named(wire, "from"),
        raw=b"",
        wire=wire["request"],
        headers={},
        model=wire.get("model"),
        stream=wire.get("stream"),
        caller=caller,
        request_id=request_id,
        started=0.0,
    )


def _named(wire: Mapping[str, Any], field: str) -> Protocol:
    name = wire.get(field)
    if name not in protocol_ids():
        raise InvalidRequest(f"{field}: must be one of {', '.join(protocol_ids())}", param=field)
    return protocol(name)


def _report(
    source: Protocol, target: Protocol, wire: WireRequest, losses: Losses
) -> dict[str, Any]:
    return {
        "from": source.id,
        "to": target.id,
        "path": wire.path,
        "body": wire.body,
        "lossless": not losses.dropped,
        "dropped": list(losses.dropped),
    }


def _destination(attempt: Attempt) -> dict[str, str]:
    """Who would be asked, by name: addresses and keys of channels are nobody's affair."""
    candidate = attempt.candidate
    return {
        "provider": candidate.provider.id,
        "channel": candidate.channel.id,
        "upstream_model": attempt.upstream_model,
    }


class _Record:
    """What happened on the way, in the order in which it happened."""

    def __init__(self) -> None:
        self._rules: list[dict[str, Any]] = []
        self._candidates: list[dict[str, Any]] = []
        self._suffix: list[dict[str, Any]] = []
        self._models: dict[str, str] = {}

    def rule(self, rule: Rule, before: UrpRequest, after: UrpRequest) -> None:
        made = [change.as_json() for change in changes(before, after)]
        self._rules.append({"rule": rule.place, "transform": rule.transform.id, "changes": made})

    def suffix(self, before: Call, after: Call) -> Call:
        self._suffix = [change.as_json() for change in changes(before.request, after.request)]
        return after

    def offer(self, offer: Offer, *, taken: bool, reason: str) -> None:
        self._candidates.append(
            {
                "provider": offer.provider.id,
                "channel": offer.channel.id if offer.channel else None,
                "upstream_model": offer.upstream_model,
                "taken": taken,
                "reason": reason,
            }
        )

    def drop_rules_after(self, count: int) -> None:
        """Forget what the rules of a provider did that cannot take the request after all."""
        del self._rules[count:]

    @property
    def rules(self) -> int:
        return len(self._rules)

    def models(self, call: Call, attempt: Attempt) -> None:
        self._models = {
            "requested": call.requested_model,
            "routed": call.model,
            "upstream": attempt.request.model,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "models": self._models,
            "rules": self._rules,
            "suffix": self._suffix,
            "candidates": self._candidates,
        }


def _way(call: Call, kit: Kit, trace: Trace, record: _Record) -> Attempt:
    """The first channel that would be asked; the others are noted with the reason why not."""
    check_offer(call, kit)
    offers = surveyed(call.wanted(), kit.catalog, kit.board, kit.clock.monotonic())
    refusals: dict[str, CallerError] = {}  # by provider
    chosen: tuple[Offer, Attempt] | None = None
    for offer in _in_turn(offers, kit):
        if chosen is not None or offer.provider.id in refusals:
            continue
        before = record.rules
        attempt = Attempt(call, kit, trace, _candidate(offer))
        try:
            attempt.take_upstream_name()
            attempt.apply_provider_rules()
            attempt.encoded()
        except CallerError as error:
            refusals[offer.provider.id] = error
            record.drop_rules_after(before)
        else:
            chosen = offer, attempt
    for offer in offers:
        taken = chosen is not None and offer is chosen[0]
        record.offer(offer, taken=taken, reason=_reason(offer, chosen and chosen[0], refusals))
    if chosen is None:
        nobody = UpstreamExhausted(f"no channel is enabled that has {call.requested_model!r}")
        raise next(iter(refusals.values()), nobody)
    return chosen[1]


def _in_turn(offers: list[Offer], kit: Kit) -> list[Offer]:
    """Whoever is well, in order; then, as a last resort, whoever comes back first (D11)."""
    now = kit.clock.monotonic()
    unwell = [
        offer
        for offer in offers
        if offer.reason is not None
        and offer.channel
        and offer.channel.enabled
        and offer.channel.weight
    ]
    unwell.sort(key=lambda offer: kit.board.breaker(*_place(offer)).free_at(now))
    return [offer for offer in offers if offer.reason is None] + unwell


def _reason(offer: Offer, chosen: Offer | None, refusals: Mapping[str, CallerError]) -> str:
    if offer is chosen:
        return f"last resort: {offer.reason}" if offer.reason else "the first in order"
    if offer.reason is not None:
        return offer.reason
    if offer.provider.id in refusals:
        return refusals[offer.provider.id].message
    same = chosen is not None and offer.provider.id == chosen.provider.id
    return "drawn by weight among its provider's channels" if same else "comes later"


def _place(offer: Offer) -> tuple[ProviderSettings, ChannelSettings, str]:
    candidate = _candidate(offer)
    return candidate.provider, candidate.channel, candidate.upstream_model


def _candidate(offer: Offer) -> Candidate:
    if offer.channel is None:
        raise TypeError("an offer without a channel")
    return Candidate(
        provider=offer.provider, channel=offer.channel, upstream_model=offer.upstream_model
    )
