"""Agent runs in the OpenAPI document (spec 5)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from monoize.agent.contract import ExecutionContract
from monoize.agent.machine.digest import StateDigest
from monoize.agent.outcome import AgentOutcome
from monoize.agent.record.replay import Divergence
from monoize.agent.runs.entries import EntryPage, Payload
from monoize.agent.runs.offered import OfferedSource
from monoize.agent.runs.preview import Preview
from monoize.agent.runs.request import RunRequest
from monoize.store.agent_runs import LONGEST_FILTER, RunFilter, RunRow
from monoize.store.paging import LARGEST_PAGE
from monoize.telemetry.agent_runs import Figures

__all__ = ["agent_paths", "agent_schemas"]

Schema = dict[str, Any]
_RUN = "/v1/agent/runs/{run_id}"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands; without an outcome it goes on."""

    run_id: str
    outcome: AgentOutcome | None
    failure_code: str | None
    output: str
    digest: StateDigest
    contract: ExecutionContract
    head: str


class WaitingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person has to say yes to: name its id in `approve` of a run that goes on with this one."""

    id: str
    name: str
    arguments: str
    hash: str


class ShownReply(Reply, frozen=True, kw_only=True):
    run: RunRow
    task: str
    waiting_for_approval: tuple[WaitingCall, ...]


class ToolList(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[OfferedSource, ...]


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[RunRow, ...]
    next: str | None  # `after` of the next page


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    run_id: str | None
    entries: int
    head: str | None
    public_key: str | None
    faults: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str


class ReplayReply(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    identical: bool
    recorded_head: str
    head: str
    outcome: str | None
    entries: Annotated[int, Meta(ge=0)]
    divergence: Divergence | None


_TYPES = (
    *(RunRequest, Preview, ToolList, Reply, ShownReply, RunPage, EntryPage, Payload),
    *(Verified, ReplayRequest, ReplayReply, Figures),
)


def agent_schemas() -> dict[str, Schema]:
    _, components = msgspec.json.schema_components(
        _TYPES, ref_template="#/components/schemas/Agent{name}"
    )
    return {f"Agent{name}": {**form, "title": f"Agent{name}"} for name, form in components.items()}


def agent_paths() -> dict[str, Schema]:
    return {
        "/v1/agent/runs": {
            "post": {
                **_about("beginRun", "Begin a run; answer when it has ended, or stream its events"),
                **_body("RunRequest"),
                "responses": {
                    "200": _begun(),
                    "202": _json("The gateway stops; the run goes on later", "Reply"),
                    **_refusals(400, 404, 408, 409, 413, 429, 503),
                },
            },
            "get": {
                **_about("listRuns", "The caller's runs, newest first; an admin's are everybody's"),
                "parameters": _filters(),
                "responses": {"200": _json("OK", "RunPage"), **_refusals(400)},
            },
        },
        "/v1/agent/contract": {
            "post": {
                **_about("previewContract", "The contract of such a run and why; none is begun"),
                **_body("RunRequest"),
                "responses": {
                    "200": _json("What would bind it, and what PRECHECK refuses", "Preview"),
                    **_refusals(400, 404, 408, 409, 413),
                },
            }
        },
        "/v1/agent/tools": {
            "get": {
                **_about("listTools", "Sources of tools that the caller may name"),
                "responses": {"200": _json("OK", "ToolList"), **_refusals()},
            }
        },
        _RUN: {"get": _of_one("showRun", "A run as it stands", "ShownReply")},
        f"{_RUN}/events": {
            "get": {
                **_about("watchRun", "Its state as it is now, then every change until it ends"),
                "parameters": [_run_id(), _header("last-event-id")],
                "responses": {"200": _stream(), **_refusals(404)},
            }
        },
        f"{_RUN}/transcript": {
            "get": {
                **_about("downloadTranscript", "Its transcript, or everything in one zip file"),
                "parameters": [_run_id(), _query("format", {"enum": ["jsonl", "zip"]})],
                "responses": {"200": _transcript(), **_refusals(400, 404)},
            }
        },
        f"{_RUN}/entries": {
            "get": {
                **_about("listEntries", "Its transcript a page at a time"),
                "parameters": [
                    _run_id(),
                    _query("from", {"type": "integer", "minimum": 0}),
                    _limit(),
                    _query("payloads", {"enum": ["true", "false"]}),
                ],
                "responses": {"200": _json("OK", "EntryPage"), **_refusals(400, 404)},
            }
        },
        f"{_RUN}/payloads/{{digest}}": {
            "get": {
                **_about("showPayload", "What an entry of it names by a hash"),
                "parameters": [_run_id(), _digest()],
                "responses": {"200": _json("OK", "Payload"), **_refusals(404)},
            }
        },
        f"{_RUN}/interrupt": {"post": _interrupted()},
        f"{_RUN}/verify": {
            "post": _of_one("verifyRun", "Whether its transcript is whole", "Verified")
        },
        "/v1/agent/replay": {
            "post": {
                **_about("replayRun", "Run its record once more, asking nobody"),
                **_body("ReplayRequest"),
                "responses": {
                    "200": _json("OK", "ReplayReply"),
                    **_refusals(400, 404, 408, 409, 413),
                },
            }
        },
        "/v1/agent/stats": {
            "get": {
                **_about("runStats", "The baseline figures of the caller's runs"),
                "responses": {"200": _json("OK", "Figures"), **_refusals()},
            }
        },
    }


def _about(name: str, summary: str) -> Schema:
    return {"operationId": name, "tags": ["agent"], "summary": summary, "parameters": []}


def _of_one(name: str, summary: str, answer: str) -> Schema:
    return {
        **_about(name, summary),
        "parameters": [_run_id()],
        "responses": {"200": _json("OK", answer), **_refusals(404)},
    }


def _interrupted() -> Schema:
    made = _of_one("interruptRun", "End a run where it is", "Reply")
    made["responses"]["202"] = _json("It was told to; the gateway stops", "Reply")
    return made


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(name: str) -> Schema:
    content = {"application/json": {"schema": _ref(f"Agent{name}")}}
    return {"requestBody": {"required": True, "content": content}}


def _json(description: str, name: str) -> Schema:
    content = {"application/json": {"schema": _ref(f"Agent{name}")}}
    return {"description": description, "content": content}


def _stream() -> Schema:
    about = "Events state, delta, tool and outcome; each state carries the whole digest."
    return {"description": about, "content": {"text/event-stream": {"schema": {"type": "string"}}}}


def _begun() -> Schema:
    both = {**_json("", "Reply")["content"], **_stream()["content"]}
    return {"description": "Its end, or with `stream` its events", "content": both}


def _transcript() -> Schema:
    text, bytes_ = {"type": "string"}, {"type": "string", "format": "binary"}
    content = {"application/x-ndjson": {"schema": text}, "application/zip": {"schema": bytes_}}
    return {"description": "OK", "content": content}


def _refusals(*statuses: int) -> Schema:
    content = {"application/json": {"schema": _ref("ApiError")}}
    named = {
        str(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*statuses, 401, 403})
    }
    return {**named, "default": {"description": "Another refusal", "content": content}}


def _run_id() -> Schema:
    return {"name": "run_id", "in": "path", "required": True, "schema": {"type": "string"}}


def _digest() -> Schema:
    form = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    return {"name": "digest", "in": "path", "required": True, "schema": form}


def _limit() -> Schema:
    return _query("limit", {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE})


def _query(name: str, form: Schema) -> Schema:
    return {"name": name, "in": "query", "required": False, "schema": form}


def _header(name: str) -> Schema:
    return {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}


def _filters() -> list[Schema]:
    text = {"type": "string", "maxLength": LONGEST_FILTER}
    names = [name for name in RunFilter.__struct_fields__ if name != "running"]
    return [
        *(_query(name, text) for name in (*names, "after")),
        _query("running", {"enum": ["true", "false"]}),
        _limit(),
    ]
