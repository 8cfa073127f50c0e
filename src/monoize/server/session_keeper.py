"""Sessions: begun, found again while they are good, ended; and the proofs by which one begins."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from functools import partial

import msgspec

from monoize.account import User
from monoize.clock import Clock
from monoize.errors import DatabaseAway, RateLimited, Unauthorized
from monoize.pipeline.call import Caller
from monoize.server import session_tokens as tokens
from monoize.server.proxies import TrustedProxies
from monoize.server.session_book import MemoryBook, SessionBook, StoredBook
from monoize.server.session_passwords import Passwords
from monoize.server.session_sites import LOCAL_NAMES, Headers, host_of
from monoize.server.session_throttle import Throttle, address_key, user_key
from monoize.settings import ServerSettings, is_loopback
from monoize.store import users
from monoize.store.database import Database
from monoize.store.sessions import Found, How, Session, stamp_of

__all__ = ["CONSOLE", "LOCAL", "Held", "Lobby", "Sessions", "Visit", "console_caller"]

CONSOLE = "console:"  # begins what stands for a key's id, where somebody signed in without one
LOCAL = Caller(key=f"{CONSOLE}local", key_name="console", role="admin")

_TOUCHED_MS = 60_000  # between two notes that a session is in use
_FORWARDING = ("x-forwarded-", "forwarded", "via", "x-real-ip")  # how their names begin
_FAILED = "the username or the password is not right"


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as far as it tells who comes."""

    headers: Headers
    address: str | None = None  # of the caller, behind proxies
    peer: str | None = None  # of the other end of the connection


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is good at this moment."""

    token: str
    session: Session
    user: User | None = None
    stamp: str = ""  # of the key's secret as the database has it

    @property
    def csrf(self) -> str:
        return tokens.csrf_of(self.token)


class Lobby:
    """What outlives every configuration: tries of passwords, and sessions where no database keeps them."""

    def __init__(self, passwords: Passwords | None = None) -> None:
        self.passwords = passwords or Passwords()
        self.throttle = Throttle()
        self.book = MemoryBook()


def console_caller(user: User) -> Caller:
    """Who a signed-in user is to the rest of the gateway; prepaid users stay prepaid."""
    return Caller(
        key=f"{CONSOLE}{user.id}",
        key_name="console",
        user=user.id,
        username=user.username,
        role=user.role,
        prepaid=user.balance is not None,
    )


class Sessions:
    """Sign-in by one configuration."""

    def __init__(
        self, server: ServerSettings, lobby: Lobby, clock: Clock, database: Database | None
    ) -> None:
        self._console = server.console
        self._header = (server.console.user_header or "").lower()
        self._proxies = TrustedProxies(server.trusted_proxies)
        # A proxy that is known to stand in front makes everybody's address that of this machine.
        self._is_near = is_loopback(server.host) and not server.trusted_proxies
        self._lobby = lobby
        self._clock = clock
        self._database = database
        self._book: SessionBook = lobby.book if database is None else StoredBook(database)

    # --- sessions that are there ---

    async def held(self, visit: Visit, *, is_open: bool) -> Held | None:
        """The session of the cookie, if it is still good. `is_open`: nobody needs a key here."""
        token = tokens.token_in(visit.headers)
        if token is None:
            return None
        found = await self._book.find(tokens.digest_of(token))
        if found is None or not self._holds(found, visit, is_open=is_open):
            return None
        await self._touch(found.session)
        return Held(token=token, session=found.session, user=found.user, stamp=found.stamp)

    def _holds(self, found: Found, visit: Visit, *, is_open: bool) -> bool:
        session, now = found.session, self._now
        idle = round(self._console.idle_seconds * 1000)
        if session.expires_at <= now or session.used_at + idle <= now:
            return False
        match session.how:
            case "local":
                return self._is_local(visit, is_open) and (is_open or not found.has_users)
            case "password":
                return _is_enabled(found.user) and found.stamp == session.stamp
            case "proxy":
                named = None if found.user is None else found.user.username
                return _is_enabled(found.user) and named == self._told(visit)
            case "key":
                return True  # whoever knows the keys says more

    async def _touch(self, session: Session) -> None:
        if self._now - session.used_at >= _TOUCHED_MS:
            with suppress(DatabaseAway):
                await self._book.touch(session.digest, self._now)

    async def end(self, held: Held) -> None:
        await self._book.end(held.session.digest)

    async def user(self, user_id: str) -> User | None:
        """As they are now; None: gone, or turned off."""
        if self._database is None:
            return None
        found = await self._database.read(partial(users.with_password, user_id=user_id))
        return found[0] if found is not None and found[0].enabled else None

    # --- ways in ---

    async def local_is_possible(self, visit: Visit | None, *, is_open: bool) -> bool:
        """Whoever is at the machine itself, as long as there are no users. Without a visit: work begun in an earlier one."""
        fits = self._knows_local(is_open) if visit is None else self._is_local(visit, is_open)
        if not fits:
            return False
        return is_open or self._database is None or not await self._database.read(users.are_there)

    async def user_of_proxy(self, visit: Visit) -> User | None:
        told = self._told(visit)
        if told is None or self._database is None:
            return None
        user = await self._database.read(partial(users.find, username=told))
        return user if user is not None and user.enabled else None

    async def any_password(self) -> bool:
        return self._database is not None and await self._database.read(users.any_password)

    async def user_by_password(
        self, username: str, password: str, visit: Visit
    ) -> tuple[User, str]:
        """The user, and what the password left as its stamp. Whom nobody knows, who is turned off, who has no password: the same answer after the same work."""
        keys = (user_key(username), address_key(visit.address))
        self._slow_down(keys)
        found = None
        if self._database is not None:
            found = await self._database.read(partial(users.to_sign_in, username=username))
        hashed = found[1] if found is not None and found[0].enabled else None
        is_right = await self._lobby.passwords.match(hashed, password)
        if not is_right or found is None or hashed is None:
            raise Unauthorized(_FAILED, code="sign_in_failed")
        self._lobby.throttle.passed(keys)
        return found[0], stamp_of(hashed)

    def slow_down_keys(self, visit: Visit) -> None:
        """Keys are too long to guess, but a config file may hold one that a person thought up."""
        self._slow_down((address_key(visit.address),))

    def key_was_good(self, visit: Visit) -> None:
        self._lobby.throttle.passed((address_key(visit.address),))

    def _slow_down(self, keys: tuple[tuple[str, str], ...]) -> None:
        wait = self._lobby.throttle.begin(keys, self._clock.monotonic())
        if wait > 0:
            seconds = int(wait) + 1
            refused = RateLimited(
                f"too many attempts: try again in {seconds} s", code="too_many_attempts"
            )
            refused.headers["retry-after"] = str(seconds)
            raise refused

    async def hashed(self, password: str) -> str:
        return await self._lobby.passwords.hashed(password)

    async def begin(
        self, how: How, holder: str, visit: Visit, *, stamp: str = "", actor: str | None = None
    ) -> str:
        """The cookie of a new session, with a token that nobody has seen before; the session of the old one ends."""
        token, now = tokens.new_token(), self._now
        session = Session(
            digest=tokens.digest_of(token),
            how=how,
            holder=holder,
            stamp=stamp,
            created_at=now,
            used_at=now,
            expires_at=now + round(self._console.session_seconds * 1000),
        )
        before = tokens.token_in(visit.headers)
        ends = None if before is None else tokens.digest_of(before)
        await self._book.add(session, ends=ends, actor=actor)
        return tokens.cookie(visit.headers, token, self._console.session_seconds)

    # --- where somebody is ---

    def _knows_local(self, is_open: bool) -> bool:
        """Keys may be all that keeps out whoever comes by a proxy that does not show: they count until somebody says so."""
        local = self._console.local
        return self._is_near and (is_open if local is None else local)

    def _is_local(self, visit: Visit, is_open: bool) -> bool:
        """At this machine, by its own name, and nobody in between."""
        return (
            self._knows_local(is_open)
            and _is_loopback_address(visit.peer)
            and host_of(visit.headers)[0] in LOCAL_NAMES
            and not any(name.startswith(_FORWARDING) for name in visit.headers)
        )

    def _told(self, visit: Visit) -> str | None:
        """Who it is, in the words of a proxy that we trust; everybody can write a header."""
        if not self._header or not self._proxies.trusts(visit.peer):
            return None
        told = visit.headers.get(self._header, "")
        with suppress(UnicodeError):  # headers are read as Latin-1, names are written as UTF-8
            told = told.encode("latin-1").decode()
        return told or None

    @property
    def _now(self) -> int:
        return round(self._clock.now() * 1000)


def _is_enabled(user: User | None) -> bool:
    return user is not None and user.enabled


def _is_loopback_address(peer: str | None) -> bool:
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
