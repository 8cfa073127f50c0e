"""Limits that all replicas share, counted in Valkey or Redis; while it is away each process counts for itself."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable
from contextlib import suppress
from importlib.resources import files
from typing import Any, Self

from msgspec.structs import replace
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError, ResponseError
from typing_extensions import override

from monoize.errors import ConfigError
from monoize.limiter import Demand, Grant, Limiter, Tally
from monoize.limits.circuit import Circuit
from monoize.limits.window import Windows, milliseconds

__all__ = ["ValkeyLimiter"]

log = logging.getLogger("monoize.limits")

PREFIX = "monoize:limit:"
CONNECTIONS = 8  # each carries thousands of calls a second
PATIENCE = 0.1  # seconds for a whole call: waiting for a connection, making it, asking
REST = 3.0  # seconds without a call after one has failed

_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}


class ValkeyLimiter(Limiter):
    """What Valkey lets through is counted here too, so a process that loses it knows its own share."""

    def __init__(
        self,
        client: Redis,
        *,
        prefix: str = PREFIX,
        patience: float = PATIENCE,
        rest: float = REST,
        trusts_callers_clock: bool = False,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._patience = patience
        self._circuit = Circuit(rest)
        self._trusts_callers_clock = trusts_callers_clock
        self._take = client.register_script(_script("take"))
        self._change = client.register_script(_script("correct"))
        self._calls: set[asyncio.Future[Any]] = set()  # those given up are still ending
        self._own = Windows()
        self._lead = 0  # milliseconds by which the server's clock is ahead of the callers'

    @classmethod
    async def open(cls, url: str, *, patience: float = PATIENCE, **options: Any) -> Self:
        """A server that cannot be reached now may come later; a bad URL raises ConfigError."""
        limiter = cls(Redis.from_pool(_pool(url, patience)), patience=patience, **options)
        try:
            await limiter._within_patience(limiter._client.ping())
        except (RedisError, OSError) as error:
            limiter._note_failure(error, -math.inf)  # the first call may try again
        return limiter

    @override
    async def aclose(self) -> None:
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._client.aclose()

    @override
    async def _count(self, demand: Demand, now: float) -> Tally:
        shared = await self._counted_by_all(demand, now)
        if shared is None:
            return self._own.take(demand, self._own_now(now))
        if not shared.admitted:
            return shared
        self._lead = shared.now - milliseconds(now)
        own = self._own.take(demand, shared.now)
        if own.admitted:
            return shared
        # Valkey has lost what it knew, or this process let requests through while it was away.
        await self._ask(self._change, demand.key_id, now, shared.slot, -1, -demand.counted_tokens)
        return own

    @override
    async def _correct(self, grant: Grant, requests: int, tokens: int, now: float) -> None:
        moment = self._own_now(now)
        try:
            if grant.is_shared:
                change = (grant.slot, requests, tokens)
                moment = await self._ask(self._change, grant.key_id, now, *change) or moment
        finally:
            self._own.correct(grant.key_id, grant.slot, requests, tokens, moment)

    async def _counted_by_all(self, demand: Demand, now: float) -> Tally | None:
        limits = (demand.requests_per_minute, demand.tokens_per_minute)
        reply = await self._ask(
            self._take,
            demand.key_id,
            now,
            *("" if limit is None else limit for limit in limits),
            demand.tokens,
        )
        if reply is None:
            return None
        admitted, *counts = reply
        return replace(Tally(bool(admitted), *counts), is_shared=True)

    def _own_now(self, now: float) -> int:
        """The server's clock as far as it is known: what it has counted is counted here by its time."""
        return milliseconds(now) + self._lead

    async def _ask(
        self, script: AsyncScript, key_id: str, now: float, *arguments: str | int
    ) -> Any | None:
        """The script's answer; None: the server is away, or was a moment ago."""
        ticket = self._circuit.enter(now)
        if ticket is None:
            return None
        moment = milliseconds(now) if self._trusts_callers_clock else ""
        try:
            reply = await self._within_patience(
                script(keys=[self._prefix + key_id], args=[moment, *arguments])
            )
        except (RedisError, OSError) as error:  # of which TimeoutError is one
            self._note_failure(error, now)
            if isinstance(error, ResponseError):
                await self._hang_up()
            return None
        if self._circuit.succeeded(ticket):
            log.info("Valkey is back: limits per minute hold for all replicas together again")
        return reply

    async def _within_patience(self, call: Awaitable[Any]) -> Any:
        """In a task of its own: the client may miss that it is cancelled (asyncio.wait_for before Python 3.12)."""
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait({task}, timeout=self._patience)
            if not task.done():
                raise TimeoutError(f"no answer in {self._patience} s")
            return task.result()
        finally:
            task.cancel()

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # or asyncio would complain that nobody has looked

    def _note_failure(self, error: Exception, now: float) -> None:
        if self._circuit.failed(now):
            log.warning(
                "Valkey cannot be used (%s: %s): until it is back, limits per minute hold for each"
                " process by itself",
                type(error).__name__,
                error,
            )

    async def _hang_up(self) -> None:
        """After a fail-over the name leads elsewhere, but the old server may still answer: read only."""
        with suppress(RedisError, OSError):
            await self._client.connection_pool.disconnect(inuse_connections=False)


def _pool(url: str, patience: float) -> BlockingConnectionPool:
    scheme, colon, rest = url.partition(":")
    try:
        pool = BlockingConnectionPool.from_url(
            _SCHEMES.get(scheme, scheme) + colon + rest,
            max_connections=CONNECTIONS,
            timeout=patience,
            socket_timeout=patience,
            socket_connect_timeout=patience,
            retry=Retry(NoBackoff(), 0),  # a call that failed is answered by the process itself
            protocol=2,  # the shortest greeting; later versions bring nothing that is needed here
        )
        pool.connection_class(**pool.connection_kwargs)  # reads every option, does not connect
    except (TypeError, ValueError):
        # The reason may quote a part of the password.
        raise ConfigError(
            "redis: not a URL of the form redis://[user:password@]host[:port][/database],"
            " rediss://… (TLS) or unix:///path"
        ) from None
    return pool


def _script(operation: str) -> str:
    folder = files(__package__)
    return "\n".join((folder / f"{name}.lua").read_text("utf-8") for name in ("window", operation))
