"""What a translation could not carry: collected while encoding, reported to the caller."""

from __future__ import annotations

import re

__all__ = ["Losses"]

_SHOWN = 24  # fields named in the header; the request log keeps them all
_NOTHING: dict[str, None] = {}  # as nearly always; nobody writes into it
_UNSAFE = re.compile(r"[^\w.\[\]<>/:=*+-]")


class Losses:
    """An ordered set of paths. An encoder never drops anything without a line here."""

    __slots__ = ("_dropped",)

    def __init__(self) -> None:
        self._dropped = _NOTHING

    def drop(self, path: str) -> None:
        """Remember one field, part or setting that the target has no place for."""
        if self._dropped is _NOTHING:
            self._dropped = {}
        self._dropped[path] = None

    def and_(self, other: Losses) -> Losses:
        """Both together, to be read; those of a reply are told apart by their prefix."""
        if not other._dropped:
            return self
        both = Losses()
        both._dropped = {**self._dropped, **{f"response.{path}": None for path in other._dropped}}
        return both

    @property
    def dropped(self) -> tuple[str, ...]:
        return tuple(self._dropped)

    def header(self) -> str:
        """The value of `x-monoize-translation`."""
        if not self._dropped:
            return "lossless"
        names = [_UNSAFE.sub("_", path)[:80] for path in self._dropped]
        more = [f"+{len(names) - _SHOWN}"] if len(names) > _SHOWN else []
        return "lossy; dropped=" + ",".join([*names[:_SHOWN], *more])
