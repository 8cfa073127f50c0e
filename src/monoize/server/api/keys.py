"""API keys: made, limited, rotated and removed; the secret is shown once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection

from monoize.account import Key, KeyPolicy, policy_of
from monoize.errors import Conflict, Forbidden, NotFound
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.owner import check_may_change_keys, own_key, own_user
from monoize.server.api.shapes import (
    Body,
    BudgetsUsd,
    Deleted,
    PageQuery,
    Source,
    Spend,
    budgets_usd,
    spend_of,
)
from monoize.settings import KeySettings, RuleSettings
from monoize.store import keys

__all__ = ["ENDPOINTS", "KeyView", "file_key_view", "key_view"]

_OF_THE_FILE = "file:"

PositiveInt = Annotated[int, Meta(ge=1)]
Moment = Annotated[int, Meta(description="milliseconds since the epoch")]
Budget = Annotated[int, Meta(ge=0, description="nano-USD: a thousand millionth of a dollar")]


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret. One of the config file is read-only here."""

    id: str
    source: Source
    user_id: str | None
    name: str
    hint: str  # its first letters
    enabled: bool
    expires_at: Moment | None
    policy: KeyPolicy
    budgets_usd: BudgetsUsd
    created_at: Moment | None
    updated_at: Moment | None
    last_used_at: Moment | None


class KeyDetail(KeyView, frozen=True, kw_only=True):
    spend: Spend


class KeyWithSecret(KeyView, frozen=True, kw_only=True):
    key: str  # shown this once


class KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[KeyView]
    next: str | None  # goes into `after` of the next page; null: there are no more


class KeyQuery(PageQuery, frozen=True, kw_only=True):
    user_id: str | None = None
    search: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=256,
                description="somewhere in the name, or how the id or the key itself begins",
            ),
        ]
        | None
    ) = None


class NewKey(Body, frozen=True, kw_only=True):
    name: str
    user_id: str | None = None  # whose; null: the caller's own user
    enabled: bool = True
    expires_at: Moment | None = None
    policy: KeyPolicy = KeyPolicy()


class BudgetChange(Body, frozen=True, kw_only=True):
    day: Budget | UnsetType | None = UNSET
    month: Budget | UnsetType | None = UNSET
    total: Budget | UnsetType | None = UNSET


class PolicyChange(Body, frozen=True, kw_only=True):
    """Only what is named changes; null takes a limit away."""

    models: tuple[str, ...] | UnsetType | None = UNSET
    addresses: tuple[str, ...] | UnsetType | None = UNSET
    requests_per_minute: PositiveInt | UnsetType | None = UNSET
    tokens_per_minute: PositiveInt | UnsetType | None = UNSET
    budgets: BudgetChange | UnsetType = UNSET
    max_multiplier: str | UnsetType | None = UNSET
    transforms: tuple[RuleSettings, ...] | UnsetType = UNSET
    capture: Literal["off", "all", "abnormal"] | UnsetType = UNSET


class KeyChange(Body, frozen=True, kw_only=True):
    """Only what is named changes."""

    name: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    expires_at: Moment | UnsetType | None = UNSET
    policy: PolicyChange | UnsetType = UNSET


def key_view(key: Key) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(key),
        "source": "database",
        "budgets_usd": budgets_usd(key.policy.budgets),
    }


def file_key_view(key: KeySettings) -> dict[str, Any]:
    policy = policy_of(key)
    return {
        "id": f"{_OF_THE_FILE}{key.name}",
        "source": "file",
        "user_id": None,
        "name": key.name,
        "hint": "",
        "enabled": key.enabled,
        "expires_at": None,
        "policy": policy,
        "budgets_usd": budgets_usd(policy.budgets),
        "created_at": None,
        "updated_at": None,
        "last_used_at": None,
    }


@endpoint("GET", "/api/keys", role="user", query=KeyQuery, answer=KeyPage)
async def list_keys(context: Context, given: Given[KeyQuery, None]) -> KeyPage:
    """Keys, a page at a time; those of the config file come first. A normal user sees their own."""
    asked = given.query
    owner = asked.user_id
    listed = [file_key_view(key) for key in _visible_file_keys(context)]
    if asked.after is not None or owner is not None:
        listed = []
    if asked.search is not None:
        part = asked.search.casefold()
        listed = [row for row in listed if part in row["name"].casefold()]
    if not context.is_admin:
        if owner not in (None, context.caller.user):
            raise Forbidden("a key of a user sees what is the user's own", code="not_your_own")
        owner = context.caller.user
        if owner is None:
            return KeyPage(data=[KeyView(**row) for row in listed], next=None)

    def work(connection: Connection) -> tuple[Key, ...]:
        return keys.page(
            connection, user_id=owner, search=asked.search, after=asked.after, limit=asked.limit
        )

    found = await context.read(work)
    more = found[-1].id if len(found) == asked.limit else None
    return KeyPage(data=[KeyView(**row) for row in (*listed, *map(key_view, found))], next=more)


@endpoint(
    "POST", "/api/keys", role="user", body=NewKey, answer=KeyWithSecret, status=201, refusals=(404,)
)
async def create_key(context: Context, given: Given[None, NewKey]) -> KeyWithSecret:
    """Make a key; the answer is the only one that shows it."""
    form = given.body
    owner = form.user_id
    if owner is None or not context.is_admin:
        owner = own_user(context)
        if form.user_id not in (None, owner):
            raise Forbidden("a key of a user makes keys of that user", code="not_your_own")

    def work(connection: Connection) -> tuple[Key, str]:
        check_may_change_keys(context, connection)
        return keys.create(
            connection,
            vault=context.vault,
            ids=context.ids,
            user_id=owner,
            name=form.name,
            policy=form.policy,
            enabled=form.enabled,
            expires_at=form.expires_at,
            actor=context.actor,
            now=context.now,
        )

    key, text = await context.write(work)
    return KeyWithSecret(**key_view(key), key=text)


@endpoint("GET", "/api/keys/{key_id}", role="user", answer=KeyDetail)
async def get_key(context: Context, given: Given[None, None]) -> KeyDetail:
    """One key, with what it has spent."""
    key_id = given.path["key_id"]
    if key_id.startswith(_OF_THE_FILE):
        view = file_key_view(_file_key(context, key_id))
        spend = await context.read(lambda connection: spend_of(connection, key_id, context.now))
        return KeyDetail(**view, spend=spend)

    def work(connection: Connection) -> tuple[Key, Spend]:
        key = own_key(context, key_id)(connection)
        return key, spend_of(connection, key_id, context.now)

    key, spend = await context.read(work)
    return KeyDetail(**key_view(key), spend=spend)


@endpoint(
    "PATCH", "/api/keys/{key_id}", role="user", body=KeyChange, answer=KeyView, refusals=(409,)
)
async def update_key(context: Context, given: Given[None, KeyChange]) -> KeyView:
    """Change a key; only what is named changes."""
    key_id = given.path["key_id"]
    _check_not_of_the_file(context, key_id)
    form: dict[str, Any] = msgspec.structs.asdict(given.body)
    if given.body.policy is not UNSET:
        form["policy"] = msgspec.to_builtins(given.body.policy)

    def work(connection: Connection) -> Key:
        own_key(context, key_id)(connection)
        check_may_change_keys(context, connection)
        return keys.update(connection, key_id, **form, actor=context.actor, now=context.now)

    return KeyView(**key_view(await context.write(work)))


@endpoint("POST", "/api/keys/{key_id}/rotate", role="user", answer=KeyWithSecret, refusals=(409,))
async def rotate_key(context: Context, given: Given[None, None]) -> KeyWithSecret:
    """Give a key a new secret under the same id; the old one ends at once."""
    key_id = given.path["key_id"]
    _check_not_of_the_file(context, key_id)

    def work(connection: Connection) -> tuple[Key, str]:
        own_key(context, key_id)(connection)
        check_may_change_keys(context, connection, key_id)
        return keys.rotate(
            connection,
            key_id,
            vault=context.vault,
            ids=context.ids,
            actor=context.actor,
            now=context.now,
        )

    key, text = await context.write(work)
    return KeyWithSecret(**key_view(key), key=text)


@endpoint("DELETE", "/api/keys/{key_id}", role="user", answer=Deleted, refusals=(409,))
async def delete_key(context: Context, given: Given[None, None]) -> Deleted:
    """Remove a key; it ends at once. The log keeps what it did."""
    key_id = given.path["key_id"]
    _check_not_of_the_file(context, key_id)

    def work(connection: Connection) -> None:
        own_key(context, key_id)(connection)
        check_may_change_keys(context, connection)
        keys.delete(connection, key_id, actor=context.actor, now=context.now)

    await context.write(work)
    return Deleted(id=key_id)


def _visible_file_keys(context: Context) -> list[KeySettings]:
    mine = context.caller.key
    return [
        key
        for key in context.state.settings.keys
        if context.is_admin or f"{_OF_THE_FILE}{key.name}" == mine
    ]


def _file_key(context: Context, key_id: str) -> KeySettings:
    for key in _visible_file_keys(context):
        if f"{_OF_THE_FILE}{key.name}" == key_id:
            return key
    raise NotFound(f"there is no key {key_id!r}")


def _check_not_of_the_file(context: Context, key_id: str) -> None:
    if key_id.startswith(_OF_THE_FILE):
        key = _file_key(context, key_id)
        raise Conflict(
            f"the key {key.name!r} stands in the config file: change it there", code="read_only"
        )


ENDPOINTS = (list_keys, create_key, get_key, update_key, rotate_key, delete_key)
