"""Who may call and how much: users, keys, and the policy of a key; pure values and checks."""

from __future__ import annotations

import ipaddress
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from monoize.errors import Forbidden, MonoizeError, Unauthorized
from monoize.globs import glob_matches
from monoize.settings import KeySettings, RuleSettings

__all__ = [
    "NANO",
    "Budgets",
    "Key",
    "KeyPolicy",
    "Role",
    "User",
    "address_refusal",
    "model_refusal",
    "policy_of",
    "refusal",
]

NANO = 10**9  # of them are a dollar
Role = Literal["admin", "user"]
PositiveInt = Annotated[int, Meta(ge=1)]
Nano = Annotated[int, Meta(ge=0, description="nano-USD: a thousand millionth of a dollar")]


class Budgets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that a key may spend in a window (UTC); None: as much as it likes."""

    day: Nano | None = None
    month: Nano | None = None
    total: Nano | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.day, self.month, self.total))


class KeyPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a key may do. The same for keys of the config file and of the database."""

    models: tuple[str, ...] | None = None  # globs of requested names; None: every model
    addresses: tuple[str, ...] | None = None  # IP addresses and CIDR ranges; None: from everywhere
    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None
    budgets: Budgets = Budgets()
    max_multiplier: str | None = None  # an exact decimal (PIPE-2)
    transforms: tuple[RuleSettings, ...] = ()
    capture: Literal["off", "all", "abnormal"] = "off"

    def exact_ceiling(self) -> Decimal | None:
        return None if self.max_multiplier is None else Decimal(self.max_multiplier)


class User(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    username: str
    role: Role = "user"
    enabled: bool = True
    balance: int | None = None  # nano-USD; None: not prepaid
    reserved: int = 0
    created_at: int = 0  # milliseconds since the epoch
    updated_at: int = 0


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    user_id: str
    name: str
    hint: str  # its first letters
    enabled: bool = True
    expires_at: int | None = None
    policy: KeyPolicy = KeyPolicy()
    created_at: int = 0
    updated_at: int = 0
    last_used_at: int | None = None


def policy_of(settings: KeySettings) -> KeyPolicy:
    """A key of the config file has the same policy as any other; its budgets are written in USD."""
    budgets = settings.budgets
    ceiling = settings.max_multiplier
    return KeyPolicy(
        models=settings.models,
        addresses=settings.addresses,
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        budgets=Budgets(
            day=_nano(budgets.day), month=_nano(budgets.month), total=_nano(budgets.total)
        ),
        max_multiplier=None if ceiling is None else str(ceiling),
        transforms=settings.transforms,
        capture=settings.capture,
    )


def _nano(dollars: str | float | None) -> int | None:
    return None if dollars is None else int(Decimal(str(dollars)) * NANO)


def refusal(key: Key, user: User, now_ms: int, address: str | None) -> MonoizeError | None:
    """Why this key may not be used at this moment from this address; None: it may.

    A key that is off, expired or orphaned looks like one that does not exist: nothing is told to strangers.
    """
    if not (key.enabled and user.enabled) or (
        key.expires_at is not None and key.expires_at <= now_ms
    ):
        return Unauthorized("this API key is not known here")
    return address_refusal(key.policy, address)


def address_refusal(policy: KeyPolicy, address: str | None) -> MonoizeError | None:
    if policy.addresses is None or _is_among(address, policy.addresses):
        return None
    return Forbidden("this API key may not be used from this address", code="address_not_allowed")


def model_refusal(policy: KeyPolicy, model: str) -> MonoizeError | None:
    if policy.models is None or any(glob_matches(glob, model) for glob in policy.models):
        return None
    return Forbidden(
        f"this API key may not use the model {model!r}", param="model", code="model_not_allowed"
    )


def _is_among(address: str | None, ranges: tuple[str, ...]) -> bool:
    if address is None:
        return False
    try:
        place = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(place, "ipv4_mapped", None)
    if mapped is not None:
        place = mapped
    return any(place in ipaddress.ip_network(text, strict=False) for text in ranges)
