"""Signing in and out: who looks at a page, how they may prove who they are, and the cookie that remembers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from sqlalchemy import Connection

from monoize.account import Role, User
from monoize.errors import Forbidden, NotFound, Unauthorized
from monoize.pipeline.call import Caller
from monoize.server import session_tokens as tokens
from monoize.server.access import OF_THE_FILE, Access
from monoize.server.http import HttpRequest
from monoize.server.session_keeper import Held, Lobby, Sessions, Visit
from monoize.store import users
from monoize.store.sessions import How, stamp_of
from monoize.store.vault import parse_key

if TYPE_CHECKING:
    from monoize.server.state import State

__all__ = ["Arrival", "Lobby", "SessionView", "Sessions", "arrive", "change_password", "look", "sign_in", "sign_in_by_itself", "sign_out"]  # fmt: skip

Way = Literal["local", "password", "key", "proxy"]

_NOTICE = (
    "There are no users yet, so whoever sits at this machine is an admin here. To have people sign in, make the "
    "first one: monoize users create NAME --role admin --password"
)


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who is signed in, and how one can be."""

    signed_in: bool = False
    how: How | None = None
    username: str | None = None
    user_id: str | None = None
    role: Role | None = None
    csrf: str | None = None  # goes into the header x-monoize-csrf of every call but GET
    ways: tuple[Way, ...] = ()  # that can work for this caller now
    notice: str | None = None  # for people


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """`cookie` is the value of a Set-Cookie header for the answer; None: it needs none."""

    view: SessionView
    cookie: str | None = None


async def arrive(request: HttpRequest, state: State) -> Arrival:
    """Somebody opens a page: as who they are; at the machine itself, or by a proxy's word, they are signed in by it."""
    access, visit = state.access, _visit(request)
    found = await access.held(visit)
    if found is None and request.headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
        # Behind a link from elsewhere the browser keeps the cookie to itself: the page asks again, by itself.
        begun = await sign_in_by_itself(request, state)
        if begun is not None:
            return begun
    return Arrival(view=await _view(access, visit, found))


async def look(request: HttpRequest, state: State) -> SessionView:
    visit = _visit(request)
    return await _view(state.access, visit, await state.access.held(visit))


async def sign_in(
    request: HttpRequest, state: State, username: str | None, password: str | None, key: str | None
) -> Arrival:
    """By a name and a password, or by a key."""
    access, visit = state.access, _visit(request)
    if key is not None:
        return await _by_key(access, visit, key, state)
    if username is not None and password is not None:
        user, stamp = await access.sessions.user_by_password(username, password, visit)
        return await _by_password(access, visit, user, stamp)
    begun = await sign_in_by_itself(request, state)
    if begun is None:
        raise Forbidden("send a username and a password, or a key", code="no_sign_in")
    return begun


async def sign_in_by_itself(request: HttpRequest, state: State) -> Arrival | None:
    """By a trusted proxy's word, or by being at the machine; None: neither holds here."""
    access, visit = state.access, _visit(request)
    user = await access.sessions.user_of_proxy(visit)
    if user is not None:
        actor = f"{user.username} (proxy)"
        cookie = await access.sessions.begin("proxy", user.id, visit, actor=actor)
        return await _begun(access, visit, cookie)
    if await access.sessions.local_is_possible(visit, is_open=access.is_open):
        return await _begun(access, visit, await access.sessions.begin("local", "", visit))
    return None


async def sign_out(request: HttpRequest, state: State) -> Arrival:
    access, visit = state.access, _visit(request)
    found = await access.held(visit)
    if found is not None:
        if not tokens.shows(visit.headers, found[0].token):
            raise Forbidden(f"the header {tokens.CSRF_HEADER} is due", code="csrf_needed")
        await access.sessions.end(found[0])
    return Arrival(view=await _view(access, visit, None), cookie=tokens.emptied(visit.headers))


async def change_password(
    request: HttpRequest, state: State, user: User, current: str, new: str, now: int
) -> Arrival:
    """One's own. Every session of the user ends; whoever changed it has a new one."""
    access, visit, database = state.access, _visit(request), state.lasting.database
    try:
        proven, stamp = await access.sessions.user_by_password(user.username, current, visit)
    except Unauthorized:  # 401 would mean that nobody is signed in
        raise Forbidden("the current password is not right", param="current") from None
    hashed = await access.sessions.hashed(new)
    if database is None or proven.id != user.id:  # renamed this very moment
        raise NotFound("this user is gone")

    def work(connection: Connection) -> None:
        """Not over one that was set meanwhile: whoever knew the old one may be a thief who is being locked out."""
        users.get(connection, user.id, lock=True)
        known = users.with_password(connection, user.id)
        if known is None or stamp_of(known[1] or "") != stamp:
            raise Forbidden("the current password is not right any more", param="current")
        users.set_password(connection, user.id, hashed, actor=user.username, now=now)

    await database.write(work)
    return await _by_password(access, visit, user, stamp_of(hashed))


# --- ways in ---


async def _by_password(access: Access, visit: Visit, user: User, stamp: str) -> Arrival:
    cookie = await access.sessions.begin(
        "password", user.id, visit, stamp=stamp, actor=user.username
    )
    return await _begun(access, visit, cookie)


async def _by_key(access: Access, visit: Visit, key: str, state: State) -> Arrival:
    access.sessions.slow_down_keys(visit)
    caller = await access.caller_by_secret(key, visit.address)
    access.sessions.key_was_good(visit)
    key_id, shown = caller.key or "", key.encode()
    parsed, vault = parse_key(key), state.lasting.vault
    if not key_id.startswith(OF_THE_FILE) and parsed is not None and vault is not None:
        # Of what was shown, not of what is stored by now: a key that was just rotated begins nothing.
        shown = vault.digest(parsed[1])
    actor = f"{caller.username or caller.key_name} ({key_id})"
    cookie = await access.sessions.begin("key", key_id, visit, stamp=stamp_of(shown), actor=actor)
    return await _begun(access, visit, cookie)


async def _begun(access: Access, visit: Visit, cookie: str) -> Arrival:
    """Looked at as the next request will be: what does not hold then is not said now."""
    headers = {**visit.headers, "cookie": cookie.partition(";")[0]}
    found = await access.held(msgspec.structs.replace(visit, headers=headers))
    if found is None:
        raise Unauthorized("it ended while you signed in", code="sign_in_failed")
    return Arrival(view=await _view(access, visit, found), cookie=cookie)


# --- what is said ---


def _visit(request: HttpRequest) -> Visit:
    return Visit(headers=request.headers, address=request.address, peer=request.peer)


async def _view(access: Access, visit: Visit, found: tuple[Held, Caller] | None) -> SessionView:
    ways = await _ways(access, visit)
    if found is None:
        return SessionView(ways=ways)
    held, caller = found
    how = held.session.how
    return SessionView(
        signed_in=True,
        how=how,
        username=caller.username,
        user_id=caller.user,
        role=caller.role,
        csrf=held.csrf,
        ways=ways,
        notice=_NOTICE if how == "local" else None,
    )


async def _ways(access: Access, visit: Visit) -> tuple[Way, ...]:
    sessions = access.sessions
    possible: dict[Way, bool] = {
        "local": await sessions.local_is_possible(visit, is_open=access.is_open),
        "proxy": await sessions.user_of_proxy(visit) is not None,
        "password": await sessions.any_password(),
        "key": not access.is_open,
    }
    return tuple(way for way, works in possible.items() if works)
