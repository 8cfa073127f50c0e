"""Sessions: how long they hold, for whom they stand, and how guessing gets slower."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import Any

import msgspec
import pytest
from argon2 import PasswordHasher
from sqlalchemy import func, select

from fakes.ledger import MemoryDatabase, VirtualClock
from monoize.clock import RandomIds
from monoize.errors import ConfigError, Forbidden, InvalidRequest, RateLimited, Unauthorized
from monoize.pipeline.call import NOBODY
from monoize.server import session_passwords, session_tokens
from monoize.server.access import WEBSOCKET, Access
from monoize.server.keyring import Keyring
from monoize.server.session_keeper import LOCAL, Lobby, Sessions, Visit
from monoize.server.session_passwords import Passwords
from monoize.server.session_throttle import KEPT, Throttle, address_key, user_key
from monoize.settings import KeySettings, ServerSettings, parse
from monoize.settings.server import ConsoleSettings
from monoize.store import keys, sessions, tables, users
from monoize.store.sessions import MOST
from monoize.store.vault import Vault

BY = {"actor": "root", "now": 1000}
VAULT = Vault(b"the secret of the program")
CHEAP = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
GOOD = "correct horse battery"
OWN = KeySettings(name="dev", key="sk-0123456789", role="admin")
HERE = {"host": "localhost:8080"}


class Place:
    """A gateway's access on a store in memory, and a browser that keeps its cookie."""

    def __init__(self, *, file_keys=(OWN,), has_keys=False, database=True, **server: Any) -> None:
        self.clock = VirtualClock()
        self.lobby = Lobby(CHEAP)
        self.database = MemoryDatabase() if database else None
        ring = self.database and Keyring(self.database, VAULT, self.clock, grace_seconds=300)
        server.setdefault("console", ConsoleSettings(local=True))
        self.settings = ServerSettings(**server)
        self.keeper = Sessions(self.settings, self.lobby, self.clock, self.database)
        self.access = Access(
            self.settings, file_keys, keyring=ring, has_keys=has_keys, sessions=self.keeper
        )

    async def user(self, name: str = "ada", *, password: str | None = GOOD, **more: Any):
        hashed = None if password is None else CHEAP.hashed_now(password)
        make = partial(users.create, ids=RandomIds(), username=name, password_hash=hashed, **BY)
        return await self.database.write(partial(make, **more))

    def visit(self, cookie: str | None = None, *, peer: str | None = "127.0.0.1", **headers: str):
        said = {**HERE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if cookie is not None:
            said["cookie"] = cookie.partition(";")[0]
        return Visit(headers=said, address=peer, peer=peer)

    async def caller(self, visit: Visit, method: str = "GET"):
        return await self.access.caller_of(visit.headers, visit.address, method, visit.peer)

    async def by_password(self, name: str = "ada", password: str = GOOD) -> str:
        user, stamp = await self.keeper.user_by_password(name, password, self.visit())
        return await self.keeper.begin("password", user.id, self.visit(), stamp=stamp)

    async def count(self) -> int:
        return await self.database.read(
            lambda c: c.scalar(select(func.count()).select_from(tables.sessions))
        )


def token_of(cookie: str) -> str:
    return cookie.partition(";")[0].partition("=")[2]


# --- tokens ---


def test_a_token_is_new_each_time_and_its_csrf_does_not_tell_it():
    made = {session_tokens.new_token() for _ in range(100)}
    assert len(made) == 100
    token = made.pop()
    assert len(token) == 43
    csrf = session_tokens.csrf_of(token)
    assert csrf == session_tokens.csrf_of(token)
    assert csrf != token
    assert session_tokens.shows({"x-monoize-csrf": csrf}, token)
    for wrong in ("", csrf[:-1], csrf + "x", token, "é" * 43):
        assert not session_tokens.shows({"x-monoize-csrf": wrong}, token)


@pytest.mark.parametrize(
    ("host", "name", "is_secure"),
    [
        ("localhost:8080", "monoize_session_8080", False),
        ("127.0.0.1", "monoize_session_80", False),
        ("[::1]:9000", "monoize_session_9000", False),
        ("gw.example", "__Host-monoize_session", True),
        ("gw.example:8443", "__Host-monoize_session", True),
    ],
)
def test_the_cookie_is_for_the_browser_alone(host, name, is_secure):
    said = session_tokens.cookie({"host": host}, "t" * 43, 60)
    assert said.startswith(f"{name}={'t' * 43}; ")
    parts = said.split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=60"} <= set(parts)
    assert ("Secure" in parts) is is_secure
    assert session_tokens.token_in({"host": host, "cookie": f"a=b; {name}={'t' * 43}"}) == "t" * 43


def test_two_cookies_of_our_name_are_none():
    name, one, two = "monoize_session_8080", "a" * 43, "b" * 43
    assert session_tokens.token_in({**HERE, "cookie": f"{name}={one}; {name}={two}"}) is None
    assert session_tokens.token_in({**HERE, "cookie": f"{name}=' OR 1=1"}) is None
    assert session_tokens.token_in({**HERE, "cookie": f"monoize_session_9090={one}"}) is None


# --- for whom a session stands ---


async def test_a_password_stands_for_its_user():
    place = Place()
    user = await place.user(role="user", balance=5)
    cookie = await place.by_password()
    caller = await place.caller(place.visit(cookie))
    assert (caller.user, caller.username, caller.role) == (user.id, "ada", "user")
    assert caller.prepaid
    assert caller.key == f"console:{user.id}"
    assert await place.access.caller_by_id(caller.key) == caller


async def test_the_store_holds_no_token():
    place = Place()
    await place.user()
    token = token_of(await place.by_password())
    row = await place.database.read(lambda c: c.execute(select(tables.sessions)).one())
    assert token not in str(tuple(row))
    assert session_tokens.csrf_of(token) not in str(tuple(row))


async def test_a_key_header_is_stronger_than_the_cookie():
    place = Place()
    await place.user()
    visit = place.visit(await place.by_password(), x_api_key=OWN.key)
    assert (await place.caller(visit, "POST")).key == "file:dev"
    wrong = place.visit(await place.by_password(), x_api_key="sk-wrong-0123456789")
    with pytest.raises(Unauthorized):
        await place.caller(wrong)


@pytest.mark.parametrize("change", ["delete", "disable", "password", "none"])
async def test_a_session_ends_with_what_it_stands_on(change):
    place = Place()
    user = await place.user()
    cookie = await place.by_password()
    await place.caller(place.visit(cookie))
    match change:
        case "delete":
            work = partial(users.delete, user_id=user.id, **BY)
        case "disable":
            work = partial(users.update, user_id=user.id, enabled=False, **BY)
        case "password":
            # As if a process that knows nothing of sessions had done it.
            other = tables.users.update().values(password_hash=CHEAP.hashed_now("another " + GOOD))
            work = lambda c: c.execute(other)  # noqa: E731
        case _:
            work = partial(users.set_password, user_id=user.id, password_hash=None, **BY)
    await place.database.write(work)
    with pytest.raises(Unauthorized):
        await place.caller(place.visit(cookie))
    if change != "password" and change != "none":
        with pytest.raises(Unauthorized):
            await place.access.caller_by_id(f"console:{user.id}")


async def test_a_new_role_holds_at_once():
    place = Place()
    user = await place.user(role="admin")
    cookie = await place.by_password()
    assert (await place.caller(place.visit(cookie))).role == "admin"
    await place.database.write(partial(users.update, user_id=user.id, role="user", **BY))
    assert (await place.caller(place.visit(cookie))).role == "user"


async def test_a_session_ends_when_it_is_old_or_idle():
    place = Place(console=ConsoleSettings(session_seconds=3000, idle_seconds=1000))
    await place.user()
    cookie = await place.by_password()
    for _ in range(3):
        place.clock.advance(900)
        await place.caller(place.visit(cookie))  # in use: not idle
    place.clock.advance(299)
    await place.caller(place.visit(cookie))
    place.clock.advance(1)
    with pytest.raises(Unauthorized):
        await place.caller(place.visit(cookie))
    idle = await place.by_password()
    place.clock.advance(1000)
    with pytest.raises(Unauthorized):
        await place.caller(place.visit(idle))


async def test_sign_in_gives_a_token_of_its_own_and_ends_the_one_before():
    place = Place()
    user = await place.user()
    planted = await place.by_password()
    visit = place.visit(planted)
    fresh = await place.keeper.begin(
        "password", user.id, visit, stamp=(await place.keeper.held(visit, is_open=False)).stamp
    )
    assert token_of(fresh) != token_of(planted)
    await place.caller(place.visit(fresh))
    with pytest.raises(Unauthorized):
        await place.caller(place.visit(planted))
    unknown = place.visit(f"monoize_session_8080={'x' * 43}")
    assert "x" * 43 not in await place.keeper.begin("password", user.id, unknown)


@pytest.mark.parametrize("has_store", [True, False])
async def test_signing_out_ends_it_on_the_server(has_store):
    place = Place(database=has_store)
    visit = place.visit(await place.keeper.begin("local", "", place.visit()))
    assert await place.caller(visit) is LOCAL
    await place.keeper.end(await place.keeper.held(visit, is_open=False))
    with pytest.raises(Unauthorized):
        await place.caller(visit)


@pytest.mark.parametrize("has_store", [True, False])
async def test_nobody_fills_the_store_with_sessions(has_store):
    place = Place(database=has_store)
    cookies = []
    for _ in range(MOST + 5):
        place.clock.advance(0.001)
        cookies.append(await place.keeper.begin("local", "", place.visit()))
    assert await place.caller(place.visit(cookies[-1])) is LOCAL
    with pytest.raises(Unauthorized):
        await place.caller(place.visit(cookies[0]))
    if has_store:
        assert await place.count() == MOST
        place.clock.advance(10**6)
        await place.keeper.begin("local", "", place.visit())
        assert await place.count() == 1


# --- keys ---


@pytest.mark.parametrize("change", ["rotate", "disable", "delete", "expire"])
async def test_a_session_by_key_ends_with_the_key(change):
    place = Place()
    user = await place.user(password=None)
    make = partial(keys.create, vault=VAULT, ids=RandomIds(), user_id=user.id, name="k", **BY)
    key, text = await place.database.write(make)
    stamp = sessions.stamp_of(VAULT.digest(text.split("-")[3]))
    visit = place.visit(await place.keeper.begin("key", key.id, place.visit(), stamp=stamp))
    assert (await place.caller(visit)).key == key.id
    work = {
        "rotate": partial(keys.rotate, key_id=key.id, vault=VAULT, ids=RandomIds(), **BY),
        "disable": partial(keys.update, key_id=key.id, enabled=False, **BY),
        "delete": partial(keys.delete, key_id=key.id, **BY),
        "expire": partial(keys.update, key_id=key.id, expires_at=1, **BY),
    }[change]
    await place.database.write(work)
    place.access._keyring.forget()
    place.clock.advance(1)
    with pytest.raises(Unauthorized):
        await place.caller(visit)


async def test_a_session_by_a_key_of_the_file_ends_when_the_file_changes_it():
    place = Place(database=False)
    stamp = sessions.stamp_of(OWN.key)
    cookie = await place.keeper.begin("key", "file:dev", place.visit(), stamp=stamp)
    assert (await place.caller(place.visit(cookie))).key == "file:dev"
    other = msgspec.structs.replace(OWN, key="sk-another-0123456789")
    for changed in ((other,), (), (msgspec.structs.replace(OWN, enabled=False),)):
        place.access = Access(place.settings, changed, has_keys=True, sessions=place.keeper)
        with pytest.raises(Unauthorized):
            await place.caller(place.visit(cookie))


async def test_the_addresses_of_a_key_bind_its_session():
    bound = msgspec.structs.replace(OWN, addresses=("10.0.0.0/8",))
    place = Place(file_keys=(bound,), database=False)
    stamp = sessions.stamp_of(OWN.key)
    cookie = await place.keeper.begin("key", "file:dev", place.visit(), stamp=stamp)
    assert (await place.caller(place.visit(cookie, peer="10.1.2.3"))).key == "file:dev"
    with pytest.raises(Unauthorized):
        await place.caller(place.visit(cookie, peer="11.1.2.3"))


# --- at the machine itself ---

NOT_LOCAL = [
    ({}, {"peer": "192.0.2.7"}),
    ({}, {"peer": None}),
    ({}, {"x_forwarded_for": "127.0.0.1"}),
    ({}, {"forwarded": "for=127.0.0.1"}),
    ({}, {"via": "1.1 proxy"}),
    ({}, {"x_real_ip": "127.0.0.1"}),
    ({}, {"x_forwarded_proto": "https"}),
    ({}, {"x_forwarded_host": "gw.example"}),
    (
        {"console": ConsoleSettings()},
        {},
    ),  # there is a key: a proxy that does not show may stand here
    ({}, {"host": "gw.example"}),
    ({"host": "0.0.0.0"}, {}),
    ({"console": ConsoleSettings(local=False)}, {}),
    ({"trusted_proxies": ("127.0.0.1",)}, {}),
]


@pytest.mark.parametrize(("server", "said"), NOT_LOCAL)
async def test_only_somebody_at_the_machine_itself_needs_no_sign_in(server, said):
    near = Place()
    cookie = await near.keeper.begin("local", "", near.visit())
    assert await near.caller(near.visit(cookie)) is LOCAL
    place = Place(**server)
    place.lobby, place.database = near.lobby, near.database
    place.keeper = Sessions(place.settings, near.lobby, near.clock, near.database)
    place.access = Access(place.settings, (OWN,), sessions=place.keeper)
    visit = place.visit(cookie, **said)
    assert not await place.keeper.local_is_possible(visit, is_open=False)
    with pytest.raises(Unauthorized):
        await place.caller(visit)


async def test_the_first_user_ends_what_needed_no_sign_in():
    place = Place()
    cookie = await place.keeper.begin("local", "", place.visit())
    assert await place.caller(place.visit(cookie)) is LOCAL
    assert await place.access.caller_by_id("console:local") is LOCAL
    await place.user(password=None)
    with pytest.raises(Unauthorized):
        await place.caller(place.visit(cookie))
    with pytest.raises(Unauthorized):
        await place.access.caller_by_id("console:local")
    assert not await place.keeper.local_is_possible(place.visit(), is_open=False)


async def test_where_nobody_needs_a_key_a_session_makes_nobody_more():
    place = Place(file_keys=())
    await place.user(password=None)
    cookie = await place.keeper.begin("local", "", place.visit())
    held, caller = await place.access.held(place.visit(cookie))
    assert caller is NOBODY
    assert held.csrf == session_tokens.csrf_of(token_of(cookie))


# --- by a proxy's word ---


async def test_a_trusted_proxys_word_is_believed_and_nobody_elses():
    place = Place(
        host="10.0.0.1",
        trusted_proxies=("10.0.0.2",),
        console=ConsoleSettings(user_header="X-Remote-User"),
    )
    await place.user("adä", password=None)
    await place.user("off", password=None, enabled=False)
    said = "adä".encode().decode("latin-1")
    told = place.visit(peer="10.0.0.2", x_remote_user=said)
    user = await place.keeper.user_of_proxy(told)
    assert user.username == "adä"
    for peer in ("10.0.0.3", "127.0.0.1", "0.0.0.0", None):
        assert await place.keeper.user_of_proxy(place.visit(peer=peer, x_remote_user=said)) is None
    for name in ("nobody", "off", ""):
        spoofed = place.visit(peer="10.0.0.2", x_remote_user=name)
        assert await place.keeper.user_of_proxy(spoofed) is None
    cookie = await place.keeper.begin("proxy", user.id, told)
    assert (await place.caller(place.visit(cookie, peer="10.0.0.2", x_remote_user=said))).username == "adä"  # fmt: skip
    for peer, name in (("10.0.0.3", said), ("10.0.0.2", "bob"), ("10.0.0.2", "")):
        with pytest.raises(Unauthorized):
            await place.caller(place.visit(cookie, peer=peer, x_remote_user=name))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server: {console: {user_header: X-User}}", "trusted_proxies"),
        ("server: {console: {user_header: 'X User'}, trusted_proxies: [10.0.0.1]}", "user_header"),
    ],
)
def test_a_header_that_nobody_may_write_is_refused_in_the_config(text, said):
    with pytest.raises(ConfigError, match=said):
        parse(text, {})


# --- what changes something ---


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_a_cookie_alone_changes_nothing(method):
    place = Place()
    await place.user()
    cookie = await place.by_password()
    other = await place.by_password()
    good = session_tokens.csrf_of(token_of(cookie))
    await place.caller(place.visit(cookie), "HEAD")
    await place.caller(place.visit(cookie, x_monoize_csrf=good), method)
    for wrong in ("", "x", session_tokens.csrf_of(token_of(other)), good[:-1]):
        with pytest.raises(Forbidden) as told:
            await place.caller(place.visit(cookie, x_monoize_csrf=wrong), method)
        assert told.value.error_code == "csrf_needed"
    with pytest.raises(
        Forbidden
    ) as told:  # the token itself does not make another site's page ours
        sister = place.visit(cookie, x_monoize_csrf=good, origin="http://localhost:3000")
        await place.caller(sister, method)
    assert told.value.error_code == "foreign_site"


async def test_a_websocket_is_opened_by_our_own_page_alone():
    place = Place()
    await place.user()
    cookie = await place.by_password()
    own = place.visit(cookie, origin="http://localhost:8080")
    assert (await place.caller(own, WEBSOCKET)).username == "ada"
    for said in ({}, {"origin": "http://localhost:3000"}, {"origin": "null"}):
        with pytest.raises(Forbidden):
            await place.caller(place.visit(cookie, **said), WEBSOCKET)


# --- passwords ---


async def test_a_wrong_password_and_an_unknown_name_get_the_same_answer():
    place = Place()
    await place.user()
    await place.user("off", enabled=False)
    await place.user("none", password=None)
    said = set()
    tries = [("ada", "wrong " + GOOD), ("bob", GOOD), ("off", GOOD), ("none", GOOD), ("none", "")]
    for name, password in (*tries, ("ada", GOOD * 100)):
        with pytest.raises(Unauthorized) as told:
            await place.by_password(name, password)
        said.add((told.value.message, told.value.error_code))
    assert len(said) == 1


async def test_the_same_work_is_done_for_whom_nobody_knows(monkeypatch):
    place = Place()
    await place.user()
    done = []
    hasher = CHEAP._hasher
    monkeypatch.setattr(
        type(hasher), "verify", lambda self, hashed, plain: done.append(hashed) or True
    )
    for name in ("ada", "bob"):
        try:
            await place.by_password(name, "whatever it is")
        except Unauthorized:
            assert name == "bob"
    assert len(done) == 2
    assert all(hashed.startswith("$argon2id$") for hashed in done)
    default = PasswordHasher()
    assert not default.check_needs_rehash(session_passwords._NOBODYS)  # as dear as a real one


@pytest.mark.parametrize("password", ["", "123456789", "a" * 1025, "é" * 513])
async def test_passwords_that_nobody_may_have(password):
    with pytest.raises(InvalidRequest) as told:
        await CHEAP.hashed(password)
    assert told.value.param == "password"


async def test_passwords_that_anybody_may_have():
    for password in ("1234567890", "a" * 1024, "é" * 512, "ten letters\0", "half \ud83d letters"):
        hashed = await CHEAP.hashed(password)
        assert hashed.startswith("$argon2id$")
        assert await CHEAP.match(hashed, password)
        assert not await CHEAP.match(hashed, password + "x")
    composed, apart = "caf\u00e9 in paris", "cafe\u0301 in paris"
    assert await CHEAP.match(await CHEAP.hashed(composed), apart)


async def test_passwords_never_hold_up_the_loop_and_are_hashed_two_at_a_time():
    class Slow(PasswordHasher):
        most = under_way = 0
        lock = threading.Lock()

        def verify(self, hash, password):
            with self.lock:
                Slow.under_way += 1
                Slow.most = max(Slow.most, Slow.under_way)
            time.sleep(0.02)
            with self.lock:
                Slow.under_way -= 1
            return True

    passwords = Passwords(Slow())
    trying = [asyncio.ensure_future(passwords.match("$x", "y")) for _ in range(20)]
    await asyncio.sleep(0)
    done = await asyncio.wait_for(asyncio.gather(*trying, return_exceptions=True), 60)
    assert Slow.most == 2
    refused = [result for result in done if isinstance(result, RateLimited)]
    assert len(refused) == 4  # a queue that is never long
    assert refused[0].headers["retry-after"]


# --- guessing ---


async def test_guessing_gets_slower_and_a_name_is_never_locked_for_good():
    place = Place()
    await place.user()
    for _ in range(5):
        with pytest.raises(Unauthorized):
            await place.by_password(password="wrong " + GOOD)
    waits = []
    for _ in range(12):
        with pytest.raises(RateLimited) as told:
            await place.by_password()  # not even the right one
        assert told.value.error_code == "too_many_attempts"
        waits.append(int(told.value.headers["retry-after"]))
        place.clock.advance(waits[-1])
        with pytest.raises(Unauthorized):
            await place.by_password(password="wrong " + GOOD)
    assert waits[:4] == [2, 3, 5, 9]
    assert max(waits) <= 301
    place.clock.advance(301)
    await place.by_password()
    for _ in range(2):  # a good one is a fresh start
        with pytest.raises(Unauthorized):
            await place.by_password(password="wrong " + GOOD)


def test_a_hundred_guesses_at_once_are_a_hundred():
    throttle = Throttle()
    begun = [throttle.begin((user_key("ada"), address_key("10.0.0.1")), 0.0) for _ in range(100)]
    assert sum(wait == 0 for wait in begun) == 5


def test_an_address_that_tries_many_names_waits_too():
    throttle = Throttle()
    begun = [
        throttle.begin((user_key(f"user {i}"), address_key("2001:db8::1")), 0.0) for i in range(30)
    ]
    assert sum(wait == 0 for wait in begun) == 20
    # Its neighbours are itself; others are not.
    assert throttle.begin((user_key("x"), address_key("2001:db8::2:1")), 0.0) > 0
    assert throttle.begin((user_key("x"), address_key("2001:db8:1::1")), 0.0) == 0


def test_a_good_guess_of_ones_own_does_not_pay_for_guesses_at_others():
    throttle = Throttle()
    place = address_key("10.0.0.1")
    for i in range(200):
        throttle.begin((user_key(f"victim {i}"), place), 0.0)
        own = (user_key("me"), place)
        if throttle.begin(own, 0.0) == 0:
            throttle.passed(own)
    assert throttle.begin((user_key("one more"), place), 0.0) > 0


def test_what_strangers_try_does_not_fill_the_memory():
    throttle = Throttle()
    for i in range(KEPT + 100):
        throttle.begin((user_key(f"{i}" * 1000), address_key(None)), float(i * 1000))
    assert len(throttle._tries) <= KEPT


# --- sites ---

NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_link_to_a_page_and_nothing_more(site):
    gate = Place().access
    said = {**HERE, "sec-fetch-site": site}
    for path in ("/", "/runs/run_1", "/docs", "/sign-in"):
        gate.check_site({**said, **NAVIGATION}, "GET", path)
    refused = [
        (NAVIGATION, "POST", "/"),
        (NAVIGATION, "GET", "/api/users"),
        (NAVIGATION, "GET", "/v1/models"),
        (NAVIGATION, "GET", "/metrics"),
        (NAVIGATION, "GET", "/console/1/core/app.js"),
        ({"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, "GET", "/"),
        ({"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}, "GET", "/"),
        ({"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, "GET", "/"),
        ({"sec-fetch-mode": "websocket"}, "GET", "/v1/realtime"),
    ]
    for more, method, path in refused:
        with pytest.raises(Forbidden):
            gate.check_site({**said, **more}, method, path)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_our_own_pages_and_the_address_bar_are_served(method):
    gate = Place().access
    for site in ("same-origin", "none"):
        gate.check_site({**HERE, "sec-fetch-site": site}, method, "/api/users")


OWN_PAGE = {"origin": "http://localhost:8080", "sec-fetch-site": "same-origin"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("said", "is_served"),
    [
        ({}, True),  # curl, SDKs
        ({"content-type": "text/plain"}, True),
        ({"content-type": "application/x-www-form-urlencoded"}, True),
        ({**JSON, "sec-fetch-mode": "cors"}, True),  # Node's fetch
        ({**JSON, **OWN_PAGE}, True),
        ({**JSON, "origin": "http://localhost:8080"}, True),
        ({**JSON, "origin": "https://listed.example"}, True),
        (OWN_PAGE, False),  # no body at all: any page could send that
        ({**OWN_PAGE, "content-type": "text/plain"}, False),
        ({**OWN_PAGE, "content-type": "text/plain; application/json"}, False),
        ({**OWN_PAGE, "content-type": "multipart/form-data; boundary=x"}, False),
        ({**JSON, "sec-fetch-site": "same-origin"}, False),  # no browser leaves the origin out
        ({**JSON, "sec-fetch-site": "none"}, False),
        ({**JSON, "origin": "null"}, False),
        ({**JSON, "origin": "http://localhost:3000"}, False),
        ({**JSON, "origin": "https://localhost"}, False),
        ({**JSON, "origin": "http://127.0.0.1:8080"}, False),
        ({**JSON, "origin": "http://localhost:80 80"}, False),
    ],
)
async def test_where_nobody_needs_a_key_a_page_from_elsewhere_gets_nothing(said, is_served):
    place = Place(file_keys=(), hosts=("listed.example",))
    headers = {**HERE, **said}
    if is_served:
        assert await place.access.caller_of(headers, "127.0.0.1", "POST", "127.0.0.1") is NOBODY
    else:
        with pytest.raises(Forbidden):
            await place.access.caller_of(headers, "127.0.0.1", "POST", "127.0.0.1")
    assert await place.access.caller_of(headers, "127.0.0.1", "GET", "127.0.0.1") is NOBODY


async def test_our_own_page_may_send_nothing_with_its_token():
    place = Place(file_keys=())
    cookie = await place.keeper.begin("local", "", place.visit())
    csrf = session_tokens.csrf_of(token_of(cookie))
    visit = place.visit(cookie, origin="http://localhost:8080", x_monoize_csrf=csrf)
    assert await place.caller(visit, "DELETE") is NOBODY
    elsewhere = place.visit(cookie, origin="http://localhost:3000", x_monoize_csrf=csrf)
    with pytest.raises(Forbidden):
        await place.caller(elsewhere, "DELETE")
