"""Why a candidate ended: Google's words and numbers <-> five meanings (T7)."""

from __future__ import annotations

from typing import Any

from monoize.protocols.gemini.spelling import DIALECT
from monoize.urp import Finish, FinishReason

__all__ = ["blocked", "decode_finish", "write_finish"]

_STOPPED = FinishReason.STOP
_FILTERED = FinishReason.CONTENT_FILTER

# What is not here is `other`: new words come faster than lists.
_REASONS = {
    "STOP": _STOPPED,
    "MAX_TOKENS": FinishReason.LENGTH,
    "SAFETY": _FILTERED,
    "RECITATION": _FILTERED,
    "BLOCKLIST": _FILTERED,
    "PROHIBITED_CONTENT": _FILTERED,
    "SPII": _FILTERED,
    "MODEL_ARMOR": _FILTERED,
    "IMAGE_SAFETY": _FILTERED,
    "IMAGE_PROHIBITED_CONTENT": _FILTERED,
    "IMAGE_RECITATION": _FILTERED,
}
# Clients that speak Google's binary protocol write the number of the word.
_NUMBERS = {
    1: "STOP",
    2: "MAX_TOKENS",
    3: "SAFETY",
    4: "RECITATION",
    5: "OTHER",
    6: "LANGUAGE",
    7: "BLOCKLIST",
    8: "PROHIBITED_CONTENT",
    9: "SPII",
    10: "MALFORMED_FUNCTION_CALL",
    11: "IMAGE_SAFETY",
    12: "UNEXPECTED_TOOL_CALL",
}
_WORDS = {
    FinishReason.STOP: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
    FinishReason.OTHER: "OTHER",
}


def decode_finish(value: Any, *, calls: bool) -> Finish | None:
    """None while the candidate goes on. Google stops for a function call with its ordinary word."""
    if isinstance(value, bool) or value in (None, "", 0, "FINISH_REASON_UNSPECIFIED"):
        return None
    word = _NUMBERS.get(value, str(value)) if isinstance(value, int) else str(value)
    reason = _REASONS.get(word.upper(), FinishReason.OTHER)
    if calls and reason is FinishReason.STOP:
        reason = FinishReason.TOOL_CALLS
    return Finish(reason=reason, native=word, protocol=DIALECT)


def blocked(block_reason: Any) -> Finish:
    """The prompt itself was refused: there is no candidate, only this."""
    return Finish(reason=_FILTERED, native=str(block_reason), protocol=DIALECT)


def write_finish(finish: Finish | None, *, refused: bool) -> str:
    if finish is None:
        return "OTHER"
    if finish.protocol == DIALECT and finish.native:
        return finish.native
    if refused and finish.reason is FinishReason.STOP:
        return "SAFETY"  # how Google says that the model would not answer (T32)
    return _WORDS[finish.reason]
