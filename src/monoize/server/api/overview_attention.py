"""What needs somebody's attention, as sentences: channels, providers, keys, balances, errors, prices, the log itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Literal
from urllib.parse import quote, urlsplit

import msgspec

from monoize.routing.breaker import Health
from monoize.server.api.channels import ChannelState
from monoize.settings import ProviderSettings
from monoize.store.journal import Journal
from monoize.store.logs import usd
from monoize.store.overview import Figures
from monoize.store.overview_attention import Balance, Ending, Spent

__all__ = [
    "Attention",
    "of_balances",
    "of_channels",
    "of_endings",
    "of_figures",
    "of_journal",
    "of_providers",
    "of_spent",
    "ranked",
]

Level = Literal["error", "warning", "notice"]
_ORDER: tuple[Level, ...] = ("error", "warning", "notice")
_EACH = 5  # of one kind; the others are counted
_MOST = 50
_BAD_RATE, _ENOUGH_CALLS = 0.05, 20
_LONG_QUEUE = 1_000
_LOCAL_NAMES = ("localhost", "")
_WINDOWS = {"day": "of the day", "month": "of the month", "total": "in total"}


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    level: Level
    sentence: str
    link: str  # the page where something can be done about it


def ranked(found: Iterable[Attention]) -> list[Attention]:
    """The worst first; of many of a kind a few, and how many more there are."""
    kinds: dict[str, list[Attention]] = {}
    for each in found:
        kinds.setdefault(each.what, []).append(each)
    shown: list[Attention] = []
    for what, alike in kinds.items():
        shown += alike[:_EACH]
        if rest := alike[_EACH:]:
            sentence = f"{len(rest)} more like this: {what.replace('_', ' ')}."
            page = rest[0].link.partition("?")[0]
            shown.append(Attention(what=what, level=rest[0].level, sentence=sentence, link=page))
    return sorted(shown, key=lambda each: _ORDER.index(each.level))[:_MOST]


def of_channels(channels: Iterable[ChannelState]) -> Iterable[Attention]:
    for row in channels:
        if not row.enabled or row.weight <= 0 or row.reason is None:
            continue
        name = f"{row.provider}/{row.channel}" + (f" ({row.model})" if row.model else "")
        is_well = row.health is Health.HEALTHY
        yield Attention(
            what="channel_resting" if is_well else "channel_failing",
            level="warning" if is_well or row.eligible else "error",
            sentence=f"The channel {name} is {row.reason}.",
            link=_provider(row.provider),
        )


def of_providers(providers: Sequence[ProviderSettings]) -> Iterable[Attention]:
    for provider in providers:
        if not provider.enabled:
            sentence = f"The provider {provider.id} is switched off."
            yield Attention(
                what="provider_disabled",
                level="notice",
                sentence=sentence,
                link=_provider(provider.id),
            )
            continue
        keyless = [
            channel.id
            for channel in provider.channels
            if channel.enabled
            and channel.api_key is None
            and not channel.headers
            and not _is_near(channel.base_url)
        ]
        if keyless:
            sentence = f"The provider {provider.id} has no api_key on {', '.join(keyless)}."
            yield Attention(
                what="provider_without_key",
                level="warning",
                sentence=sentence,
                link=_provider(provider.id),
            )


def of_spent(found: Iterable[Spent]) -> Iterable[Attention]:
    for row in found:
        is_over = row.spent >= row.budget
        share = "all" if is_over else f"{row.spent * 100 // row.budget} %"
        budget = f"{usd(row.budget)} USD {_WINDOWS[row.window]}"
        yield Attention(
            what="key_spent" if is_over else "key_near_budget",
            level="error" if is_over else "warning",
            sentence=f"The key {row.name!r} has spent {share} of its budget: {budget}.",
            link=_key(row.key_id),
        )


def of_endings(found: Iterable[Ending], now: int) -> Iterable[Attention]:
    for row in found:
        is_over = row.expires_at <= now
        days = abs(row.expires_at - now) // 86_400_000
        when = "less than a day" if not days else f"{days} day{'s' * (days > 1)}"
        told = f"ended {when} ago" if is_over else f"ends in {when}"
        yield Attention(
            what="key_expired" if is_over else "key_expiring",
            level="notice" if is_over else "warning",
            sentence=f"The key {row.name!r} {told}.",
            link=_key(row.key_id),
        )


def of_balances(found: Iterable[Balance]) -> Iterable[Attention]:
    for row in found:
        is_empty = row.left <= 0
        told = "has nothing left to spend" if is_empty else f"has {usd(row.left)} USD left"
        yield Attention(
            what="balance_empty" if is_empty else "balance_low",
            level="error" if is_empty else "warning",
            sentence=f"The user {row.username!r} {told}.",
            link=f"/users?search={quote(row.username, safe='')}",
        )


def of_figures(hour: Figures, total: Figures, now: int, since: int) -> Iterable[Attention]:
    rate = hour.errors / hour.calls if hour.calls else 0.0
    if rate > _BAD_RATE and hour.calls >= _ENOUGH_CALLS:
        yield Attention(
            what="error_rate",
            level="error",
            sentence=f"{rate:.0%} of the {hour.calls} calls of the last hour failed.",
            link=f"/requests?errors_only=true&since={now - 3_600_000}",
        )
    if total.unpriced:
        calls = "1 call" if total.unpriced == 1 else f"{total.unpriced} calls"
        yield Attention(
            what="unpriced_calls",
            level="warning",
            sentence=f"{calls} cost nothing because nobody knows a price of the model.",
            link=f"/costs?since={since}",
        )


def of_journal(journal: Journal) -> Iterable[Attention]:
    if journal.is_away:
        yield Attention(
            what="database_away",
            level="error",
            sentence="The database is away: charges and log rows wait in memory.",
            link="/settings",
        )
    elif journal.waiting > _LONG_QUEUE:
        yield Attention(
            what="log_queue",
            level="warning",
            sentence=f"{journal.waiting} entries of the ledger wait to be written.",
            link="/settings",
        )
    if journal.dropped_notes:
        yield Attention(
            what="log_queue",
            level="notice",
            sentence=f"{journal.dropped_notes} refused requests were not logged: they came too fast.",
            link="/requests?status=error",
        )


def _is_near(url: str | None) -> bool:
    """A server on this machine or in its network needs no key, as a rule."""
    host = urlsplit(url or "").hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host in _LOCAL_NAMES or "." not in host


def _provider(name: str) -> str:
    return f"/providers?provider={quote(name, safe='')}"


def _key(name: str) -> str:
    return f"/keys?search={quote(name, safe='')}"
