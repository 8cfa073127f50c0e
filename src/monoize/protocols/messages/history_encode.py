"""URP messages -> `system` and `messages`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from monoize.protocol import Json
from monoize.protocols._envelopes import answerable, answered, envelopes, turns
from monoize.protocols._ids import legal_id
from monoize.protocols._plain import plain_talk
from monoize.protocols.messages.calls import with_unique_ids
from monoize.protocols.messages.dialect import DIALECT
from monoize.protocols.messages.request_blocks import RequestBlocks
from monoize.urp import (
    Losses,
    Message,
    Part,
    ReasoningEncrypted,
    Role,
    Source,
    Text,
    ToolResult,
    UrpRequest,
)
from monoize.urp.extra_body import flattened

__all__ = ["encode_history"]

_INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)
# What stands for a message without content where the vendor needs one (D7).
_PLACEHOLDER = "(empty message)"
# Blocks that take no cache_control.
_UNMARKED = ("thinking", "redacted_thinking")


def encode_history(
    request: UrpRequest, losses: Losses
) -> tuple[str | list[Json] | None, list[Json]]:
    """The fields `system` and `messages`."""
    if request.origin != DIALECT:
        words = plain_talk(request.messages, DIALECT)
        plain = None if words is None else _plain_history(request.messages, words)
        if plain is not None:
            return plain
    history = _HistoryWriter(request, losses)
    return history.system(), history.messages()


def _plain_history(
    messages: Sequence[Message], words: list[str]
) -> tuple[str | list[Json] | None, list[Json]] | None:
    """Words that stand where the vendor wants them: instructions first, and the user last."""
    leading = _leading(messages)
    if leading == len(messages) or messages[-1].role is Role.ASSISTANT:
        return None
    out: list[Json] = []
    for message, said in zip(messages[leading:], words[leading:], strict=True):
        if message.role in _INSTRUCTING:
            return None
        speaker = "assistant" if message.role is Role.ASSISTANT else "user"
        out.append({"role": speaker, "content": said})
    if leading <= 1:
        return words[0] if leading else None, out
    return [{"type": "text", "text": said} for said in words[:leading]], out


class _HistoryWriter:
    """Writes the conversation of one request."""

    def __init__(self, request: UrpRequest, losses: Losses) -> None:
        self._losses = losses
        self._same = request.origin == DIALECT
        self._blocks = RequestBlocks(losses, same=self._same)
        messages = request.messages if self._same else with_unique_ids(request.messages)
        self._place = {id(message): n for n, message in enumerate(messages)}
        if not self._same:
            messages = answered(answerable(messages, DIALECT, losses))
        leading = _leading(messages)
        self._head = messages[:leading]
        self._tail = messages[leading:]

    def system(self) -> str | list[Json] | None:
        blocks: list[Json] = []
        for message in self._head:
            found = self._text_blocks(message)
            self._mark(message, found)
            blocks += found
        if not blocks:
            return None
        if _is_plain(blocks) and all(_was_a_string(message.parts) for message in self._head):
            text: str = blocks[0]["text"]
            return text
        return blocks

    def messages(self) -> list[Json]:
        out: list[Json] = []
        for envelope in envelopes(self._tail, DIALECT):
            if isinstance(envelope, Source):
                out.append(envelope.wire)
                continue
            for _, run in turns(envelope):
                for _, side in groupby(run, lambda message: message.role is Role.ASSISTANT):
                    # An empty message says nothing, and the vendor joins its neighbours.
                    out += [written] if (written := self._written_side(tuple(side))) else []
        return self._ended(out)

    def _ended(self, out: list[Json]) -> list[Json]:
        """The vendor wants a message, answers a user's one, and takes no blanks at the end of a started answer."""
        said_last = self._tail[-1].role if self._tail else Role.USER
        if not out or (out[-1]["role"] == "assistant" and said_last is not Role.ASSISTANT):
            out.append({"role": "user", "content": _PLACEHOLDER})
        elif out[-1]["role"] == "assistant" and not self._same:
            out[-1] = _without_trailing_blanks(out[-1])
        return out

    # --- one envelope ---

    def _written_side(self, run: Sequence[Message]) -> Json | None:
        return self._assistant(run) if run[0].role is Role.ASSISTANT else self._user(run)

    def _assistant(self, run: Sequence[Message]) -> Json | None:
        parts = [part for message in run for part in message.parts]
        copied = any(isinstance(p, ReasoningEncrypted) and p.protocol == DIALECT for p in parts)
        content: list[Json] = []
        for message in run:
            blocks = [
                block
                for path, part in self._paths(message)
                if (block := self._blocks.block(part, path, assistant=True, copied=copied))
                is not None
            ]
            self._mark(message, blocks)
            content += blocks
        return self._enveloped("assistant", run, content)

    def _user(self, run: Sequence[Message]) -> Json | None:
        if len(run) == 1 and run[0].role in _INSTRUCTING and self._same:
            return self._enveloped("system", run, self._content(run[0]))
        results: list[Json] = []
        others: list[Json] = []
        for message in run:
            if message.role is Role.TOOL:
                found, beside = self._results(message)
                self._mark(message, found or beside)
                results += found
                others += beside
            else:
                blocks = self._spoken(message)
                self._mark(message, blocks)
                others += blocks
        return self._enveloped("user", run, [*results, *others])  # the vendor wants results first

    def _spoken(self, message: Message) -> list[Json]:
        if message.role in _INSTRUCTING:
            return self._instructions(message)
        return self._content(message)

    def _instructions(self, message: Message) -> list[Json]:
        """Instructions in mid-conversation: the vendor has them only behind a beta flag that other callers did not set."""
        if self._same:
            inner = self._content(message)
            return [{"type": "mid_conv_system", "content": inner}] if inner else []
        out = [
            {**block, "text": f"<system>{block['text']}</system>"}
            for block in self._text_blocks(message)
        ]
        if out:
            self._losses.drop(f"messages[{self._place[id(message)]}].role")
        return out

    def _results(self, message: Message) -> tuple[list[Json], list[Json]]:
        """The results of a tool message, and what stands in it before any of them."""
        results: list[Json] = []
        beside: list[Json] = []
        content: list[tuple[str, Part]] = []
        current: ToolResult | None = None
        for path, part in [*self._paths(message), ("", None)]:
            if part is not None and not isinstance(part, ToolResult):
                content.append((path, part))
                continue
            if current is not None:
                results.append(self._result(current, content, message))
            else:
                beside += self._written(content)
            current, content = part, []
        return results, beside

    def _result(
        self, result: ToolResult, content: list[tuple[str, Part]], message: Message
    ) -> Json:
        block: Json = {"type": "tool_result", "tool_use_id": legal_id(result.call_id)}
        written = self._written(content)
        if _is_plain(written) and _was_a_string([part for _, part in content]):
            block["content"] = written[0]["text"]
        elif written:
            block["content"] = written
        if result.is_error:
            block["is_error"] = True
        path = f"messages[{self._place[id(message)]}]"
        return flattened(block, self._blocks.extras(result.extra_body, path))

    # --- pieces ---

    def _paths(self, message: Message) -> list[tuple[str, Part]]:
        place = self._place[id(message)]
        return [(f"messages[{place}].parts[{n}]", part) for n, part in enumerate(message.parts)]

    def _content(self, message: Message) -> list[Json]:
        return self._written(self._paths(message))

    def _written(self, content: Iterable[tuple[str, Part]]) -> list[Json]:
        blocks = (self._blocks.block(part, path) for path, part in content)
        return [block for block in blocks if block is not None]

    def _text_blocks(self, message: Message) -> list[Json]:
        for path, part in self._paths(message):
            if not isinstance(part, Text):
                self._losses.drop(path)
        return self._written((p, t) for p, t in self._paths(message) if isinstance(t, Text))

    def _mark(self, message: Message, blocks: list[Json]) -> None:
        """Callers of other protocols hang `cache_control` on a whole message: it belongs to its last block."""
        if self._same:
            return
        path = f"messages[{self._place[id(message)]}]"
        if message.name is not None:
            self._losses.drop(f"{path}.name")
        extra = self._blocks.extras(message.extra_body, path)
        for place in reversed(range(len(blocks))):
            if extra and blocks[place]["type"] not in _UNMARKED:
                blocks[place] = flattened(dict(blocks[place]), extra)
                return

    def _enveloped(self, role: str, run: Sequence[Message], content: list[Json]) -> Json | None:
        if not content:
            return None
        written: Json = {"role": role, "content": content}
        parts = [part for message in run for part in message.parts]
        if _is_plain(content) and isinstance(parts[0], Text) and _was_a_string(parts):
            written["content"] = content[0]["text"]
        return flattened(written, run[0].extra_body) if self._same else written


def _leading(messages: Sequence[Message]) -> int:
    """How many messages are the system prompt: one that a caller put into the list stays there."""
    count = 0
    for message in messages:
        listed = message.source is not None and message.source.protocol == DIALECT
        if message.role not in _INSTRUCTING or listed:
            break
        count += 1
    return count


def _is_plain(blocks: list[Json]) -> bool:
    """One text and nothing else: it may stand without a block around it."""
    return len(blocks) == 1 and blocks[0].keys() == {"type", "text"}


def _was_a_string(parts: Sequence[Part]) -> bool:
    """Whether no block stood around the text: what a caller wrote as a block stays one, for the prompt cache (T37)."""
    return all(
        part.source is None or part.source.protocol != DIALECT or isinstance(part.source.wire, str)
        for part in parts
    )


def _without_trailing_blanks(envelope: Json) -> Json:
    content = envelope["content"]
    if isinstance(content, str):
        return {**envelope, "content": content.rstrip()}
    last = content[-1]
    if last.get("type") != "text":
        return envelope
    return {**envelope, "content": [*content[:-1], {**last, "text": last["text"].rstrip()}]}
