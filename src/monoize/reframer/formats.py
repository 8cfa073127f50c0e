"""Formats that the validator's own check is too generous with."""

from __future__ import annotations

import re
from calendar import isleap
from types import MappingProxyType

__all__ = ["FORMATS", "is_date_time"]

_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_MINUTES = 24 * 60
_DAYS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of a leap year


def is_date_time(text: str) -> bool:
    """RFC 3339, 5.6: a date that exists, and a leap second only where the day ends in UTC.

    jsonschema-rs 0.60 takes signs and points for digits (`2025-01-0.T00:00:00Z`).
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    if not (1 <= month <= 12 and 1 <= day <= _DAYS[month]):  # noqa: PLR2004
        return False
    if day == 29 and month == 2 and not isleap(year):  # noqa: PLR2004
        return False
    away, at = int(match[8] or 0), int(match[9] or 0)
    if hour > 23 or minute > 59 or away > 23 or at > 59:  # noqa: PLR2004
        return False
    if second == 60:  # noqa: PLR2004
        offset = (away * 60 + at) * (-1 if match[7] == "-" else 1)
        return (hour * 60 + minute - offset) % _MINUTES == _MINUTES - 1
    return second < 60  # noqa: PLR2004


FORMATS = MappingProxyType({"date-time": is_date_time})
