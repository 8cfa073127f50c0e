"""The Reframer in the OpenAPI document, with the names that its specification gives to the components (spec 3, 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from monoize.reframer import Counts, Mode, Normalized, TokenHint
from monoize.reframer.into import TARGETS, Converted
from monoize.reframer.schemas import FILES, inlined, schema
from monoize.server.checkup import Report

__all__ = ["reframer_paths", "reframer_schemas"]

Schema = dict[str, Any]
Status = Annotated[int, Meta(ge=100, le=599)]

_ERROR = "ValidationError"
# Each whole and with its address: a reference by address, or below one, is not found inside an OpenAPI document by
# most of its readers.
_PUBLISHED = {
    "ReframeRequest": "request",
    "ReframeRequestRole": "role",
    "ReframeRequestConstraints": "constraints",
}


class Warning(msgspec.Struct, frozen=True, kw_only=True):  # noqa: A001 - the document calls it ReframeWarning
    code: str
    message: str
    field_path: str
    details: Mapping[str, Any]


class Call(Converted, frozen=True, kw_only=True):
    """The same request as a call of a model, to be sent to `path` of this gateway."""

    lossless: bool


class Response(msgspec.Struct, frozen=True, kw_only=True):
    request_id: str
    normalized: Normalized
    mask_hints: tuple[TokenHint, ...]
    tokenizer: str
    warnings: tuple[Warning, ...]
    has_more_warnings: bool
    counts: Counts
    into: Call | UnsetType = UNSET  # where it was asked for


class BatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    passed: int
    failed: int


class Health(Report, frozen=True, kw_only=True):
    service: Literal["reframer"]
    version: str
    schema_version: str


_TYPES = (Response, BatchCounts, Health)


def reframer_schemas() -> dict[str, Schema]:
    _, components = msgspec.json.schema_components(
        _TYPES, ref_template="#/components/schemas/Reframe{name}"
    )
    ours = {
        f"Reframe{name}": {**form, "title": f"Reframe{name}"} for name, form in components.items()
    }
    published = {
        name: {"$id": schema(file)["$id"], "title": name, **_anonymous(inlined(file))}
        for name, file in _PUBLISHED.items()
    }
    return {**ours, **published, **_BATCH, _ERROR: _VALIDATION_ERROR}


def _anonymous(form: Any) -> Any:
    """Without the addresses of what was put in, which would be there several times."""
    if isinstance(form, list):
        return [_anonymous(item) for item in form]
    if not isinstance(form, dict):
        return form
    return {k: _anonymous(v) for k, v in form.items() if k not in ("$id", "$schema", "$defs")}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_VALIDATION_ERROR: Schema = {
    "title": _ERROR,
    "description": "The first mistake; the others are in details.diagnostics, in the same form.",
    "type": "object",
    "required": ["error_code", "message", "field_path", "details"],
    "properties": {
        "error_code": {"type": "string", "description": "stable: programs branch on it"},
        "message": {"type": "string"},
        "field_path": {
            "type": "string",
            "description": "such as constraints.routing.tool_budget.per_tool[1].budget; of a parameter ?mode",
        },
        "details": {
            "type": "object",
            "properties": {
                "diagnostics": {"type": "array", "items": _ref(_ERROR + "Detail")},
                "warnings": {"type": "array", "items": _ref("ReframeWarning")},
                "has_more": {"type": "boolean"},
            },
        },
    },
}
_DIAGNOSTIC: Schema = {
    **_VALIDATION_ERROR,
    "title": _ERROR + "Detail",
    "description": "One of the other mistakes.",
    "properties": {**_VALIDATION_ERROR["properties"], "details": {"type": "object"}},
}
_ITEM = {
    "index": {"type": "integer", "minimum": 0},
    "request_id": {"type": ["string", "null"]},
}
_BATCH: dict[str, Schema] = {
    _ERROR + "Detail": _DIAGNOSTIC,
    "ReframeBatchItem": {
        "title": "ReframeBatchItem",
        "oneOf": [
            {
                "type": "object",
                "required": ["index", "status", "request_id", "response"],
                "additionalProperties": False,
                "properties": {
                    **_ITEM,
                    "status": {"const": 200},
                    "response": _ref("ReframeResponse"),
                },
            },
            {
                "type": "object",
                "required": ["index", "status", "request_id", "error"],
                "additionalProperties": False,
                "properties": {**_ITEM, "status": {"const": 400}, "error": _ref(_ERROR)},
            },
        ],
    },
    "ReframeBatchResponse": {
        "title": "ReframeBatchResponse",
        "type": "object",
        "required": ["results", "counts"],
        "properties": {
            "results": {"type": "array", "items": _ref("ReframeBatchItem")},
            "counts": _ref("ReframeBatchCounts"),
        },
    },
}


# --- paths ---------------------------------------------------------------------------------------


def reframer_paths() -> dict[str, Schema]:
    return {
        "/v1/reframe": {
            "post": _operation(
                "reframeRequest",
                "Validate and normalise one request",
                body=_ref("ReframeRequest"),
                answers={200: "ReframeResponse"},
            )
        },
        "/v1/reframe/batch": {
            "post": _operation(
                "reframeBatch",
                "The same for an array of requests; 207 when not all of them passed",
                # Whatever an item is: what is wrong with it is told in its own envelope.
                body={"type": "array", "items": {"anyOf": [_ref("ReframeRequest"), {}]}},
                answers={200: "ReframeBatchResponse", 207: "ReframeBatchResponse"},
            )
        },
        "/v1/schemas/{name}": {"get": _schema_operation()},
        "/v1/health": {
            "get": {
                **_about("reframerHealth", "How the Reframer is, and what it depends on"),
                "parameters": [],
                "security": [],
                "responses": {
                    "200": _json("OK", "ReframeHealth"),
                    "503": _json("Something is away that is needed", "ReframeHealth"),
                    "default": _json("A refusal", _ERROR),
                },
            }
        },
    }


def _about(name: str, summary: str) -> Schema:
    return {"operationId": name, "tags": ["reframer"], "summary": summary}


def _operation(name: str, summary: str, *, body: Schema, answers: Mapping[int, str]) -> Schema:
    refusals = dict.fromkeys((400, 408, 413, 415, 503), _ERROR) | dict.fromkeys(
        (401, 403), "ApiError"
    )
    named = {**answers, **dict(sorted(refusals.items()))}
    responses = {str(s): _json(HTTPStatus(s).phrase, kind) for s, kind in named.items()}
    return {
        **_about(name, summary),
        "parameters": [
            _query("mode", "strict: the schema is the contract", {"enum": list(get_args(Mode))}),
            _query("into", "also as a call of a model; needs model", {"enum": list(TARGETS)}),
            _query("model", "of the call", {"type": "string", "minLength": 1, "maxLength": 256}),
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {**responses, "default": _json("Another refusal", _ERROR)},
    }


def _query(name: str, about: str, form: Schema) -> Schema:
    return {"name": name, "in": "query", "required": False, "description": about, "schema": form}


def _schema_operation() -> Schema:
    name = {"name": "name", "in": "path", "required": True, "schema": {"enum": list(FILES)}}
    known = {"name": "if-none-match", "in": "header", "schema": {"type": "string"}}
    headers = {
        "etag": {
            "description": "its SHA-256, in quotes",
            "required": True,
            "schema": {"type": "string", "pattern": '^"[0-9a-f]{64}"$'},
        }
    }
    return {
        **_about("reframerSchema", "A JSON Schema, byte for byte"),
        "parameters": [name, known],
        "security": [],
        "responses": {
            "200": {
                "description": "OK",
                "headers": headers,
                "content": {"application/schema+json": {"schema": {"type": "object"}}},
            },
            "304": {"description": "Not Modified", "headers": headers},
            "404": _json("There is no such schema", _ERROR),
            "default": _json("Another refusal", _ERROR),
        },
    }


def _json(description: str, name: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": _ref(name)}}}
