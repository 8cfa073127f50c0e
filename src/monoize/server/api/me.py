"""Who the caller is: its key, its user, and what is left of both."""

from __future__ import annotations

from functools import partial

import msgspec

from monoize.account import KeyPolicy, Role
from monoize.pipeline.call import Answer
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.owner import own_user
from monoize.server.api.session import answer_of
from monoize.server.api.shapes import Body, BudgetsUsd, Spend, budgets_usd, spend_of
from monoize.server.api.users import UserView, one_viewed
from monoize.server.sessions import SessionView, change_password
from monoize.store import users

__all__ = ["ENDPOINTS"]


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """`user` is null for a key of the config file, everything but the role for a gateway without keys.

    Whoever signed in without a key has a `key_id` that begins with `console:`; no key of that id can be shown or used.
    """

    role: Role
    key_id: str | None
    key_name: str | None
    username: str | None
    user: UserView | None
    policy: KeyPolicy
    budgets_usd: BudgetsUsd
    spend: Spend | None


class NewPassword(Body, frozen=True, kw_only=True):
    current: str
    new: str  # 10 characters to 1024 bytes


@endpoint("GET", "/api/me", role="user", answer=Me)
async def show_me(context: Context, given: Given[None, None]) -> Me:
    """The key of this call, its user, its limits, and what it has spent."""
    del given
    caller, user, spend = context.caller, None, None
    has_store = context.state.lasting.database is not None
    if has_store and caller.user is not None:
        user = await context.read(partial(one_viewed, work=partial(users.get, user_id=caller.user)))
    if has_store and caller.key is not None:
        spend = await context.read(partial(spend_of, key_id=caller.key, now=context.now))
    return Me(
        role=caller.role,
        key_id=caller.key,
        key_name=caller.key_name,
        username=caller.username,
        user=user,
        policy=caller.policy,
        budgets_usd=budgets_usd(caller.policy.budgets),
        spend=spend,
    )


@endpoint(
    "PUT",
    "/api/me/password",
    role="user",
    body=NewPassword,
    answer=SessionView,
    refusals=(429,),
)
async def set_own_password(context: Context, given: Given[None, NewPassword]) -> Answer:
    """Change one's own password. Every session of the user ends, and the answer begins a new one."""
    form = given.body
    user = await context.read(partial(users.get, user_id=own_user(context)))
    arrival = await change_password(
        context.request, context.state, user, form.current, form.new, context.now
    )
    return answer_of(arrival)


ENDPOINTS = (show_me, set_own_password)
