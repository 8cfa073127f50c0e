"""Our verdict on any document is that of a second, independent validator, and every refusal says where and why."""

from __future__ import annotations

import copy
import json
import os
import re
from typing import Any

import jsonschema
import msgspec
import pytest
import referencing
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.provisional import urls

from monoize.reframer import Refused, reframe, tag_table
from monoize.reframer.clean import clean_request
from monoize.reframer.finding import Notes, existing
from monoize.reframer.normalized import normalised_request
from monoize.reframer.reader import read
from monoize.reframer.schemas import FILES, inlined, schema
from monoize.reframer.validate import findings, is_valid

pytestmark = pytest.mark.soak

DOCUMENTS = 10_000 if os.environ.get("MONOIZE_SOAK") == "1" else 500
BATCHES = 10

# --- the judge -----------------------------------------------------------------------------------


def judge() -> jsonschema.Draft202012Validator:
    resources = [(s["$id"], referencing.Resource.from_contents(s)) for s in map(schema, FILES)]
    return jsonschema.Draft202012Validator(
        schema("request"),
        registry=referencing.Registry().with_resources(resources),
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )


JUDGE = judge()
TAGS = tag_table()
LEAP_SECOND = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:60")
PADDED_OCTET = re.compile(r"[.:]0\d+")


def known_disagreement(keyword: str, value: Any) -> str | None:
    """The reasons that docs/reframer.md lists, by keyword; the judge errs in each of them."""
    if not isinstance(value, str):
        return None
    if keyword in ("pattern", "format") and value.endswith("\n"):
        return "Python's $ matches before a last line break, ECMA-262's does not"
    if keyword == "format" and LEAP_SECOND.match(value):
        return "a leap second at the end of a day in UTC is a time (RFC 3339, 5.6)"
    if keyword == "format" and value.startswith("0000-"):
        return "the year 0000 is a year (RFC 3339, 5.6)"
    if keyword == "format" and "[" in value and PADDED_OCTET.search(value):
        return "an octet of an address has no leading zero (RFC 3986, 3.2.2)"
    return None


def violations(document: Any) -> set[tuple[tuple[Any, ...], str]]:
    """What the judge refuses, as (path, keyword); a failed oneOf stands for all that its branches say."""
    return {(tuple(error.absolute_path), error.validator) for error in JUDGE.iter_errors(document)}


def disagreements(document: Any) -> list[str]:
    """Differences for which there is no known reason; none when the verdicts are the same."""
    ours = {(f.path, f.details["keyword"]) for f in findings(document)}
    theirs = violations(document)
    content = {path for path, keyword in theirs if keyword == "oneOf"}
    ours = {(path, keyword) for path, keyword in ours if not _within(path, content)}
    theirs = {(path, keyword) for path, keyword in theirs if keyword != "oneOf"}
    unexplained = []
    for path, keyword in ours ^ theirs:
        value = document
        for step in path:
            value = value[step]
        if _is_worded_otherwise(path, keyword, ours, theirs):
            continue
        if known_disagreement(keyword, value) is None:
            unexplained.append(f"{path} {keyword} {value!r}")
    return unexplained


def _within(path: tuple[Any, ...], places: set[tuple[Any, ...]]) -> bool:
    return any(path[: len(place)] == place for place in places)


def _is_worded_otherwise(path: Any, keyword: str, ours: set[Any], theirs: set[Any]) -> bool:
    """We name each unknown field at its own place, and leave enum and const out beside a wrong type."""
    if keyword == "additionalProperties":
        others = theirs if (path, keyword) in ours else ours
        return any(k == keyword and (p == path[:-1] or p[:-1] == path) for p, k in others)
    return keyword in ("enum", "const") and (path, "type") in ours & theirs


# --- documents -----------------------------------------------------------------------------------

TEXTS = st.sampled_from(
    [
        *("", "x", "user", "tool", "1.0.0", "golden-request-1", "golden-request-1\n", "a" * 64),
        *("a" * 65, "<a:b>", "<a:b>\n", "<>", "<a>b>", "a" * 63 + "g", "0" * 64, "binary", "utf-8"),
        *("2025-01-01T00:00:00Z", "2025-02-30T00:00:00Z", "2025-01-01T00:00:00", "12:00"),
        *("2016-12-31T23:59:60Z", "2016-12-31T22:59:60Z", "0000-01-01T00:00:00Z"),
        *("2025-01-01T00:00:00+25:00", "2025-01-0.T00:00:00Z", "2025-01-01 00:00:00Z"),
        *("http://a", "//a", "a b:c", "http://[::1]", "http://[::1", "http://a/%zz", "a:\n", "ü:x"),
        *("\u0000", "\U0001f600", "٣" * 8, "pii", "nope"),
    ]
)
NUMBERS = st.sampled_from(
    [-1, 0, 1, 8, 9, 10, 11, 16, 17, 0.0, 0.5, 1.0, 1.5, -0.0, 16.0, 8.000001, 10**30, 1e300]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.text(max_size=5) | st.integers() | st.floats(-9, 99),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES = st.sampled_from(
    [
        *(
            "schema_version",
            "request_id",
            "created_at",
            "tenant",
            "channels",
            "payload",
            "messages",
        ),
        *("constraints", "routing", "total", "per_tool", "budget", "tool_name", "sources", "allow"),
        *("ttl_s", "safety", "policies", "content", "type", "value", "encoding", "metadata", "id"),
        *("role", "protocol_tags", "attachments", "uri", "hash", "unknown", ""),
    ]
)


def instances(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema accepts, read off the schema itself; it knows the keywords that ours use."""
    match node:
        case {"oneOf": branches}:
            return st.one_of([instances(branch) for branch in branches])
        case {"enum": values}:
            return st.sampled_from(values)
        case {"const": value}:
            return st.just(value)
        case {"type": [*kinds]}:
            return st.one_of([instances({"type": kind}) for kind in kinds])
        case {"type": "object"}:
            return objects(node)
        case {"type": "array"}:
            return st.lists(instances(node["items"]), min_size=node.get("minItems", 0), max_size=4)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer"}:
            whole = st.integers(node.get("minimum"), node.get("maximum"))
            return whole | st.integers(0, 8).map(float)  # 3.0 is an integer to a schema
        case {"type": "number"}:
            return st.floats(
                node.get("minimum"), node.get("maximum"), allow_nan=False, allow_infinity=False
            )
        case {"pattern": pattern}:
            return st.from_regex(pattern.replace("$", r"\Z"))
        case {"format": "date-time"}:
            return st.datetimes().map(lambda moment: f"{moment.isoformat()}Z")
        case {"format": "uri"}:
            return urls()
        case {"type": "string"}:
            return st.text(min_size=node.get("minLength", 0), max_size=8)
    raise NotImplementedError(node)


@st.composite
def objects(draw: Any, node: dict[str, Any]) -> dict[str, Any]:
    fields = node.get("properties", {})
    names = draw(st.permutations(list(fields)))
    required = node.get("required", ())
    out = {
        name: draw(instances(fields[name]))
        for name in names
        if name in required or draw(st.booleans())
    }
    match node.get("additionalProperties", True):
        case dict() as others:
            out |= draw(st.dictionaries(st.text(max_size=5), instances(others), max_size=3))
        case True if draw(st.integers(0, 9)) == 0:
            out["more"] = draw(ANYTHING)
    return out


VALID = instances(inlined("request"))


def full() -> dict[str, Any]:
    return {
        "schema_version": "1.0.0",
        "request_id": "golden-request-1",
        "created_at": "2025-03-01T09:30:00Z",
        "tenant": "acme",
        "channels": [{"channel_id": "main", "role": "user", "priority": 3}],
        "payload": {
            "messages": [
                {
                    "id": "m1",
                    "role": "user",
                    "content": "hello",
                    "protocol_tags": ["<tool:a>", "<x:y>"],
                    "metadata": {"a": 1, "b": "c", "d": True},
                },
                {
                    "id": "m2",
                    "role": "data",
                    "content": {"type": "json", "value": "{}", "encoding": "utf-8"},
                },
            ],
            "attachments": [
                {"id": "a", "media_type": "text/plain", "uri": "http://a", "hash": "0" * 64}
            ],
            "context_window": 10,
        },
        "constraints": {
            "routing": {
                "tool_budget": {"total": 8, "per_tool": [{"tool_name": "a", "budget": 2}]},
                "retrieval": {
                    "precision_threshold": 0.5,
                    "sources": [{"source_id": "s", "allow": True, "ttl_s": 1}],
                },
            },
            "safety": {"content_filters": ["pii"], "requires_human_review": False},
            "policies": {"allow_copy": True, "allow_schema_mutation": False},
        },
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, ...]] = [path] if path else []
    if isinstance(value, dict | list):
        for step, below in value.items() if isinstance(value, dict) else enumerate(value):
            inner += places(below, (*path, step))
    return inner


def is_leaf(document: Any, path: tuple[Any, ...]) -> bool:
    for step in path:
        document = document[step]
    return not isinstance(document, dict | list)


def alike(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the same type, near the edges of what is allowed."""
    match value:
        case bool():
            return st.booleans()
        case str():
            return TEXTS
        case int() | float():
            return NUMBERS
        case list():
            return st.just([])
        case dict():
            return st.just({})
        case _:
            return ANYTHING


@st.composite
def mutated(draw: Any) -> Any:
    """A valid document with one to four changes: another value, a field less, a field more, an item twice."""
    document = copy.deepcopy(draw(st.one_of(st.just(full()), VALID)))
    for _ in range(draw(st.integers(1, 4))):
        found = places(document)
        found += 3 * [path for path in found if is_leaf(document, path)]
        *way, last = draw(st.sampled_from(found))
        holder = document
        for step in way:
            holder = holder[step]
        match draw(
            st.sampled_from(["tweak", "tweak", "tweak", "replace", "remove", "add", "double"])
        ):
            case "tweak":
                holder[last] = draw(alike(holder[last]))
            case "replace":
                holder[last] = draw(ANYTHING)
            case "remove":
                del holder[last]
            case "add" if isinstance(holder, dict):
                holder[draw(NAMES)] = draw(ANYTHING)
            case _ if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[last]))
        if not places(document):
            break
    return document


DOCUMENT = st.one_of(VALID, mutated(), mutated(), mutated(), ANYTHING)


# --- the properties ------------------------------------------------------------------------------


def check(document: Any) -> None:
    verdict = is_valid(document)
    assert disagreements(document) == []
    assert verdict == (not list(findings(document))), "a refusal without a reason, or the reverse"
    raw = json.dumps(document).encode()
    check_short_way(raw)
    result = reframe(raw)
    if isinstance(result, Refused):
        assert result.findings
        said = read(raw).document
        for finding in (*result.findings, *result.warnings):
            assert existing(finding.path, said) == finding.path
            assert finding.code
            assert finding.message
    else:
        assert verdict


def check_short_way(raw: bytes) -> None:
    """It is taken only by what the long way has nothing to say of, and leads to the same."""
    drawn = clean_request(raw, TAGS)
    if drawn is None:
        return
    reading = read(raw)
    assert reading.findings == ()
    assert is_valid(reading.document)
    notes = Notes()
    longer = normalised_request(reading.document, reading.document, TAGS, notes)
    assert (notes.errors, notes.warnings) == ([], [])
    assert msgspec.json.encode(drawn) == msgspec.json.encode(longer)


@pytest.mark.spec("S3-2.1", "S3-3.1", "D22")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_verdict_is_that_of_an_independent_validator(batch):
    @seed(batch)
    @settings(
        max_examples=DOCUMENTS // BATCHES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(DOCUMENT)
    def holds(document: Any) -> None:
        check(document)

    holds()


@pytest.mark.spec("S3-2.1")
def test_the_judge_asserts_formats():
    """Without its own packages for them it would agree to everything."""
    checkers = jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers
    assert {"date-time", "uri"} <= set(checkers), "install rfc3339-validator and rfc3986-validator"


@pytest.mark.parametrize(
    ("place", "value", "accepted"),
    [
        (("request_id",), "golden-request-1\n", False),
        (("created_at",), "2025-01-01T00:00:00Z\n", False),
        (("created_at",), "2016-12-31T23:59:60Z", True),
        (("created_at",), "0000-01-01T00:00:00Z", True),
        (("payload", "attachments", 0, "uri"), "http://[::ffff:1.2.3.00]", False),
    ],
)
def test_where_the_judge_errs_we_follow_the_standard(place, value, accepted):
    document = full()
    holder: Any = document
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    assert is_valid(document) is accepted
    assert JUDGE.is_valid(document) is not accepted
    assert disagreements(document) == []
