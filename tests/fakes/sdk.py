"""The vendors' own Python clients as callers: each holds a conversation the way its users do."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import anthropic
import openai
from google import genai
from google.genai import types as google

from fakes.gateway import KEY
from fakes.scenarios import Tokens

TOOLS = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "note": {"type": "string"},
        },
        "required": ["city"],
    },
    "get_time": {"type": "object", "properties": {"zone": {"type": "string"}}},
}


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """What an SDK's user sees of one answer."""

    text: str
    thoughts: str
    calls: list[Call]
    finish: str  # stop | tool_calls | length | refusal, from the SDK's own words
    tokens: Tokens
    refusal: str
    model: str


class Conversation(ABC):
    """One SDK, one model, one growing history."""

    protocol: str

    def __init__(self, clients: Clients, model: str) -> None:
        self.clients = clients
        self.model = model
        self.history: list[Any] = []
        self.say("How is the weather?")

    @abstractmethod
    def say(self, text: str) -> None: ...

    @abstractmethod
    def ask(self, *, stream: bool) -> Reading:
        """Send the history, keep the answer in it exactly as the SDK gave it."""

    @abstractmethod
    def answer_calls(self, results: list[tuple[Call, str]]) -> None: ...


class ChatConversation(Conversation):
    protocol = "chat_completion"

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def ask(self, *, stream: bool) -> Reading:
        functions = [{"name": n, "parameters": p, "description": n} for n, p in TOOLS.items()]
        given: Any = {
            "model": self.model,
            "messages": self.history,
            "tools": [{"type": "function", "function": f} for f in functions],
        }
        api = self.clients.openai.chat.completions
        if stream:
            with api.stream(**given, stream_options={"include_usage": True}) as events:
                for _ in events:
                    pass
                done = _final_chat(events)
        else:
            done = api.create(**given)
        choice = done.choices[0]
        message = choice.message
        kept = message.to_dict()
        kept.pop("parsed", None)
        for call in kept.get("tool_calls") or []:
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
        self.history.append(kept)
        extra = message.model_extra or {}
        usage = done.usage
        return Reading(
            text=message.content or "",
            thoughts=extra.get("reasoning_content") or extra.get("reasoning") or "",
            calls=[
                Call(c.id, c.function.name, json.loads(c.function.arguments or "{}"))
                for c in message.tool_calls or []
            ],
            finish="refusal"
            if message.refusal or choice.finish_reason == "content_filter"
            else choice.finish_reason,
            tokens=Tokens(
                usage.prompt_tokens,
                usage.prompt_tokens_details.cached_tokens,
                usage.completion_tokens,
                0,
            ),
            refusal=message.refusal or "",
            model=done.model,
        )

    def answer_calls(self, results: list[tuple[Call, str]]) -> None:
        self.history += [
            {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in results
        ]


def _final_chat(events: Any) -> Any:
    try:
        return events.get_final_completion()
    except openai.LengthFinishReasonError as cut:  # how this SDK reports a legal end
        return cut.completion
    except openai.ContentFilterFinishReasonError:
        return events.current_completion_snapshot


class ResponsesConversation(Conversation):
    protocol = "responses"

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def ask(self, *, stream: bool) -> Reading:
        given: Any = {
            "model": self.model,
            "input": self.history,
            "tools": [
                {"type": "function", "name": n, "parameters": p, "strict": False}
                for n, p in TOOLS.items()
            ],
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        api = self.clients.openai.responses
        if stream:
            with api.stream(**given) as events:
                ends = [
                    e
                    for e in events
                    if e.type in ("response.completed", "response.incomplete", "response.failed")
                ]
            done = ends[-1].response
        else:
            done = api.create(**given)
        items = [item.to_dict() for item in done.output]
        for item in items:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or []:
                part.pop("parsed", None)
        self.history += items
        parts = [p for item in items if item["type"] == "message" for p in item["content"]]
        thoughts = [item for item in items if item["type"] == "reasoning"]
        calls = [
            Call(item["call_id"], item["name"], json.loads(item["arguments"] or "{}"))
            for item in items
            if item["type"] == "function_call"
        ]
        refusal = "".join(p.get("refusal", "") for p in parts)
        reason = (done.incomplete_details.reason or "") if done.incomplete_details else ""
        finish = {"max_output_tokens": "length", "content_filter": "refusal"}.get(reason)
        return Reading(
            text=done.output_text,
            thoughts="".join(
                s["text"]
                for item in thoughts
                for s in [*(item.get("summary") or []), *(item.get("content") or [])]
            ),
            calls=calls,
            finish="refusal" if refusal else finish or ("tool_calls" if calls else "stop"),
            tokens=Tokens(
                done.usage.input_tokens,
                done.usage.input_tokens_details.cached_tokens,
                done.usage.output_tokens,
                0,
            ),
            refusal=refusal,
            model=done.model,
        )

    def answer_calls(self, results: list[tuple[Call, str]]) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": call.id, "output": text}
            for call, text in results
        ]


class MessagesConversation(Conversation):
    protocol = "messages"
    _FINISH: ClassVar = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "refusal": "refusal",
    }

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def ask(self, *, stream: bool) -> Reading:
        given: Any = {
            "model": self.model,
            "max_tokens": 4096,
            "messages": self.history,
            "tools": [{"name": n, "input_schema": p} for n, p in TOOLS.items()],
            "thinking": {"type": "enabled", "budget_tokens": 2048},
        }
        if stream:
            with self.clients.anthropic.messages.stream(**given) as events:
                done = events.get_final_message()
        else:
            done = self.clients.anthropic.messages.create(**given)
        blocks = [block.to_dict() for block in done.content]
        self.history.append({"role": "assistant", "content": blocks})
        usage = done.usage
        cached = usage.cache_read_input_tokens or 0
        wrote = usage.cache_creation_input_tokens or 0
        return Reading(
            text="".join(b["text"] for b in blocks if b["type"] == "text"),
            thoughts="".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
            calls=[Call(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"],
            finish=self._FINISH[done.stop_reason],
            tokens=Tokens(usage.input_tokens + cached + wrote, cached, usage.output_tokens, 0),
            refusal="",
            model=done.model,
        )

    def answer_calls(self, results: list[tuple[Call, str]]) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text}
            for call, text in results
        ]
        self.history.append({"role": "user", "content": blocks})


class GeminiConversation(Conversation):
    protocol = "gemini"
    _FINISH: ClassVar = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refusal"}

    def say(self, text: str) -> None:
        self.history.append(google.Content(role="user", parts=[google.Part(text=text)]))

    def ask(self, *, stream: bool) -> Reading:
        declared = [
            google.FunctionDeclaration(name=n, parameters_json_schema=p) for n, p in TOOLS.items()
        ]
        given: Any = {
            "model": self.model,
            "contents": self.history,
            "config": google.GenerateContentConfig(
                tools=[google.Tool(function_declarations=declared)],
                automatic_function_calling=google.AutomaticFunctionCallingConfig(disable=True),
                thinking_config=google.ThinkingConfig(include_thoughts=True),
            ),
        }
        if stream:
            answers = list(self.clients.google.models.generate_content_stream(**given))
        else:
            answers = [self.clients.google.models.generate_content(**given)]
        candidates = [c for answer in answers for c in answer.candidates or []]
        parts = [p for c in candidates if c.content for p in c.content.parts or []]
        self.history.append(google.Content(role="model", parts=parts))
        calls = [
            Call(p.function_call.id or "", p.function_call.name, p.function_call.args or {})
            for p in parts
            if p.function_call
        ]
        finish = self._FINISH[[c.finish_reason for c in candidates if c.finish_reason][-1].value]
        usage = answers[-1].usage_metadata
        return Reading(
            text="".join(p.text or "" for p in parts if not p.thought),
            thoughts="".join(p.text or "" for p in parts if p.thought),
            calls=calls,
            finish="tool_calls" if calls and finish == "stop" else finish,
            tokens=Tokens(
                usage.prompt_token_count,
                usage.cached_content_token_count or 0,
                (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
                0,
            ),
            refusal="",
            model=answers[-1].model_version,
        )

    def answer_calls(self, results: list[tuple[Call, str]]) -> None:
        parts = [
            google.Part(
                function_response=google.FunctionResponse(
                    id=call.id or None, name=call.name, response={"output": text}
                )
            )
            for call, text in results
        ]
        self.history.append(google.Content(role="user", parts=parts))


CONVERSATIONS: dict[str, type[Conversation]] = {
    kind.protocol: kind
    for kind in (
        ChatConversation,
        ResponsesConversation,
        MessagesConversation,
        GeminiConversation,
    )
}


class Clients:
    """One client of each vendor, all pointed at the gateway; no retries, so that failures show."""

    def __init__(self, port: int) -> None:
        url = f"http://127.0.0.1:{port}"
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0, timeout=60)
        options = google.HttpOptions(base_url=url, api_version="v1beta", timeout=60_000)
        self.google = genai.Client(api_key=KEY, vertexai=False, http_options=options)

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()
        self.google.close()

    def conversation(self, protocol: str, model: str) -> Conversation:
        return CONVERSATIONS[protocol](self, model)
