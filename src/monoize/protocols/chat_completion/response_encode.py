"""URP -> chat reply: the sum of the very pieces that a stream of it would send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from monoize.protocol import Json, Reply
from monoize.protocols import _extras
from monoize.protocols._plain import plain_reply
from monoize.protocols.chat_completion.fields import DIALECT, own_wire
from monoize.protocols.chat_completion.reply_parts import ChoiceWriter, Piece
from monoize.protocols.chat_completion.usage import encode_finish, encode_usage
from monoize.urp import Choice, Delta, Finish, PartDone, PartStart, UrpResponse, unfold
from monoize.urp.extra_body import flattened

__all__ = ["encode_response", "logprobs_object"]

_GROWING = ("content", "refusal", "reasoning_content", "reasoning")
_GROWING_INSIDE = ("arguments", "input", "data", "transcript", "text", "summary")


def encode_response(response: UrpResponse, reply: Reply) -> Json:
    wire = own_wire(response)
    if isinstance(wire, dict):
        return {**wire, "model": reply.model}
    same = response.origin == DIALECT
    body: Json = {
        "id": response.id or reply.ids.new("chatcmpl-"),
        "object": "chat.completion",
        "created": reply.created if response.created is None else response.created,
        "model": reply.model,
        "choices": _choices(response, reply, same=same),
    }
    if response.usage is not None:
        body["usage"] = encode_usage(response.usage, same=same)
    if response.service_tier is not None and same:
        body["service_tier"] = response.service_tier
    return flattened(body, _extras.of_reply(response, same=same))


def _choices(response: UrpResponse, reply: Reply, *, same: bool) -> list[Json]:
    words = plain_reply(response, DIALECT)
    if words is not None:
        return [_plain_choice(words, response.choices[0].finish)]
    anew = [choice for choice in response.choices if own_wire(choice) is None]
    sums = {choice.index: _Sum(reply, choice, same=same) for choice in anew}
    _feed(response, sums)
    return [
        own_wire(choice) if own_wire(choice) is not None else sums[choice.index].written()
        for choice in response.choices
    ]


def _plain_choice(words: str, finish: Finish | None) -> Json:
    return {
        "index": 0,
        "message": {"role": "assistant", "content": words, "refusal": None},
        "logprobs": None,
        "finish_reason": encode_finish(finish, calls=False, legacy=False),
    }


def _feed(response: UrpResponse, sums: Mapping[int, _Sum]) -> None:
    owners: dict[int, _Sum] = {}
    for event in unfold(response):
        if isinstance(event, PartStart) and event.choice in sums:
            owners[event.part_index] = sums[event.choice]
        if isinstance(event, PartStart | Delta | PartDone) and event.part_index in owners:
            owners[event.part_index].take(event)


class _Sum:
    """One choice as it grows."""

    def __init__(self, reply: Reply, choice: Choice, *, same: bool) -> None:
        self._choice = choice
        self._same = same
        self._writer = ChoiceWriter(reply, choice.index, same=same)
        self._grown: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._calls: dict[int, Json] = {}
        self._objects: Json = {}
        self._tokens: list[Any] = []

    def take(self, event: PartStart | Delta | PartDone) -> None:
        match event:
            case PartStart():
                pieces = self._writer.start(event)
            case Delta():
                pieces = self._writer.delta(event.part_index, event.delta)
            case PartDone():
                pieces = self._writer.done(event.part_index)
            case _:
                assert_never(event)
        for piece in pieces:
            self._add(piece)

    def _add(self, piece: Piece) -> None:
        self._tokens += piece.tokens or ()
        for key, value in piece.delta.items():
            if key == "tool_calls":
                for call in value:
                    _grow(self._calls.setdefault(call["index"], {}), call)
            elif key == "reasoning_details":
                self._add_details(value)
            elif key in _GROWING and isinstance(value, str):
                self._grown.setdefault(key, []).append(value)
            elif isinstance(value, list):
                self._lists.setdefault(key, []).extend(map(_unnumbered, value))
            else:
                _grow(self._objects.setdefault(key, {}), value)

    def _add_details(self, details: list[Json]) -> None:
        """Pieces of one detail have its type and index, as in a stream."""
        known = self._lists.setdefault("reasoning_details", [])
        for detail in details:
            index = detail.get("index")
            last = known[-1] if known and index is not None else {}
            if (last.get("type"), last.get("index")) == (detail.get("type"), index):
                _grow(last, detail)
            else:
                known.append(dict(detail))

    def written(self) -> Json:
        texts = {key: "".join(pieces) for key, pieces in self._grown.items()}
        message: Json = {
            "role": "assistant",
            "content": self._content(texts.pop("content", None)),
            "refusal": texts.pop("refusal", None),
            **texts,
            **self._lists,
            **self._objects,
        }
        if self._calls:
            message["tool_calls"] = [
                {key: value for key, value in call.items() if key != "index"}
                for call in self._calls.values()
            ]
        if self._same and self._choice.messages:
            message = flattened(message, self._choice.messages[0].extra_body)
        finish = encode_finish(
            self._choice.finish, calls=self._writer.calls > 0, legacy=self._writer.is_legacy
        )
        extra = dict(self._choice.extra_body) if self._same else {}
        choice: Json = {
            "index": self._choice.index,
            "message": message,
            "logprobs": logprobs_object(self._tokens, extra.pop("logprobs", None)),
            "finish_reason": finish,
        }
        return flattened(choice, extra)

    def _content(self, text: str | None) -> Any:
        items = self._lists.pop("content", None)
        if items is None:
            return text
        return [*([{"type": "text", "text": text}] if text else []), *items]


def logprobs_object(tokens: list[Any], others: Any) -> Json | None:
    """OpenAI's clients want every field of a token, and both lists."""
    others = others if isinstance(others, dict) else {}
    if not tokens and not others:
        return None
    whole = [{"bytes": None, "top_logprobs": [], **token} for token in tokens]
    return {"content": whole or None, "refusal": None, **others}


def _unnumbered(entry: Any) -> Any:
    """A list in one piece needs no numbers."""
    return {k: v for k, v in entry.items() if k != "index"} if isinstance(entry, dict) else entry


def _grow(target: Json, piece: Mapping[str, Any]) -> None:
    """Texts grow, objects merge, the rest is set: what every client of a stream does."""
    for key, value in piece.items():
        known = target.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            _grow(known, value)
        elif key in _GROWING_INSIDE and isinstance(value, str) and isinstance(known, str):
            target[key] = known + value
        else:
            target[key] = dict(value) if isinstance(value, dict) else value
