"""Contract of an operation: one typed payload, and how each kind of provider is asked for it (spec 4).

An operation is a module in `operations/` that names one `OPERATION`; its id is the module's name. Everything here
is values in, values out: bytes travel as `Blob`s, which the pipeline reads when it sends.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec

from monoize.engine import Engine
from monoize.media.blob import Blob
from monoize.media.ref import MediaRef
from monoize.money.units import Units
from monoize.settings import OperationId
from monoize.urp import Usage

__all__ = [
    "Adapter",
    "Inline",
    "Made",
    "Multipart",
    "Needs",
    "Operation",
    "Outgoing",
    "Payload",
    "Sent",
    "Tally",
    "UnaryOperation",
    "Units",
    "WireReply",
    "operation",
    "operation_ids",
]

Json: TypeAlias = Mapping[str, Any]
Fields: TypeAlias = tuple[tuple[str, str | Blob], ...]


class Sent(msgspec.Struct, frozen=True, eq=False):
    """A call of a vendor-shaped endpoint: what a provider of that vendor gets again."""

    fields: Json  # of a form: each value a text, or the list of texts of a field that came more than once
    files: tuple[tuple[str, str], ...] = ()  # name in the form, name among the media


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The backbone is typed; what only one vendor knows lies in `extra` and travels (section 4)."""

    model: str
    extra: dict[str, Any] = {}
    # As its caller wrote it at a vendor-shaped endpoint; None: it came in an envelope, or was changed since.
    sent: Sent | None = None


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a payload asks of whoever serves it."""

    features: frozenset[str] = frozenset()
    amounts: Mapping[
        str, float
    ] = {}  # by the name of the limit that it must not pass: max_chars, …


class Inline(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Stands in a JSON body where a blob's base64 belongs."""

    blob: Blob
    data_url: bool = False  # with `data:<mime>;base64,` before it


class Multipart(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """multipart/form-data: texts and files in order."""

    fields: Fields


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a provider is sent. `body` may hold `Inline` values at any depth."""

    path: str
    body: Json | Multipart
    answers_in_bytes: bool = False  # sound, or lines of text: not one JSON object
    dropped: tuple[str, ...] = ()  # fields of the caller that the provider has no place for


class Tally:
    """What a stream turned out to cost; complete when the stream has been read."""

    def __init__(self, units: Units) -> None:
        self.usage: Usage | None = None
        self.units = units


class Made(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What came of it, whoever did it. `result` names its media `Blob`s; they are stored or sent on later."""

    result: Json
    usage: Usage | None = None
    units: Units = Units()
    # The provider's own bytes, for a caller of the same dialect; `result` may then be read from them only in part.
    raw: bytes | None = None
    content_type: str = "application/json"
    stream: Blob | None = None  # the reply as it comes: sound, or server-sent events
    tally: Tally | None = None  # of a stream: its usage is not known before its end
    dropped: tuple[str, ...] = ()  # fields of the caller that nobody looked at


class WireReply(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a caller of the vendor-shaped endpoint is sent."""

    body: bytes | Blob
    content_type: str = "application/json"


P = TypeVar("P", bound=Payload)


class Adapter(ABC, Generic[P]):
    """One operation as one dialect writes it."""

    @abstractmethod
    def request(self, payload: P, model: str, media: Mapping[str, Blob]) -> Outgoing:
        """`media`: the blobs of `Operation.media`, by the same names. Raises UnsupportedByTarget."""

    @abstractmethod
    def made(self, payload: P, reply: Json, raw: bytes) -> Made:
        """From a JSON reply. Raises UpstreamUnreadable."""

    @abstractmethod
    def heard(self, payload: P, content_type: str, stream: Blob) -> Made:
        """From a reply in bytes; the stream has not been read. Raises UpstreamUnreadable."""


class Operation(ABC, Generic[P]):
    """What every operation has: a payload, and what it asks of a provider."""

    id: ClassVar[OperationId]
    payload_type: type[P]
    advice: ClassVar[str] = ""  # for an operator whose gateway has nobody for it

    @abstractmethod
    def needs(self, payload: P) -> Needs:
        """What this very payload uses; `required_features` of the envelope come on top."""

    @abstractmethod
    def downgraded(self, payload: P, missing: frozenset[str]) -> tuple[P, tuple[str, ...]] | None:
        """The payload without what is missing, and what was done in words (D28); None: there is no way."""

    @abstractmethod
    def media(self, payload: P) -> Mapping[str, MediaRef]:
        """References in the payload, by name."""


class UnaryOperation(Operation[P]):
    """An operation that is one HTTP call; chat has the pipeline's protocols, realtime voice a socket."""

    dialects: Mapping[str, Adapter[P]]  # "openai", "gemini"

    def parts(self, payload: P) -> tuple[P, ...]:
        """The calls that the payload is: one, unless it was downgraded to several."""
        return (payload,)

    def joined(self, payload: P, made: Sequence[Made]) -> Made:
        """What the calls of `parts` made, as if it had been one."""
        del payload
        return made[0]

    async def measured(self, media: Mapping[str, Blob]) -> Mapping[str, float]:
        """Amounts of `Needs` that only the media tell."""
        del media
        return {}

    @abstractmethod
    def expected(self, payload: P, media: Mapping[str, Blob]) -> tuple[Usage, Units]:
        """Upper-ish counts, for the reservation and for limits per minute."""

    @abstractmethod
    async def locally(self, payload: P, engine: Engine, media: Mapping[str, Blob]) -> Made:
        """The same by an engine on this machine. Raises UnsupportedByTarget, EngineError."""

    # --- the vendor-shaped door ---

    @abstractmethod
    def from_wire(
        self, wire: Json, files: Mapping[str, tuple[Blob, ...]]
    ) -> tuple[P, Mapping[str, Blob]]:
        """OpenAI's request -> payload, and its uploads by the names of `media`. Raises InvalidRequest."""

    @abstractmethod
    def to_wire(self, payload: P, made: Made, *, created: int) -> WireReply:
        """The reply in OpenAI's shape, as the payload asked for it."""


@cache
def _catalogue() -> Mapping[str, Operation[Any]]:
    # By name: the plug-ins import this contract, never the other way round.
    folder = importlib.import_module("monoize.operations")
    found: dict[str, Operation[Any]] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        if module.name.startswith("_"):
            continue
        plug_in: Operation[Any] = importlib.import_module(
            f"{folder.__name__}.{module.name}"
        ).OPERATION
        if plug_in.id != module.name:
            raise RuntimeError(f"operation {plug_in.id!r} lives in the module {module.name!r}")
        found[plug_in.id] = plug_in
    return found


def operation(id: str) -> Operation[Any]:  # noqa: A002 - `id` is the word for it everywhere
    return _catalogue()[id]


def operation_ids() -> tuple[str, ...]:
    return tuple(_catalogue())
