"""The doors of the Reframer without a socket: queries, limits, refusals in one shape, counters and the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fakes.management import ADMIN, Answer, Api, opened
from monoize.cli import config as config_command
from monoize.errors import ConfigError
from monoize.reframer.finding import MAX_FINDINGS
from monoize.reframer.schemas import FILES, checksum, raw_schema
from monoize.server import reframer_bench
from monoize.server.reframer_bench import INLINE_BYTES, PIECE_BYTES, Bench
from monoize.server.reframer_work import room_for

Json = dict[str, Any]
REFRAMER: Json = {
    "max_bytes": 60_000,
    "max_batch": 30,
    "tags": {"<beta:*>": "error", "<review:*>": {"mark": "review"}},
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    house = await opened(tmp_path, None, settings={"reframer": REFRAMER})
    yield Api(house)
    await house.aclose()


def request(content: Any = "hello", **changes: Any) -> Json:
    return {
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user"}],
        "payload": {"messages": [{"id": "m1", "role": "user", "content": content}]},
        **changes,
    }


def tagged(*tags: str) -> Json:
    message = {"id": "m1", "role": "user", "content": "hi", "protocol_tags": list(tags)}
    return request(payload={"messages": [message]})


def refusal(answer: Answer, status: int, code: str) -> Json:
    """Every refusal has the fields of section 6's ValidationError."""
    found: Json = answer.json
    assert (answer.status, found["error_code"]) == (status, code), answer.raw[:400]
    assert answer.headers["content-type"] == "application/json"
    assert found["message"]
    assert isinstance(found["field_path"], str)
    assert isinstance(found["details"]["diagnostics"], list)
    return found


# --- queries -------------------------------------------------------------------------------------


@pytest.mark.spec("S3-6.1", "D20")
async def test_the_mode_is_strict_unless_it_is_said(api):
    body = request(constraints={"routing": {}})
    refusal(await api.call("POST", "/v1/reframe", body), 400, "MISSING_FIELD")
    refusal(await api.call("POST", "/v1/reframe?mode=strict", body), 400, "MISSING_FIELD")
    repaired = await api.good("POST", "/v1/reframe?mode=lenient", body)
    assert {warning["code"] for warning in repaired["warnings"]} == {
        "BUDGET_DEFAULTED",
        "RETRIEVAL_DEFAULTED",
    }


@pytest.mark.spec("S3-6.2", "D50")
@pytest.mark.parametrize("path", ["/v1/reframe", "/v1/reframe/batch"])
@pytest.mark.parametrize(
    ("query", "place", "said"),
    [
        ("mode=loose", "?mode", 'must be one of strict, lenient, not "loose"'),
        ("mode=", "?mode", 'not ""'),
        ("into=grok&model=m", "?into", "chat_completion, responses, messages, gemini"),
        ("into=messages", "?model", "needs the name of a model"),
        ("into=messages&model=", "?model", "needs the name of a model"),
        (f"into=messages&model={'m' * 257}", "?model", "longer than 256"),
        ("model=m", "?model", "there is no into"),
        ("mod=lenient", "?mod", "known: mode, into, model"),
        (f"mode={'x' * 5000}", "?mode", "5000 characters"),
        ("mode=somebody@example.org", "?mode", "[email]"),
    ],
)
async def test_what_the_query_says_wrongly_is_named(api, path, query, place, said):
    found = refusal(await api.call("POST", f"{path}?{query}", request()), 400, "INVALID_QUERY")
    assert found["field_path"] == place
    assert said in found["message"]
    assert len(found["message"]) < 400


@pytest.mark.spec("D50")
async def test_a_call_that_cannot_be_written_is_a_refusal_of_its_own(api):
    target = "/v1/reframe{}?into=gemini&model=a/../b"
    found = refusal(await api.call("POST", target.format(""), request()), 400, "INVALID_REQUEST")
    assert found["details"]["parameter"] == "model"
    batch = await api.call("POST", target.format("/batch"), [request(), {}])
    assert batch.status == 207
    assert [item["error"]["error_code"] for item in batch.json["results"]] == [
        "INVALID_REQUEST",
        "MISSING_FIELD",
    ]


# --- bodies --------------------------------------------------------------------------------------


@pytest.mark.spec("S3-6.2")
@pytest.mark.parametrize("path", ["/v1/reframe", "/v1/reframe/batch"])
@pytest.mark.parametrize(
    ("raw", "headers", "status", "code"),
    [
        (b"", {}, 400, "JSON_SYNTAX"),
        (b"{", {}, 400, "JSON_SYNTAX"),
        (b"\xff\xfe", {}, 400, "JSON_NOT_UTF8"),
        (b" " * 60_001, {}, 413, "PAYLOAD_TOO_LARGE"),
        (b"{}", {"content-length": "70000"}, 413, "PAYLOAD_TOO_LARGE"),
        (b"{}", {"content-encoding": "gzip"}, 400, "INVALID_REQUEST"),
        (b"{}", {"content-type": "multipart/form-data"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b"<a/>", {"content-type": "text/xml"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_in_the_same_shape(
    api, path, raw, headers, status, code
):
    answer = await api.call("POST", path, raw=raw, headers=headers)
    found = refusal(answer, status, code)
    if status == 413:
        assert "settings.reframer.max_bytes" in found["message"]


@pytest.mark.parametrize(
    "kind",
    ["application/json; charset=utf-8", "application/problem+json", "text/plain", ""],
)
async def test_json_is_read_under_any_of_its_names(api, kind):
    headers = {"content-type": kind} if kind else {}
    answer = await api.call("POST", "/v1/reframe", request(), headers=headers)
    assert answer.status == 200


async def test_the_limit_of_the_whole_gateway_holds_too(tmp_path):
    house = await opened(tmp_path, None, settings={"reframer": {"max_bytes": 500_000}})
    answer = await Api(house).call("POST", "/v1/reframe", raw=b" " * 100_001)
    assert "server.limits.body_bytes" in refusal(answer, 413, "PAYLOAD_TOO_LARGE")["message"]
    await house.aclose()


async def test_other_errors_at_these_paths_have_the_shape_and_those_of_keys_have_not(api):
    refusal(await api.call("GET", "/v1/reframe"), 405, "METHOD_NOT_ALLOWED")
    refusal(await api.call("DELETE", "/v1/health"), 405, "METHOD_NOT_ALLOWED")
    refused = await api.call("POST", "/v1/reframe", request(), key=None)
    assert (refused.status, refused.error["code"]) == (401, "unauthorized")
    elsewhere = await api.call(
        "POST", "/v1/reframe", request(), headers={"origin": "https://evil.example"}
    )
    assert (elsewhere.status, elsewhere.error["code"]) == (403, "forbidden")


async def test_a_defect_of_ours_tells_nothing(api, monkeypatch):
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("the text of a caller")

    monkeypatch.setattr("monoize.server.reframer_work.reframe", broken)
    found = refusal(await api.call("POST", "/v1/reframe", request()), 500, "INTERNAL_ERROR")
    assert "caller" not in json.dumps(found)


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.spec("S3-6.3", "D25")
async def test_a_batch_of_good_requests_is_a_200(api):
    batch = [request(request_id=f"request-{n:04}") for n in range(30)]
    answer = await api.call("POST", "/v1/reframe/batch", batch)
    assert answer.status == 200
    assert answer.json["counts"] == {"passed": 30, "failed": 0}
    for index, item in enumerate(answer.json["results"]):
        assert item.keys() == {"index", "status", "request_id", "response"}
        named = (item["index"], item["status"], item["request_id"])
        assert named == (index, 200, f"request-{index:04}")
        alone = await api.good("POST", "/v1/reframe", batch[index])
        assert item["response"] == alone


@pytest.mark.spec("S3-6.3", "D25")
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"{}", "MISSING_FIELD"),
        (b"null", "NOT_AN_OBJECT"),
        (b'{"a":NaN}', "JSON_NOT_A_NUMBER"),
        (b'{"a":tru}', "JSON_SYNTAX"),
        (b'{"a":"\\ud800"}', "UNKNOWN_FIELD"),
        (b'"\xff"', "JSON_NOT_UTF8"),
        (b"[" * 300 + b"]" * 300, "JSON_TOO_DEEP"),
        (b'{"\\ud800":1}', "MISSING_FIELD"),
        (b"1e999", "JSON_NUMBER_TOO_LARGE"),
    ],
)
async def test_one_bad_item_costs_no_other_and_makes_it_a_207(api, bad, code):
    good = json.dumps(request()).encode()
    answer = await api.call(
        "POST", "/v1/reframe/batch", raw=b"[" + b",".join((good, bad, good)) + b"]"
    )
    assert answer.status == 207
    first, second, third = answer.json["results"]
    assert (first["status"], second["status"], third["status"]) == (200, 400, 200)
    assert first["response"] == third["response"]
    codes = [second["error"]["error_code"]]
    codes += [found["error_code"] for found in second["error"]["details"]["diagnostics"]]
    assert code in codes
    assert answer.json["counts"] == {"passed": 2, "failed": 1}


@pytest.mark.spec("S3-6.3")
async def test_an_empty_batch_has_nothing_that_failed(api):
    answer = await api.call("POST", "/v1/reframe/batch", [])
    assert (answer.status, answer.json["results"]) == (200, [])


@pytest.mark.spec("S3-6.1")
async def test_a_batch_that_is_too_long_is_refused_before_the_work(api):
    answer = await api.call("POST", "/v1/reframe/batch", [0] * 31)
    found = refusal(answer, 413, "BATCH_TOO_LONG")
    assert found["details"]["limit"] == 30
    assert (await api.call("POST", "/v1/reframe/batch", [0] * 30)).status == 207
    refusal(await api.call("POST", "/v1/reframe/batch", {}), 400, "BATCH_NOT_AN_ARRAY")


async def test_a_long_batch_has_room_for_fewer_findings_of_each(api):
    assert [room_for(n) for n in (0, 1, 10, 20, 1000)] == [1000, MAX_FINDINGS, 1000, 500, 20]
    many = request(payload={"messages": [0] * 1200})
    alone = (await api.call("POST", "/v1/reframe", many)).json["details"]
    assert len(alone["diagnostics"]) + 1 == MAX_FINDINGS
    batch = [many] * 10 + [{}] * 15  # 25 of them: 400 findings each
    for item in (await api.call("POST", "/v1/reframe/batch", batch)).json["results"][:10]:
        details = item["error"]["details"]
        assert (len(details["diagnostics"]) + 1, details["has_more"]) == (400, True)


# --- where the work is done ----------------------------------------------------------------------


async def test_a_large_text_is_worked_on_beside_the_loop_and_a_small_one_at_once(monkeypatch):
    bench, ticks = Bench(), []
    monkeypatch.setattr(reframer_bench, "warm_up", lambda: ticks.append("warm"))

    def work() -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return "beside"
        return "at once"

    assert await bench.done(work, 1) == "beside"  # the first one reads the vocabulary
    assert ticks == ["warm"]
    assert await bench.done(work, INLINE_BYTES) == "at once"
    assert await bench.done(work, INLINE_BYTES + 1) == "beside"


async def test_too_many_at_once_are_told_to_come_back(api, monkeypatch):
    monkeypatch.setattr(reframer_bench, "_PLACES", 1)
    with api.house.state.lasting.bench.place():
        answer = await api.call("POST", "/v1/reframe", request())
        refusal(answer, 503, "REFRAMER_BUSY")
        assert answer.headers["retry-after"] == "1"
    assert (await api.call("POST", "/v1/reframe", request())).status == 200


async def test_a_batch_is_worked_on_in_pieces(tmp_path, monkeypatch):
    sizes: list[int] = []
    done = Bench.done

    async def noted(self: Bench, work: Any, size: int) -> Any:
        sizes.append(size)
        return await done(self, work, size)

    monkeypatch.setattr(Bench, "done", noted)
    house = await opened(tmp_path, None, server={"host": "127.0.0.1"})
    batch = [request("x" * 100_000, request_id=f"request-{n:04}") for n in range(6)]
    answer = await Api(house).call("POST", "/v1/reframe/batch", batch)
    await house.aclose()
    assert answer.status == 200
    assert [item["index"] for item in answer.json["results"]] == list(range(6))
    whole, *pieces = sizes
    assert len(pieces) == 2
    assert max(pieces) < PIECE_BYTES + 101_000
    assert sum(pieces) <= whole


# --- flags ---------------------------------------------------------------------------------------


@pytest.mark.spec("S3-7", "S3-5")
async def test_the_operators_flags_are_in_force(api):
    found = refusal(
        await api.call("POST", "/v1/reframe", tagged("<beta:x>")), 400, "UNKNOWN_PROTOCOL_TAG"
    )
    assert found["field_path"] == "payload.messages[0].protocol_tags[0]"
    reply = await api.good("POST", "/v1/reframe", tagged("<review:x>", "<gamma:x>"))
    assert reply["normalized"]["payload"]["messages"][0]["marks"] == ["review"]
    assert [warning["code"] for warning in reply["warnings"]] == ["UNKNOWN_PROTOCOL_TAG"]


@pytest.mark.spec("S3-7")
@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"beta": "error"}, "tag flag 'beta'"),
        ({"<x:y>": {"role": "king"}}, "tag flag '<x:y>'"),
        ({"<tool:*>": "error"}, "has a rule"),
    ],
)
async def test_a_bad_flag_stops_the_start_and_is_named(tmp_path, capsys, tags, said):
    with pytest.raises(ConfigError, match=r"\$\.settings\.reframer\.tags: ") as stopped:
        await opened(tmp_path, None, settings={"reframer": {"tags": tags}})
    assert said in stopped.value.message
    file = tmp_path / "monoize.yaml"
    file.write_text(json.dumps({"settings": {"reframer": {"tags": tags}}}))
    assert config_command.check(config=file) == 1
    assert said in capsys.readouterr().err


# --- schemas -------------------------------------------------------------------------------------


@pytest.mark.spec("S3-6.1", "S3-6.3")
@pytest.mark.parametrize("name", FILES)
async def test_a_schema_is_served_byte_for_byte_and_not_twice(api, name):
    answer = await api.call("GET", f"/v1/schemas/{name}", key=None)
    assert (answer.status, answer.raw) == (200, raw_schema(name))
    assert answer.headers["etag"] == f'"{checksum(name)}"'
    assert answer.headers["cache-control"] == "public, max-age=300"
    tag = answer.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await api.call("GET", f"/v1/schemas/{name}", headers={"if-none-match": known})
        assert (again.status, again.raw, again.headers["etag"]) == (304, b"", tag)
        assert "content-length" not in again.headers
    other = await api.call("GET", f"/v1/schemas/{name}", headers={"if-none-match": '"other"'})
    assert other.status == 200


async def test_a_schema_that_is_none_is_a_404(api):
    found = refusal(await api.call("GET", "/v1/schemas/reply"), 404, "UNKNOWN_SCHEMA")
    assert "request, role, constraints, token_hints" in found["message"]


# --- what is counted and logged ------------------------------------------------------------------


@pytest.mark.spec("S3-7")
async def test_what_happens_is_counted(api):
    body = tagged("<safety:restricted>", "<gamma:x>", "<gamma:y>")
    await api.good("POST", "/v1/reframe", body)
    await api.call("POST", "/v1/reframe?mode=lenient", {**body, "extra": 1, "more": 2})
    await api.call("POST", "/v1/reframe/batch", [body, {}])
    await api.call("POST", "/v1/reframe/batch", {})
    text = (await api.call("GET", "/metrics")).raw.decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    documents, findings = "monoize_reframe_documents_total", "monoize_reframe_findings_total"
    assert {name: float(lines[name]) for name in lines if name.startswith(documents)} == {
        f'{documents}{{mode="strict",result="reframed"}}': 2,
        f'{documents}{{mode="lenient",result="refused"}}': 1,
        f'{documents}{{mode="strict",result="refused"}}': 1,
    }
    assert {name: float(lines[name]) for name in lines if name.startswith(findings)} == {
        f'{findings}{{code="UNKNOWN_PROTOCOL_TAG"}}': 6,
        f'{findings}{{code="UNKNOWN_FIELD"}}': 2,
        f'{findings}{{code="MISSING_FIELD"}}': 4,
        f'{findings}{{code="BATCH_NOT_AN_ARRAY"}}': 1,
    }
    assert float(lines["monoize_reframe_safety_restricted_messages_total"]) == 2
    assert float(lines["monoize_reframe_unknown_tags_total"]) == 6
    assert float(lines["monoize_reframe_seconds_count"]) == 4
    assert 0 < float(lines["monoize_reframe_seconds_sum"]) < 60
    assert float(lines["monoize_reframe_batch_documents_count"]) == 1
    assert float(lines['monoize_reframe_batch_documents_bucket{le="2"}']) == 1


PERSONAL = (
    "sk-proj-abcdefghij0123456789",
    "somebody@example.org",
    "4111 1111 1111 1111",
    "+49 170 1234567",
    "203.0.113.7",
)


@pytest.mark.spec("S3-3.1")
@pytest.mark.parametrize("secret", PERSONAL)
async def test_a_refusal_is_logged_without_personal_data(api, caplog, secret):
    caplog.set_level(logging.INFO, "monoize.reframer")
    bad = request(tenant=7, request_id=secret, created_at=secret, **{secret: secret})
    bad["payload"]["messages"][0] |= {"role": secret, "metadata": {secret: [secret]}}
    refused = await api.call("POST", "/v1/reframe", bad)
    (record,) = [r for r in caplog.records if r.name == "monoize.reframer"]
    line = record.getMessage()
    assert line.startswith("refused 1 of 1 documents: ")
    (told,) = json.loads(line.partition(": ")[2])
    assert len(told["findings"]) == 5  # of those that there are
    assert told["errors"] == len(refused.json["details"]["diagnostics"]) + 1
    assert {"error_code", "field_path", "message", "details"} == told["findings"][0].keys()
    assert secret not in line


@pytest.mark.spec("S3-3.1")
async def test_a_call_is_one_short_line_of_the_log(api, caplog):
    caplog.set_level(logging.INFO, "monoize.reframer")
    worst = {f"{'x' * 100}{n}": "y" * 90 for n in range(50)}
    await api.call("POST", "/v1/reframe/batch", [worst] * 4 + [request()])
    (line,) = [r.getMessage() for r in caplog.records if r.name == "monoize.reframer"]
    assert line.startswith("refused 4 of 5 documents: ")
    assert len(line) < 4200


@pytest.mark.spec("S3-3.1")
async def test_refusals_are_not_logged_where_the_operator_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    house = await opened(tmp_path, None, settings={"reframer": {"log_rejected": False}})
    answer = await Api(house).call("POST", "/v1/reframe", {}, key=ADMIN)
    await house.aclose()
    assert answer.status == 400
    assert not [r for r in caplog.records if r.name == "monoize.reframer"]
