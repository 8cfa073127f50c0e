"""Secrets in all the ways they are written, and replies without them: providers repeat the key that they were sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from monoize.settings import ChannelSettings

__all__ = ["MASK", "Discretion", "channel_secrets", "forms", "password"]

MASK = "***"
_MASK = MASK.encode()
_SHORTEST = 8  # a shorter "secret" (none, ollama, test) would blank out ordinary words
_SENSITIVE_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


def forms(secret: str) -> Iterator[str]:
    """A secret plain, in a URL and inside JSON; nothing for one that is too short to be one."""
    if len(secret) < _SHORTEST:
        return
    yield secret
    yield quote(secret, safe="", errors="replace")
    yield quote_plus(secret, errors="replace")
    written = json.dumps(secret)[1:-1]
    yield written
    yield written.replace("/", "\\/")
    yield json.dumps(secret, ensure_ascii=False)[1:-1]


def channel_secrets(channel: ChannelSettings) -> Iterator[str]:
    """What is sent on this channel and is nobody else's business."""
    if channel.api_key:
        yield channel.api_key
    for name, value in channel.headers.items():
        if _SENSITIVE_HEADER.search(name):
            yield value
            yield value.rpartition(" ")[2]  # the token behind its scheme


def password(url: str | None) -> str | None:
    try:
        return urlsplit(url or "").password
    except ValueError:
        return None


class Discretion:
    """Bytes on their way back, without secrets, wherever they are cut; one for each reply."""

    __slots__ = ("_forms", "_held", "_letters")

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms, self._letters = _byte_forms(tuple(secrets))
        self._held = b""

    def whole(self, data: bytes) -> bytes:
        """Of a reply that is not cut; nothing is remembered, so that this serves any number of them."""
        for form in self._forms:
            data = data.replace(form, _MASK)
        return data

    def feed(self, chunk: bytes) -> bytes:
        """The chunk, but for an end that may be the beginning of a secret: that waits for the next one."""
        data = self._held + chunk if self._held else chunk
        for form in self._forms:
            data = data.replace(form, _MASK)
        # As at the end of an event: a line's end is in no secret.
        if data and data[-1] not in self._letters:
            self._held = b""
            return data
        end = len(data)
        for form in self._forms:
            end = min(end, _beginning(form, data))
        self._held = data[end:]
        return data[:end] if self._held else data

    def guarding(self, taker: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        """The same taker, but for chunks that `feed` would change, or would not give back alone and whole."""
        return _Guard(self, taker).taken

    def is_needed(self, chunk: bytes) -> bool:
        """Whether `feed` would give back anything but this chunk."""
        if self._held or not chunk or chunk[-1] in self._letters:
            return True
        for form in self._forms:  # noqa: SIM110 - a generator would cost more than the rest of it
            if chunk.find(form) >= 0:  # cheaper than `in` (see `sse_runs`)
                return True
        return False

    def close(self) -> bytes:
        held, self._held = self._held, b""
        return held


class _Guard(msgspec.Struct, frozen=True, eq=False):
    discretion: Discretion
    taker: Callable[[bytes], bool]

    def taken(self, chunk: bytes) -> bool:
        return not self.discretion.is_needed(chunk) and self.taker(chunk)


def _beginning(form: bytes, data: bytes) -> int:
    """Where at the end of `data` the secret may have begun."""
    first = form[:1]
    place = data.find(first, max(0, len(data) - len(form) + 1))
    while place != -1 and not form.startswith(data[place:]):
        place = data.find(first, place + 1)
    return len(data) if place == -1 else place


@lru_cache(maxsize=4096)
def _byte_forms(secrets: tuple[str, ...]) -> tuple[tuple[bytes, ...], bytes]:
    """Longest first: a secret may be the beginning of another one. And every byte that is in any of them."""
    found = {form.encode("utf-8", "replace") for secret in secrets for form in forms(secret)}
    return tuple(sorted(found, key=len, reverse=True)), bytes(sorted(set(b"".join(found))))
