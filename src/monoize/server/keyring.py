"""Keys of the database, remembered for a while: a request costs microseconds, and an outage turns nobody away (D19)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial

import msgspec

from monoize.account import KeyPolicy, refusal
from monoize.clock import Clock
from monoize.errors import ConfigError, DatabaseAway, Unauthorized
from monoize.pipeline.call import Caller
from monoize.store import keys
from monoize.store.database import Database
from monoize.store.vault import Vault, parse_key
from monoize.transform import compiled

__all__ = ["Keyring"]

REFRESH_SECONDS = (
    30.0  # as long as a change made elsewhere may go unnoticed without the revision's help
)
UNKNOWN_SECONDS = 5.0
PATIENCE_SECONDS = 0.5  # for an answer about a key that is known well enough to go on without it
KEPT = 10_000
_UNKNOWN = "this API key is not known here"


class _Entry(msgspec.Struct, frozen=True):
    """What the store said of an id, and when; None: it knows no such key."""

    credential: keys.Credential | None
    caller: Caller | None
    asked_at: float


class Keyring:
    def __init__(
        self,
        database: Database,
        vault: Vault,
        clock: Clock,
        *,
        grace_seconds: float,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._database = database
        self._vault = vault
        self._clock = clock
        self._grace = grace_seconds
        self._patience = patience
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._asking: dict[str, tuple[asyncio.Future[_Entry], float]] = {}  # and since when
        self._stale_before = float("-inf")
        self._confirmed_at = float("-inf")
        self.used: dict[str, int] = {}  # key id -> when last, in milliseconds; written now and then

    def forget(self) -> None:
        """Something changed: ask again before the next use. What is known still bridges an outage."""
        self._stale_before = self._clock.monotonic()

    def confirm(self, moment: float) -> None:
        """The store had no news at this moment: what it has said since its last news still holds."""
        self._confirmed_at = moment

    async def caller_of(self, text: str, address: str | None) -> Caller | None:
        """None: the text does not look like a key of ours."""
        parsed = parse_key(text)
        if parsed is None:
            return None
        key_id, secret = parsed
        entry = await self._entry(key_id)
        if entry.credential is None or entry.caller is None:
            raise Unauthorized(_UNKNOWN)
        if not self._vault.matches(secret, entry.credential.digest):
            raise Unauthorized(_UNKNOWN)
        now = round(self._clock.now() * 1000)
        refused = refusal(entry.credential.key, entry.credential.user, now, address)
        if refused is not None:
            raise refused
        self.used[key_id] = now
        return entry.caller

    async def caller_by_id(self, key_id: str) -> Caller | None:
        """Without the secret: of a caller who showed it earlier. None: the key is off, expired or gone."""
        entry = await self._entry(key_id)
        if entry.credential is None or entry.caller is None:
            return None
        now = round(self._clock.now() * 1000)
        key, user = entry.credential.key, entry.credential.user
        known = msgspec.structs.replace(
            key, policy=KeyPolicy()
        )  # from where it came is not asked again
        return None if refusal(known, user, now, None) is not None else entry.caller

    async def _entry(self, key_id: str) -> _Entry:
        known = self._entries.get(key_id)
        if known is not None and self._is_fresh(known):
            return known
        spare = known if known is not None and self._bridges(known) else None
        try:
            return await self._asked(key_id, waits=spare is None)
        except (DatabaseAway, TimeoutError):
            if spare is None:
                raise
            return spare

    def _bridges(self, entry: _Entry) -> bool:
        """Whether it serves while the database is away; nobody is a stranger because of an old answer (T43)."""
        is_current = entry.asked_at > self._stale_before
        sure_at = max(entry.asked_at, self._confirmed_at) if is_current else entry.asked_at
        return entry.credential is not None and self._clock.monotonic() - sure_at <= self._grace

    def _is_fresh(self, entry: _Entry) -> bool:
        kept = REFRESH_SECONDS if entry.credential is not None else UNKNOWN_SECONDS
        age = self._clock.monotonic() - entry.asked_at
        return entry.asked_at > self._stale_before and age < kept

    async def _asked(self, key_id: str, *, waits: bool) -> _Entry:
        """One question at a time for each id, however many wait for it; TimeoutError: for too long, unless one `waits`."""
        now = self._clock.monotonic()
        asking, since = self._asking.get(key_id, (None, now))
        if asking is None or since <= self._stale_before:  # asked before the change: an old answer
            asking, since = asyncio.ensure_future(self._ask(key_id)), now
            self._asking[key_id] = asking, since
            asking.add_done_callback(partial(self._answered, key_id))
        if waits:
            return await asyncio.shield(asking)
        await asyncio.wait({asking}, timeout=max(0.0, since + self._patience - now))
        if not asking.done():
            asking.add_done_callback(_seen)
            raise TimeoutError
        return asking.result()

    def _answered(self, key_id: str, asking: asyncio.Future[_Entry]) -> None:
        if self._asking.get(key_id, (None, 0.0))[0] is asking:
            del self._asking[key_id]

    async def _ask(self, key_id: str) -> _Entry:
        asked_at = self._clock.monotonic()
        found = await self._database.read(partial(keys.credential, key_id=key_id))
        entry = _Entry(found, None if found is None else _caller(found), asked_at)
        known = self._entries.get(key_id)
        if known is not None and known.asked_at > asked_at:  # a later question was answered sooner
            return known
        self._entries[key_id] = entry
        self._entries.move_to_end(key_id)
        while len(self._entries) > KEPT:
            self._entries.popitem(last=False)
        return entry


def _seen(asking: asyncio.Future[_Entry]) -> None:
    """Or asyncio would complain that nobody has looked."""
    if not asking.cancelled():
        asking.exception()


def _caller(credential: keys.Credential) -> Caller | None:
    key, user = credential.key, credential.user
    try:
        rules = compiled(key.policy.transforms, f"key {key.id}")
    except (
        ConfigError
    ):  # a transform that is no longer installed: better no answer than an unchanged one
        return None
    return Caller(
        key=key.id,
        key_name=key.name,
        user=user.id,
        username=user.username,  # CTX-3
        role=user.role,
        policy=key.policy,
        prepaid=user.balance is not None,
        max_multiplier=key.policy.exact_ceiling(),
        rules=rules,
    )
