"""A reply that is still being written -> sentences that can be spoken already, and the words that a voice is given."""

from __future__ import annotations

import re

from monoize.sentences import Sentences

__all__ = ["finished", "speakable"]

_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|[*_`#|~>]+")
_WORDS = re.compile(r"\w")


def finished(text: str) -> tuple[list[str], str]:
    """The sentences that are complete, each with the space behind it, and the rest: together, the text.

    What has no words in it waits for the next that has.
    """
    found: list[str] = []
    start = end = 0
    for sentence in Sentences().feed(text):
        end = text.index(sentence, end) + len(sentence)
        end = len(text) - len(text[end:].lstrip())
        if speakable(text[start:end]):
            found.append(text[start:end])
            start = end
    return found, text[start:]


def speakable(text: str) -> str:
    """The words without markup; empty where there are none."""
    plain = _MARKUP.sub(lambda match: match[1] or " ", text)
    return " ".join(plain.split()) if _WORDS.search(plain) else ""
