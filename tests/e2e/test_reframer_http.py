"""The Reframer over HTTP: the contract tests of its specification, and the way on to a model."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fakes.caller import CALLERS, Caller, Reply, text_of
from fakes.dashboard import until
from fakes.gateway import GatewayProcess
from monoize.server.api.openapi import document
from monoize.server.api.table import ENDPOINTS

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "src" / "monoize" / "reframer" / "schemas"
REQUESTS = ROOT / "tests" / "golden" / "reframer" / "requests"
FILES = {
    "request": "reframer_request.json",
    "role": "role.json",
    "constraints": "constraints.json",
    "token_hints": "token_hints.json",
}
GOLDEN = sorted(
    file
    for file in REQUESTS.rglob("*.json")
    if not file.name.endswith(".expected.json") and file.parent.name != "unreadable"
)
HAPPY = (REQUESTS / "happy_path.json").read_bytes()
COMPONENTS = json.loads(json.dumps(document(ENDPOINTS)["components"]))


def fits(reply: Reply, component: str) -> Json:
    """What came is what the OpenAPI document says of it."""
    whole = {"$ref": f"#/components/schemas/{component}", "components": COMPONENTS}
    found: Json = reply.json
    jsonschema.Draft202012Validator(whole).validate(found)
    return found


# --- section 6.3 ---------------------------------------------------------------------------------


@pytest.mark.spec("S3-6.3", "S3-6.1", "S3-8")
@pytest.mark.parametrize("name", FILES)
def test_the_schema_that_is_served_has_the_checksum_of_the_file(caller: Caller, name: str):
    file = (SCHEMAS / FILES[name]).read_bytes()
    reply = caller.send("GET", f"/v1/schemas/{name}", headers={})  # nobody needs a key for it
    assert reply.status == 200
    assert hashlib.sha256(reply.raw).digest() == hashlib.sha256(file).digest()
    assert reply.headers["etag"] == f'"{hashlib.sha256(file).hexdigest()}"'
    assert reply.headers["content-type"] == "application/schema+json"
    again = caller.get(f"/v1/schemas/{name}", if_none_match=reply.headers["etag"])
    assert (again.status, again.raw) == (304, b"")
    head = caller.send("HEAD", f"/v1/schemas/{name}")
    assert (head.status, head.raw, int(head.headers["content-length"])) == (200, b"", len(file))


@pytest.mark.spec("S3-6.3")
@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_client_that_validates_by_itself_comes_to_the_same_verdict(caller: Caller, file: Path):
    """Whatever the schema refuses the API refuses, too; meaning and tags come on top of it."""
    request = caller.get("/v1/schemas/request").json
    registry = [caller.get(f"/v1/schemas/{name}").json for name in ("role", "constraints")]
    resources = jsonschema.validators.validator_for(request)(
        request, registry=_registry(*registry), format_checker=jsonschema.FormatChecker()
    )
    reply = caller.send("POST", "/v1/reframe", file.read_bytes())
    if not resources.is_valid(json.loads(file.read_bytes())):
        assert reply.status == 400
    fits(reply, "ReframeResponse" if reply.status == 200 else "ValidationError")


def _registry(*schemas: Json) -> Any:
    from referencing import Registry, Resource

    return Registry().with_resources(
        [(schema["$id"], Resource.from_contents(schema)) for schema in schemas]
    )


@pytest.mark.spec("S3-6.3", "D25")
def test_partial_failures_are_a_207_with_a_result_for_each(caller: Caller):
    files = [file.read_bytes() for file in GOLDEN]
    reply = caller.send("POST", "/v1/reframe/batch", b"[" + b",".join(files) + b"]")
    assert reply.status == 207
    found = fits(reply, "ReframeBatchResponse")
    assert len(found["results"]) == len(files)
    for index, (item, file) in enumerate(zip(found["results"], files, strict=True)):
        alone = caller.send("POST", "/v1/reframe", file)
        assert (item["index"], item["status"]) == (index, alone.status)
        assert item["response" if alone.status == 200 else "error"] == alone.json
    failed = sum(item["status"] != 200 for item in found["results"])
    assert found["counts"] == {"passed": len(files) - failed, "failed": failed}


@pytest.mark.spec("S3-6.3", "D25")
def test_a_batch_in_which_all_passed_is_a_200(caller: Caller):
    reply = caller.send("POST", "/v1/reframe/batch", b"[" + HAPPY + b"," + HAPPY + b"]")
    assert reply.status == 200
    assert fits(reply, "ReframeBatchResponse")["counts"] == {"passed": 2, "failed": 0}


@pytest.mark.spec("S3-6.3", "S3-6.1")
def test_health_names_the_version_and_its_dependencies(caller: Caller, gateway: GatewayProcess):
    # The first look may take longer than it may on a busy machine; then it is asked again.
    look = partial(caller.send, "GET", "/v1/health", headers={})
    reply = until(look, lambda reply: reply.status == 200)
    assert reply.status == 200
    found = fits(reply, "ReframeHealth")
    assert found["schema_version"] == "1.0.0"
    assert {"schema_registry", "feature_flags", "tokenizer"} < found["dependencies"].keys()
    assert str(gateway.log.parent) not in reply.raw.decode()


# --- section 6.1 and 6.2 -------------------------------------------------------------------------


def expectations() -> list[Any]:
    """Each golden request with each mode of which its file says what comes out."""
    return [
        pytest.param(file, mode, expected, id=f"{file.stem}-{mode}")
        for file in GOLDEN
        for mode, expected in json.loads(
            file.with_suffix(".expected.json").read_text("utf-8")
        ).items()
    ]


@pytest.mark.spec("S3-6.1", "S3-6.2", "S3-8")
@pytest.mark.parametrize(("file", "mode", "expected"), expectations())
def test_golden_requests_get_over_http_what_they_get_inside(
    caller: Caller, file: Path, mode: str, expected: Json
):
    reply = caller.send("POST", f"/v1/reframe?mode={mode}", file.read_bytes())
    if "reply" in expected:
        assert reply.status == 200
        assert fits(reply, "ReframeResponse") == expected["reply"]
        return
    assert reply.status == 400
    found = fits(reply, "ValidationError")
    told = [found, *found["details"]["diagnostics"]]
    assert [(one["error_code"], one["field_path"], one["message"]) for one in told] == [
        (one["code"], one["path"], one["message"]) for one in expected["errors"]
    ]


@pytest.mark.spec("S3-6.2", "S3-8")
def test_the_document_has_the_names_of_the_specification():
    found = document(ENDPOINTS)
    assert found["openapi"] == "3.1.0"
    post = found["paths"]["/v1/reframe"]["post"]
    assert post["operationId"] == "reframeRequest"
    answers = {
        status: answer["content"]["application/json"]["schema"]
        for status, answer in post["responses"].items()
    }
    assert answers["200"] == {"$ref": "#/components/schemas/ReframeResponse"}
    assert answers["400"] == {"$ref": "#/components/schemas/ValidationError"}
    schemas = found["components"]["schemas"]
    assert schemas["ReframeRequest"]["$id"] == "https://refactor.ai/schema/reframer/request"
    assert {"request_id", "normalized"} <= set(schemas["ReframeResponse"]["required"])
    named = {"error_code", "message", "field_path"}
    assert named <= set(schemas["ValidationError"]["required"])
    assert {"/v1/reframe/batch", "/v1/schemas/{name}", "/v1/health"} < found["paths"].keys()


@pytest.mark.spec("S3-2.1", "S3-6.2")
@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_the_request_in_the_document_judges_as_the_published_schema(file: Path):
    whole = {"$ref": "#/components/schemas/ReframeRequest", "components": COMPONENTS}
    published = json.loads((SCHEMAS / FILES["request"]).read_bytes())
    others = [json.loads((SCHEMAS / FILES[name]).read_bytes()) for name in ("role", "constraints")]
    value = json.loads(file.read_bytes())
    verdict = jsonschema.Draft202012Validator(published, registry=_registry(*others)).is_valid
    assert jsonschema.Draft202012Validator(whole).is_valid(value) == verdict(value)


# --- the way on ----------------------------------------------------------------------------------


@pytest.mark.spec("D50", "S3-1")
@pytest.mark.parametrize("served_by", ["chat_completion", "responses", "messages", "gemini"])
@pytest.mark.parametrize("target", CALLERS)
def test_a_request_goes_on_to_a_model_in_any_protocol(
    caller: Caller, upstream: Any, target: str, served_by: str
):
    model = f"{served_by}.text"
    pdf = {**caller.headers, "content-type": "application/pdf"}
    kept = caller.send("POST", "/v1/media", b"%PDF-1.7 a waybill", pdf)
    request = json.loads(HAPPY)
    for attachment in request["payload"]["attachments"]:
        attachment["uri"] = kept.json["uri"]
    reply = caller.post(f"/v1/reframe?into={target}&model={model}", request)
    call = fits(reply, "ReframeResponse")["into"]
    assert (call["protocol"], call["lossless"]) == (target, False)
    assert {remark["field_path"] for remark in call["dropped"]} >= {"channels", "constraints"}
    answer = caller.post(call["path"], call["body"])
    assert answer.status == 200, answer.raw
    assert text_of(target, answer, stream=False)
    sent = json.dumps(upstream.last.body, ensure_ascii=False)
    assert "Where is parcel 4711?" in sent
    assert "parcel_search" in sent
    assert "Parcels in transit arrive within three days." in sent


@pytest.mark.spec("D50", "D25")
def test_every_item_of_a_batch_goes_on_by_itself(caller: Caller):
    reply = caller.send(
        "POST", "/v1/reframe/batch?into=messages&model=m", b"[" + HAPPY + b",{}," + HAPPY + b"]"
    )
    assert reply.status == 207
    first, second, third = fits(reply, "ReframeBatchResponse")["results"]
    assert first["response"]["into"]["path"] == "/v1/messages"
    assert first["response"] == third["response"]
    assert "error" in second


# --- the log -------------------------------------------------------------------------------------


@pytest.mark.spec("S3-3.1")
def test_the_log_shows_what_was_refused_and_nothing_personal(
    caller: Caller, gateway: GatewayProcess
):
    bad = {**json.loads(HAPPY), "created_at": "write to ada@example.org", "tenant": ""}
    reply = caller.post("/v1/reframe", bad)
    assert reply.status == 400
    (line,) = [
        line
        for line in gateway.log_text().splitlines()
        if reply.headers["x-request-id"] in line and "refused 1 of 1" in line
    ]
    assert "INVALID_TIMESTAMP" in line
    assert "EMPTY_VALUE" in line
    assert "[email]" in line
    assert "ada@" not in line
