"""A cell is the caller's protocol and the provider's; here are its requests and how its replies are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

PROTOCOLS = ("chat", "messages", "responses", "gemini")
USUAL = ("chat-chat", "messages-chat", "chat-messages", "messages-responses", "gemini-chat")
KEY = "sk-bench-0f4c2d6b8a9e1357"
MODELS = {
    "chat": "gpt-4o-mini",
    "messages": "claude-sonnet-4-5",
    "responses": "gpt-4o-mini",
    "gemini": "gemini-2.5-flash",
}
_ORDERS = (
    "You review measurements for an infrastructure team. Say what the numbers show, name what they cannot show, and "
    "never guess at a cause that was not measured. Answer in plain sentences without headings."
)
_TURNS = (
    ("user", "Two proxies were measured: one costs 16 microseconds of CPU a request, one 150."),
    ("assistant", "Then the second costs about nine times as much CPU; latency was not measured."),
    ("user", "Which of the two would you put before a model that thinks for two seconds, and why?"),
)
_GEMINI_ROLES = {"user": "user", "assistant": "model"}


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Pace:
    """A stream of the mock provider: so many events, one every so many milliseconds; 0: all at once."""

    milliseconds: int
    events: int

    def __str__(self) -> str:
        return f"[[every {self.milliseconds} ms, {self.events} events]]"


BURST = Pace(0, 100)
PACED = Pace(10, 100)
SHORT = Pace(10, 3)  # paced, for those who only want to know when it begins


@dataclass(frozen=True)
class Cell:
    caller: str
    provider: str

    @classmethod
    def named(cls, name: str) -> Cell:
        caller, _, provider = name.partition("-")
        if caller not in PROTOCOLS or provider not in PROTOCOLS:
            raise ValueError(
                f"{name!r} is no cell: CALLER-PROVIDER, each of {', '.join(PROTOCOLS)}"
            )
        return cls(caller, provider)

    @property
    def name(self) -> str:
        return f"{self.caller}-{self.provider}"

    @property
    def is_same(self) -> bool:
        return self.caller == self.provider

    def request(
        self,
        pace: Pace | None = None,
        *,
        model: str | None = None,
        turns: tuple[tuple[str, str], ...] = _TURNS,
        key: str = KEY,
    ) -> Request:
        """Streamed when there is a pace; the mock provider finds it in the last turn."""
        if pace is not None:
            role, text = turns[-1]
            turns = (*turns[:-1], (role, f"{text} {pace}"))
        path, body = _asked(self.caller, model or MODELS[self.provider], turns, pace is not None)
        headers = {"content-type": "application/json", **_credentials(self.caller, key)}
        return Request(path, headers, json.dumps(body, separators=(",", ":")).encode())


def _credentials(protocol: str, key: str) -> dict[str, str]:
    match protocol:
        case "messages":
            return {"x-api-key": key, "anthropic-version": "2023-06-01"}
        case "gemini":
            return {"x-goog-api-key": key}
        case _:
            return {"authorization": f"Bearer {key}"}


def _asked(
    protocol: str, model: str, turns: tuple[tuple[str, str], ...], streamed: bool
) -> tuple[str, dict[str, Any]]:
    said = [{"role": role, "content": text} for role, text in turns]
    stream = {"stream": True} if streamed else {}
    match protocol:
        case "chat":
            # Asked for, so that a gateway that meters and one that does not get the same stream.
            usage = {"stream_options": {"include_usage": True}} if streamed else {}
            messages = [{"role": "system", "content": _ORDERS}, *said]
            body = {"model": model, "messages": messages, "temperature": 0.5, "max_tokens": 400}
            return "/v1/chat/completions", {**body, **stream, **usage}
        case "messages":
            body = {"model": model, "max_tokens": 400, "system": _ORDERS, "messages": said}
            return "/v1/messages", {**body, "temperature": 0.5, **stream}
        case "responses":
            body = {"model": model, "instructions": _ORDERS, "input": said, "temperature": 0.5}
            return "/v1/responses", {**body, "max_output_tokens": 400, **stream}
        case "gemini":
            verb = "streamGenerateContent?alt=sse" if streamed else "generateContent"
            contents = [{"role": _GEMINI_ROLES[r], "parts": [{"text": t}]} for r, t in turns]
            return f"/v1beta/models/{model}:{verb}", {
                "systemInstruction": {"parts": [{"text": _ORDERS}]},
                "contents": contents,
                "generationConfig": {"temperature": 0.5, "maxOutputTokens": 400},
            }
    raise ValueError(protocol)


def text_of(protocol: str, body: bytes) -> str:
    """What a whole reply says."""
    reply = json.loads(body)
    match protocol:
        case "chat":
            return reply["choices"][0]["message"]["content"]
        case "messages":
            return "".join(block["text"] for block in reply["content"] if block["type"] == "text")
        case "responses":
            items = [item for item in reply["output"] if item["type"] == "message"]
            return "".join(part["text"] for item in items for part in item["content"])
        case "gemini":
            return _gemini_text(reply)
    raise ValueError(protocol)


def text_of_stream(protocol: str, body: bytes) -> str:
    """What a stream says, word by word."""
    lines = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
    return "".join(_delta(protocol, json.loads(data)) for data in lines if data != b"[DONE]")


def _delta(protocol: str, event: dict[str, Any]) -> str:
    match protocol:
        case "chat":
            return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        case "messages":
            return event.get("delta", {}).get("text", "")
        case "responses":
            is_text = event["type"] == "response.output_text.delta"
            return event["delta"] if is_text else ""
        case "gemini":
            return _gemini_text(event)
    raise ValueError(protocol)


def _gemini_text(reply: dict[str, Any]) -> str:
    candidates = reply.get("candidates") or [{}]
    parts = candidates[0].get("content", {}).get("parts", [])
    return "".join(part.get("text", "") for part in parts)
