"""`monoize users`: who owns keys, and prepaid balances."""

from __future__ import annotations

import sys
from functools import partial
from getpass import getpass
from typing import Annotated, Any

from cyclopts import App, Parameter
from sqlalchemy import Connection

from monoize.account import Role, User
from monoize.cli._desk import (
    AsJson,
    Config,
    Desk,
    moment_text,
    nano,
    run,
    show,
    show_json,
    user_named,
)
from monoize.errors import InvalidRequest
from monoize.server.api.users import UserView, one_viewed, viewed
from monoize.server.session_passwords import Passwords
from monoize.store import users

__all__ = ["app"]

app = App(name="users", help="Users: who owns keys, their roles and prepaid balances.")

Username = Annotated[str, Parameter(help="name or id of the user")]
Balance = Annotated[
    str | None, Parameter(help="prepaid USD, such as 12.50; without one nothing is prepaid")
]

_PAGE = 1000


@app.command
def create(
    username: Annotated[str, Parameter(help="a name that nobody has yet")],
    *,
    role: Annotated[Role, Parameter(help="admins may use the whole management API")] = "user",
    balance: Balance = None,
    password: Annotated[
        bool, Parameter(help="ask for a password to sign in with; a pipe is read", negative="")
    ] = False,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Make a user; with --password one who can sign in to the console."""

    async def work(desk: Desk) -> None:
        made = partial(
            users.create,
            ids=desk.ids,
            username=username,
            role=role,
            balance=None if balance is None else nano(balance, "--balance"),
            password_hash=_asked_password() if password else None,
            **desk.change,
        )
        _show_one(await desk.write(partial(one_viewed, work=made)), as_json=as_json)

    return run(config, work)


@app.command(name="list")
def show_all(*, as_json: AsJson = False, config: Config = None) -> int:
    """List every user."""

    async def work(desk: Desk) -> None:
        found = await desk.read(partial(viewed, work=_everybody))
        if as_json:
            show_json({"data": found})
            return
        rows = [(u.username, u.role, u.enabled, u.has_password, u.balance_usd, u.id) for u in found]
        headings = ("user", "role", "enabled", "password", "USD left", "id")
        show(headings, rows, empty="There are no users yet.")

    return run(config, work)


@app.command(name="show")
def show_one(username: Username, *, as_json: AsJson = False, config: Config = None) -> int:
    """Show one user."""

    async def work(desk: Desk) -> None:
        named = partial(user_named, name=username)
        _show_one(await desk.read(partial(one_viewed, work=named)), as_json=as_json)

    return run(config, work)


@app.command
def update(
    username: Username,
    *,
    rename: Annotated[str | None, Parameter(help="the new name")] = None,
    role: Annotated[Role | None, Parameter(help="the new role")] = None,
    enabled: Annotated[bool | None, Parameter(help="whether the user's keys may be used")] = None,
    balance: Annotated[
        str | None, Parameter(help="set the prepaid USD to this; `none` ends prepayment")
    ] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Change a user; what is left out stays."""
    given: dict[str, Any] = {"username": rename, "role": role, "enabled": enabled}
    changes = {name: value for name, value in given.items() if value is not None}

    async def work(desk: Desk) -> None:
        if balance is not None:
            changes["balance"] = None if balance == "none" else nano(balance, "--balance")

        def updated(connection: Connection) -> User:
            user = user_named(connection, username)
            return users.update(connection, user.id, **changes, **desk.change)

        _show_one(await desk.write(partial(one_viewed, work=updated)), as_json=as_json)

    return run(config, work)


@app.command
def password(
    username: Username,
    *,
    remove: Annotated[bool, Parameter(help="take it away: no more sign-in", negative="")] = False,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Set a user's password: it is asked for, or read from a pipe. Whoever is signed in as this user is so no longer."""

    async def work(desk: Desk) -> None:
        hashed = None if remove else _asked_password()

        def changed(connection: Connection) -> User:
            user = user_named(connection, username)
            return users.set_password(connection, user.id, hashed, **desk.change)

        _show_one(await desk.write(partial(one_viewed, work=changed)), as_json=as_json)

    return run(config, work)


@app.command
def adjust(
    username: Username,
    amount: Annotated[
        str, Parameter(help="USD to add; a negative amount is taken", allow_leading_hyphen=True)
    ],
    *,
    reason: Annotated[str, Parameter(help="kept in the ledger")],
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Add to a prepaid balance, or take from it."""

    async def work(desk: Desk) -> None:
        delta = nano(amount, "the amount")

        def adjusted(connection: Connection) -> User:
            user = user_named(connection, username)
            return users.adjust(connection, user.id, delta, reason=reason, **desk.change)

        _show_one(await desk.write(partial(one_viewed, work=adjusted)), as_json=as_json)

    return run(config, work)


@app.command
def delete(username: Username, *, as_json: AsJson = False, config: Config = None) -> int:
    """Remove a user with all keys; the ledger and the log keep what was."""

    async def work(desk: Desk) -> None:
        def deleted(connection: Connection) -> User:
            user = user_named(connection, username)
            users.delete(connection, user.id, **desk.change)
            return user

        user = await desk.write(deleted)
        if as_json:
            show_json({"id": user.id, "deleted": True})
        else:
            print(f"The user {user.username} is gone, with all keys.")

    return run(config, work)


def _asked_password() -> str:
    """Never an argument: everybody on the machine can read those."""
    if sys.stdin.isatty():
        given = getpass("Password: ")
        if getpass("Once more: ") != given:
            raise InvalidRequest("the two passwords are not the same")
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    return Passwords().hashed_now(given)


def _everybody(connection: Connection) -> list[User]:
    found: list[User] = []
    while True:
        page = users.page(connection, after=found[-1].id if found else None, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            return found


def _show_one(user: UserView, *, as_json: bool) -> None:
    if as_json:
        show_json(user)
        return
    rows = [
        ("user", user.username),
        ("id", user.id),
        ("role", user.role),
        ("enabled", user.enabled),
        ("password", user.has_password),
        ("USD left", "not prepaid" if user.balance_usd is None else user.balance_usd),
        ("USD reserved", user.reserved_usd),
        ("made", moment_text(user.created_at)),
        ("changed", moment_text(user.updated_at)),
    ]
    show(("", ""), rows, empty="")
