"""How each kind of part is written into a stream of events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from monoize.protocols.responses.content import annotation, logprob
from monoize.protocols.responses.output import GrowingMessage, GrowingReasoning, Output, Owner
from monoize.protocols.responses.vocabulary import CONTENT, DIALECT
from monoize.urp import (
    Base64,
    Citation,
    CitationDelta,
    EncryptedDelta,
    Image,
    MediaDelta,
    PartDelta,
    ProviderItem,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    Seal,
    SealDelta,
    Text,
    TextDelta,
    replace,
)
from monoize.urp.carrier import pack_part, pack_seal
from monoize.urp.extra_body import flattened

__all__ = [
    "EncryptedWriter",
    "ImageWriter",
    "LostWriter",
    "NativeWriter",
    "PartWriter",
    "ReasoningWriter",
    "RefusalWriter",
    "TextWriter",
]


class PartWriter(ABC):
    """Takes the deltas of one part; `done` completes it."""

    def __init__(self, output: Output, owner: Owner) -> None:
        self.output = output
        self.owner = owner

    def delta(self, delta: PartDelta) -> None:  # noqa: B027 - not every part grows
        """Deltas that do not fit their part are passed over."""

    @abstractmethod
    def done(self) -> None: ...

    def abandon(self) -> None:
        """The reply fails before the part is complete: what was said of it stands."""
        self.done()


class LostWriter(PartWriter):
    """A part that this protocol's replies have no place for."""

    def __init__(self, output: Output, owner: Owner, path: str) -> None:
        super().__init__(output, owner)
        output.reply.losses.drop(path)

    @override
    def done(self) -> None:
        pass


class TextWriter(PartWriter):
    """Opens its item with the first word: an empty text that only holds a seal shows nothing."""

    def __init__(self, output: Output, owner: Owner, part: Text) -> None:
        super().__init__(output, owner)
        self._extra = part.extra_body if output.native else {}
        self._seal = part.seal
        self._pieces: list[str] = []
        self._length = 0
        self._annotations: list[Mapping[str, Any]] = []
        self._citations_due: list[Citation] = []  # of the whole text, whose length is not known yet
        self._logprobs: list[Mapping[str, Any]] = []
        self._item: GrowingMessage | None = None
        self._index = 0
        if part.content or part.logprobs:
            self._say(part.content, part.logprobs)
        for citation in part.citations:
            self.delta(CitationDelta(citation=citation))

    @override
    def delta(self, delta: PartDelta) -> None:
        match delta:
            case TextDelta() if delta.content or delta.logprobs:
                self._say(delta.content, delta.logprobs)
            case CitationDelta() if delta.citation.end is None and not self.output.native:
                self._citations_due.append(delta.citation)
            case CitationDelta():
                self._cite(delta.citation)
            case SealDelta():
                self._seal = delta.seal
            case _:
                pass

    def _open(self) -> GrowingMessage:
        if self._item is None:
            self._item = self.output.message(self.owner)
            self._index = self._item.open_part(self._part(""))
        return self._item

    def _part(self, content: str) -> dict[str, Any]:
        return flattened(
            {
                "type": "output_text",
                "text": content,
                "annotations": list(self._annotations),
                "logprobs": list(self._logprobs),
            },
            self._extra,
        )

    def _say(self, content: str, logprobs: tuple[Mapping[str, Any], ...] | None) -> None:
        item = self._open()
        tokens = [logprob(entry) for entry in logprobs or ()]
        self._pieces.append(content)
        self._length += len(content)
        self._logprobs += tokens
        self._event("response.output_text.delta", item, delta=content, logprobs=tokens)

    def _cite(self, citation: Citation) -> None:
        losses, native = self.output.reply.losses, self.output.native
        found = annotation(citation, self._length, losses, native=native)
        if found is None:
            return
        item = self._open()
        self._event(
            "response.output_text.annotation.added",
            item,
            annotation_index=len(self._annotations),
            annotation=found,
        )
        self._annotations.append(found)

    def _event(self, kind: str, item: GrowingMessage, **fields: Any) -> None:
        self.output.emit(kind, **item.place(), content_index=self._index, **fields)

    @override
    def done(self) -> None:
        for citation in self._citations_due:
            self._cite(citation)
        seal = self._seal if self._seal is not None and self._seal.protocol != DIALECT else None
        if self._item is None and (seal is not None or not self.output.native):
            if seal is not None:
                self.output.carrier(pack_part(Text(content="", seal=seal)))
            return
        item = self._open()
        content = "".join(self._pieces)
        self._event("response.output_text.done", item, text=content, logprobs=self._logprobs)
        item.close_part(self._index, self._part(content))
        if seal is not None:
            self.output.carrier(pack_seal(Text(content=content, seal=seal)))


class RefusalWriter(PartWriter):
    def __init__(self, output: Output, owner: Owner, part: Refusal) -> None:
        super().__init__(output, owner)
        self._item = output.message(owner)
        self._index = self._item.open_part({"type": "refusal", "refusal": ""})
        self._pieces: list[str] = []
        if part.content:
            self.delta(RefusalDelta(content=part.content))

    @override
    def delta(self, delta: PartDelta) -> None:
        if isinstance(delta, RefusalDelta) and delta.content:
            self._pieces.append(delta.content)
            self._event("response.refusal.delta", delta=delta.content)

    def _event(self, kind: str, **fields: Any) -> None:
        self.output.emit(kind, **self._item.place(), content_index=self._index, **fields)

    @override
    def done(self) -> None:
        content = "".join(self._pieces)
        self._event("response.refusal.done", refusal=content)
        self._item.close_part(self._index, {"type": "refusal", "refusal": content})


class ReasoningWriter(PartWriter):
    """Thoughts are shown as a summary; only a Responses provider's raw thoughts are `content` here too."""

    def __init__(self, output: Output, owner: Owner, part: Reasoning) -> None:
        super().__init__(output, owner)
        self._part = part
        self._raw = output.native and part.kind == "text"
        self._field = "content" if self._raw else "summary"
        self._seal: Seal | None = part.seal
        self._pieces: list[str] = []
        self._item: GrowingReasoning | None = None
        self._index = 0
        if part.content:
            self._think(part.content)

    @override
    def delta(self, delta: PartDelta) -> None:
        match delta:
            case ReasoningDelta() if delta.content:
                self._think(delta.content)
            case SealDelta():
                self._seal = delta.seal
            case _:
                pass

    def _entry(self, content: str) -> dict[str, Any]:
        kind = "reasoning_text" if self._raw else "summary_text"
        extra = self._part.extra_body if self.output.native else {}
        return flattened({"type": kind, "text": content}, extra)

    def _event(self, kind: str, item: GrowingReasoning, **fields: Any) -> None:
        place = "content_index" if self._raw else "summary_index"
        self.output.emit(kind, **item.place(), **{place: self._index}, **fields)

    def _open(self) -> GrowingReasoning:
        if self._item is None:
            self._item = self.output.reasoning(self.owner)
            self._index = self._item.open_part(self._field, self._entry(""))
            kind = "content_part" if self._raw else "reasoning_summary_part"
            self._event(f"response.{kind}.added", self._item, part=self._entry(""))
        return self._item

    def _think(self, content: str) -> None:
        item = self._open()
        self._pieces.append(content)
        kind = "reasoning_text" if self._raw else "reasoning_summary_text"
        self._event(f"response.{kind}.delta", item, delta=content)

    @override
    def done(self) -> None:
        content = "".join(self._pieces)
        if self._item is None and not self.output.native:
            if self._seal is not None:  # signed, but nothing to show
                self.output.carrier(pack_part(replace(self._part, content="", seal=self._seal)))
            return
        item = self._open()
        text, part = (
            ("reasoning_text", "content_part")
            if self._raw
            else ("reasoning_summary_text", "reasoning_summary_part")
        )
        self._event(f"response.{text}.done", item, text=content)
        self._event(f"response.{part}.done", item, part=self._entry(content))
        if self._seal is not None:
            sealed = replace(self._part, content=content, seal=self._seal)
            item.sealed = {"encrypted_content": pack_part(sealed)}
        item.close_part(self._field, self._index, self._entry(content))
        if not self.output.native:
            item.retire()


class EncryptedWriter(PartWriter):
    """A sealed reasoning object: of this dialect it completes its item, of another it rides in a carrier."""

    def __init__(self, output: Output, owner: Owner, part: ReasoningEncrypted) -> None:
        super().__init__(output, owner)
        self._part = part

    @override
    def delta(self, delta: PartDelta) -> None:
        if isinstance(delta, EncryptedDelta):
            self._part = replace(self._part, data=delta.data)

    @override
    def done(self) -> None:
        data = self._part.data
        if self._part.protocol != DIALECT or not isinstance(data, Mapping):
            self.output.carrier(pack_part(self._part))
            return
        item = self.output.open_reasoning(self.owner)
        if item is None:  # its thoughts are not shown, or were taken out on the way
            shown: dict[str, Any] = {"summary": []}
            if "content" in data:
                shown["content"] = []
            self.output.whole({**data, **shown})
            return
        item.sealed = data
        item.id = data.get("id") or item.id  # sealed together with its id (T21)
        item.retire()


class ImageWriter(PartWriter):
    """A picture that the model made: this protocol's only form for one is its image tool's result."""

    def __init__(self, output: Output, owner: Owner, part: Image, path: str) -> None:
        super().__init__(output, owner)
        self._pieces = [part.media.data] if isinstance(part.media, Base64) else []
        self._path = path

    @override
    def delta(self, delta: PartDelta) -> None:
        if isinstance(delta, MediaDelta):
            self._pieces.append(delta.data)

    @override
    def done(self) -> None:
        if not self._pieces:
            self.output.reply.losses.drop(self._path)
            return
        self.output.whole(
            {
                "id": self.output.reply.ids.new("ig_"),
                "type": "image_generation_call",
                "status": "completed",
                "result": "".join(self._pieces),
            }
        )


class NativeWriter(PartWriter):
    """A native item, or a native content part within a message, of this very protocol."""

    def __init__(self, output: Output, owner: Owner, part: ProviderItem) -> None:
        super().__init__(output, owner)
        self._part = part

    @override
    def done(self) -> None:
        body = self._part.body
        if not isinstance(body, Mapping):
            return
        if self._part.item_type.startswith(CONTENT):
            item = self.output.message(self.owner)
            item.close_part(item.open_part(body), body)
        else:
            self.output.whole(body)
