"""What llama.cpp writes -> chat.completion chunks as the protocol has them, and their fold (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from monoize import wirejson
from monoize.clock import IdSource
from monoize.engines._caller_grammar import speaks
from monoize.engines._chat_call import ChatCall
from monoize.engines._tool_prompt import tool_call
from monoize.errors import EngineError, InvalidRequest, MonoizeError

__all__ = ["ChunkWriter", "folded", "refusal"]

Json: TypeAlias = dict[str, Any]

_JSON_BEGINNINGS = '{["-0123456789tfn'
_CALLER_STATUSES = range(400, 500)


def refusal(error: Mapping[str, Any]) -> MonoizeError:
    """llama.cpp's error object as one of ours."""
    message = str(error.get("message") or "llama.cpp refused the request")
    if error.get("type") == "exceed_context_size_error":
        return InvalidRequest(
            f"The prompt is too long for the local model: {error.get('n_prompt_tokens')} tokens,"
            f" its context holds {error.get('n_ctx')}",
            param="messages",
            code="context_length_exceeded",
        )
    if error.get("code") in _CALLER_STATUSES:
        return InvalidRequest(message)
    return EngineError(message)


class ChunkWriter:
    """One per reply. Text that may turn out to be a tool call is held until that is known."""

    def __init__(self, call: ChatCall, ids: IdSource, fingerprint: str) -> None:
        self._call = call
        self._ids = ids
        self._fingerprint = fingerprint
        self._text: list[str] = []  # all of it, if its end must be judged
        self._opening: list[
            Json
        ] = []  # waits for the first piece: until then a refusal is a status (D18)
        self._held: list[Json] = []
        self._holding = bool(call.tools.tools) and not call.promises_json
        self._judges = self._holding or call.promises_json or call.grammar is not None
        self._begun = False  # something other than white space was written

    def chunks(self, chunk: Mapping[str, Any]) -> list[Json]:
        """The chunks that one of llama.cpp's becomes; perhaps none."""
        if "error" in chunk:
            raise refusal(chunk["error"])
        if "prompt_progress" in chunk:
            return []
        if not chunk["choices"]:
            usage: Json = {"choices": [], "usage": chunk.get("usage")}
            return [self._chunk(chunk, usage)] if self._call.include_usage else []
        choice = chunk["choices"][0]
        if "role" in choice["delta"]:
            content = None if self._call.tools.must_call else ""
            self._opening = [self._piece(chunk, {"role": "assistant", "content": content})]
        ready: list[Json] = []
        if choice["delta"].get("content"):
            ready += self._written(chunk, choice)
        if choice["finish_reason"] is not None:
            ready += self._finished(chunk, choice["finish_reason"])
        if ready:
            ready, self._opening = [*self._opening, *ready], []
        return ready

    def _written(self, chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> list[Json]:
        text = choice["delta"]["content"]
        logprobs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
        piece = self._piece(chunk, {"content": text}, **logprobs)
        if self._judges:
            self._text.append(text)
        if not self._begun and text.strip():
            self._begun = True
            self._judge_beginning(text.strip()[0])
        if not self._holding:
            ready, self._held = [*self._held, piece], []
            return ready
        self._held.append(piece)
        return []

    def _judge_beginning(self, letter: str) -> None:
        if self._call.promises_json and letter not in _JSON_BEGINNINGS:
            raise _not_enforced("response_format")
        if not self._call.tools.must_call and letter != "{":
            self._holding = False  # plain words: they need not wait

    def _finished(self, chunk: Mapping[str, Any], reason: str) -> list[Json]:
        text, held, self._held = "".join(self._text), self._held, []
        if self._holding:
            made = tool_call(text, self._call.tools.names, self._ids)
            if made is not None:
                delta = {"tool_calls": [{"index": 0, **made}]}
                return [self._piece(chunk, delta), self._piece(chunk, {}, "tool_calls")]
        # Cut short by a limit or a stop word, the text goes out as it is: the finish reason tells.
        if reason == "stop" and not self._call.has_stops:
            if self._call.tools.must_call:
                raise _not_enforced("tools")
            if self._call.promises_json and not _is_json(text):
                raise _not_enforced("response_format")
            if self._call.grammar is not None and not speaks(self._call.grammar, text):
                raise InvalidRequest(
                    "The local engine did not keep to the grammar", param="grammar"
                )
        return [*held, self._piece(chunk, {}, reason)]

    def _piece(
        self, chunk: Mapping[str, Any], delta: Json, finish_reason: str | None = None, **more: Any
    ) -> Json:
        choice = {"index": 0, "delta": delta, **more, "finish_reason": finish_reason}
        return self._chunk(chunk, {"choices": [choice]})

    def _chunk(self, chunk: Mapping[str, Any], fields: Json) -> Json:
        return {
            "id": chunk["id"],
            "object": "chat.completion.chunk",
            "created": chunk["created"],
            "model": self._call.model,
            "system_fingerprint": self._fingerprint,
            **fields,
        }


def _not_enforced(param: str) -> InvalidRequest:
    # llama.cpp drops a grammar that it cannot compile and generates freely: that must not pass for an answer.
    return InvalidRequest(
        f"The local engine cannot enforce the JSON Schema in {param}", param=param
    )


def _is_json(text: str) -> bool:
    try:
        wirejson.loads(text)
    except wirejson.JsonError:
        return False
    return True


def folded(chunks: Iterable[Mapping[str, Any]]) -> Json:
    """One chat.completion object out of the chunks of a whole stream."""
    reply: Json = {}
    message: Json = {"role": "assistant", "content": None}
    logprobs: list[Any] = []
    finish_reason, usage = None, None
    for chunk in chunks:
        reply = reply or {**chunk, "object": "chat.completion"}
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if delta.get("content") is not None:
                message["content"] = (message["content"] or "") + delta["content"]
            if "tool_calls" in delta:
                calls = [{k: v for k, v in c.items() if k != "index"} for c in delta["tool_calls"]]
                message.update(content=message["content"] or None, tool_calls=calls)
            logprobs += (choice.get("logprobs") or {}).get("content") or []
            finish_reason = choice["finish_reason"] or finish_reason
    if finish_reason is None:
        raise EngineError("The local engine ended its reply without a finish")
    measured = {"content": logprobs, "refusal": None} if logprobs else None
    choice = {
        "index": 0,
        "message": message,
        "logprobs": measured,
        "finish_reason": finish_reason,
    }
    return {**reply, "choices": [choice], "usage": usage}
