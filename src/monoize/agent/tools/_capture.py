"""What a tool writes, kept within a fixed room however much it is: the beginning, the end and the count."""

from __future__ import annotations

import msgspec

__all__ = ["Capture", "Captured"]

_LONGEST_CHARACTER = 4  # bytes


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    total_bytes: int
    cut: bool = False
    replaced: bool = False  # bytes that are no UTF-8 became U+FFFD

    def marked(self) -> str:
        """The text with what happened to it, for readers that see nothing else."""
        return f"{self.text}\n[not UTF-8: some bytes were replaced]" if self.replaced else self.text


class Capture:
    def __init__(self, most_bytes: int) -> None:
        self._half = max(1, most_bytes // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def feed(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk[-self._half :]
        if len(self._tail) > 2 * self._half:  # now and then, so that each byte is moved once
            del self._tail[: -self._half]

    def whole(self) -> bytes | None:
        """Every byte that was written, if all of them are here."""
        if self.total_bytes > 2 * self._half:
            return None
        return bytes(self._head + self._tail)

    def captured(self) -> Captured:
        data = self.whole()
        if data is not None:
            text, replaced = _text(data)
            return Captured(text=text, total_bytes=self.total_bytes, replaced=replaced)
        head = _without_torn_end(bytes(self._head))
        tail = _without_torn_start(bytes(self._tail[-self._half :]))
        first, first_replaced = _text(head)
        last, last_replaced = _text(tail)
        left_out = self.total_bytes - len(head) - len(tail)
        return Captured(
            text=f"{first}\n[{left_out} of {self.total_bytes} bytes left out]\n{last}",
            total_bytes=self.total_bytes,
            cut=True,
            replaced=first_replaced or last_replaced,
        )


def _text(data: bytes) -> tuple[str, bool]:
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True


def _without_torn_end(data: bytes) -> bytes:
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # noqa: PLR2004 - a character begins here; is all of it there?
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2  # noqa: PLR2004
            return data if length <= back else data[:-back]
        if byte < 0x80:  # noqa: PLR2004 - plain ASCII
            return data
    return data


def _without_torn_start(data: bytes) -> bytes:
    start = 0
    while data[start : start + 1] and start < _LONGEST_CHARACTER and data[start] & 0xC0 == 0x80:  # noqa: PLR2004
        start += 1  # the middle of a character whose beginning is left out
    return data[start:]
