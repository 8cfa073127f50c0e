"""Calls as they are being written, byte by byte: where one stops being one, and where one is whole (invariant F)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import llguidance

from monoize.agent.boundary.grammar import verifier_grammar
from monoize.agent.boundary.local_syntax import SYNTAXES, LocalCall, Syntax, TextSyntax, call_at
from monoize.agent.boundary.strict_json import MAX_BYTES, NotStrict
from monoize.agent.machine.schema import value_problem
from monoize.agent.manifest import ToolManifest
from monoize.agent.outcome import FailureCode

__all__ = ["CallReader", "TextReader", "Violation"]

_FRAME_BYTES = 256  # what stands around the arguments
_BLANKS = " \t\r\n"


class Violation(Exception):
    def __init__(self, code: FailureCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


# --- one call, byte by byte ------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _verifier(grammar: str) -> llguidance.LLMatcher:
    matcher = llguidance.LLMatcher(_bytes(), grammar, log_level=0)
    if matcher.is_error():
        raise AssertionError(f"a grammar of our own is wrong: {matcher.get_error()}")
    return matcher


@lru_cache(maxsize=1)
def _bytes() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer("byte")


class CallReader:
    """Follows one call; says at which byte it stops being one."""

    def __init__(self, manifest: ToolManifest, syntax: TextSyntax | None) -> None:
        self._manifest = manifest
        self._matcher = _verifier(verifier_grammar(manifest, syntax).text).deep_copy()
        self._pieces: list[str] = []
        self._size = 0

    def feed(self, text: str) -> int:
        """How many characters belong to the call; fewer than given when it is over. Raises Violation."""
        written = text.encode("utf-8", "surrogatepass")
        taken = self._matcher.try_consume_tokens(list(written))
        self._size += taken
        if self._size > MAX_BYTES + _FRAME_BYTES:
            raise Violation(FailureCode.MALFORMED, f"a call is larger than {MAX_BYTES} bytes")
        if taken == len(written):
            self._pieces.append(text)
            return len(text)
        if not self._matcher.is_accepting():
            raise Violation(
                FailureCode.MALFORMED, f"byte {self._size} of a call cannot stand there"
            )
        kept = written[:taken].decode("utf-8")
        self._pieces.append(kept)
        return len(kept)

    @property
    def may_end(self) -> bool:
        return self._matcher.is_accepting()

    def done(self) -> LocalCall:
        if not self.may_end:
            raise Violation(FailureCode.MALFORMED, "a call is not complete")
        try:
            call, _ = call_at("".join(self._pieces), 0)
        except NotStrict as mistake:
            raise Violation(FailureCode.MALFORMED, mistake.reason) from None
        tool = self._manifest.get(call.name)
        if tool is None:
            raise Violation(FailureCode.UNKNOWN_TOOL, f"{call.name} is no tool of this contract")
        problem = value_problem(tool.parameters, call.arguments)
        if problem is not None:
            raise Violation(FailureCode.INVALID_ARGUMENTS, f"{call.name}: {problem}")
        return call


# --- calls in the text -----------------------------------------------------------------------------


class TextReader:
    """Tells prose from calls in a text that is still growing."""

    def __init__(self, manifest: ToolManifest, syntax: TextSyntax) -> None:
        self._manifest = manifest
        self._name = syntax
        self._form: Syntax = SYNTAXES[syntax]
        self._held = ""  # might be the beginning of an opening mark
        self._call: CallReader | None = None
        self._calls = 0
        self._is_prose = False  # a bare call must be the first thing of the text

    def feed(self, text: str) -> Iterator[str | LocalCall | None]:
        """Prose as it is known to be prose, None when a call begins, each call when it is whole."""
        text, self._held = self._held + text, ""
        while text:
            if self._call is None:
                prose, text, opens = self._prose(text)
                if prose:
                    yield prose
                if opens:
                    self._call = CallReader(self._manifest, self._name)
                    yield None
                continue
            used = self._call.feed(text)
            if used == len(text) and not self._is_closed():
                return
            text = text[used:]
            yield self._complete()

    def finish(self) -> Iterator[str | LocalCall]:
        if self._call is not None:
            yield self._complete()
        elif self._held and self._calls:
            raise Violation(FailureCode.MALFORMED, "text follows a call")
        elif self._held:
            yield self._held

    def _is_closed(self) -> bool:
        """With a closing mark a call is over at once; a bare one may still be followed by blanks."""
        return bool(self._form.closes) and self._call is not None and self._call.may_end

    def _complete(self) -> LocalCall:
        if self._call is None:
            raise AssertionError("no call is open")
        call, self._call = self._call.done(), None
        self._calls += 1
        return call

    def _prose(self, text: str) -> tuple[str, str, bool]:
        """Prose, the rest, and whether the rest is inside of a call."""
        if self._calls:
            return self._between(text)
        if not self._form.opens:
            return self._beginning(text)
        before, mark, after = text.partition(self._form.opens)
        if mark:
            return before, after, True
        kept = _overlap(text, self._form.opens)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept], "", False

    def _beginning(self, text: str) -> tuple[str, str, bool]:
        start = text.lstrip(_BLANKS)
        if not self._is_prose and start.startswith("{"):
            return text[: len(text) - len(start)], start, True
        self._is_prose = self._is_prose or bool(start)
        return text, "", False

    def _between(self, text: str) -> tuple[str, str, bool]:
        """After a call only another one may come."""
        start = text.lstrip(_BLANKS)
        opens = self._form.opens
        if opens and start.startswith(opens):
            return "", start[len(opens) :], True
        if start and not (opens and opens.startswith(start)):
            raise Violation(FailureCode.MALFORMED, "text follows a call")
        self._held = start
        return "", "", False


def _overlap(text: str, mark: str) -> int:
    """How many of the last characters may be the beginning of the mark."""
    for size in range(min(len(text), len(mark) - 1), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0
