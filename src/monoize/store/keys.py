"""API keys: shown once, kept as a digest, found by their id."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection, func, insert, select

from monoize.account import Key, KeyPolicy, User
from monoize.clock import IdSource
from monoize.errors import ConfigError, Forbidden, InvalidRequest, NotFound
from monoize.store import audit, checks, key_rules, settings, users
from monoize.store.paging import bounded
from monoize.store.tables import keys
from monoize.store.tables import users as owners
from monoize.store.vault import Vault
from monoize.transform import compiled

__all__ = [
    "Credential",
    "checked_policy",
    "create",
    "credential",
    "delete",
    "get",
    "page",
    "rotate",
    "update",
    "used",
]

MOST_KEYS = 1000  # of one user
_MULTIPLIER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_LONGEST_LIST = 1000
_LARGEST_POLICY = (
    256 * 1024
)  # as JSON: it is in memory while its key is in use, and in the audit twice
_MOST_PER_MINUTE = 10**12
_LAST_MOMENT = 253402300799999  # of the year 9999
_COLUMNS = [keys.c[name] for name in Key.__struct_fields__]
_OWNER_COLUMNS = [owners.c[name].label(f"owner_{name}") for name in User.__struct_fields__]


class Credential(msgspec.Struct, frozen=True):
    """What authentication needs, in one answer."""

    key: Key
    user: User
    digest: bytes


def create(  # noqa: PLR0913 - a key has that many properties
    connection: Connection,
    *,
    vault: Vault,
    ids: IdSource,
    user_id: str,
    name: str,
    policy: KeyPolicy | Mapping[str, Any] | None = None,
    enabled: bool = True,
    expires_at: int | None = None,
    actor: str,
    now: int,
) -> tuple[Key, str]:
    """The key and its text, which cannot be had again."""
    owner = users.get(connection, user_id, lock=True)  # so that two at once cannot both be the last
    count = connection.scalar(select(func.count()).where(keys.c.user_id == user_id)) or 0
    if count >= MOST_KEYS:
        raise Forbidden(
            f"{owner.username} has {MOST_KEYS} keys already", code="max_api_keys_reached"
        )
    fresh = vault.new_key(ids)
    key = Key(
        id=fresh.id,
        user_id=user_id,
        name=checks.text(name, "name"),
        hint=fresh.hint,
        enabled=enabled,
        expires_at=_moment(expires_at),
        policy=checked_policy({} if policy is None else policy, owner),
        created_at=now,
        updated_at=now,
    )
    with checks.unique(connection, "there is already a key with this id; try again"):
        connection.execute(insert(keys).values(**_row(key), digest=vault.digest(fresh.secret)))
    audit.record(connection, "key.create", key.id, _told(key), actor=actor, now=now)
    settings.raise_revision(connection, now)
    return key, fresh.text


def get(connection: Connection, key_id: str, *, lock: bool = False) -> Key:
    query = select(*_COLUMNS).where(keys.c.id == key_id)
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise NotFound(f"there is no key {key_id!r}")
    return _key(row)


def credential(connection: Connection, key_id: str) -> Credential | None:
    """By the id that `parse_key` gave; whether the secret fits is for the vault to say."""
    query = select(*_COLUMNS, keys.c.digest, *_OWNER_COLUMNS).join(
        owners, owners.c.id == keys.c.user_id
    )
    row = connection.execute(query.where(keys.c.id == key_id)).mappings().first()
    if row is None:
        return None
    key = _key(row)
    user = User(**{name: row[f"owner_{name}"] for name in User.__struct_fields__})
    rules = key_rules.allowed_rules(key.policy.transforms, user.role)
    policy = msgspec.structs.replace(key.policy, transforms=rules)
    return Credential(msgspec.structs.replace(key, policy=policy), user, row["digest"])


def page(
    connection: Connection,
    *,
    user_id: str | None = None,
    search: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> tuple[Key, ...]:
    """By id; the next page begins after the last id of this one.

    `search`: somewhere in the name, or how the id or the key itself begins.
    """
    query = select(*_COLUMNS).order_by(keys.c.id).limit(bounded(limit))
    if search is not None:
        key_id = search.removeprefix("sk-mz-").rstrip("…")
        if key_id != search:  # what follows the id is the secret
            key_id = key_id.partition("-")[0]
        begins = func.substr(keys.c.id, 1, len(key_id)) == key_id
        query = query.where(sa.or_(keys.c.name.icontains(search, autoescape=True), begins))
    if user_id is not None:
        query = query.where(keys.c.user_id == user_id)
    if after is not None:
        query = query.where(keys.c.id > after)
    return tuple(_key(row) for row in connection.execute(query).mappings())


def update(  # noqa: PLR0913 - a key has that many properties
    connection: Connection,
    key_id: str,
    *,
    name: str | UnsetType = UNSET,
    enabled: bool | UnsetType = UNSET,
    expires_at: int | UnsetType | None = UNSET,
    policy: KeyPolicy | Mapping[str, Any] | UnsetType = UNSET,
    actor: str,
    now: int,
) -> Key:
    """Only what is given; a mapping as `policy` changes only the fields it names (T46)."""
    before = get(connection, key_id, lock=True)
    given: dict[str, Any] = {}
    if name is not UNSET:
        given["name"] = checks.text(name, "name")
    if enabled is not UNSET:
        given["enabled"] = enabled
    if expires_at is not UNSET:
        given["expires_at"] = _moment(expires_at)
    if policy is not UNSET:
        wanted = policy if isinstance(policy, KeyPolicy) else _merged(before.policy, policy)
        given["policy"] = checked_policy(wanted, users.get(connection, before.user_id))
    after = msgspec.structs.replace(before, **given, updated_at=now)
    changed = audit.changes(_told(before), _told(after))
    if not changed:
        return before
    stored = {name: msgspec.to_builtins(value) for name, value in given.items()}
    connection.execute(sa.update(keys).where(keys.c.id == key_id).values(**stored, updated_at=now))
    audit.record(connection, "key.update", key_id, changed, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return after


def rotate(
    connection: Connection, key_id: str, *, vault: Vault, ids: IdSource, actor: str, now: int
) -> tuple[Key, str]:
    """A new secret under the same id; the old one is a stranger's from now on."""
    before = get(connection, key_id, lock=True)
    fresh = vault.new_key(ids, key_id)
    digest = vault.digest(fresh.secret)
    connection.execute(
        sa.update(keys).where(keys.c.id == key_id).values(digest=digest, updated_at=now)
    )
    audit.record(connection, "key.rotate", key_id, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return msgspec.structs.replace(before, updated_at=now), fresh.text


def delete(connection: Connection, key_id: str, *, actor: str, now: int) -> None:
    key = get(connection, key_id, lock=True)
    connection.execute(sa.delete(keys).where(keys.c.id == key_id))
    audit.record(connection, "key.delete", key_id, _told(key), actor=actor, now=now)
    settings.raise_revision(connection, now)


def used(connection: Connection, moments: Mapping[str, int]) -> None:
    """When keys were last used; written now and then for many at once, and no change of a key."""
    statement = (
        sa.update(keys)
        .where(keys.c.id == sa.bindparam("key"))
        .values(last_used_at=sa.bindparam("moment"))
    )
    rows = [{"key": key, "moment": moment} for key, moment in sorted(moments.items())]
    if rows:
        connection.execute(statement, rows)


def checked_policy(policy: KeyPolicy | Mapping[str, Any], owner: User) -> KeyPolicy:
    """The policy as a key of this owner may have it; what is wrong is named by its path."""
    try:
        checked = msgspec.convert(msgspec.to_builtins(policy), KeyPolicy)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise InvalidRequest(f"policy{path.rstrip('`')}: {message}", param="policy") from None
    try:
        compiled(checked.transforms, "policy.transforms")
    except ConfigError as error:
        raise InvalidRequest(error.message, param="policy.transforms") from None
    key_rules.check_rules(checked.transforms, owner.role)
    _check_lists(checked)
    _check_numbers(checked)
    return checked


def _check_lists(policy: KeyPolicy) -> None:
    if len(msgspec.json.encode(policy)) > _LARGEST_POLICY:
        raise InvalidRequest(f"policy is larger than {_LARGEST_POLICY} bytes", param="policy")
    for name in ("models", "addresses", "transforms"):
        if len(getattr(policy, name) or ()) > _LONGEST_LIST:
            raise InvalidRequest(f"policy.{name} is too long", param=f"policy.{name}")
    for index, model in enumerate(policy.models or ()):
        checks.text(model, f"policy.models[{index}]", 256)
    for index, address in enumerate(policy.addresses or ()):
        try:
            ipaddress.ip_network(address, strict=False)
        except ValueError:
            raise InvalidRequest(
                f"policy.addresses[{index}] must be an IP address or a range such as 10.0.0.0/8",
                param=f"policy.addresses[{index}]",
            ) from None


def _check_numbers(policy: KeyPolicy) -> None:
    ceiling = policy.max_multiplier
    if ceiling is not None and not (_MULTIPLIER.fullmatch(ceiling) and Decimal(ceiling) > 0):
        raise InvalidRequest(
            "policy.max_multiplier must be a decimal above 0 such as '1.5'",
            param="policy.max_multiplier",
        )
    for name in ("day", "month", "total"):
        limit = getattr(policy.budgets, name)
        if limit is not None:
            checks.amount(limit, f"policy.budgets.{name}")
    for name in ("requests_per_minute", "tokens_per_minute"):
        if (getattr(policy, name) or 0) > _MOST_PER_MINUTE:
            raise InvalidRequest(
                f"policy.{name} is beyond {_MOST_PER_MINUTE}", param=f"policy.{name}"
            )


def _merged(before: KeyPolicy, given: Mapping[str, Any]) -> dict[str, Any]:
    old = msgspec.to_builtins(before)
    merged = {**old, **given}
    if isinstance(given.get("budgets"), Mapping):
        merged["budgets"] = {**old["budgets"], **given["budgets"]}
    return merged


def _key(row: Mapping[Any, Any]) -> Key:
    fields = {name: row[name] for name in Key.__struct_fields__}
    return Key(**{**fields, "policy": msgspec.convert(row["policy"], KeyPolicy)})


def _row(key: Key) -> dict[str, Any]:
    return {**msgspec.structs.asdict(key), "policy": msgspec.to_builtins(key.policy)}


def _told(key: Key) -> dict[str, Any]:
    """For the audit: what its owner decided."""
    row = _row(key)
    return {name: row[name] for name in ("user_id", "name", "enabled", "expires_at", "policy")}


def _moment(moment: int | None) -> int | None:
    if moment is not None and not 0 <= moment <= _LAST_MOMENT:
        raise InvalidRequest("expires_at must be milliseconds since 1970", param="expires_at")
    return moment
