"""Secrets out of text: those that are known, word for word, and whatever looks like one."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from monoize.discretion import MASK, channel_secrets, forms, password
from monoize.settings import Settings

__all__ = ["MASK", "ScrubbingFilter", "forget", "register", "scrubbed", "secrets_of"]

# Longest first: a secret may be the beginning of another one.
_known: tuple[str, ...] = ()

# Where a secret ends is unknown in a line of text, so each form says which letters it may have.
_NAMES = (
    r"(?:proxy-)?authorization|api[-_]?key|cookie|password|client[-_]?secret"
    r"|(?:access|auth|bearer|id|refresh|security|session)[-_]?token"
)
_BETWEEN = r"\b\\?[\"']?\s{0,4}[:=,]\s{0,4}(?:b(?=[\"']))?\\?[\"']?(?:[a-z]{3,10}\s{1,4})?"
_FORMS = (
    # a token behind its scheme
    r"(?i:\b(?P<scheme>(?:bearer|basic)\s{1,4})[\w.~+/=\-]{8,})",
    # x-api-key: xyz, 'x-api-key': 'xyz', (b'x-api-key', b'xyz'), {\"api_key\":\"xyz\"}
    rf"(?i:(?P<name>(?:\b|_)(?:{_NAMES}){_BETWEEN})[^\s\"'\\,;&)\]}}>]{{8,}})",
    # ?key=xyz
    r"(?i:(?P<query>[?&;](?:key|token|sig|signature|password|secret)=)[^\s&;\"'#]+)",
    # postgresql://user:xyz@host
    r"(?P<user>://[^\s/:@\"']{0,256}:)[^\s/@\"']+(?=@)",
    # Keys that vendors mark: OpenAI, Anthropic, OpenRouter, we ourselves; Google, xAI, Groq, Perplexity, AWS,
    # Hugging Face, GitHub; signed tokens.
    r"(?<![A-Za-z0-9])(?P<vendor>sk-|AIza|ya29\.|xai-|gsk_|pplx-|AKIA|ASIA|hf_|gh[opsu]_|eyJ)[\w.\-]{8,}",
)
_LOOKS_SECRET = re.compile("|".join(_FORMS))


def register(*secrets: str | None) -> None:
    """From now on these are blanked out wherever they stand; None and very short ones are passed over."""
    global _known  # noqa: PLW0603 - one process has one log
    found = {form for secret in secrets if secret for form in forms(secret)}
    _known = tuple(sorted(found.union(_known), key=len, reverse=True))


def forget(*secrets: str | None) -> None:
    """For secrets that are no longer anybody's: a key that was deleted."""
    global _known  # noqa: PLW0603 - one process has one log
    gone = {form for secret in secrets if secret for form in forms(secret)}
    _known = tuple(form for form in _known if form not in gone)


def scrubbed(text: str) -> str:
    """The text without secrets; it costs some 30 microseconds a line, and no line makes it slow."""
    for secret in _known:
        text = text.replace(secret, MASK)
    return _LOOKS_SECRET.sub(_kept, text)


def _kept(match: re.Match[str]) -> str:
    """What stood before the secret tells the reader which one it was."""
    return f"{match[match.lastgroup] if match.lastgroup else ''}{MASK}"


def secrets_of(settings: Settings) -> Iterator[str]:
    """Every secret that a config holds, references resolved."""
    urls = [settings.database, settings.redis]
    for key in settings.keys:
        yield key.key
    for provider in settings.providers:
        for channel in provider.channels:
            yield from channel_secrets(channel)
            urls += [channel.base_url, channel.proxy]
    yield from filter(None, map(password, urls))
    yield from _tool_secrets(settings.settings.agent.tools)


_SECRET_NAME = re.compile(r"key|token|secret|password|credential|auth", re.IGNORECASE)


def _tool_secrets(tools: Any) -> Iterator[str]:
    """Of agents' tools: headers, and those variables whose name says what they are."""
    if isinstance(tools, list | tuple):
        for one in tools:
            yield from _tool_secrets(one)
    elif isinstance(tools, Mapping):
        for name, value in tools.items():
            if name in ("headers", "env") and isinstance(value, Mapping):
                for label, text in value.items():
                    if _SECRET_NAME.search(str(label)):
                        yield str(text).removeprefix("Bearer ")
            else:
                yield from _tool_secrets(value)


class ScrubbingFilter(logging.Filter):
    """On a handler: what every record says goes out without secrets. It never raises."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        try:
            record.msg = scrubbed(_message(record))
            record.args = None
            if record.exc_info and record.exc_info[0] and not record.exc_text:
                record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if record.exc_text:
                record.exc_text = scrubbed(record.exc_text)
            if record.stack_info:
                record.stack_info = scrubbed(record.stack_info)
        except Exception:  # noqa: BLE001 - rather a line that says little than one that says too much
            record.msg, record.args = "a record that could not be scrubbed was left out", None
            record.exc_info = record.exc_text = record.stack_info = None
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit their text are a mistake, and no reason to fail
        return f"{record.msg!s} (its arguments do not fit)"
