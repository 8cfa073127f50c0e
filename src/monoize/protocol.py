"""Contract of a wire protocol: wire <-> URP for requests, responses, streams and errors, and nothing else.

A protocol is a package in `protocols/` whose `__init__` names one `PROTOCOL`. Its id is the folder's name.
Codecs are pure: ids and times come in as arguments, losses go out through `Losses`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, TypeAlias

import msgspec

from monoize import wirejson
from monoize.clock import IdSource
from monoize.errors import MonoizeError, ProviderError
from monoize.sse import SseParser, SseWriter, StreamParser, StreamWriter
from monoize.urp import (
    Audio,
    File,
    Frame,
    Image,
    Losses,
    ResponseStart,
    UrpRequest,
    UrpResponse,
    UrpStreamEvent,
    WireEvent,
)

__all__ = [
    "Json",
    "Protocol",
    "Reply",
    "StreamDecoder",
    "StreamEncoder",
    "WireRequest",
    "protocol",
    "protocol_ids",
    "with_model",
    "with_model_for",
    "with_model_in",
]

Json: TypeAlias = dict[str, Any]


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as a provider gets it: where below the base URL, and what."""

    path: str  # with its version segment: /v1/chat/completions
    body: Json


class Reply(msgspec.Struct, kw_only=True):
    """What an encoder of replies must know about the call that it answers."""

    request: UrpRequest  # as the caller sent it
    model: str  # the name that the caller used (D16)
    ids: IdSource
    created: int  # seconds since the epoch, where a provider gave none
    losses: Losses
    replays: bool = (
        False  # the provider speaks the caller's protocol and nobody changes its replies
    )


class StreamDecoder(ABC):
    """Wire events -> frames. One per stream; it never raises on what a provider may write."""

    __slots__ = ()

    @abstractmethod
    def decode(self, event: WireEvent) -> Frame:
        """The events that one wire event becomes; perhaps none."""

    @abstractmethod
    def finish(self) -> Frame:
        """What is still due when the connection ends: the last events, or an Error if the end was missing."""


class StreamEncoder(ABC):
    """Frames -> wire events. One per stream."""

    __slots__ = ("_model_paths", "reply")

    def __init__(self, reply: Reply, model_paths: tuple[tuple[str, ...], ...] = ()) -> None:
        self.reply = reply
        self._model_paths = model_paths

    def frame(self, frame: Frame) -> list[WireEvent]:
        if self.reply.replays and frame.wire is not None:
            return self.replay(frame)
        return [wire for event in frame.events for wire in self.event(event)]

    def replay(self, frame: Frame) -> list[WireEvent]:
        """The provider's own event with the caller's model name."""
        if frame.wire is None:
            return []
        data = with_model(frame.wire.data, self._model_paths, self.reply.model)
        return [WireEvent(data, frame.wire.name)]

    @abstractmethod
    def event(self, event: UrpStreamEvent) -> Iterable[WireEvent]:
        """One event written anew."""

    def opening(self, start: ResponseStart) -> list[WireEvent]:
        """That a provider has begun, where this protocol has no event for it: with nothing of the provider's but id and time.

        `event` writes it for a ResponseStart. Who asks for it earlier gets it then, and it is not written again: another
        provider may follow (D10).
        """
        del start
        return []

    def finish(self) -> list[WireEvent]:
        """What this protocol writes after the last frame (chat: `[DONE]`)."""
        return []


class Protocol(ABC):
    """One wire protocol, both directions."""

    id: ClassVar[str]
    # The protocol whose wire objects these are: sources and seals carry this name (D14).
    dialect: ClassVar[str]
    # Where a reply names its model: paths in a unary object, and in a stream's payloads.
    model_paths: ClassVar[tuple[tuple[str, ...], ...]]
    # Where a whole reply is asked for with the caller's own bytes: a request of plain words in this dialect (see
    # `Source.words`) is complete as it came, but for the name of its model. None: every request is encoded.
    plain_path: ClassVar[str | None] = None
    # Headers of the vendor that travel on same-protocol calls only (T35).
    feature_headers: ClassVar[tuple[str, ...]] = ()
    # A keep-alive that this protocol's clients pass over (T13).
    keep_alive: ClassVar[bytes] = b": keep-alive\n\n"
    comments: ClassVar[bool] = (
        True  # whether this protocol's clients pass over comments in a stream
    )
    line_end: ClassVar[str] = "\n"
    models_path: ClassVar[str] = "/v1/models"  # where a provider lists its models

    # --- requests ---

    @abstractmethod
    def decode_request(
        self, body: Mapping[str, Any], *, model: str | None = None, stream: bool | None = None
    ) -> UrpRequest:
        """Read a request; `model` and `stream` come from the URL where the protocol puts them there.

        Raises InvalidRequest with the path of the mistake in `param`.
        """

    def passing_request(self, raw: bytes) -> UrpRequest | None:
        """The same from its bytes, where it is nothing but words and no rule will look at it; None: decode it."""
        del raw
        return None

    @abstractmethod
    def encode_request(self, request: UrpRequest, losses: Losses) -> WireRequest:
        """Write a request for a provider. What has no place here is named in `losses`."""

    def refuse_untranslatable(self, request: UrpRequest) -> None:  # noqa: B027 - most need not
        """Raise InvalidRequest for a mistake that matters once a request leaves its protocol.

        A decoder lets pass what its own provider will judge, since the vendor words its refusals best.
        """

    def takes_only_bytes(self, part: Image | Audio | File) -> bool:
        """Whether a part that is a URL has no place here, and would have one if it held its data (D30)."""
        del part
        return False

    @abstractmethod
    def headers(self, api_key: str | None) -> dict[str, str]:
        """Authentication and version headers of the provider."""

    # --- replies ---

    @abstractmethod
    def decode_response(self, body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
        """Read a unary reply, tolerant of missing, unknown and new fields."""

    def passing_reply(self, raw: bytes) -> UrpResponse | None:
        """The same from its bytes, where it is nothing but words and goes to the caller as it is; None: decode it."""
        del raw
        return None

    @abstractmethod
    def encode_response(self, response: UrpResponse, reply: Reply) -> Json:
        """Write a unary reply anew."""

    @abstractmethod
    def stream_decoder(self, ids: IdSource) -> StreamDecoder: ...

    @abstractmethod
    def stream_encoder(self, reply: Reply) -> StreamEncoder: ...

    def hides(self, wire: WireEvent, request: UrpRequest) -> bool:
        """Whether an event of a provider is kept from a caller of the same protocol, who gets all others as they came."""
        del wire, request
        return False

    def stream_parser(self, content_type: str, event_limit: int) -> StreamParser | None:
        """The reader of a provider's streamed body; None when the content type says that it is no stream."""
        return None if "json" in content_type else SseParser(event_limit)

    def stream_writer(self, query: Mapping[str, str]) -> StreamWriter:
        """The writer of a caller's stream; `query` is what the caller's URL asked for."""
        del query
        return SseWriter(self.line_end, self.keep_alive, comments=self.comments)

    # --- errors ---

    @abstractmethod
    def decode_error(self, status: int, body: Any) -> ProviderError:
        """Read an error body in any of the shapes that providers of this protocol use."""

    @abstractmethod
    def encode_error(self, error: MonoizeError, request_id: str) -> Json:
        """An error in this protocol's dialect (D18)."""

    # --- counting ---

    def encode_count(self, request: UrpRequest, losses: Losses) -> WireRequest | None:
        """A request that only counts tokens, or None when this protocol has no such call."""
        del request, losses
        return None

    def decode_count(self, body: Mapping[str, Any]) -> int | None:
        del body
        return None

    def encode_count_reply(self, tokens: int) -> Json:
        return {"input_tokens": tokens}


def with_model_in(
    raw: bytes,
    body: Mapping[str, Any],
    paths: tuple[tuple[str, ...], ...],
    model: str,
) -> bytes:
    """`with_model` for the bytes of an object that has been read already: mostly there is little to look for."""
    there = [path for path in paths if _at(body, path) not in (None, "", model)]
    if not there:
        return raw
    if len(there) == 1 and len(there[0]) == 1:
        (key,) = there[0]
        old = body[key]
        named = _renamed_once(raw, key, old, model) if isinstance(old, str) else None
        if named is not None:
            return named
    text = with_model(raw.decode("utf-8", "surrogatepass"), paths, model)
    return text.encode("utf-8", "surrogatepass")


def with_model_for(raw: bytes, old: str, model: str) -> bytes | None:
    """The same for a plain reply, whose source says `words` and which names this old model at its top; None: look closer.

    No object inside of it names a model, and in a text the quotes would have backslashes.
    """
    if old in ("", model):
        return raw
    key_bytes, usual, _ = _spellings("model", old, model)
    if raw.count(key_bytes) == 1 and raw.find(usual[0]) >= 0:
        return raw.replace(*usual)
    return None


def _at(body: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    if len(path) == 1:
        return body.get(path[0])
    found: Any = body
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _renamed_once(raw: bytes, key: str, old: str, model: str) -> bytes | None:
    """The name replaced in place, where there is only one place that it can be; None: look closer.

    The object has the key at its top. Written without escapes it stands in the bytes as it is, so that a single
    occurrence of it is that one.
    """
    key_bytes, usual, spaced = _spellings(key, old, model)
    if raw.find(b"\\u") >= 0 or raw.count(key_bytes) != 1:  # cheaper than `in` (see `sse_runs`)
        return None
    if raw.find(usual[0]) >= 0:
        return raw.replace(*usual)
    return raw.replace(*spaced) if raw.find(spaced[0]) >= 0 else None


@lru_cache(256)
def _spellings(
    key: str, old: str, model: str
) -> tuple[bytes, tuple[bytes, bytes], tuple[bytes, bytes]]:
    """The key; the key with the old name behind it and with the new one, without a blank and with one."""
    quoted, names = b'"%b"' % key.encode(), (wirejson.dumps(old), wirejson.dumps(model))
    usual, spaced = ([quoted + colon + name for name in names] for colon in (b":", b": "))
    return quoted, (usual[0], usual[1]), (spaced[0], spaced[1])


def with_model(data: str, paths: tuple[tuple[str, ...], ...], model: str) -> str:
    """A JSON object with the caller's model name wherever the provider named one; other bytes stay."""
    for path in paths:
        if all(f'"{step}"' in data for step in path):
            data = _renamed(data, path, model)
    return data


def _renamed(data: str, path: tuple[str, ...], model: str) -> str:
    try:
        fields = _RAW_FIELDS.decode(data)
        if path[0] not in fields:
            return data
        inner = bytes(fields[path[0]])
        if len(path) > 1:
            changed = _renamed(inner.decode("utf-8"), path[1:], model).encode()
        elif inner in (b"null", b'""'):
            return data  # the provider named none: absent, null and "" are not a name
        else:
            changed = wirejson.dumps(model)
        if changed == inner:
            return data
        return wirejson.spliced(data, {path[0]: changed}).decode("utf-8")
    except (msgspec.DecodeError, UnicodeError):
        return data


_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


# By name: the plug-ins import this contract, never the other way round.
_FOLDER = "monoize.protocols"


@cache
def protocol(id: str) -> Protocol:  # noqa: A002 - `id` is the word for it everywhere
    """Imported with the first call that needs it: most gateways speak two of them."""
    if id not in protocol_ids():
        raise KeyError(id)
    plug_in: Protocol = importlib.import_module(f"{_FOLDER}.{id}").PROTOCOL
    if plug_in.id != id:
        raise RuntimeError(f"protocol {plug_in.id!r} lives in the folder {id!r}")
    return plug_in


@cache
def protocol_ids() -> tuple[str, ...]:
    folder = importlib.import_module(_FOLDER)
    modules = pkgutil.iter_modules(folder.__path__)
    return tuple(m.name for m in modules if m.ispkg and not m.name.startswith("_"))
