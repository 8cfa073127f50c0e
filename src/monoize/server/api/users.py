"""Users: who owns keys, their roles and prepaid balances."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from monoize.account import Role, User
from monoize.errors import NotFound
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body, Deleted, Nano, PageQuery, dollars
from monoize.store import users
from monoize.store.logs import usd

__all__ = ["ENDPOINTS", "UserView", "user_view"]


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    username: str
    role: Role
    enabled: bool
    balance: int | None  # nano-USD left of a prepaid account; null: not prepaid
    balance_usd: str | None
    reserved: int  # of it, by requests under way
    reserved_usd: str
    created_at: int  # milliseconds since the epoch
    updated_at: int


class UserPage(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[UserView]
    next: str | None  # goes into `after` of the next page; null: there are no more


class NewUser(Body, frozen=True, kw_only=True):
    username: str
    role: Role = "user"
    enabled: bool = True
    balance: Nano | None = None  # makes a prepaid account


class UserChange(Body, frozen=True, kw_only=True):
    """Only what is named changes. A balance is set, not added; null ends prepayment."""

    username: str | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    balance: Nano | UnsetType | None = UNSET


class Adjustment(Body, frozen=True, kw_only=True):
    delta: Nano  # is added; a negative one is taken away
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]


def user_view(user: User) -> UserView:
    return UserView(
        **msgspec.structs.asdict(user),
        balance_usd=dollars(user.balance),
        reserved_usd=usd(user.reserved),
    )


@endpoint("GET", "/api/users", role="admin", query=PageQuery, answer=UserPage)
async def list_users(context: Context, given: Given[PageQuery, None]) -> UserPage:
    """Every user, a page at a time."""
    asked = given.query
    found = await context.read(partial(users.page, after=asked.after, limit=asked.limit))
    more = found[-1].id if len(found) == asked.limit else None
    return UserPage(data=[user_view(user) for user in found], next=more)


@endpoint(
    "POST", "/api/users", role="admin", body=NewUser, answer=UserView, status=201, refusals=(409,)
)
async def create_user(context: Context, given: Given[None, NewUser]) -> UserView:
    """Make a user."""
    form = msgspec.structs.asdict(given.body)
    work = partial(users.create, ids=context.ids, actor=context.actor, now=context.now, **form)
    return user_view(await context.write(work))


@endpoint("GET", "/api/users/{user_id}", role="user", answer=UserView)
async def get_user(context: Context, given: Given[None, None]) -> UserView:
    """One user; a key of a normal user sees its own."""
    user_id = given.path["user_id"]
    if not context.is_admin and user_id != context.caller.user:
        raise NotFound(f"there is no user {user_id!r}")
    return user_view(await context.read(partial(users.get, user_id=user_id)))


@endpoint(
    "PATCH", "/api/users/{user_id}", role="admin", body=UserChange, answer=UserView, refusals=(409,)
)
async def update_user(context: Context, given: Given[None, UserChange]) -> UserView:
    """Change a user; only what is named changes."""
    work = partial(
        users.update,
        user_id=given.path["user_id"],
        actor=context.actor,
        now=context.now,
        **msgspec.structs.asdict(given.body),
    )
    return user_view(await context.write(work))


@endpoint("DELETE", "/api/users/{user_id}", role="admin", answer=Deleted)
async def delete_user(context: Context, given: Given[None, None]) -> Deleted:
    """Remove a user with all keys; the ledger and the log keep what was."""
    user_id = given.path["user_id"]
    await context.write(
        partial(users.delete, user_id=user_id, actor=context.actor, now=context.now)
    )
    return Deleted(id=user_id)


@endpoint(
    "POST",
    "/api/users/{user_id}/balance",
    role="admin",
    body=Adjustment,
    answer=UserView,
    refusals=(409,),
)
async def adjust_balance(context: Context, given: Given[None, Adjustment]) -> UserView:
    """Add to a prepaid balance, or take from it; the reason is kept in the ledger."""
    work = partial(
        users.adjust,
        user_id=given.path["user_id"],
        delta=given.body.delta,
        actor=context.actor,
        now=context.now,
        reason=given.body.reason,
    )
    return user_view(await context.write(work))


ENDPOINTS = (list_users, create_user, get_user, update_user, delete_user, adjust_balance)
