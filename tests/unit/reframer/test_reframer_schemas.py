"""The published schemas: byte for byte the specification's, resolvable without a network."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import jsonschema
import jsonschema_rs
import pytest
import referencing

from monoize.reframer import reframe
from monoize.reframer.schemas import FILES, SCHEMA_VERSION, checksum, raw_schema, schema, validator

SPECIFICATION = Path(__file__).parents[4] / "shared" / "spec" / "3-reframer-service.md"
# SHA-256 of the three blocks as the specification prints them.
PRINTED = {
    "request": "7463b57397541acb79bd6902dfbe8b1d1ddb8dbc8132d500621d22982ee876cf",
    "role": "0f095f7fe3a3e8dc20d70fd5c08be8d941a72889b901f5475b2f22861852153e",
    "constraints": "418e6c1ede0522097ead581c9f33bc5cf1226d85494455a8fffe760568d35704",
}
GOLDEN = Path(__file__).parents[2] / "golden" / "reframer" / "requests"


@pytest.mark.spec("S3-2.1", "S3-2.2", "S3-2.3", "S3-6.3")
@pytest.mark.parametrize("name", PRINTED)
def test_the_schema_has_the_checksum_of_the_specifications_text(name):
    assert checksum(name) == hashlib.sha256(raw_schema(name)).hexdigest() == PRINTED[name]


@pytest.mark.skipif(not SPECIFICATION.exists(), reason="the specification is not here")
@pytest.mark.spec("S3-2.1", "S3-2.2", "S3-2.3")
def test_the_schemas_are_the_specifications_own_blocks():
    printed = re.findall(r"```json\n(.*?)```", SPECIFICATION.read_text("utf-8"), re.DOTALL)
    assert [block.encode() for block in printed] == [raw_schema(name) for name in PRINTED]


def test_an_unknown_name_is_none():
    with pytest.raises(KeyError):
        raw_schema("../secrets")


@pytest.mark.parametrize("name", FILES)
def test_the_schema_is_one_of_the_draft_that_it_names(name):
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema(name))
    jsonschema_rs.meta.validate(schema(name))


@pytest.mark.parametrize("name", FILES)
def test_references_resolve_without_a_network(name):
    assert validator(name).is_valid(None) is False


def test_the_version_is_the_one_that_the_schema_takes():
    assert schema("request")["properties"]["schema_version"]["const"] == SCHEMA_VERSION


def test_everybody_gets_a_copy_of_their_own():
    schema("role")["enum"].clear()
    assert schema("role")["enum"]


@pytest.mark.spec("D23")
def test_a_reply_is_what_the_schema_of_token_hints_describes():
    """Judged by the other validator."""
    reply = reframe((GOLDEN / "happy_path.json").read_bytes()).as_json()
    resources = [(s["$id"], referencing.Resource.from_contents(s)) for s in map(schema, FILES)]
    judge = jsonschema.Draft202012Validator(
        schema("token_hints"), registry=referencing.Registry().with_resources(resources)
    )
    reply = json.loads(json.dumps(reply))
    judge.validate(reply)
    assert len(reply["mask_hints"]) == len(reply["normalized"]["payload"]["messages"])
    reply["mask_hints"][0]["mask_bits"] = ["NO_SUCH_BIT"]
    assert not judge.is_valid(reply)


@pytest.mark.spec("D23")
def test_the_schema_of_token_hints_names_the_fields_of_a_hint():
    from monoize.reframer.hints import TokenHint
    from monoize.reframer.tags import MaskBit

    described = schema("token_hints")["$defs"]["token_hint"]
    assert set(described["properties"]) == set(described["required"])
    assert set(described["required"]) == set(TokenHint.__struct_fields__)
    assert schema("token_hints")["$defs"]["mask_bit"]["enum"] == [bit.name for bit in MaskBit]
    assert described["properties"]["mask"]["maximum"] == sum(MaskBit)
