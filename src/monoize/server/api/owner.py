"""What is somebody's own: the data of their user, or of their key where the config file made it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from sqlalchemy import Connection

from monoize.account import Key, KeyPolicy
from monoize.errors import Forbidden, NotFound
from monoize.server.api.endpoint import Context
from monoize.server.session_keeper import CONSOLE
from monoize.store import keys
from monoize.store.log_filter import LogFilter

__all__ = ["check_may_change_keys", "own_key", "own_rows", "own_user", "owns_row"]


def own_user(context: Context) -> str:
    """The id of the caller's user in the database."""
    if context.caller.user is None:
        raise Forbidden(
            "there is no user in the database behind this call: name the user_id, or use a key of that user",
            code="no_user",
        )
    return context.caller.user


def own_key(context: Context, key_id: str) -> Callable[[Connection], Key]:
    """A key that the caller may see; somebody else's looks like one that does not exist."""

    def found(connection: Connection) -> Key:
        key = keys.get(connection, key_id)
        if not context.is_admin and key.user_id != context.caller.user:
            raise NotFound(f"there is no key {key_id!r}")
        return key

    return found


def check_may_change_keys(
    context: Context, connection: Connection, key_id: str | None = None
) -> None:
    """A key must not hand out more than it has: one with limits changes nothing but itself.

    `key_id`: the key whose secret is renewed; everybody may renew their own.
    """
    caller = context.caller
    if context.is_admin or (key_id is not None and key_id == caller.key):
        return
    if caller.key is not None and caller.key.startswith(CONSOLE):
        return  # signed in by themselves: whatever the user may do
    own = keys.get(connection, caller.key or "")
    if own.policy != KeyPolicy() or own.expires_at is not None:
        raise Forbidden(
            "this key has limits of its own, so it may not make or change keys; use one without, or ask an admin",
            code="key_is_limited",
        )


def own_rows(context: Context, wanted: LogFilter) -> LogFilter:
    """The filter, narrowed to what the caller may see."""
    if context.is_admin:
        return wanted
    caller = context.caller
    if caller.user is not None:
        return msgspec.structs.replace(wanted, user_id=_same(wanted.user_id, caller.user))
    return msgspec.structs.replace(wanted, key_id=_same(wanted.key_id, caller.key or ""))


def owns_row(context: Context, user_id: str | None, key_id: str | None) -> bool:
    caller = context.caller
    if context.is_admin:
        return True
    return user_id == caller.user if caller.user is not None else key_id == caller.key


def _same(asked: str | None, own: str) -> str:
    if asked is not None and asked != own:
        raise Forbidden("a key of a user sees what is the user's own", code="not_your_own")
    return own
