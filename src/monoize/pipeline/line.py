"""What is the same for every call on one channel, worked out once: addresses, headers, time-outs, secrets.

A gateway makes thousands of calls a second on a handful of channels; joining the same URL and merging the same headers
each time costs more than sending them.
"""

from __future__ import annotations

from collections.abc import Mapping

from monoize.discretion import Discretion, channel_secrets
from monoize.protocol import Protocol
from monoize.routing.catalog import Candidate
from monoize.settings import TimeoutSettings
from monoize.upstream.address import joined_url
from monoize.upstream.client import FixedHeaders
from monoize.upstream.engine_client import LOCAL_SCHEME

__all__ = ["Line", "Lines"]

_PATHS = (
    256  # of one channel; Google's name the model, and so callers could make up any number of them
)


class Line:
    """One channel of one provider, under one configuration."""

    def __init__(self, candidate: Candidate, timeouts: TimeoutSettings) -> None:
        provider, channel = candidate.provider, candidate.channel
        self.provider = provider
        self.channel = channel
        self.is_local = provider.type == "local"
        self.first_byte_seconds = _seconds(provider.request_timeout_ms, timeouts.first_byte)
        self.idle_seconds = _seconds(provider.idle_timeout_ms, timeouts.idle)
        self._secrets = tuple(channel_secrets(channel))
        self.discreet = Discretion(self._secrets).whole  # a whole reply, without our secrets
        self._own = {name.lower(): value for name, value in channel.headers.items()}
        self._forwarded = tuple(name.lower() for name in channel.forward_headers)
        self._urls: dict[str, str] = {}
        self._headers: dict[tuple[str, bool, bool], tuple[FixedHeaders, tuple[str, ...]]] = {}

    def url(self, path: str) -> str:
        found = self._urls.get(path)
        if found is None:
            base = self.channel.base_url
            engine = f"{LOCAL_SCHEME}{self.provider.engine or ''}"
            found = engine if base is None else joined_url(base, path)
            if len(self._urls) < _PATHS:
                self._urls[path] = found
        return found

    def headers(
        self, spoken: Protocol, caller: Mapping[str, str], *, stream: bool, same_dialect: bool
    ) -> Mapping[str, str]:
        """Ours, then what the caller may add: the vendor's feature headers on same-protocol calls only (T35).

        The operator's own for this channel stand above all.
        """
        key = (spoken.id, stream, same_dialect)
        found = self._headers.get(key)
        if found is None:
            found = self._headers[key] = self._written(spoken, stream, same_dialect)
        usual, allowed = found
        if not allowed or caller.keys().isdisjoint(allowed):
            return usual
        passed = {name: caller[name] for name in allowed if name in caller}
        return {**usual, **passed, **self._own}

    def _written(
        self, spoken: Protocol, stream: bool, same_dialect: bool
    ) -> tuple[FixedHeaders, tuple[str, ...]]:
        features = tuple(name.lower() for name in spoken.feature_headers) if same_dialect else ()
        usual = {
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            **spoken.headers(self.channel.api_key),
            **self._own,
        }
        return FixedHeaders(usual), (*features, *self._forwarded)

    def with_own(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return {**headers, **self._own} if self._own else headers

    def discretion(self) -> Discretion:
        return Discretion(self._secrets)


class Lines:
    """The lines of one configuration."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Line] = {}

    def of(self, candidate: Candidate, timeouts: TimeoutSettings) -> Line:
        provider, channel = candidate.provider, candidate.channel
        key = (provider.id, channel.id)
        line = self._known.get(key)
        if line is None or line.channel is not channel or line.provider is not provider:
            line = self._known[key] = Line(candidate, timeouts)
        return line


def _seconds(milliseconds: int | None, otherwise: float) -> float:
    return otherwise if milliseconds is None else milliseconds / 1000
