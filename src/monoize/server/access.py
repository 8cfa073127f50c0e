"""Who may call: keys, and no web page from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from monoize.account import address_refusal, policy_of
from monoize.errors import Forbidden, Unauthorized
from monoize.pipeline.call import NOBODY, Caller
from monoize.server.keyring import Keyring
from monoize.settings import KeySettings, ServerSettings, is_loopback
from monoize.transform import Rule

__all__ = ["Access"]

_HOSTS_KEPT = 64
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Access:
    def __init__(
        self,
        server: ServerSettings,
        keys: tuple[KeySettings, ...],
        rules: Mapping[str, tuple[Rule, ...]] | None = None,
        keyring: Keyring | None = None,
        *,
        has_keys: bool = False,
    ) -> None:
        # A key is looked up by its hash, which is salted: the time it takes tells nothing of how much of a guess is right.
        self._callers = {
            key.key: _caller(key, (rules or {}).get(key.name, ())) for key in keys if key.enabled
        }
        self._bearers = {f"Bearer {key}": caller for key, caller in self._callers.items()}
        self._keyring = keyring
        self._open = not keys and not has_keys  # then it serves loopback only (INTERFACES)
        self._names = _LOCAL_NAMES | {
            server.host.strip("[]").lower(),
            *map(str.lower, server.hosts),
        }
        # On loopback a foreign name is a page that rebinds DNS; elsewhere names are the operator's affair.
        self._checks_host = is_loopback(server.host) or bool(server.hosts)
        self._good_hosts: set[str] = set()  # as callers wrote them: seldom more than one or two

    @property
    def is_open(self) -> bool:
        """Nobody needs a key."""
        return self._open

    def check_site(self, headers: Mapping[str, str]) -> None:
        """A browser elsewhere must not reach the gateway (INTERFACES)."""
        named = headers.get("host", "")
        if named in self._good_hosts and "origin" not in headers:
            return
        host = "" if "@" in named else _name(f"//{named}")
        if self._checks_host and host not in self._names:
            raise Forbidden(f"the host {host!r} is not served here; list it under server.hosts")
        origin = headers.get("origin")
        if origin is not None and _name(origin) not in self._names | {host}:
            raise Forbidden(
                f"calls from pages of {origin!r} are not served; list its host under server.hosts"
            )
        if len(self._good_hosts) < _HOSTS_KEPT:
            self._good_hosts.add(named)

    async def caller_of(self, headers: Mapping[str, str], address: str | None = None) -> Caller:
        """Who calls, by the key in whichever header its SDK uses; nobody where no keys are configured."""
        caller = self._bearers.get(headers.get("authorization", ""))  # as most of them write it
        if caller is not None and caller.policy.addresses is None:
            return caller
        if self._open:
            return NOBODY
        secret = _secret(headers)
        if not secret:
            raise Unauthorized(
                "no API key: send Authorization: Bearer, x-api-key or x-goog-api-key"
            )
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
        own = next((one for one in self._callers.values() if one.key == key_id), None)
        if own is None and self._keyring is not None:
            own = await self._keyring.caller_by_id(key_id)
        if own is None:
            raise Unauthorized("the key that it was begun with is not known here any more")
        return own


def _caller(key: KeySettings, rules: tuple[Rule, ...]) -> Caller:
    return Caller(
        key=f"file:{key.name}",
        key_name=key.name,
        username=key.username,  # CTX-3
        role=key.role,
        policy=policy_of(key),
        max_multiplier=key.exact_ceiling(),
        rules=rules,
    )


def _secret(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return bearer or headers.get("x-api-key", "") or headers.get("x-goog-api-key", "")


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
