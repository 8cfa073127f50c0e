"""Every code that a finding may have. Codes are stable: programs branch on them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from monoize.reframer.finding import Finding, Path, Severity

__all__ = ["CODES", "Code", "found"]


class Code(NamedTuple):
    severity: Severity
    meaning: str


def _errors(**meanings: str) -> dict[str, Code]:
    return {code: Code("error", meaning) for code, meaning in meanings.items()}


def _warnings(**meanings: str) -> dict[str, Code]:
    return {code: Code("warning", meaning) for code, meaning in meanings.items()}


_TEXT = _errors(
    JSON_SYNTAX="the text is not JSON; line and column are in the details",
    JSON_NOT_UTF8="the bytes are not UTF-8",
    JSON_BYTE_ORDER_MARK="the text begins with a byte order mark",
    JSON_TOO_DEEP="arrays and objects nest deeper than the limit",
    JSON_DUPLICATE_KEY="an object holds one name more than once",
    JSON_NOT_A_NUMBER="NaN or Infinity, which JSON does not have",
    JSON_NUMBER_TOO_LARGE="a number beyond the range of a double",
    JSON_LONE_SURROGATE="half of a surrogate pair, which is no character",
    JSON_NOT_A_VALUE="a value that JSON cannot hold (from programs only, never from a text)",
    BATCH_NOT_AN_ARRAY="the body of a batch is not an array of requests",
    BATCH_TOO_LONG="a batch has more requests than the server takes at once",
)
_SCHEMA = _errors(
    NOT_AN_OBJECT="the document is not an object",
    MISSING_FIELD="a required field is missing; the path is that of the object which lacks it",
    UNKNOWN_FIELD="a field that the schema does not have",
    WRONG_TYPE="a value of another type than the schema's",
    EMPTY_VALUE="a text that must not be empty is empty",
    UNSUPPORTED_SCHEMA_VERSION="schema_version is not the one that is served",
    INVALID_REQUEST_ID="request_id is not 8 to 64 letters, digits, `_` or `-`",
    INVALID_TIMESTAMP="created_at is no RFC 3339 date-time",
    INVALID_URI="an attachment's uri is no URI",
    INVALID_HASH="an attachment's hash is not 64 hexadecimal digits",
    MALFORMED_PROTOCOL_TAG="a protocol tag is not written as `<…>`",
    UNKNOWN_ROLE="a role that is none of the schema's",
    INVALID_CONTENT="content is neither a text nor an object with type and value",
    UNKNOWN_CONTENT_TYPE="content of another type than text, json or binary",
    UNKNOWN_CONTENT_ENCODING="content in another encoding than utf-8 or base64",
    INVALID_METADATA_VALUE="metadata holds something else than texts, numbers and booleans",
    NO_CHANNELS="channels is empty",
    NO_MESSAGES="payload.messages is empty",
    PRIORITY_OUT_OF_RANGE="a channel's priority is not between 0 and 10",
    NEGATIVE_CONTEXT_WINDOW="context_window is below 0",
    TOTAL_BUDGET_EXCEEDED="the total tool budget is above 16",
    TOOL_BUDGET_EXCEEDED="the budget of one tool is above 8",
    NEGATIVE_BUDGET="a tool budget is below 0",
    THRESHOLD_OUT_OF_RANGE="precision_threshold is not between 0 and 1",
    NEGATIVE_TTL="ttl_s of a source is below 0",
    SCHEMA_VIOLATION="the schema refuses it in a way that has no code of its own",
)
_MEANING = _errors(
    BUDGET_SUM_EXCEEDS_TOTAL="the budgets of the tools together are above the total",
    UNKNOWN_CONTENT_FILTER="a content filter that does not exist",
    FORBIDDEN_ROLE_OVERRIDE="`<tool:…>` is followed by a role tag that names another role",
    INVALID_ROLE_TAG="a role tag names a role that does not exist",
)
_ODDITIES = _warnings(
    UNKNOWN_PROTOCOL_TAG="a tag that no rule knows; an error once its flag is promoted",
    DUPLICATE_TOOL="a second budget for one tool; the first counts",
    DUPLICATE_SOURCE="a second entry for one source; the first counts",
    DUPLICATE_MESSAGE_ID="two messages have one id; hints name messages by it",
    IGNORED_FIELD="a field that the schema permits and nobody reads",
    CONTENT_NOT_JSON="content of type json is not JSON",
    CONTENT_NOT_BASE64="content in base64 is not base64",
    CONTENT_NOT_TEXT="content of type text or json, in base64, is not UTF-8 inside; it has no tokens",
)
_REPAIRS = _warnings(
    ROUTING_DEFAULTED="lenient: constraints without routing; no tools, threshold 0.8",
    BUDGET_DEFAULTED="lenient: a missing budget, set to 0",
    RETRIEVAL_DEFAULTED="lenient: a missing threshold or list of sources, set to 0.8 or none",
    BUDGET_CLAMPED="lenient: a budget out of range, set to the nearest that is allowed",
    THRESHOLD_CLAMPED="lenient: precision_threshold out of range, set to 0 or 1",
)

CODES: Mapping[str, Code] = MappingProxyType(
    {**_TEXT, **_SCHEMA, **_MEANING, **_ODDITIES, **_REPAIRS}
)


def found(
    code: str,
    message: str,
    path: Path = (),
    *,
    severity: Severity | None = None,
    offset: int | None = None,
    **details: Any,
) -> Finding:
    """A finding of a code in the table, as severe as the table says unless told otherwise."""
    return Finding(
        code=code,
        message=message,
        path=path,
        severity=severity or CODES[code].severity,
        details=details,
        offset=offset,
    )
