"""Bodies as they may be kept: without secrets, pictures and sounds shortened, and no larger than asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from monoize.discretion import MASK
from monoize.telemetry.scrub import scrubbed

__all__ = ["Redacted", "redacted"]

CUT = "…"
_DEEPEST = 64
_PARTS = 8
_LONGEST_SECRET = 4096
_LONGEST_READ = 1_000_000  # characters of one text; nobody is to wait for what is thrown away
_SHOWN = 12  # letters of something encoded: enough to see what kind of file it is
_PER_VALUE = 4  # characters that a number, a list, a mapping or a mask counts for
_NUMBERS = 32  # of a vector that are shown

# Names whose values are secrets wherever they stand, written without `-` and `_`.
_SECRET_ENDS = (
    "accesskey", "accesstoken", "apikey", "authorization", "authtoken", "bearertoken", "clientsecret", "cookie",
    "credential", "credentials", "idtoken", "passphrase", "passwd", "password", "privatekey", "refreshtoken", "secret",
    "secretkey", "securitytoken", "sessiontoken",
)  # fmt: skip
_LETTERS = re.compile(r"[^a-z0-9]+")
# Of a header less is enough; `x-ratelimit-remaining-tokens` is none.
_SECRET_HEADER = re.compile(
    r"(?:^|[-_])(?:auth|authorization|apikey|cookie2?|credentials?|key|password|secret|session|signature|token)"
    r"(?:$|[-_])",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----).*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# No word is so long; a picture, a sound, a signature or an encrypted thought is.
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{256,}+={0,2}")

Scrub = Callable[[str], str]


class Redacted(msgspec.Struct, frozen=True):
    """A JSON value that went through `redacted`; nothing else is kept."""

    body: Any


def redacted(body: Any, *, longest: int, scrub: Scrub = scrubbed) -> Redacted:
    """A JSON value, text or bytes; `longest` is how many characters all its texts may have together.

    The few parts of an outermost mapping count each for itself: a long request leaves room for its reply.
    A quarter of a megabyte of text takes some 50 milliseconds: do it off the path of the call, and before a
    transaction, not in it.
    """
    return Redacted(_Redaction(longest, scrub).value(body, 0))


class _Redaction:
    def __init__(self, longest: int, scrub: Scrub) -> None:
        self._longest = self._left = longest
        self._scrub = scrub

    def value(self, value: Any, depth: int, *, secret: bool = False, headers: bool = False) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            value = bytes(value).decode("utf-8", "replace")
        if isinstance(value, str) and not (secret and value):
            return self.text(value)
        self._left -= _PER_VALUE
        if isinstance(value, str):
            return MASK
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if value is None or isinstance(value, bool | int):
            return value
        if depth == _DEEPEST or self._left <= 0:
            return CUT
        if isinstance(value, Mapping):
            return self._mapping(value, depth, secret=secret, headers=headers)
        if isinstance(value, list | tuple):
            if headers and _is_pair(value):
                name, content = value
                secret = secret or _is_secret_header(name)
                return [self.value(name, depth), self.value(content, depth, secret=secret)]
            return self._list(value, depth, secret=secret, headers=headers)
        return self.text(str(value))

    def _mapping(
        self, value: Mapping[Any, Any], depth: int, *, secret: bool, headers: bool
    ) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, inner in value.items():
            if depth == 0 and len(value) <= _PARTS:
                self._left = self._longest
            if self._left <= 0:
                kept[CUT] = f"{len(value) - len(kept)} more"
                break
            name = key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
            shown = self.text(name)  # first: the value may use up what is left
            kept[shown] = self.value(
                inner,
                depth + 1,
                secret=secret or _is_secret(name) or (headers and _is_secret_header(name)),
                headers=name.lower().endswith("headers"),
            )
        return kept

    def _list(
        self, value: list[Any] | tuple[Any, ...], depth: int, *, secret: bool, headers: bool
    ) -> list[Any]:
        kept: list[Any] = []
        most = _NUMBERS if _are_numbers(value) else len(value)
        for inner in value[:most]:
            if self._left <= 0:
                break
            kept.append(self.value(inner, depth + 1, secret=secret, headers=headers))
        if len(kept) < len(value):
            kept.append(f"{CUT} {len(value) - len(kept)} more")
        return kept

    def text(self, text: str) -> str:
        if self._left <= 0:
            return CUT if text else text
        read = text[:_LONGEST_READ]
        short = _ENCODED.sub(self._shortened, _PRIVATE_KEY.sub(rf"\1 {MASK}", read))
        safe, is_whole = self._beginning(short, self._left, is_cut=len(text) > len(read))
        if not is_whole:
            more = len(text) - len(read) + len(short) - len(safe)
            safe = f"{safe}{CUT} ({more} more characters)"
        self._left -= len(safe)
        return _storable(safe)

    def _shortened(self, match: re.Match[str]) -> str:
        safe, _ = self._beginning(match[0], _SHOWN)
        return f"{safe}{CUT} ({len(match[0])} characters)"

    def _beginning(self, text: str, length: int, *, is_cut: bool = False) -> tuple[str, bool]:
        """Scrubbed, and whether it is all of it; `is_cut`: more was there before.

        A secret that is cut in two is not found any more, so the cut comes later, and where one may have been cut is
        left out.
        """
        if not is_cut and len(text) <= length + _LONGEST_SECRET:
            safe = self._scrub(text)
            return safe[:length], len(safe) <= length
        safe = self._scrub(text[: length + _LONGEST_SECRET])
        return safe[:-_LONGEST_SECRET][:length], False


def _is_secret(name: str) -> bool:
    return _LETTERS.sub("", name.lower()).endswith(_SECRET_ENDS)


def _is_secret_header(name: Any) -> bool:
    text = name.decode("latin-1") if isinstance(name, bytes) else str(name)
    return _SECRET_HEADER.search(text) is not None


def _is_pair(value: list[Any] | tuple[Any, ...]) -> bool:
    return len(value) == 2 and all(isinstance(part, str | bytes) for part in value)  # noqa: PLR2004


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _storable(text: str) -> str:
    """PostgreSQL takes no NUL, and nobody takes half a surrogate pair."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
