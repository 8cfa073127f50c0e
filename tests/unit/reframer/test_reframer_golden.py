"""Golden requests: what the Reframer says to each of them, in full, and that they cover the schemas.

`MONOIZE_WRITE_GOLDEN=1` writes the expectations anew; read the difference before it is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing

from monoize.reframer import Refused, reframe
from monoize.reframer.schemas import FILES, schema

FOLDER = Path(__file__).parents[2] / "golden" / "reframer" / "requests"
FIXTURES = sorted(p for p in FOLDER.rglob("*.json") if not p.name.endswith(".expected.json"))
NAMED_BY_THE_SPECIFICATION = ("happy_path.json", "constraint_defaults.json", "schema_errors")


def outcome(raw: bytes, mode: Any) -> dict[str, Any]:
    result = reframe(raw, mode=mode)
    if not isinstance(result, Refused):
        return {"reply": result.as_json()}
    said = [
        {"code": finding.code, "path": finding.field_path, "message": finding.message}
        for finding in result.findings
    ]
    warnings = [{"code": w.code, "path": w.field_path} for w in result.warnings]
    return {"errors": said, **({"warnings": warnings} if warnings else {})}


def outcomes(raw: bytes) -> dict[str, Any]:
    """Of both modes; lenient only where it differs."""
    strict, lenient = outcome(raw, "strict"), outcome(raw, "lenient")
    return {"strict": strict, **({"lenient": lenient} if lenient != strict else {})}


@pytest.mark.spec("S3-3.2", "S3-3.3", "D20", "D22")
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda p: str(p.relative_to(FOLDER)))
def test_the_fixture_gets_the_outcome_that_is_written_beside_it(fixture):
    expected = fixture.with_suffix(".expected.json")
    found = json.loads(json.dumps(outcomes(fixture.read_bytes())))
    if os.environ.get("MONOIZE_WRITE_GOLDEN") == "1":
        expected.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", "utf-8")
    assert found == json.loads(expected.read_text("utf-8"))


@pytest.mark.spec("S3-3.2")
def test_the_fixtures_that_the_specification_names_are_there():
    assert all((FOLDER / name).exists() for name in NAMED_BY_THE_SPECIFICATION)
    assert {p.parent.name for p in FIXTURES} >= {"schema_errors", "lenient", "requests"}


@pytest.mark.spec("S3-3.2")
def test_every_error_fixture_is_refused_with_a_code_and_a_path():
    for fixture in FIXTURES:
        if fixture.parent.name in ("schema_errors", "meaning_errors", "unreadable"):
            told = json.loads(fixture.with_suffix(".expected.json").read_text("utf-8"))
            assert told["strict"]["errors"], fixture
            assert all(error["code"] and "path" in error for error in told["strict"]["errors"])


# --- coverage: every keyword that a published schema has is violated by some fixture -------------

ASSERTIONS = {
    *("type", "required", "additionalProperties", "enum", "const", "pattern", "format"),
    *("minLength", "minItems", "minimum", "maximum", "oneOf"),
}
NO_ASSERTIONS = {"$schema", "$id", "$ref", "$defs", "properties", "items", "default"}


def keywords(node: Any, pointer: str = "") -> Iterator[str]:
    """Where each assertion of a schema stands; every required name and every unknown field counts by itself."""
    for keyword, value in node.items():
        here = f"{pointer}/{keyword}"
        if keyword in ("properties", "$defs"):
            for name, inner in value.items():
                yield from keywords(inner, f"{here}/{name}")
        elif keyword == "items" or (keyword == "additionalProperties" and value is not False):
            yield from keywords(value, here)
        elif keyword == "required":
            yield from (f"{here}/{name}" for name in value)
        elif keyword in ASSERTIONS:
            yield here
            for number, branch in enumerate(value if keyword == "oneOf" else ()):
                yield from keywords(branch, f"{here}/{number}")
        else:
            assert keyword in NO_ASSERTIONS, f"{keyword} is new: say whether it asserts something"


def judge() -> jsonschema.Draft202012Validator:
    """The independent validator, with every reference resolved among the published schemas."""
    resources = [(s["$id"], referencing.Resource.from_contents(s)) for s in map(schema, FILES)]
    return jsonschema.Draft202012Validator(
        schema("request"),
        registry=referencing.Registry().with_resources(resources),
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )


def violated(fixture: Path) -> Iterator[tuple[str, str]]:
    errors = list(judge().iter_errors(json.loads(fixture.read_text("utf-8"))))
    while errors:
        error = errors.pop()
        errors += error.context or ()
        yield from located(error)


def located(error: jsonschema.ValidationError) -> Iterator[tuple[str, str]]:
    """(schema, pointer) of the keyword: references, which jsonschema leaves out of its paths, are followed."""
    schemas = {name: schema(name) for name in FILES}
    name, pointer, node = "request", "", schemas["request"]
    *way, keyword = error.absolute_schema_path
    for step in [*way, None]:
        target = node.get("$ref", "") if isinstance(node, dict) else ""
        if target.startswith("#/$defs/"):
            pointer, node = target[1:], schemas[name]["$defs"][target.removeprefix("#/$defs/")]
        elif target:
            name = next(n for n, s in schemas.items() if s["$id"] == target)
            pointer, node = "", schemas[name]
        if step not in (None, "$ref"):
            pointer, node = f"{pointer}/{step}", node[step]
    here = f"{pointer}/{keyword}"
    if keyword == "required":
        yield from ((name, f"{here}/{n}") for n in error.validator_value if n not in error.instance)
    else:
        yield name, here


@pytest.mark.spec("S3-2.1", "S3-2.2", "S3-2.3", "S3-3.2")
def test_every_keyword_of_every_schema_is_violated_by_a_fixture():
    fixtures = [p for p in FIXTURES if p.parent.name == "schema_errors"]
    seen = {place for fixture in fixtures for place in violated(fixture)}
    wanted = {
        (name, place)
        for name in ("request", "role", "constraints")
        for place in keywords(schema(name))
    }
    assert len(wanted) > 90
    assert wanted - seen == set()
