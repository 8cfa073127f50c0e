"""Parts written anew, for a provider (request) or for a caller (reply)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from monoize import wirejson
from monoize.protocols import _custom_tools, _extras
from monoize.protocols.gemini.media import write_media
from monoize.protocols.gemini.names import legal_name
from monoize.protocols.gemini.spelling import DIALECT
from monoize.urp import (
    Audio,
    File,
    Image,
    Losses,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Seal,
    Text,
    ToolCall,
    ToolResult,
)
from monoize.urp.carrier import pack_part, pack_seal
from monoize.urp.extra_body import flattened, rest

__all__ = ["MADE_ID", "PartWriter"]

_MEDIA = ("inlineData", "fileData")
MADE_ID = "call_gem_"  # ids that we gave to calls that had none; Google never sees them (T26)


def _carrier_part(packed: str) -> dict[str, Any]:
    """Google's clients hand back a thought with its signature unread: room for what others sealed."""
    return {"text": "", "thought": True, "thoughtSignature": packed}


def _signature_of(seal: Seal | None) -> dict[str, Any]:
    return {"thoughtSignature": seal.data} if seal and seal.protocol == DIALECT else {}


class PartWriter:
    """Writes parts. What another provider sealed is carried to a caller, but means nothing to a provider."""

    def __init__(self, losses: Losses, *, same: bool, carries: bool) -> None:
        self._losses = losses
        self._same = same  # the values were made by this dialect: their extra fields belong here
        self._carries = carries

    def write(self, part: Part, path: str) -> Iterator[dict[str, Any]]:
        if part.source is not None and part.source.protocol == DIALECT:
            yield part.source.wire
            return
        match part:
            case Text():
                yield from self._text(part, path)
            case Image() | Audio() | File():
                written = write_media(part, path, self._losses)
                if written is not None:
                    yield self._with_extra(written, part.extra_body, path)
            case Reasoning():
                yield from self._reasoning(part, path)
            case ReasoningEncrypted():
                yield from self._encrypted(part, path)
            case ToolCall():
                yield from self._call(part, path)
            case Refusal(content=""):
                return
            case Refusal():
                yield self._with_extra({"text": part.content}, part.extra_body, path)
            case ProviderItem():
                yield from self._native(part, path)
            case ToolResult():
                self._losses.drop(path)  # an answer outside of a tool message answers nothing here
            case _:
                assert_never(part)

    def _text(self, part: Text, path: str) -> Iterator[dict[str, Any]]:
        signature = _signature_of(part.seal)
        if part.content or signature:
            yield self._with_extra({"text": part.content, **signature}, part.extra_body, path)
        if part.seal is not None and not signature:
            if not self._carries:
                self._losses.drop(f"{path}.seal")
            else:
                yield _carrier_part(pack_seal(part) if part.content else pack_part(part))

    def _reasoning(self, part: Reasoning, path: str) -> Iterator[dict[str, Any]]:
        signature = _signature_of(part.seal)
        foreign = part.seal is not None and not signature
        if foreign and not self._carries:
            self._losses.drop(path)
            return
        if part.content or signature:
            thought = {"text": part.content, "thought": True, **signature}
            yield self._with_extra(thought, part.extra_body, path)
        if foreign:
            yield _carrier_part(pack_part(part))

    def _encrypted(self, part: ReasoningEncrypted, path: str) -> Iterator[dict[str, Any]]:
        if part.protocol == DIALECT and isinstance(part.data, Mapping):
            yield dict(part.data)
        elif self._carries:
            yield _carrier_part(pack_part(part))
        else:
            self._losses.drop(path)

    def _native(self, part: ProviderItem, path: str) -> Iterator[dict[str, Any]]:
        if part.origin_protocol == DIALECT and isinstance(part.body, Mapping):
            yield dict(part.body)
        else:
            self._losses.drop(path)

    def _call(self, part: ToolCall, path: str) -> Iterator[dict[str, Any]]:
        signature = _signature_of(part.seal)
        if part.seal is not None and not signature:
            if not self._carries:
                self._losses.drop(f"{path}.seal")
            else:
                yield _carrier_part(pack_seal(part))
        # A caller knows the tool by the name that it gave to it; only Google is particular (T26).
        name = part.name if self._carries else legal_name(part.name)
        call: dict[str, Any] = {"name": name, "args": _arguments(part)}
        if not part.call_id.startswith(MADE_ID):
            call = {"id": part.call_id, **call}
        extra = dict(part.extra_body)
        if self._same and isinstance(extra.get("functionCall"), Mapping):
            flattened(call, extra.pop("functionCall"))
        yield self._with_extra({"functionCall": call, **signature}, extra, path)

    def _with_extra(
        self, written: dict[str, Any], extra: Mapping[str, Any], path: str
    ) -> dict[str, Any]:
        beside = _extras.nested(extra, path, self._losses, same=self._same)
        holder = next((written[kind] for kind in _MEDIA if kind in written), None)
        for kind in _MEDIA:
            if holder is not None and isinstance(beside.get(kind), Mapping):
                # What stood beside the data follows it, even into the other kind of object.
                flattened(holder, beside[kind])
                beside = rest(beside, (kind,))
        return flattened(written, beside)


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Google wants an object: what is none is kept whole under one key (T24)."""
    text = _custom_tools.as_function_arguments(call)
    if not text.strip():
        return {}
    try:
        parsed = wirejson.loads(text)
    except wirejson.JsonError:
        parsed = text
    if parsed is None:
        return {}
    return parsed if isinstance(parsed, dict) else {"raw_arguments": text}
