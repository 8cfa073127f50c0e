"""A conversation stays on its channel: prompt caches and sealed reasoning live there (D12)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, assert_never

from monoize.settings import AffinitySettings
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Media,
    Message,
    Refusal,
    Role,
    Text,
    Url,
    UrpRequest,
)

__all__ = ["Affinity", "conversation", "follow_up"]

# Together 16 KiB; apart, so that a long system prompt that all conversations share does not make them one.
_INSTRUCTION_BYTES = 4 * 1024
_QUESTION_BYTES = 12 * 1024
_LEADING = frozenset({Role.SYSTEM, Role.DEVELOPER})
_FOLLOWED = "previous_response_id"  # last: it names one turn, the others the whole conversation
_SESSION_FIELDS = ("conversation", "prompt_cache_key", "session_id")
_SESSION_METADATA = ("session_id",)


class Affinity:
    """Which channel of a provider last answered a conversation; forgets the longest unheard of."""

    def __init__(self) -> None:
        self._by_provider: dict[str, OrderedDict[str, tuple[str, float]]] = {}

    def remembered(
        self, settings: AffinitySettings, provider_id: str, key: str, now: float
    ) -> str | None:
        known = self._by_provider.get(provider_id)
        channel_id, heard_at = (known and known.get(key)) or (None, now)
        return channel_id if now - heard_at <= settings.idle_seconds else None

    def remember(
        self, settings: AffinitySettings, provider_id: str, key: str, channel_id: str, now: float
    ) -> None:
        known = self._by_provider.setdefault(provider_id, OrderedDict())
        known[key] = (channel_id, now)
        known.move_to_end(key)
        while len(known) > settings.conversations or self._oldest_is_over(known, settings, now):
            known.popitem(last=False)

    @staticmethod
    def _oldest_is_over(
        known: OrderedDict[str, tuple[str, float]], settings: AffinitySettings, now: float
    ) -> bool:
        _, heard_at = next(iter(known.values()))
        return now - heard_at > settings.idle_seconds


def conversation(request: UrpRequest, api_key: str | None) -> str:
    """The same for every turn of a conversation, since later turns only append; `user` is no session."""
    session = _session(request)
    if session is not None:
        return _hashed(api_key, request.model, session)
    return _hashed(api_key, request.model, _opening(request.messages))


def follow_up(request: UrpRequest, api_key: str | None, response_id: str) -> str:
    """What `conversation` will be for a next turn that says `previous_response_id` and nothing else."""
    return _hashed(api_key, request.model, _field(_FOLLOWED, response_id))


def _session(request: UrpRequest) -> list[bytes] | None:
    extra = request.extra_body
    for name in _SESSION_FIELDS:
        value = _id_of(extra.get(name))
        if value is not None:
            return _field(name, value)
    for metadata in (request.metadata, extra.get("metadata")):
        if isinstance(metadata, Mapping):
            for name in _SESSION_METADATA:
                value = _id_of(metadata.get(name))
                if value is not None:
                    return _field(f"metadata.{name}", value)
    value = _id_of(extra.get(_FOLLOWED))
    return None if value is None else _field(_FOLLOWED, value)


def _id_of(value: Any) -> str | None:
    """`conversation` is a string or an object with an id."""
    if isinstance(value, Mapping):
        value = value.get("id")
    return value if isinstance(value, str) and value else None


def _field(name: str, value: str) -> list[bytes]:
    return [name.encode(), _encoded(value)]


def _opening(messages: tuple[Message, ...]) -> list[bytes]:
    """The instructions at the front and the first thing the user said."""
    leading: list[Message] = []
    for message in messages:
        if message.role not in _LEADING:
            break
        leading.append(message)
    question = [m for m in messages if m.role is Role.USER][:1]
    return [
        b"opening",
        *_bounded(_said(leading), _INSTRUCTION_BYTES),
        b"question",
        *_bounded(_said(question), _QUESTION_BYTES),
    ]


def _bounded(pieces: Iterable[str], limit: int) -> Iterator[bytes]:
    for piece in pieces:
        data = _encoded(piece[:limit])[:limit]  # cut before encoding: media may be megabytes
        yield data
        limit -= len(data)
        if limit <= 0:
            return


def _said(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            match part:
                case Text(content=content) | Refusal(content=content):
                    yield content
                case Image(media=media) | File(media=media):
                    yield _reference(media)
                case Audio(media=media, id=id_):
                    yield _reference(media) if media is not None else id_ or ""
                case _:  # reasoning and tools are never how a conversation opens
                    pass


def _reference(media: Media) -> str:
    match media:
        case Url(url=url):
            return url
        case Base64(data=data):
            return data
        case FileId(id=id_):
            return id_
        case _:
            assert_never(media)


def _hashed(api_key: str | None, model: str, pieces: Iterable[bytes]) -> str:
    """Each piece with its length, so that no two lists of pieces read the same."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in (_encoded(api_key or ""), _encoded(model), *pieces):
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
