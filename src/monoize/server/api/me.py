"""Who the caller is: its key, its user, and what is left of both."""

from __future__ import annotations

from functools import partial

import msgspec

from monoize.account import KeyPolicy, Role
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import BudgetsUsd, Spend, budgets_usd, spend_of
from monoize.server.api.users import UserView, user_view
from monoize.store import users

__all__ = ["ENDPOINTS"]


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """`user` is null for a key of the config file, everything but the role for a gateway without keys."""

    role: Role
    key_id: str | None
    key_name: str | None
    username: str | None
    user: UserView | None
    policy: KeyPolicy
    budgets_usd: BudgetsUsd
    spend: Spend | None


@endpoint("GET", "/api/me", role="user", answer=Me)
async def show_me(context: Context, given: Given[None, None]) -> Me:
    """The key of this call, its user, its limits, and what it has spent."""
    del given
    caller, user, spend = context.caller, None, None
    has_store = context.state.lasting.database is not None
    if has_store and caller.user is not None:
        user = user_view(await context.read(partial(users.get, user_id=caller.user)))
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


ENDPOINTS = (show_me,)
