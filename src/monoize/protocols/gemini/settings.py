"""generationConfig <-> the named settings of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monoize.protocols import _reading
from monoize.protocols.gemini.schema import for_google, from_google
from monoize.protocols.gemini.spelling import DIALECT, split
from monoize.protocols.gemini.thinking import decode_thinking, write_thinking
from monoize.urp import (
    EMPTY,
    JsonObjectFormat,
    JsonSchemaFormat,
    Losses,
    ResponseFormat,
    Source,
    TextFormat,
    UrpRequest,
)
from monoize.urp.extra_body import flattened

__all__ = ["decode_config", "write_config"]

# Google's name, URP's name, how it is read.
_READERS: tuple[tuple[str, str, Callable[[Mapping[str, Any], str, str], Any]], ...] = (
    ("temperature", "temperature", _reading.number),
    ("topP", "top_p", _reading.number),
    ("frequencyPenalty", "frequency_penalty", _reading.number),
    ("presencePenalty", "presence_penalty", _reading.number),
    ("topK", "top_k", _reading.integer),
    ("maxOutputTokens", "max_output_tokens", _reading.integer),
    ("seed", "seed", _reading.integer),
    ("candidateCount", "n", _reading.integer),
    ("logprobs", "top_logprobs", _reading.integer),
    ("stopSequences", "stop", _reading.text_list),
    ("responseLogprobs", "logprobs", _reading.boolean),
)
_NUMBERS = tuple(
    (google, name) for google, name, read in _READERS if read in (_reading.number, _reading.integer)
)
_SCHEMAS = ("responseSchema", "responseJsonSchema", "_responseJsonSchema")
_FORMAT_FIELDS = frozenset({"responseMimeType", *_SCHEMAS})
_FIELDS = frozenset({*(google for google, _, _ in _READERS), "thinkingConfig"}) | _FORMAT_FIELDS
_JSON = "application/json"
_MOST_STOPS = 5
_INT32 = range(-(2**31), 2**31)


def decode_config(wire: Any, path: str) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """(named fields of a request, members that have no name)."""
    if wire is None:
        return {}, EMPTY
    config, rest = split(_reading.object_at(wire, path), _FIELDS)
    named: dict[str, Any] = {}
    for google, name, read in _READERS:
        if google in config:
            named[name] = read(config, google, path)
    if not _FORMAT_FIELDS.isdisjoint(config):
        named["response_format"] = _response_format(config, path)
    thinking = _reading.optional_object(config, "thinkingConfig", path)
    if thinking is not None:
        named["reasoning"] = decode_thinking(thinking, f"{path}.thinkingConfig")
    if rest and all(value is None for value in rest.values()):
        rest = EMPTY  # nothing but nulls: not worth a loss elsewhere
    return named, rest


def _response_format(config: Mapping[str, Any], path: str) -> ResponseFormat | None:
    mime = _reading.text(config, "responseMimeType", path)
    beside = {"responseMimeType": mime} if mime not in (None, _JSON) else {}
    for name in _SCHEMAS:
        if name in config:
            schema = _reading.object_at(config[name], f"{path}.{name}")
            if name == "responseSchema":
                schema = from_google(schema)
            source = Source(DIALECT, {name: config[name]})
            return JsonSchemaFormat(schema=schema, extra_body=beside, source=source)
    if mime is None:
        return None
    if mime.lower() == _JSON:
        return JsonObjectFormat()
    return TextFormat(extra_body=beside)


def write_config(request: UrpRequest, extra: Any, losses: Losses) -> dict[str, Any]:
    """The generationConfig; `extra` is what the caller sent under that name beyond the named fields."""
    config: dict[str, Any] = {}
    for google, name in _NUMBERS:
        value = getattr(request, name)
        if value is not None:
            config[google] = value
    if config.get("seed", 0) not in _INT32:
        del config["seed"]
        losses.drop("seed")
    same = request.origin == DIALECT
    if request.stop is not None:
        config["stopSequences"] = list(request.stop if same else request.stop[:_MOST_STOPS])
        if len(config["stopSequences"]) < len(request.stop):
            losses.drop("stop")
    if request.logprobs is not None:
        config["responseLogprobs"] = request.logprobs
    config |= _written_format(request, losses)
    if request.reasoning is not None:
        thinking = write_thinking(request.reasoning, request.model, losses, same=same)
        config |= {"thinkingConfig": thinking} if thinking else {}
    return flattened(config, extra) if isinstance(extra, Mapping) else config


def _written_format(request: UrpRequest, losses: Losses) -> dict[str, Any]:
    chosen = request.response_format
    native = chosen.extra_body if chosen is not None and request.origin == DIALECT else EMPTY
    match chosen:
        case None:
            return {}
        case TextFormat():
            return dict(native)
        case JsonObjectFormat():
            return {"responseMimeType": _JSON}
        case JsonSchemaFormat(schema=None):
            losses.drop("response_format.json_schema")
            return {"responseMimeType": _JSON}
        case JsonSchemaFormat(schema=schema, source=source):
            written = {"responseMimeType": _JSON, **native}
            if source is not None and source.protocol == DIALECT:
                return {**written, **source.wire}  # in the dialect of schema that the caller chose
            return {**written, "responseJsonSchema": for_google(schema or {})}
