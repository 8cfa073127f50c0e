"""What of a refused request may be shown or logged: short, without secrets and without personal data."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from typing import Any

from monoize.telemetry.scrub import scrubbed

__all__ = ["LONGEST_SHOWN", "discreet", "quoted", "shown"]

LONGEST_SHOWN = 80  # characters of a value
_READ_AHEAD = 320  # a secret that is cut in two is not found any more
_LARGEST_PLAIN = 10**12  # larger integers may be numbers of cards or telephones

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
# With a country code, an area code in brackets or behind a zero, or in groups of three, three and four.
_PHONE = (
    r"\+\d[\d ().\-/]{6,18}\d"
    r"|\(\d{2,5}\) ?\d[\d \-/]{4,10}\d"
    r"|00?[1-9]\d{1,4}[ /\-]\d{3,4}[ \-]?\d{3,6}"
    r"|\d{3}[ .\-]\d{3}[ .\-]\d{4}"
)
_FORMS = (
    r"(?P<email>[\w.%+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,8})",
    r"(?P<card>(?<!\d)\d(?:[ \-]?\d){12,18}(?!\d))",
    rf"(?P<phone>(?<![\d+])(?:{_PHONE})(?!\d))",
    rf"(?P<ip>(?<![\d.]){_OCTET}(?:\.{_OCTET}){{3}}(?![\d.]))",
    r"(?P<ipv6>(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:]))",
)
_PERSONAL = re.compile("|".join(_FORMS))


def discreet(text: str) -> str:
    """The text without keys, e-mail addresses, card and telephone numbers and addresses of machines."""
    return _PERSONAL.sub(_masked, scrubbed(text))


def _masked(match: re.Match[str]) -> str:
    kind, found = match.lastgroup, match[0]
    if kind == "card" and not _passes_luhn(found):
        return found
    if kind == "ipv6":
        return "[ip]" if _is_ipv6(found) else found
    return f"[{kind}]"


def _passes_luhn(text: str) -> bool:
    digits = [int(letter) for letter in reversed(text) if letter.isdigit()]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2])  # noqa: PLR2004
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return text != "::"


def shown(value: Any) -> Any:
    """A JSON value as a diagnostic may hold it: a short text, a number, or what kind of thing it is."""
    match value:
        case None | bool():
            return value
        case str():
            return _beginning(value)
        case int():
            return value if abs(value) < _LARGEST_PLAIN else _integer(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return f"an object with {_counted(len(value), 'field')}"
        case list() | tuple():
            return f"an array of {_counted(len(value), 'item')}"
        case _:
            return f"a {type(value).__name__}"


def quoted(value: Any) -> str:
    """The same inside a sentence."""
    if isinstance(value, dict | list | tuple):
        return str(shown(value))
    return json.dumps(shown(value), ensure_ascii=False)


def _beginning(text: str) -> str:
    safe = discreet(text[: LONGEST_SHOWN + _READ_AHEAD])
    if len(text) <= LONGEST_SHOWN + _READ_AHEAD and len(safe) <= LONGEST_SHOWN:
        return safe
    return f"{safe[:LONGEST_SHOWN]}… ({len(text)} characters)"


def _integer(value: int) -> int | str:
    if value.bit_length() > 64 * 8:
        return f"an integer of {value.bit_length()} bits"
    text = str(value)
    safe = discreet(text)
    return value if safe == text else safe


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
