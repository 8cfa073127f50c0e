"""The model endpoints in the OpenAPI document: loosely, because their vendors describe them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["model_paths"]

_ANY: dict[str, Any] = {"type": "object"}


class _Path(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    summary: str
    name: str
    required: tuple[str, ...] = ()  # fields of the body, where it has one
    streams: bool = False
    needs_key: bool = True
    content_type: str = "application/json"


_PATHS = (
    _Path(
        method="post",
        path="/v1/chat/completions",
        summary="A call in OpenAI's chat protocol",
        name="chat_completions",
        required=("model", "messages"),
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1/responses",
        summary="A call in OpenAI's Responses protocol",
        name="responses",
        required=("model",),
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1/messages",
        summary="A call in Anthropic's Messages protocol",
        name="messages",
        required=("model", "messages"),
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1/messages/count_tokens",
        summary="The tokens of a Messages request",
        name="count_messages",
        required=("model", "messages"),
    ),
    _Path(
        method="post",
        path="/v1beta/models/{model}:generateContent",
        summary="A call in Gemini's protocol",
        name="generate_content",
        required=("contents",),
    ),
    _Path(
        method="post",
        path="/v1beta/models/{model}:streamGenerateContent",
        summary="A streamed call in Gemini's protocol; a JSON array, or events with alt=sse",
        name="stream_generate_content",
        required=("contents",),
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1beta/models/{model}:countTokens",
        summary="The tokens of a Gemini request",
        name="count_tokens",
    ),
    _Path(
        method="post",
        path="/v1/translate",
        summary="What a request would become for another protocol; nothing is sent",
        name="translate",
    ),
    _Path(method="get", path="/v1/models", summary="Every model", name="models"),
    _Path(method="get", path="/v1/models/{model}", summary="One model", name="model"),
    _Path(
        method="get",
        path="/v1beta/models",
        summary="Every model, for Gemini callers",
        name="gemini_models",
    ),
    _Path(
        method="get",
        path="/v1beta/models/{model}",
        summary="One model, for Gemini callers",
        name="gemini_model",
    ),
    _Path(
        method="get",
        path="/metrics",
        summary="Metrics for Prometheus",
        name="metrics",
        content_type="text/plain",
    ),
    _Path(
        method="get", path="/healthz", summary="The process is alive", name="alive", needs_key=False
    ),
    _Path(
        method="get",
        path="/readyz",
        summary="There is a provider to ask; 503 where there is none",
        name="ready",
        needs_key=False,
    ),
)


def model_paths() -> dict[str, dict[str, Any]]:
    return {row.path: {row.method: _operation(row)} for row in _PATHS}


def _operation(row: _Path) -> dict[str, Any]:
    answers = {row.content_type: {"schema": _answer(row)}}
    if row.streams:
        answers["text/event-stream"] = {"schema": {"type": "string"}}
    operation: dict[str, Any] = {
        "operationId": row.name,
        "tags": ["models"],
        "summary": row.summary,
        "parameters": _parameters(row),
        "responses": {
            "200": {"description": "OK", "content": answers},
            "default": {
                "description": "A refusal, in the shape of the path's protocol",
                "content": {"application/json": {"schema": _ANY}},
            },
        },
    }
    if row.method == "post":
        schema = {**_ANY, "required": list(row.required)} if row.required else _ANY
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    if not row.needs_key:
        operation["security"] = []
    return operation


def _answer(row: _Path) -> dict[str, Any]:
    if row.content_type != "application/json":
        return {"type": "string"}
    return {"type": ["object", "array"]} if row.streams else _ANY


def _parameters(row: _Path) -> list[dict[str, Any]]:
    if "{model}" not in row.path:
        return []
    return [
        {
            "name": "model",
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
    ]
