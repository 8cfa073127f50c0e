"""`monoize keys`: API keys and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter
from sqlalchemy import Connection

from monoize.account import Key
from monoize.cli._desk import (
    AsJson,
    Config,
    Desk,
    moment,
    moment_text,
    nano,
    run,
    show,
    show_json,
    user_named,
)
from monoize.errors import Conflict
from monoize.server.api.keys import KeyDetail, KeyView, KeyWithSecret, file_key_view, key_view
from monoize.server.api.shapes import Spend, spend_of
from monoize.store import keys

__all__ = ["app"]

app = App(
    name="keys", help="API keys: made, limited, rotated and revoked. The secret is shown once."
)

KeyId = Annotated[str, Parameter(help="id of the key, as `keys list` shows it")]
Limit = Literal[
    "models",
    "addresses",
    "requests-per-minute",
    "tokens-per-minute",
    "budgets",
    "max-multiplier",
    "expires",
]

_PAGE = 1000
_OF_THE_FILE = "file:"


@Parameter(name="*")
@dataclass(frozen=True)
class Limits:
    """What a key may do; what is left out is not limited, or stays as it was."""

    model: Annotated[
        tuple[str, ...] | None,
        Parameter(help="a model that it may use, such as gpt-*; may be repeated", negative=""),
    ] = None
    address: Annotated[
        tuple[str, ...] | None,
        Parameter(
            help="an address or range that it may come from, such as 10.0.0.0/8; may be repeated",
            negative="",
        ),
    ] = None
    requests_per_minute: Annotated[int | None, Parameter(help="calls a minute")] = None
    tokens_per_minute: Annotated[int | None, Parameter(help="tokens a minute")] = None
    budget_day: Annotated[str | None, Parameter(help="USD a day (UTC)")] = None
    budget_month: Annotated[str | None, Parameter(help="USD a month (UTC)")] = None
    budget_total: Annotated[str | None, Parameter(help="USD altogether")] = None
    max_multiplier: Annotated[
        str | None, Parameter(help="the dearest price factor, such as 1.5")
    ] = None
    capture: Annotated[
        Literal["off", "all", "abnormal"] | None, Parameter(help="whose bodies are kept, redacted")
    ] = None

    def policy(self) -> dict[str, Any]:
        given = {
            "models": self.model,
            "addresses": self.address,
            "requests_per_minute": self.requests_per_minute,
            "tokens_per_minute": self.tokens_per_minute,
            "max_multiplier": self.max_multiplier,
            "capture": self.capture,
        }
        policy = {name: value for name, value in given.items() if value is not None}
        windows = {"day": self.budget_day, "month": self.budget_month, "total": self.budget_total}
        budgets = {
            name: nano(usd, f"--budget-{name}") for name, usd in windows.items() if usd is not None
        }
        return {**policy, "budgets": budgets} if budgets else policy


NO_LIMITS = Limits()


@app.command
def create(
    name: Annotated[str, Parameter(help="what it is for")],
    *,
    user: Annotated[str, Parameter(help="name or id of the user whose key it is")],
    expires: Annotated[str | None, Parameter(help="a date, or a span such as 90d")] = None,
    limits: Limits = NO_LIMITS,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Make a key and show it, this once."""

    async def work(desk: Desk) -> None:
        policy = limits.policy()
        end = None if expires is None else moment(expires, desk.now, "--expires", ahead=True)

        def made(connection: Connection) -> tuple[Key, str]:
            return keys.create(
                connection,
                vault=desk.vault,
                ids=desk.ids,
                user_id=user_named(connection, user).id,
                name=name,
                policy=policy,
                expires_at=end,
                **desk.change,
            )

        _show_secret(*await desk.write(made), as_json=as_json)

    return run(config, work)


@app.command(name="list")
def show_all(
    *,
    user: Annotated[str | None, Parameter(help="only the keys of this user")] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """List keys: those of the config file, then those of the database."""

    async def work(desk: Desk) -> None:
        def found(connection: Connection) -> list[Key]:
            owner = None if user is None else user_named(connection, user).id
            return _everything(connection, owner)

        own = [] if user is not None else [file_key_view(key) for key in desk.settings.keys]
        views = [KeyView(**row) for row in (*own, *map(key_view, await desk.read(found)))]
        if as_json:
            show_json({"data": views})
            return
        rows = [
            (
                v.id,
                v.name,
                v.source,
                v.enabled,
                _limits(v),
                moment_text(v.expires_at),
                moment_text(v.last_used_at),
            )
            for v in views
        ]
        headings = ("id", "name", "source", "enabled", "limits", "expires", "last used (UTC)")
        show(headings, rows, empty="There are no keys yet.")

    return run(config, work)


@app.command(name="show")
def show_one(key: KeyId, *, as_json: AsJson = False, config: Config = None) -> int:
    """Show one key, its limits and what it has spent; never its secret."""

    async def work(desk: Desk) -> None:
        def found(connection: Connection) -> tuple[Mapping[str, Any], Spend]:
            named = {f"{_OF_THE_FILE}{k.name}": k for k in desk.settings.keys}
            view = (
                file_key_view(named[key]) if key in named else key_view(keys.get(connection, key))
            )
            return view, spend_of(connection, key, desk.now)

        view, spend = await desk.read(found)
        _show_one(KeyDetail(**view, spend=spend), as_json=as_json)

    return run(config, work)


@app.command
def update(  # noqa: PLR0913 - a key has that many properties
    key: KeyId,
    *,
    name: Annotated[str | None, Parameter(help="what it is for")] = None,
    enabled: Annotated[bool | None, Parameter(help="whether it may be used")] = None,
    expires: Annotated[str | None, Parameter(help="a date, or a span such as 90d")] = None,
    limits: Limits = NO_LIMITS,
    clear: Annotated[
        tuple[Limit, ...],
        Parameter(help="take this limit away; may be repeated", negative="", show_default=False),
    ] = (),
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Change a key; what is left out stays."""

    async def work(desk: Desk) -> None:
        _check_not_of_the_file(key)
        policy = {**_cleared(clear), **limits.policy()}
        changes: dict[str, Any] = {"policy": policy} if policy else {}
        if name is not None:
            changes["name"] = name
        if enabled is not None:
            changes["enabled"] = enabled
        if expires is not None:
            changes["expires_at"] = moment(expires, desk.now, "--expires", ahead=True)
        elif "expires" in clear:
            changes["expires_at"] = None
        updated = partial(keys.update, key_id=key, **changes, **desk.change)
        view = key_view(await desk.write(updated))
        spend = await desk.read(partial(spend_of, key_id=key, now=desk.now))
        _show_one(KeyDetail(**view, spend=spend), as_json=as_json)

    return run(config, work)


@app.command
def rotate(key: KeyId, *, as_json: AsJson = False, config: Config = None) -> int:
    """Give a key a new secret and show it, this once; the old one ends."""

    async def work(desk: Desk) -> None:
        _check_not_of_the_file(key)
        rotated = partial(keys.rotate, key_id=key, vault=desk.vault, ids=desk.ids, **desk.change)
        _show_secret(*await desk.write(rotated), as_json=as_json)

    return run(config, work)


@app.command
def revoke(key: KeyId, *, as_json: AsJson = False, config: Config = None) -> int:
    """Remove a key; the log keeps what it did."""

    async def work(desk: Desk) -> None:
        _check_not_of_the_file(key)
        await desk.write(partial(keys.delete, key_id=key, **desk.change))
        if as_json:
            show_json({"id": key, "deleted": True})
        else:
            print(f"The key {key} is gone.")

    return run(config, work)


def _everything(connection: Connection, owner: str | None) -> list[Key]:
    found: list[Key] = []
    while True:
        after = found[-1].id if found else None
        page = keys.page(connection, user_id=owner, after=after, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            return found


def _check_not_of_the_file(key: str) -> None:
    if key.startswith(_OF_THE_FILE):
        raise Conflict(
            f"the key {key.removeprefix(_OF_THE_FILE)!r} stands in the config file: change it there"
        )


def _cleared(limits: tuple[Limit, ...]) -> dict[str, Any]:
    policy: dict[str, Any] = {}
    for limit in limits:
        if limit == "budgets":
            policy["budgets"] = {"day": None, "month": None, "total": None}
        elif limit != "expires":
            policy[limit.replace("-", "_")] = None
    return policy


def _limits(key: KeyView) -> str:
    policy, usd = key.policy, key.budgets_usd
    said = [
        ",".join(policy.models) if policy.models is not None else "",
        "from " + ",".join(policy.addresses) if policy.addresses is not None else "",
        f"{policy.requests_per_minute} calls/min" if policy.requests_per_minute else "",
        f"{policy.tokens_per_minute} tokens/min" if policy.tokens_per_minute else "",
        *(
            f"{amount} USD/{name}"
            for name, amount in msgspec.structs.asdict(usd).items()
            if amount is not None
        ),
        f"multiplier up to {policy.max_multiplier}" if policy.max_multiplier else "",
        f"{len(policy.transforms)} rules" if policy.transforms else "",
        f"captures {policy.capture}" if policy.capture != "off" else "",
    ]
    return "; ".join(word for word in said if word) or "none"


def _show_secret(key: Key, text: str, *, as_json: bool) -> None:
    if as_json:
        show_json(KeyWithSecret(**key_view(key), key=text))
        return
    print(text)
    print(f"The key {key.name!r} has the id {key.id}. Keep it now: it cannot be shown again.")


def _show_one(key: KeyDetail, *, as_json: bool) -> None:
    if as_json:
        show_json(key)
        return
    rows = [
        ("id", key.id),
        ("name", key.name),
        ("source", key.source),
        ("user", key.user_id),
        ("enabled", key.enabled),
        ("limits", _limits(key)),
        ("expires", moment_text(key.expires_at)),
        ("last used (UTC)", moment_text(key.last_used_at)),
        ("USD spent today", key.spend.day.spent_usd),
        ("USD this month", key.spend.month.spent_usd),
        ("USD altogether", key.spend.total.spent_usd),
    ]
    show(("", ""), rows, empty="")
