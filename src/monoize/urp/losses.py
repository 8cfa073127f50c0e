"""What a translation could not carry: collected while encoding, reported to the caller."""

from __future__ import annotations

import re

import msgspec

__all__ = ["Losses"]

_SHOWN = 24  # fields named in the header; the request log keeps them all
_UNSAFE = re.compile(r"[^\w.\[\]<>/:=*+-]")


class Losses(msgspec.Struct, eq=False):
    """An ordered set of paths. An encoder never drops anything without a line here."""

    _dropped: dict[str, None] | None = None  # as nearly always

    def drop(self, path: str) -> None:
        """Remember one field, part or setting that the target has no place for."""
        if self._dropped is None:
            self._dropped = {}
        self._dropped[path] = None

    def and_(self, other: Losses) -> Losses:
        """Both together, to be read; those of a reply are told apart by their prefix."""
        if not other._dropped:
            return self
        told_apart = {f"response.{path}": None for path in other._dropped}
        return Losses({**(self._dropped or {}), **told_apart})

    @property
    def dropped(self) -> tuple[str, ...]:
        return tuple(self._dropped) if self._dropped else ()

    def header(self) -> str:
        """The value of `x-monoize-translation`."""
        if not self._dropped:
            return "lossless"
        names = [_UNSAFE.sub("_", path)[:80] for path in self._dropped]
        more = [f"+{len(names) - _SHOWN}"] if len(names) > _SHOWN else []
        return "lossy; dropped=" + ",".join([*names[:_SHOWN], *more])
