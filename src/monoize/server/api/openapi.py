"""The OpenAPI 3.1 document, written from the table of endpoints and the types they name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from monoize import __version__
from monoize.server.api.agent_paths import agent_paths, agent_schemas
from monoize.server.api.endpoint import Endpoint
from monoize.server.api.model_paths import model_paths
from monoize.server.api.reframer_paths import reframer_paths, reframer_schemas

__all__ = ["document"]

_REFERENCE = "#/components/schemas/{name}"
_ABOUT = (
    "Model calls in four protocols under /v1 and /v1beta, and the management API under /api. Send the key as "
    "`Authorization: Bearer`, `x-api-key` or `x-goog-api-key`. Money is integer nano-USD (a thousand millionth of a "
    "dollar) beside the same as a decimal string; moments are milliseconds since the epoch."
)

_COOKIE = (
    "Of `POST /api/session`; on loopback its name is `monoize_session_<port>`. Everything but GET and HEAD also needs the "
    "header `x-monoize-csrf` with the `csrf` of `GET /api/session`. A key that is sent, too, is what counts."
)

Schema = dict[str, Any]


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    type: str
    param: str | None  # the path of what is wrong
    code: str | None


class ApiError(msgspec.Struct, frozen=True, kw_only=True):
    """Every refusal, in OpenAI's shape."""

    error: ErrorDetail
    request_id: str


def document(endpoints: Sequence[Endpoint]) -> Schema:
    types = [kind for e in endpoints for kind in (e.query, e.body, e.answer) if kind is not None]
    types = [ApiError, *(kind for kind in dict.fromkeys(types) if kind is not str)]
    references, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schemas = dict(zip(types, references, strict=True))
    asked = {e.query.__name__ for e in endpoints if e.query is not None}
    paths: dict[str, Schema] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, schemas, components
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Monoize",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {**model_paths(), **reframer_paths(), **agent_paths(), **paths},
        "components": {
            "schemas": {n: _tidy(s) for n, s in components.items() if n not in asked}
            | reframer_schemas()
            | agent_schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "x-goog-api-key": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "__Host-monoize_session",
                    "description": _COOKIE,
                },
            },
        },
        "security": [{"bearer": []}, {"x-api-key": []}, {"x-goog-api-key": []}, {"session": []}],
        "tags": [
            {"name": name}
            for name in dict.fromkeys(
                ("models", "reframer", "agent", *(e.group for e in endpoints))
            )
        ],
    }


def _operation(
    endpoint: Endpoint, schemas: Mapping[Any, Schema], components: Mapping[str, Schema]
) -> Schema:
    role = {"admin": " For admins.", "user": "", None: " No key is needed."}[endpoint.role]
    operation: Schema = {
        "operationId": endpoint.name,
        "tags": [endpoint.group],
        "summary": endpoint.about.partition(". ")[0].partition("; ")[0].rstrip("."),
        "description": endpoint.about + role,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint, components)],
        "responses": _responses(endpoint, schemas),
        "x-monoize-role": endpoint.role,
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": endpoint.body_required,
            "content": {"application/json": {"schema": schemas[endpoint.body]}},
        }
    if endpoint.role is None:
        operation["security"] = []
    return operation


def _path_parameters(endpoint: Endpoint) -> Iterable[Schema]:
    for name in endpoint.names:
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(endpoint: Endpoint, components: Mapping[str, Schema]) -> Iterable[Schema]:
    if endpoint.query is None:
        return
    whole = components[endpoint.query.__name__]
    for name, schema in whole["properties"].items():
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        rest = {k: v for k, v in schema.items() if k not in ("anyOf", "description")}
        if rest.get("default", "") is None:
            del rest["default"]
        parameter = {
            "name": name,
            "in": "query",
            "required": name in whole.get("required", ()),
            "schema": {**(kinds[0] if kinds else {}), **rest},
        }
        if isinstance(rest.get("enum"), list):
            parameter["schema"]["enum"] = [value for value in rest["enum"] if value is not None]
        described = schema.get("description") or (kinds[0].get("description") if kinds else None)
        yield {**parameter, **({"description": described} if described else {})}


def _responses(endpoint: Endpoint, schemas: Mapping[Any, Schema]) -> Schema:
    answer = {"type": "string"} if endpoint.answer is str else schemas[endpoint.answer]
    responses: Schema = {
        str(endpoint.status): {
            "description": HTTPStatus(endpoint.status).phrase,
            "content": {endpoint.content_type: {"schema": answer}},
        }
    }
    refusals = set(endpoint.refusals)
    if endpoint.query is not None or endpoint.body is not None or endpoint.names:
        refusals.add(400)
    if endpoint.role is not None:
        refusals |= {401, 403, 409, 503}
    if endpoint.names:
        refusals.add(404)
    if endpoint.body is not None:
        refusals |= {408, 413}
    for status in sorted(refusals):
        responses[str(status)] = _error(HTTPStatus(status).phrase, schemas)
    responses["default"] = _error("Another refusal", schemas)
    return responses


def _error(phrase: str, schemas: Mapping[Any, Schema]) -> Schema:
    return {"description": phrase, "content": {"application/json": {"schema": schemas[ApiError]}}}


def _tidy(schema: Any) -> Any:
    """Docstrings without the indentation of the source."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {name: _tidy(value) for name, value in schema.items()}
    if isinstance(tidy.get("description"), str):
        tidy["description"] = inspect.cleandoc(tidy["description"])
    return tidy
