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
    form: tuple[str, ...] = ()  # the same of multipart/form-data
    raw: bool = False  # any bytes
    needs_key: bool = True
    content_type: str = "application/json"
    also: tuple[str, ...] = ()  # other types of answers
    success: str = "200"


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
        summary="What a request would become for another protocol, or on the way of its model; nothing is sent",
        name="translate",
        required=("from", "request"),
    ),
    _Path(
        method="post",
        path="/v1/operations",
        summary="Any operation in the canonical envelope",
        name="operations",
        required=("operation", "payload"),
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1/embeddings",
        summary="Texts as vectors",
        name="embeddings",
        required=("model", "input"),
    ),
    _Path(
        method="post",
        path="/v1/images/generations",
        summary="Pictures from words",
        name="image_generations",
        required=("prompt",),
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1/images/edits",
        summary="Pictures from pictures and words",
        name="image_edits",
        form=("prompt", "image"),
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1/audio/transcriptions",
        summary="What somebody said, as text",
        name="transcriptions",
        form=("model", "file"),
        streams=True,
        also=("text/plain", "text/vtt"),
    ),
    _Path(
        method="post",
        path="/v1/audio/speech",
        summary="A text, spoken",
        name="speech",
        required=("model", "input"),
        content_type="audio/*",
        streams=True,
    ),
    _Path(
        method="post",
        path="/v1/media",
        summary="Keep a file; the answer says how to refer to it",
        name="media_upload",
        raw=True,
        success="201",
    ),
    _Path(method="get", path="/v1/media", summary="The caller's files", name="media_list"),
    _Path(
        method="get",
        path="/v1/media/{media_id}",
        summary="A file, in whole or in part (Range)",
        name="media_download",
        content_type="*/*",
    ),
    _Path(
        method="delete",
        path="/v1/media/{media_id}",
        summary="Forget a file",
        name="media_delete",
    ),
    _Path(
        method="get",
        path="/v1/media/{media_id}/meta",
        summary="What is known of a file",
        name="media_meta",
    ),
    _Path(
        method="get",
        path="/v1/capabilities",
        summary="Which backend can do what",
        name="capabilities",
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
    paths: dict[str, dict[str, Any]] = {}
    for row in _PATHS:
        paths.setdefault(row.path, {})[row.method] = _operation(row)
    return paths


def _operation(row: _Path) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": row.name,
        "tags": ["models"],
        "summary": row.summary,
        "parameters": _parameters(row),
        "responses": {
            row.success: _answered(row),
            "default": {
                "description": "A refusal, in the shape of the path's protocol",
                "content": {"application/json": {"schema": _ANY}},
            },
        },
    }
    if row.method == "post":
        operation["requestBody"] = {"required": not row.raw, "content": _body(row)}
    if not row.needs_key:
        operation["security"] = []
    return operation


def _answered(row: _Path) -> dict[str, Any]:
    content = {row.content_type: {"schema": _answer(row)}}
    content |= {kind: {"schema": {"type": "string"}} for kind in row.also}
    if row.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": "OK", "content": content}


def _body(row: _Path) -> dict[str, Any]:
    if row.raw:
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    names = row.required or row.form
    schema = {**_ANY, "required": list(names)} if names else _ANY
    return {"multipart/form-data" if row.form else "application/json": {"schema": schema}}


def _answer(row: _Path) -> dict[str, Any]:
    if row.content_type != "application/json":
        return {"type": "string"}
    return {"type": ["object", "array"]} if row.streams else _ANY


def _parameters(row: _Path) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in ("model", "media_id")
        if f"{{{name}}}" in row.path
    ]
