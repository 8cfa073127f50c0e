"""Tool-call ids and names within a protocol's alphabet, reversibly and without state (T26)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

__all__ = ["legal_id", "legal_name", "original_id", "shortened"]

_ESCAPE = "mzid_"
_DIGEST = 24  # letters of a hash that stand for the end of a long id
_HARMLESS = re.compile(r"[a-zA-Z0-9_-]+")


def legal_id(call_id: str) -> str:
    """The id itself if it is letters, digits, `_` and `-`, else an escaped form that `original_id` undoes."""
    if _HARMLESS.fullmatch(call_id) and not call_id.startswith(_ESCAPE):
        return call_id
    return _escaped(call_id)


def legal_name(name: str, alphabet: re.Pattern[str], limit: int) -> str:
    """A tool's name as a provider takes it; `original_id` undoes an escaped one in the reply."""
    return shortened(name if alphabet.fullmatch(name) else _escaped(name), limit)


def _escaped(text: str) -> str:
    coded = base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass"))
    return _ESCAPE + coded.decode().rstrip("=")


def original_id(call_id: str) -> str:
    if not call_id.startswith(_ESCAPE):
        return call_id
    coded = call_id.removeprefix(_ESCAPE)
    try:
        raw = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True)
        return raw.decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError, ValueError):
        return call_id


def shortened(call_id: str, limit: int) -> str:
    """An id that a provider would refuse for its length; call and result are shortened alike, so they still pair."""
    if len(call_id) <= limit:
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{call_id[: max(0, limit - _DIGEST - 1)]}_{digest}"[-limit:]
