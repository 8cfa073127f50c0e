"""How much a request holds, seen from outside: letters by their kind, and media; no tokenizer, microseconds."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any, assert_never

import msgspec

from monoize import wirejson
from monoize.urp import (
    Audio,
    Base64,
    File,
    Image,
    JsonSchemaFormat,
    Media,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    UrpRequest,
)

__all__ = ["Load", "letters", "weigh"]

_PROSE = (string.ascii_letters + " ").encode()
_ASCII = bytes(range(128))
_TWO_BLANKS = re.compile(b"  ")  # over prose three times as fast as `in`

# One token of a file is about so many of its bytes; the first prefix that fits.
_BYTES_PER_TOKEN = (
    ("text/", 3),
    ("application/json", 3),
    ("application/xml", 3),
    ("audio/", 250),  # 32 tokens a second, 64 kbit/s
    ("video/", 500),
    ("", 20),  # PDF: a page of 40 kB is read as 2,000 tokens
)
_SHORT = 16_384  # letters: longer texts are not copied once more to be weighed with others
_PIECE = 65_536  # letters of a long text that are weighed at once, in the processor's cache
_SMALLEST_FILE = 3000  # tokens: two pages; also of a file that lies elsewhere


class Load(msgspec.Struct):
    """What was weighed, so far."""

    prose: int = 0  # ASCII letters and blanks, which share tokens
    dense: int = 0  # other ASCII: digits, signs, line ends
    wide: int = 0  # bytes of everything else
    text: int = 0  # all bytes
    messages: int = 0
    images: int = 0
    audio: int = 0  # tokens
    files: int = 0  # tokens
    tools: int = 0
    provider_tools: int = 0  # run by the provider, who reads their results as input

    def add(self, text: str | bytes) -> None:
        pairs = text.count(b"  ") if isinstance(text, bytes) else text.count("  ")
        self.prose -= _indents(pairs)
        for at in range(0, len(text), _PIECE):
            piece = text[at : at + _PIECE]
            data = piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass")
            self._add(_letters(data, 0, 0))

    def add_all(self, texts: list[str]) -> None:
        """Each of them, in one pass: a conversation has many short ones."""
        self._add(_letters_of_all(texts))

    def _add(self, letters: tuple[int, int, int, int]) -> None:
        prose, dense, wide, size = letters
        self.prose += prose
        self.dense += dense
        self.wide += wide
        self.text += size


def _letters_of_all(texts: list[str]) -> tuple[int, int, int, int]:
    data = "\n".join(texts).encode("utf-8", "surrogatepass")
    has_runs = _TWO_BLANKS.search(data) is not None
    indents = sum([_indents(text.count("  ")) for text in texts]) if has_runs else 0
    return _letters(data, indents, len(texts) - 1)


def _letters(data: bytes, indents: int, seams: int) -> tuple[int, int, int, int]:
    """Prose, dense, wide and all of it. `seams`: line ends that are nobody's, between texts."""
    size = len(data) - seams
    rest = data.translate(None, _PROSE)
    others = len(rest) - seams
    wide = 0 if rest.isascii() else len(rest.translate(None, _ASCII))
    return size - others - indents, others - wide, wide, size


def _indents(pairs: int) -> int:
    """Letters of a text that cost nothing: long runs of blanks are few tokens."""
    return pairs * 7 // 4


def letters(text: str) -> int:
    """Bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def weigh(request: UrpRequest) -> Load:
    words = _words(request)
    if words:  # as of most: nothing else is to be weighed
        return Load(*_letters_of_all(words), len(request.messages))
    load = Load(messages=len(request.messages))
    short = _add_others(load, request)
    if short:
        load.add_all(short)
    if request.tools or request.response_format is not None:
        for text in _definitions(request):
            load.add(text)
        for tool in request.tools or ():
            load.tools += 1
            load.provider_tools += tool.kind == "provider"
    return load


def _words(request: UrpRequest) -> list[str] | None:
    """All there is to weigh in a request, where that is short texts; None: there is more, or nobody has looked."""
    source = request.source
    if source is None or not source.words or request.tools or request.response_format is not None:
        return None
    texts: list[str] = [
        part.content  # type: ignore[union-attr]  # as its source says
        for message in request.messages
        for part in message.parts
    ]
    return texts if max(map(len, texts), default=0) <= _SHORT else None


def _add_others(load: Load, request: UrpRequest) -> list[str]:
    """All but the short texts, which are left over to be weighed together."""
    short: list[str] = []
    for message in request.messages:
        for part in message.parts:
            if type(part) is Text and len(part.content) <= _SHORT:
                short.append(part.content)
            else:
                _add_part(load, part)
    return short


def _definitions(request: UrpRequest) -> Iterator[bytes]:
    for tool in request.tools or ():
        yield wirejson.dumps([tool.name, tool.description, tool.parameters, tool.body])
    if isinstance(request.response_format, JsonSchemaFormat):
        yield wirejson.dumps(request.response_format.schema)


def _add_part(load: Load, part: Part) -> None:
    match part:
        case Text() | Reasoning() | Refusal():
            load.add(part.content)
        case ToolCall():
            load.add(part.name)
            load.add(part.arguments)
        case ToolResult():
            pass  # its content is the parts beside it
        case Image():
            load.images += 1
        case Audio():
            load.audio += _file_tokens(part.media)
            load.add(part.transcript or "")
        case File():
            load.files += _file_tokens(part.media)
        case ProviderItem():
            load.add(_json(part.body))
        case ReasoningEncrypted():
            load.add(_json(part.data))
        case _:
            assert_never(part)


def _json(value: Any) -> str | bytes:
    return value if isinstance(value, str) else wirejson.dumps(value)


def _file_tokens(media: Media | None) -> int:
    if not isinstance(media, Base64):
        return _SMALLEST_FILE
    size = len(media.data) * 3 // 4
    kind = media.media_type.lower()
    per_token = next(per for prefix, per in _BYTES_PER_TOKEN if kind.startswith(prefix))
    return max(size // per_token, _SMALLEST_FILE)
