"""Bodies that come compressed although nobody asked: undone piece by piece, so that none becomes a flood."""

from __future__ import annotations

import zlib
from typing import Final

__all__ = ["Decoder", "Undecodable", "decoder_for"]

_PIECE_BYTES: Final = 256 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_NIBBLE: Final = 0x0F
_DEFLATE_METHOD: Final = (
    8  # the first half byte of a zlib stream; some send the bare stream instead
)


class Undecodable(Exception):
    """The body is not what its header says."""


def decoder_for(encoding: str) -> Decoder | None:
    """None: nothing to undo. Raises Undecodable for what nobody here can read."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return Decoder("gzip")
        case "deflate":
            return Decoder("deflate")
        case _:
            raise Undecodable("the reply is in an encoding that was not asked for")


class Decoder:
    """`feed` and then `more` until that is empty; at the end `finish`."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._engine: zlib._Decompress | None = None
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        self._rest += data
        return self.more()

    def more(self) -> bytes:
        """Up to a piece of what was fed and not taken yet."""
        while self._rest:
            if self._engine is None or self._engine.eof:
                self._engine = self._begun(self._rest[0])
            try:
                piece = self._engine.decompress(self._rest, _PIECE_BYTES)
            except zlib.error:
                raise Undecodable(f"the reply is not the {self._encoding} that it says") from None
            self._rest = self._engine.unconsumed_tail or self._engine.unused_data
            if piece:
                return piece
        return b""

    def finish(self) -> None:
        """A body that stops in the middle is not a short one; one that is empty is just that."""
        if self._engine is not None and not self._engine.eof:
            raise Undecodable(f"the reply's {self._encoding} ends too early")

    def _begun(self, first: int) -> zlib._Decompress:
        if self._encoding == "gzip":  # several members in a row are one body
            return zlib.decompressobj(_GZIP)
        has_wrapper = first & _NIBBLE == _DEFLATE_METHOD
        return zlib.decompressobj(zlib.MAX_WBITS if has_wrapper else -zlib.MAX_WBITS)
