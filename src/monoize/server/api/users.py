"""Users: who owns keys, their roles and prepaid balances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection

from monoize.account import Role, User
from monoize.errors import NotFound
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body, Deleted, Nano, PageQuery, dollars
from monoize.store import users
from monoize.store.logs import usd

__all__ = ["ENDPOINTS", "UserView", "one_viewed", "viewed"]


Password = Annotated[str, Meta(description="10 characters to 1024 bytes; never shown again")]


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    username: str
    role: Role
    enabled: bool
    has_password: bool  # and can sign in with it
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
    password: Password | None = None  # to sign in with


class UserChange(Body, frozen=True, kw_only=True):
    """Only what is named changes. A balance is set, not added; null ends prepayment, and takes a password away."""

    username: str | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    balance: Nano | UnsetType | None = UNSET
    password: Password | UnsetType | None = UNSET


class Adjustment(Body, frozen=True, kw_only=True):
    delta: Nano  # is added; a negative one is taken away
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]


def _view(user: User, *, has_password: bool) -> UserView:
    return UserView(
        **msgspec.structs.asdict(user),
        has_password=has_password,
        balance_usd=dollars(user.balance),
        reserved_usd=usd(user.reserved),
    )


def viewed(connection: Connection, work: Callable[[Connection], Sequence[User]]) -> list[UserView]:
    """The users that `work` gives, with what only the store knows of them."""
    found = work(connection)
    passworded = users.who_have_passwords(connection, [user.id for user in found])
    return [_view(user, has_password=user.id in passworded) for user in found]


def one_viewed(connection: Connection, work: Callable[[Connection], User]) -> UserView:
    return viewed(connection, lambda same: [work(same)])[0]


@endpoint("GET", "/api/users", role="admin", query=PageQuery, answer=UserPage)
async def list_users(context: Context, given: Given[PageQuery, None]) -> UserPage:
    """Every user, a page at a time."""
    asked = given.query
    work = partial(users.page, after=asked.after, limit=asked.limit)
    found = await context.read(partial(viewed, work=work))
    more = found[-1].id if len(found) == asked.limit else None
    return UserPage(data=found, next=more)


@endpoint(
    "POST", "/api/users", role="admin", body=NewUser, answer=UserView, status=201, refusals=(409,)
)
async def create_user(context: Context, given: Given[None, NewUser]) -> UserView:
    """Make a user; one with a password can sign in."""
    form = msgspec.structs.asdict(given.body)
    password = form.pop("password")
    if password is not None:
        form["password_hash"] = await context.state.access.sessions.hashed(password)
    work = partial(users.create, ids=context.ids, actor=context.actor, now=context.now, **form)
    return await context.write(partial(one_viewed, work=work))


@endpoint("GET", "/api/users/{user_id}", role="user", answer=UserView)
async def get_user(context: Context, given: Given[None, None]) -> UserView:
    """One user; a key of a normal user sees its own."""
    user_id = given.path["user_id"]
    if not context.is_admin and user_id != context.caller.user:
        raise NotFound(f"there is no user {user_id!r}")
    return await context.read(partial(one_viewed, work=partial(users.get, user_id=user_id)))


@endpoint(
    "PATCH", "/api/users/{user_id}", role="admin", body=UserChange, answer=UserView, refusals=(409,)
)
async def update_user(context: Context, given: Given[None, UserChange]) -> UserView:
    """Change a user; only what is named changes. A new password ends what was begun with the old one."""
    form = msgspec.structs.asdict(given.body)
    password = form.pop("password")
    hashed: str | UnsetType | None = password
    if isinstance(password, str):
        hashed = await context.state.access.sessions.hashed(password)
    who: dict[str, Any] = {"actor": context.actor, "now": context.now}

    def work(connection: Connection) -> User:
        user = users.update(connection, given.path["user_id"], **form, **who)
        if hashed is UNSET:
            return user
        return users.set_password(connection, user.id, hashed, **who)

    return await context.write(partial(one_viewed, work=work))


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
    return await context.write(partial(one_viewed, work=work))


ENDPOINTS = (list_users, create_user, get_user, update_user, delete_user, adjust_balance)
