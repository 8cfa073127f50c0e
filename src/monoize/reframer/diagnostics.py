"""What a schema's refusal means to a person: path and keyword -> code -> sentence, by tables."""

from __future__ import annotations

from typing import Any, NamedTuple

from monoize.reframer.codes import found
from monoize.reframer.finding import Finding, Path, field_path
from monoize.reframer.privacy import quoted, shown

__all__ = ["RULES", "Violation", "kind_of", "subject", "translated"]


class Violation(NamedTuple):
    """One keyword of a schema that one value does not satisfy."""

    keyword: str
    shape: str  # the place in the schema: payload.messages[].metadata.*
    path: Path  # the place in the document
    value: Any
    limit: Any = None  # what the keyword asks for
    name: str = ""  # the field that is missing or unknown


# What a list's items are called, and the field that says which one it is.
_ITEMS = {
    "channels[]": ("Channel", "channel_id"),
    "payload.messages[]": ("Message", "id"),
    "payload.attachments[]": ("Attachment", "id"),
    "constraints.routing.tool_budget.per_tool[]": ("Tool", "tool_name"),
    "constraints.routing.retrieval.sources[]": ("Source", "source_id"),
}
_SUBJECTS = {
    "": "The request",
    "request_id": "Request id",
    "schema_version": "Schema version",
    "constraints.routing.tool_budget": "Tool budget",
    "constraints.routing.tool_budget.total": "Total tool budget",
    "constraints.routing.retrieval": "Retrieval policy",
    "constraints.routing.retrieval.precision_threshold": "Precision threshold",
}

_TOO_HIGH = "{subject} exceeds limit (max={limit})"
_TOO_LOW = "{subject} is below limit (min={limit})"
_ONE_OF = "{subject} {value} is unknown (known: {limit})"
_BUDGET = "constraints.routing.tool_budget"
_RETRIEVAL = "constraints.routing.retrieval"
_CONTENT = "payload.messages[].content"

# (place in the schema, keyword) -> code and sentence. A place that is not listed goes by its keyword alone.
RULES: dict[tuple[str, str], tuple[str, str]] = {
    ("", "type"): ("NOT_AN_OBJECT", "The request must be an object, not {kind}"),
    ("schema_version", "const"): (
        "UNSUPPORTED_SCHEMA_VERSION",
        "{subject} {value} is not supported (supported: {limit})",
    ),
    ("request_id", "pattern"): (
        "INVALID_REQUEST_ID",
        '{subject} {value} must be 8 to 64 letters, digits, "_" or "-"',
    ),
    ("created_at", "format"): (
        "INVALID_TIMESTAMP",
        "{subject} {value} is no RFC 3339 date-time, such as 2025-01-31T12:00:00Z",
    ),
    ("channels", "minItems"): ("NO_CHANNELS", "channels must name at least {limit} channel"),
    ("channels[].role", "enum"): ("UNKNOWN_ROLE", _ONE_OF),
    ("channels[].priority", "minimum"): ("PRIORITY_OUT_OF_RANGE", _TOO_LOW),
    ("channels[].priority", "maximum"): ("PRIORITY_OUT_OF_RANGE", _TOO_HIGH),
    ("payload.messages", "minItems"): (
        "NO_MESSAGES",
        "payload.messages must hold at least {limit} message",
    ),
    ("payload.messages[].role", "enum"): ("UNKNOWN_ROLE", _ONE_OF),
    ("payload.messages[].protocol_tags[]", "pattern"): (
        "MALFORMED_PROTOCOL_TAG",
        "{subject} {value} must be written <category:identifier>",
    ),
    (_CONTENT, "oneOf"): (
        "INVALID_CONTENT",
        '{subject} must be a text or an object with "type" and "value", not {kind}',
    ),
    (f"{_CONTENT}.type", "enum"): ("UNKNOWN_CONTENT_TYPE", _ONE_OF),
    (f"{_CONTENT}.encoding", "enum"): ("UNKNOWN_CONTENT_ENCODING", _ONE_OF),
    ("payload.messages[].metadata.*", "type"): (
        "INVALID_METADATA_VALUE",
        "{subject} must be a text, a number or a boolean, not {kind}",
    ),
    ("payload.attachments[].uri", "format"): (
        "INVALID_URI",
        "{subject} {value} is no URI with a scheme, such as https://example.com/a.pdf",
    ),
    ("payload.attachments[].hash", "pattern"): (
        "INVALID_HASH",
        "{subject} {value} must be 64 hexadecimal digits (SHA-256)",
    ),
    ("payload.context_window", "minimum"): ("NEGATIVE_CONTEXT_WINDOW", _TOO_LOW),
    (f"{_BUDGET}.total", "maximum"): ("TOTAL_BUDGET_EXCEEDED", _TOO_HIGH),
    (f"{_BUDGET}.total", "minimum"): ("NEGATIVE_BUDGET", _TOO_LOW),
    (f"{_BUDGET}.per_tool[].budget", "maximum"): ("TOOL_BUDGET_EXCEEDED", _TOO_HIGH),
    (f"{_BUDGET}.per_tool[].budget", "minimum"): ("NEGATIVE_BUDGET", _TOO_LOW),
    (f"{_RETRIEVAL}.precision_threshold", "maximum"): ("THRESHOLD_OUT_OF_RANGE", _TOO_HIGH),
    (f"{_RETRIEVAL}.precision_threshold", "minimum"): ("THRESHOLD_OUT_OF_RANGE", _TOO_LOW),
    (f"{_RETRIEVAL}.sources[].ttl_s", "minimum"): ("NEGATIVE_TTL", _TOO_LOW),
}
_BY_KEYWORD = {
    "required": ("MISSING_FIELD", "{subject} lacks the required field {name}"),
    "additionalProperties": ("UNKNOWN_FIELD", "{subject} has no field {name} (known: {limit})"),
    "type": ("WRONG_TYPE", "{subject} must be {limit}, not {kind}"),
    "minLength": ("EMPTY_VALUE", "{subject} must not be empty"),
}
_OTHERWISE = ("SCHEMA_VIOLATION", "{subject} {value} does not satisfy {keyword} {limit}")


def translated(violation: Violation, document: Any) -> Finding:
    """The finding that a violation is."""
    keyword = violation.keyword
    code, sentence = RULES.get((violation.shape, keyword)) or _BY_KEYWORD.get(keyword, _OTHERWISE)
    message = sentence.format(
        subject=subject(_owner(violation), document),
        value=quoted(violation.value),
        kind=kind_of(violation.value),
        limit=_limit(violation),
        name=quoted(violation.name),
        keyword=keyword,
    )
    details: dict[str, Any] = {"keyword": keyword}
    if violation.limit is not None:
        details["limit"] = violation.limit
    if keyword == "required":
        details["missing"] = violation.name
    else:
        details["value"] = shown(violation.value)
    return found(code, message, violation.path, **details)


def _owner(violation: Violation) -> Path:
    """An unknown field is no subject: what holds it is."""
    is_own = violation.keyword == "additionalProperties" and violation.path[-1:] == (
        violation.name,
    )
    return violation.path[:-1] if is_own else violation.path


def _limit(violation: Violation) -> str:
    limit = violation.limit
    if violation.keyword == "type":
        return " or ".join(_ARTICLES[name] for name in limit)
    if isinstance(limit, list | tuple):
        return ", ".join(map(str, limit))
    return quoted(limit)


def subject(path: Path, document: Any) -> str:
    """`Tool "code_search" budget`: the nearest thing that has a name, then the way from there."""
    noun, shape = "", ""
    beyond: list[str | int] = []
    for step in path:
        document = document[step]
        shape += "[]" if isinstance(step, int) else f".{step}" if shape else step
        beyond.append(step)
        if shape in _ITEMS:
            noun, beyond = _item(*_ITEMS[shape], document, step), []
    if noun:
        return f"{noun} {_way(beyond)}" if beyond else noun
    return _SUBJECTS.get(shape) or _way(path)


def _way(steps: list[str | int] | Path) -> str:
    return str(shown(field_path(tuple(steps))))


def _item(noun: str, key: str, item: Any, step: str | int) -> str:
    name = item.get(key) if isinstance(item, dict) else None
    if isinstance(name, str) and name:
        return f"{noun} {quoted(name)}"
    return f"{noun} number {int(step) + 1}"


_ARTICLES = {
    "string": "a text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


def kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a text"
        case dict():
            return "an object"
        case list() | tuple():
            return "an array"
        case _:
            return f"the number {quoted(value)}"
