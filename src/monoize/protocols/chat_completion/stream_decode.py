"""Chat stream -> events, whatever compatible providers make of its grammar (T8, T9, T15)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from typing_extensions import override

from monoize import wirejson
from monoize.clock import IdSource
from monoize.protocols._plain_text import grown_counts
from monoize.protocols._stream_runs import RunDecoder
from monoize.protocols.chat_completion.error import decode_error
from monoize.protocols.chat_completion.fields import DIALECT, present, spoken
from monoize.protocols.chat_completion.response_decode import REPLY_FIELDS
from monoize.protocols.chat_completion.stream_choice import ChoiceReader
from monoize.protocols.chat_completion.thoughts import plain_key
from monoize.protocols.chat_completion.usage import decode_usage
from monoize.urp import (
    Error,
    Frame,
    ResponseDone,
    ResponseStart,
    UrpStreamEvent,
    Usage,
    WireEvent,
)
from monoize.urp.mould import Path

__all__ = ["DONE", "ChatStreamDecoder"]

DONE = "[DONE]"
_OF_THE_START = ("id", "created")  # of interest only there
_PADDINGS = ("obfuscation", "p")  # against traffic analysis: of another length in every chunk


class ChatStreamDecoder(RunDecoder):
    def __init__(self, ids: IdSource) -> None:
        super().__init__()
        self._ids = ids
        self._parts = count()
        self._choices: dict[int, ChoiceReader] = {}
        self._has_started = False
        self._is_over = False
        self._head: dict[str, Any] = {}  # id, model, created: the first that says so
        self._extra: dict[str, Any] = {}
        self._start_extra: dict[str, Any] = {}
        self._usage: Usage | None = None
        self._service_tier: str | None = None

    @override
    def decode_in_full(self, event: WireEvent) -> Frame:
        data = event.data.strip()
        if self._is_over or not data:
            return Frame((), event)
        if data == DONE:
            return Frame(
                tuple(self._end()) if self._choices else self.finish_in_full().events, event
            )
        chunk = _object(data)
        if chunk is None:
            return Frame((), event, readable=False)
        return Frame(tuple(self._events(chunk, event.name)), event)

    @override
    def finish_in_full(self) -> Frame:
        """Some providers leave out `[DONE]`: a finish reason of every choice is an end too."""
        if self._is_over:
            return Frame(())
        if self._choices and all(choice.has_finished for choice in self._choices.values()):
            return Frame(tuple(self._end()))
        self._is_over = True
        error = Error(message="the provider's stream ended too early", code="stream_truncated")
        return Frame((error,))

    @override
    def places(self, payload: Any, earlier: Any) -> tuple[Path, Sequence[Path]] | None:
        choices = payload.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            return None
        choice = choices[0]
        delta = choice.get("delta")
        if not isinstance(delta, dict) or delta.get("reasoning_details"):
            return None
        if isinstance(choice.get("logprobs"), dict):  # they are collected
            return None
        field = "content" if delta.get("content") else plain_key(delta)
        if field is None:
            return None
        paddings: list[Path] = [(key,) for key in _PADDINGS if isinstance(payload.get(key), str)]
        if earlier is not None:
            paddings += [(key,) for key in _OF_THE_START if payload.get(key) != earlier.get(key)]
            paddings += grown_counts(("usage",), payload.get("usage"), earlier.get("usage"))
        return ("choices", 0, "delta", field), paddings

    @override
    def heard(self, payload: Any, name: str | None) -> None:
        if payload.get("usage"):  # the last counts stand
            self._note(payload, _choices_of(payload))

    def _events(self, chunk: Mapping[str, Any], name: str | None) -> Iterator[UrpStreamEvent]:
        if _is_error(chunk, name):
            yield self._failed(chunk)
        else:
            yield from self._chunk(chunk)

    def _failed(self, chunk: Mapping[str, Any]) -> Error:
        self._is_over = True
        body: Any = chunk
        for choice in _choices_of(chunk):
            if not chunk.get("error") and choice.get("error"):
                body = {"error": choice["error"]}
        said = decode_error(0, body)
        code = said.code
        status = int(code) if code is not None and code.isdigit() and len(code) == 3 else None  # noqa: PLR2004 - an HTTP status
        return Error(message=said.message, code=code, type=said.type, status=status)

    def _chunk(self, chunk: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        choices = _choices_of(chunk)
        self._note(chunk, choices)
        # Azure's first chunk is empty: nothing to start with yet
        if not self._has_started and (choices or self._head.get("id")):
            yield self._start()
        for position, choice in enumerate(choices):
            index = choice.get("index")
            yield from self._choice(index if isinstance(index, int) else position).take(choice)

    def _note(self, chunk: Mapping[str, Any], choices: list[Mapping[str, Any]]) -> None:
        for key, kind in (("id", str), ("model", str), ("created", int)):
            if isinstance(chunk.get(key), kind) and chunk[key]:
                self._head.setdefault(key, chunk[key])
        self._extra |= present(chunk, REPLY_FIELDS)
        self._service_tier = spoken(chunk.get("service_tier")) or self._service_tier
        groq = chunk.get("x_groq")
        found = [choice.get("usage") for choice in choices]
        found += [groq.get("usage") if isinstance(groq, dict) else None, chunk.get("usage")]
        for wire in found:  # counts may grow with every chunk: the last ones stand
            self._usage = decode_usage(wire) or self._usage

    def _choice(self, index: int) -> ChoiceReader:
        if index not in self._choices:
            self._choices[index] = ChoiceReader(index, self._parts.__next__, self._ids)
        return self._choices[index]

    def _start(self) -> ResponseStart:
        self._has_started = True
        self._start_extra = dict(self._extra)
        return ResponseStart(
            id=self._head.get("id") or self._ids.new("chatcmpl-"),
            model=self._head.get("model", ""),
            created=self._head.get("created"),
            origin=DIALECT,
            extra_body=self._start_extra,
        )

    def _end(self) -> Iterator[UrpStreamEvent]:
        self._is_over = True
        if not self._has_started:
            yield self._start()
        for choice in self._choices.values():
            yield from choice.close()
        yield ResponseDone(
            choices=tuple(self._choices[index].end() for index in sorted(self._choices)),
            usage=self._usage,
            service_tier=self._service_tier,
            extra_body={
                key: value
                for key, value in self._extra.items()
                if key not in self._start_extra or self._start_extra[key] != value
            },
        )


def _choices_of(chunk: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return []
    return [choice for choice in choices if isinstance(choice, dict)]


def _object(data: str) -> dict[str, Any] | None:
    try:
        chunk = wirejson.loads(data)
    except wirejson.JsonError:
        return None
    return chunk if isinstance(chunk, dict) else None


def _is_error(chunk: Mapping[str, Any], name: str | None) -> bool:
    if chunk.get("error") or name == "error" or chunk.get("object") == "error":
        return True
    return any(choice.get("error") for choice in _choices_of(chunk))
