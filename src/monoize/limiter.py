"""Contract of a limiter: how many requests and tokens a key may use in any 60 seconds."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from monoize.errors import RateLimited

__all__ = ["Demand", "Grant", "Limiter", "Standing", "Tally", "headers"]

_SECOND = 1_000  # milliseconds
_MINUTE = 60_000


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """One request that asks to be let through, and the limits of its key; None: unlimited."""

    key_id: str
    requests_per_minute: int | None
    tokens_per_minute: int | None
    tokens: int  # an estimate, until it is settled

    @property
    def counted_tokens(self) -> int:
        """Nobody counts tokens that nobody limits."""
        return 0 if self.tokens_per_minute is None else self.tokens


class Tally(msgspec.Struct, frozen=True):
    """What a window says to a demand; all moments and spans are milliseconds.

    take.lua answers with the same fields in the same order.
    """

    admitted: bool
    now: int  # by the clock of the window
    slot: int  # where the window has counted it
    requests: int  # counted in the window, this one included if it was admitted
    tokens: int
    requests_reset: int  # until the last of them has left the window
    tokens_reset: int
    requests_wait: int  # until the demand fits, if nobody else comes; 0: it fits
    tokens_wait: int
    is_shared: bool = False  # counted for all replicas, not for this process alone


class Standing(msgspec.Struct, frozen=True):
    """How much of one limit is left."""

    limit: int
    used: int
    reset: int  # milliseconds until nothing of it is used

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)


class Grant(msgspec.Struct, kw_only=True):
    """A request that was let through. It ends once: settled or released."""

    key_id: str
    tokens: int = 0  # the estimate that was counted
    slot: int = 0
    is_shared: bool = False
    requests_standing: Standing | None = None
    tokens_standing: Standing | None = None
    is_open: bool = True

    @property
    def is_limited(self) -> bool:
        return self.requests_standing is not None or self.tokens_standing is not None

    def finish(self) -> bool:
        """Whether this was the first time."""
        was_open, self.is_open = self.is_open, False
        return was_open


class Limiter(ABC):
    """Counts what keys use. `now` is the process's clock in seconds; a plug-in may trust a better one."""

    async def take(
        self,
        key_id: str,
        *,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        tokens: int,
        now: float,
    ) -> Grant:
        """Let one request through that will use about so many tokens, or raise RateLimited.

        A request that is refused counts for nothing.
        """
        if requests_per_minute is None and tokens_per_minute is None:
            return Grant(key_id=key_id)
        demand = Demand(
            key_id=key_id,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            tokens=max(0, tokens),
        )
        if tokens_per_minute is not None and demand.tokens > tokens_per_minute:
            raise _never(demand.tokens, tokens_per_minute)
        tally = await self._count(demand, now)
        if not tally.admitted:
            raise _not_yet(demand, tally)
        requests, used_tokens = _standings(demand, tally)
        return Grant(
            key_id=key_id,
            tokens=demand.counted_tokens,
            slot=tally.slot,
            is_shared=tally.is_shared,
            requests_standing=requests,
            tokens_standing=used_tokens,
        )

    async def settle(self, grant: Grant, tokens: int, now: float) -> None:
        """What the request has really used stands instead of its estimate.

        What it used less is given back where it was counted; what it used more counts from now on.
        """
        if grant.finish() and grant.tokens_standing is not None and tokens != grant.tokens:
            await self._correct(grant, 0, tokens - grant.tokens, now)

    async def release(self, grant: Grant, now: float) -> None:
        """The request never reached a provider: it is as if it had not been."""
        if grant.finish() and grant.is_limited:
            await self._correct(grant, -1, -grant.tokens, now)

    async def aclose(self) -> None:  # noqa: B027 - not every limiter holds something
        """Let go of connections."""

    @abstractmethod
    async def _count(self, demand: Demand, now: float) -> Tally:
        """Count the demand if it fits in both limits, in one step that nothing comes between."""

    @abstractmethod
    async def _correct(self, grant: Grant, requests: int, tokens: int, now: float) -> None:
        """Below zero: take it away from the grant's slot, as far as it is still there; above: count it now."""


def headers(grant: Grant) -> dict[str, str]:
    """Reply headers as OpenAI names them; none for what is not limited."""
    return _headers(grant.requests_standing, grant.tokens_standing) if grant.is_limited else {}


def _standings(demand: Demand, tally: Tally) -> tuple[Standing | None, Standing | None]:
    requests, tokens = demand.requests_per_minute, demand.tokens_per_minute
    return (
        None if requests is None else Standing(requests, tally.requests, tally.requests_reset),
        None if tokens is None else Standing(tokens, tally.tokens, tally.tokens_reset),
    )


def _headers(requests: Standing | None, tokens: Standing | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if requests is not None:
        found["x-ratelimit-limit-requests"] = str(requests.limit)
        found["x-ratelimit-remaining-requests"] = str(requests.remaining)
        found["x-ratelimit-reset-requests"] = _duration(requests.reset)
    if tokens is not None:
        found["x-ratelimit-limit-tokens"] = str(tokens.limit)
        found["x-ratelimit-remaining-tokens"] = str(tokens.remaining)
        found["x-ratelimit-reset-tokens"] = _duration(tokens.reset)
    return found


def _duration(milliseconds: int) -> str:
    """`120ms`, `8.64s`, `1m0s`: how OpenAI writes them."""
    if 0 < milliseconds < _SECOND:
        return f"{milliseconds}ms"
    seconds, rest = divmod(milliseconds, _SECOND)
    minutes, seconds = divmod(seconds, _MINUTE // _SECOND)
    fraction = f".{rest:03}".rstrip("0") if rest else ""
    return f"{minutes}m{seconds}{fraction}s" if minutes else f"{seconds}{fraction}s"


def _not_yet(demand: Demand, tally: Tally) -> RateLimited:
    """Names the limit that holds longest: waiting for the other one alone would not help (T38)."""
    wait = max(tally.requests_wait, tally.tokens_wait)
    seconds = max(1, -(-wait // _SECOND))  # rounded up: after that long it fits
    if tally.requests_wait >= tally.tokens_wait:
        reason = (
            f"requests per minute: this API key may make {demand.requests_per_minute}"
            f" and has made {tally.requests}"
        )
    else:
        reason = (
            f"tokens per minute: this API key may use {demand.tokens_per_minute}, {tally.tokens} are"
            f" counted and this request needs about {demand.tokens}"
        )
    error = RateLimited(f"{reason}; try again in {seconds} s")
    error.headers.update(_headers(*_standings(demand, tally)))
    error.headers["retry-after"] = str(seconds)
    return error


def _never(tokens: int, limit: int) -> RateLimited:
    error = RateLimited(
        f"tokens per minute: this request needs about {tokens} and this API key may use {limit} in a"
        " whole minute; waiting does not help, make it shorter or ask for fewer output tokens"
    )
    # The SDKs of OpenAI and Anthropic repeat a 429 by themselves unless they are told not to.
    error.headers["x-should-retry"] = "false"
    return error
