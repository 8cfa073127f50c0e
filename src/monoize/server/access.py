"""Who may call: keys, people who signed in, and no web page from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from monoize.account import address_refusal, policy_of
from monoize.errors import Forbidden, Unauthorized
from monoize.pipeline.call import NOBODY, Caller
from monoize.server import session_sites as sites
from monoize.server import session_tokens as tokens
from monoize.server.keyring import Keyring
from monoize.server.session_keeper import CONSOLE, LOCAL, Held, Sessions, Visit, console_caller
from monoize.server.session_sites import LOCAL_NAMES
from monoize.settings import KeySettings, ServerSettings, is_loopback
from monoize.store.sessions import stamp_of
from monoize.transform import Rule

__all__ = ["OF_THE_FILE", "WEBSOCKET", "Access"]

OF_THE_FILE = "file:"  # begins the id of a key that stands in the config file
WEBSOCKET = "WEBSOCKET"  # as a method: a handshake, which no page can give a header of its own

_HOSTS_KEPT = 64
_SAFE = ("GET", "HEAD")
_NO_KEY = "no API key: send Authorization: Bearer, x-api-key or x-goog-api-key"


class Access:
    def __init__(
        self,
        server: ServerSettings,
        keys: tuple[KeySettings, ...],
        rules: Mapping[str, tuple[Rule, ...]] | None = None,
        keyring: Keyring | None = None,
        *,
        has_keys: bool = False,
        sessions: Sessions | None = None,
    ) -> None:
        # A key is looked up by its hash, which is salted: the time it takes tells nothing of how much of a guess is right.
        self._callers = {
            key.key: _caller(key, (rules or {}).get(key.name, ())) for key in keys if key.enabled
        }
        # As most of them write it, and free to call from anywhere.
        self._bearers = {
            f"Bearer {key}": caller
            for key, caller in self._callers.items()
            if caller.policy.addresses is None
        }
        self._keyring = keyring
        self._sessions = sessions
        self._open = not keys and not has_keys  # then it serves loopback only (INTERFACES)
        self._hosts = frozenset(map(str.lower, server.hosts))
        self._names = LOCAL_NAMES | {server.host.strip("[]").lower()} | self._hosts
        # On loopback a foreign name is a page that rebinds DNS; elsewhere names are the operator's affair.
        self._checks_host = is_loopback(server.host) or bool(server.hosts)
        self._good_hosts: set[str] = set()  # as callers wrote them: seldom more than one or two

    @property
    def is_open(self) -> bool:
        """Nobody needs a key."""
        return self._open

    @property
    def sessions(self) -> Sessions:
        if self._sessions is None:
            raise Forbidden("nobody signs in here", code="no_sign_in")
        return self._sessions

    def regular(self, headers: Mapping[str, str]) -> Caller | None:
        """Who calls, where `check_site` and `caller_of` need no second look, as with nearly every call of a program.

        None: they are to be asked.
        """
        if (
            headers.get("host", "") in self._good_hosts
            and "origin" not in headers
            and "sec-fetch-site" not in headers
        ):
            return self._bearers.get(headers.get("authorization", ""))
        return None

    # --- pages from elsewhere ---

    def check_site(self, headers: Mapping[str, str], method: str = "POST", path: str = "") -> None:
        """A browser elsewhere must not reach the gateway (INTERFACES); it may follow a link to a page."""
        named = headers.get("host", "")
        if (
            named in self._good_hosts
            and "origin" not in headers
            and "sec-fetch-site" not in headers
        ):
            return
        host = "" if "@" in named else sites.name_of(f"//{named}")
        if self._checks_host and host not in self._names:
            raise Forbidden(f"the host {host!r} is not served here; list it under server.hosts")
        origin = headers.get("origin")
        if origin is not None and sites.name_of(origin) not in self._names | {host}:
            raise Forbidden(
                f"calls from pages of {origin!r} are not served; list its host under server.hosts"
            )
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            self._check_sister(headers, method, path)
        if len(self._good_hosts) < _HOSTS_KEPT:
            self._good_hosts.add(named)

    def _check_sister(self, headers: Mapping[str, str], method: str, path: str) -> None:
        """Another port of this machine is the same site to a browser, and still somebody else's page."""
        if not sites.is_navigation(headers, method, path):
            raise Forbidden("calls from pages of other sites are not served", code="foreign_site")

    def check_own_page(
        self, headers: Mapping[str, str], *, method: str = "POST", token: str | None = None
    ) -> None:
        """What a browser sends without a key must come from our own page, and not by a form that any page could hold.

        `token`: of the caller's session, if there is one.
        """
        if not sites.is_browsers(headers):
            return
        listed = sites.name_of(headers.get("origin", "")) in self._hosts
        if not listed and not sites.is_same_origin(headers):
            raise Forbidden("calls from pages of other sites are not served", code="foreign_site")
        if method == WEBSOCKET or (token is not None and tokens.shows(headers, token)):
            return
        if sites.sends_form(headers):
            raise _csrf_needed()

    # --- who calls ---

    async def caller_of(
        self,
        headers: Mapping[str, str],
        address: str | None = None,
        method: str = "POST",
        peer: str | None = None,
    ) -> Caller:
        """Who calls, by the key in whichever header its SDK uses, or by a session; nobody where no keys are configured."""
        caller = self._bearers.get(headers.get("authorization", ""))
        if caller is not None:
            return caller
        if self._open:
            if sites.is_browsers(headers) and method not in _SAFE:
                await self._check_open(Visit(headers=headers, address=address, peer=peer), method)
            return NOBODY
        secret = _secret(headers)
        if not secret:
            return await self._signed_in(Visit(headers=headers, address=address, peer=peer), method)
        return await self.caller_by_secret(secret, address)

    async def caller_by_secret(self, secret: str, address: str | None) -> Caller:
        caller = self._callers.get(secret)
        if caller is None and self._keyring is not None:
            caller = await self._keyring.caller_of(secret, address)
        if caller is None:
            raise Unauthorized("this API key is not known here")
        refused = address_refusal(caller.policy, address)
        if refused is not None:
            raise refused
        return caller

    async def caller_by_id(self, key_id: str | None) -> Caller:
        """Who an earlier call came from, as that key stands now; for work that outlasts the call."""
        if key_id is None:
            if self._open:
                return NOBODY
            raise Unauthorized("it was begun without a key, and keys are needed now")
        if key_id.startswith(CONSOLE):
            return await self._console_by_id(key_id)
        own = next((one for one in self._callers.values() if one.key == key_id), None)
        if own is None and self._keyring is not None:
            own = await self._keyring.caller_by_id(key_id)
        if own is None:
            raise Unauthorized("the key that it was begun with is not known here any more")
        return own

    async def _console_by_id(self, key_id: str) -> Caller:
        if self._sessions is not None:
            if key_id != LOCAL.key:
                user = await self._sessions.user(key_id.removeprefix(CONSOLE))
                if user is not None:
                    return console_caller(user)
            elif await self._sessions.local_is_possible(None, is_open=self._open):
                return LOCAL
        raise Unauthorized("whoever began it may not do so any more")

    # --- sessions ---

    async def held(self, visit: Visit) -> tuple[Held, Caller] | None:
        """The session of this request and whom it stands for, as things are now; None: there is none that is good."""
        if self._sessions is None:
            return None
        held = await self._sessions.held(visit, is_open=self._open)
        if held is None:
            return None
        caller = await self._caller_in(held, visit)
        return None if caller is None else (held, caller)

    async def _signed_in(self, visit: Visit, method: str) -> Caller:
        found = await self.held(visit)
        if found is None:
            raise Unauthorized(_NO_KEY)
        held, caller = found
        if method == WEBSOCKET:
            if "origin" not in visit.headers:  # no browser leaves it out
                raise Forbidden("a cookie alone opens no WebSocket", code="foreign_site")
            self.check_own_page(visit.headers, method=method)
        elif method not in _SAFE:
            self.check_own_page(visit.headers, token=held.token)
            if not tokens.shows(visit.headers, held.token):
                raise _csrf_needed()
        return caller

    async def _check_open(self, visit: Visit, method: str) -> None:
        found = await self.held(visit) if "cookie" in visit.headers else None
        token = None if found is None else found[0].token
        self.check_own_page(visit.headers, method=method, token=token)

    async def _caller_in(self, held: Held, visit: Visit) -> Caller | None:
        """None: what it was begun with is gone, off, or another one by now."""
        match held.session.how:
            case "local":
                return NOBODY if self._open else LOCAL
            case "password" | "proxy":
                return None if held.user is None else console_caller(held.user)
            case "key":
                return await self._caller_of_key(held, visit.address)

    async def _caller_of_key(self, held: Held, address: str | None) -> Caller | None:
        key_id, stamp = held.session.holder, held.stamp
        if key_id.startswith(OF_THE_FILE):
            secrets = (secret for secret, own in self._callers.items() if own.key == key_id)
            stamp = stamp_of(next(secrets, ""))
        if stamp != held.session.stamp:  # rotated: whoever was given the old secret is out
            return None
        try:
            caller = await self.caller_by_id(key_id)
        except Unauthorized:
            return None
        return caller if address_refusal(caller.policy, address) is None else None


def _caller(key: KeySettings, rules: tuple[Rule, ...]) -> Caller:
    return Caller(
        key=f"{OF_THE_FILE}{key.name}",
        key_name=key.name,
        username=key.username,  # CTX-3
        role=key.role,
        policy=policy_of(key),
        max_multiplier=key.exact_ceiling(),
        rules=rules,
    )


def _csrf_needed() -> Forbidden:
    return Forbidden(
        f"the header {tokens.CSRF_HEADER} is missing or wrong: GET /api/session tells it",
        code="csrf_needed",
    )


def _secret(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return bearer or headers.get("x-api-key", "") or headers.get("x-goog-api-key", "")
