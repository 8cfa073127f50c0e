"""Messages -> the contents and the system instruction of a request."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monoize.protocols import _extras
from monoize.protocols._envelopes import answerable, answered, envelopes, turns
from monoize.protocols._plain import plain_talk
from monoize.protocols.gemini.media import write_media
from monoize.protocols.gemini.models import (
    SIGNATURE_PLACEHOLDER,
    takes_media_in_results,
    wants_signatures,
)
from monoize.protocols.gemini.names import legal_name
from monoize.protocols.gemini.parts_encode import MADE_ID, PartWriter
from monoize.protocols.gemini.spelling import DIALECT, found
from monoize.protocols.gemini.tool_results import lies_inside, response_object
from monoize.urp import (
    Audio,
    File,
    Image,
    Losses,
    Message,
    Part,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UrpRequest,
)
from monoize.urp.extra_body import flattened

__all__ = ["encode_contents"]

# Google refuses a content without parts and a part without text: the least that it takes (D7).
_BLANK: dict[str, Any] = {"text": " "}
_LAST = sys.maxsize
_GUIDING = (Role.SYSTEM, Role.DEVELOPER)


def encode_contents(request: UrpRequest, losses: Losses) -> tuple[dict[str, Any] | None, list[Any]]:
    """The system instruction, if there is one, and the contents."""
    if request.origin != DIALECT:
        words = plain_talk(request.messages, DIALECT)
        plain = None if words is None else _plain_contents(request.messages, words)
        if plain is not None:
            return plain
    writer = _ContentWriter(request, losses)
    return writer.system_instruction(), writer.contents()


def _plain_contents(
    messages: Sequence[Message], words: list[str]
) -> tuple[dict[str, Any] | None, list[Any]] | None:
    """Words that stand where Google wants them: instructions first, and after them the user."""
    leading = _leading(messages)
    if leading == len(messages) or messages[leading].role is Role.ASSISTANT:
        return None
    contents: list[Any] = []
    for message, said in zip(messages[leading:], words[leading:], strict=True):
        if message.role in _GUIDING:
            return None
        speaker = "model" if message.role is Role.ASSISTANT else "user"
        contents.append({"role": speaker, "parts": [{"text": said}]})
    if not leading:
        return None, contents
    return {"parts": [{"text": said} for said in words[:leading]]}, contents


class _ContentWriter:
    """Writes the messages of one request."""

    def __init__(self, request: UrpRequest, losses: Losses) -> None:
        self._losses = losses
        self._same = request.origin == DIALECT
        self._parts = PartWriter(losses, same=self._same, carries=False)
        self._signs = wants_signatures(request.model)
        self._media_inside = takes_media_in_results(request.model)
        messages = request.messages
        self._paths = {id(message): f"messages[{n}]" for n, message in enumerate(messages)}
        if not self._same:
            messages = answered(answerable(messages, DIALECT, losses))
        leading = _leading(messages)
        self._head = messages[:leading]
        self._tail = messages[leading:]
        self._call_order = {
            part.call_id: number
            for number, part in enumerate(p for m in messages for p in m.parts)
            if isinstance(part, ToolCall)
        }
        self._names = {
            part.call_id: part.name
            for message in request.messages
            for part in message.parts
            if isinstance(part, ToolCall)
        }

    def system_instruction(self) -> dict[str, Any] | None:
        """What system and developer said before anybody else; Google reads only text there."""
        parts: list[dict[str, Any]] = []
        for message in self._head:
            path = self._paths[id(message)]
            self._report_header(message, path)
            for n, part in enumerate(message.parts):
                if not isinstance(part, Text) and not self._same:
                    self._losses.drop(f"{path}.parts[{n}]")
                elif not isinstance(part, Text) or part.content:
                    parts += self._parts.write(part, f"{path}.parts[{n}]")
        return {"parts": parts} if parts else None

    def contents(self) -> list[Any]:
        written: list[Any] = []
        for envelope in envelopes(self._tail, DIALECT):
            if isinstance(envelope, Source):
                written.append(envelope.wire)
            else:
                written += self._anew(envelope)
        if not written or (_is_the_models(written[0]) and not self._same):
            # Google wants at least one content, the first one from the user.
            written.insert(0, {"role": "user", "parts": [_BLANK]})
        return written

    def _anew(self, messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
        for role, turn in turns(messages):
            model = role is Role.ASSISTANT
            run = turn if model else tuple(sorted(turn, key=self._place))
            hidden = _holds_sealed_reasoning(run)
            parts = [part for message in run for part in self._message(message, hidden=hidden)]
            if model and self._signs:
                parts = _with_placeholder(parts)
            extra = {key: value for message in run for key, value in message.extra_body.items()}
            if parts or not model:  # an assistant that said nothing is left out
                content = {"role": "model" if model else "user", "parts": parts or [_BLANK]}
                yield flattened(content, extra) if self._same else content

    def _place(self, message: Message) -> int:
        """Results of calls whose ids we made up stand in the order of the calls: nothing else pairs them (T25)."""
        answered_ids = (part.call_id for part in message.parts if isinstance(part, ToolResult))
        call_id = next(answered_ids, "")
        return self._call_order.get(call_id, _LAST) if call_id.startswith(MADE_ID) else _LAST

    # --- one message ---

    def _message(self, message: Message, *, hidden: bool) -> Iterator[dict[str, Any]]:
        """`hidden`: the thoughts of its turn lie sealed in it, so that they are not said in the open too."""
        path = self._paths[id(message)]
        self._report_header(message, path)
        if message.role in _GUIDING:
            yield from self._guidance(message, path)
            return
        parts = message.parts
        position = 0
        while position < len(parts):
            part = parts[position]
            if isinstance(part, ToolResult):
                end = _end_of_answer(parts, position)
                rest = parts[position + 1 : end]
                yield from self._answer(part, rest, f"{path}.parts", position)
                position = end
                continue
            if not (hidden and isinstance(part, Reasoning) and part.seal is None):  # ENC-3
                yield from self._part(part, f"{path}.parts[{position}]")
            position += 1

    def _part(self, part: Part, path: str) -> Iterator[dict[str, Any]]:
        if isinstance(part, Text) and part.citations and not self._same:
            self._losses.drop(f"{path}.citations")
        yield from self._parts.write(part, path)

    def _guidance(self, message: Message, path: str) -> Iterator[dict[str, Any]]:
        """Instructions in the middle of a conversation: Google has none, so the user passes them on."""
        self._losses.drop(f"{path}.role")
        for n, part in enumerate(message.parts):
            if isinstance(part, Text):
                yield {"text": f"<system>\n{part.content}\n</system>"}
            else:
                yield from self._parts.write(part, f"{path}.parts[{n}]")

    def _report_header(self, message: Message, path: str) -> None:
        if message.name is not None:
            self._losses.drop(f"{path}.name")
        _extras.nested(message.extra_body, path, self._losses, same=self._same)

    # --- answers of tools ---

    def _answer(
        self, result: ToolResult, siblings: Sequence[Part], path: str, first: int
    ) -> Iterator[dict[str, Any]]:
        source = result.source
        if (
            source is not None
            and source.protocol == DIALECT
            and all(part.source is source for part in siblings)
        ):
            yield source.wire
            return
        texts: list[str] = []
        inside: list[dict[str, Any]] = []
        beside: list[dict[str, Any]] = []
        for n, part in enumerate(siblings, first + 1):
            match part:
                case Text(content=content) | Refusal(content=content):
                    texts.append(content)
                    self._report_extra(part, f"{path}[{n}]")
                case Image() | Audio() | File():
                    written = write_media(part, f"{path}[{n}]", self._losses)
                    self._report_extra(part, f"{path}[{n}]")
                    if written is not None:
                        held = self._media_inside and lies_inside(part)
                        (inside if held else beside).append(written)
                case _:
                    self._losses.drop(f"{path}[{n}]")
        yield self._function_response(result, texts, inside, f"{path}[{first}]")
        yield from beside

    def _function_response(
        self,
        result: ToolResult,
        texts: Sequence[str],
        inside: Sequence[Mapping[str, Any]],
        path: str,
    ) -> dict[str, Any]:
        response: dict[str, Any] = {
            "name": legal_name(self._names.get(result.call_id) or result.name or result.call_id),
            "response": response_object(texts, is_error=result.is_error),
        }
        if not result.call_id.startswith(MADE_ID):
            response = {"id": result.call_id, **response}
        if inside:
            response["parts"] = list(inside)
        extra = _extras.nested(result.extra_body, path, self._losses, same=self._same)
        return {"functionResponse": flattened(response, extra)}

    def _report_extra(self, part: Part, path: str) -> None:
        _extras.nested(part.extra_body, path, self._losses, same=self._same)


def _leading(messages: Sequence[Message]) -> int:
    for number, message in enumerate(messages):
        if message.role not in _GUIDING:
            return number
    return len(messages)


def _end_of_answer(parts: Sequence[Part], start: int) -> int:
    return next(
        (n for n in range(start + 1, len(parts)) if isinstance(parts[n], ToolResult)), len(parts)
    )


def _holds_sealed_reasoning(turn: Sequence[Message]) -> bool:
    return any(
        isinstance(part, ReasoningEncrypted) and part.protocol == DIALECT
        for message in turn
        for part in message.parts
    )


def _is_the_models(content: Any) -> bool:
    return isinstance(content, Mapping) and content.get("role") == "model"


def _with_placeholder(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first call of a turn must be signed; where another model made it, Google has a word for that (T20)."""
    for number, part in enumerate(parts):
        if found(part, "functionCall") is not None:
            if found(part, "thoughtSignature") is None:
                signed = {**part, "thoughtSignature": SIGNATURE_PLACEHOLDER}
                return [*parts[:number], signed, *parts[number + 1 :]]
            return parts
    return parts
