"""A grammar that the caller brings along: judged before llama.cpp sees it, and its text afterwards (pure).

llama.cpp drops a grammar that it cannot read and generates freely, and its own grammar reader can be crashed; so only llguidance's
dialect is taken, within limits, and what comes out is read by that grammar once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from monoize.errors import InvalidRequest

__all__ = ["MAX_BYTES", "read", "speaks"]

MAX_BYTES = 256 * 1024
_HEADER = "%llguidance"
_RIVALS = ("tools", "response_format")  # they bind decoding too


def read(body: Mapping[str, Any]) -> str | None:
    """The request's `grammar`, checked. Raises InvalidRequest that says what is wrong with it."""
    grammar = body.get("grammar")
    if grammar is None or grammar == "":
        return None
    if not isinstance(grammar, str):
        raise _refused("must be the text of a grammar")
    for rival in _RIVALS:
        if body.get(rival):
            raise _refused(f"cannot stand beside {rival}: both say what may be written")
    if not grammar.startswith(_HEADER):
        raise _refused(f"must be a llguidance grammar, which begins with {_HEADER}")
    if len(grammar.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _refused(f"is larger than {MAX_BYTES} bytes")
    problem = _problem(grammar)
    if problem is not None:
        raise _refused(f"cannot be enforced: {problem}")
    return grammar


def speaks(grammar: str, text: str) -> bool:
    """Whether the whole text is a sentence of the grammar."""
    llguidance = _llguidance()
    matcher = llguidance.LLMatcher(_bytes(), grammar, log_level=0)
    written = list(text.encode("utf-8", "surrogatepass"))
    return bool(matcher.try_consume_tokens(written) == len(written) and matcher.is_accepting())


@lru_cache(maxsize=64)
def _problem(grammar: str) -> str | None:
    is_error, said = _llguidance().LLMatcher.validate_grammar_with_warnings(grammar)
    return str(said[0]).partition("\n")[0][:300] if is_error else None


@lru_cache(maxsize=1)
def _bytes() -> Any:
    return _llguidance().LLTokenizer("byte")


def _llguidance() -> ModuleType:
    try:
        import llguidance  # noqa: PLC0415 - only where a grammar comes along
    except ImportError:
        raise _refused("needs the package llguidance, which is not installed") from None
    module: ModuleType = llguidance
    return module


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"grammar {why}", param="grammar")
