"""A plain HTTP caller of every protocol, and a strict reader of what it gets."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from fakes.gateway import KEY

CALLERS = ("chat_completion", "responses", "messages", "gemini")
# Seconds that a wait may take before the test fails: long on two busy cores, and less than a drain of the gateway lasts.
PATIENCE = 25.0
Json = dict[str, Any]


def path(protocol: str, model: str, *, stream: bool = False) -> str:
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return {
        "chat_completion": "/v1/chat/completions",
        "responses": "/v1/responses",
        "messages": "/v1/messages",
        "gemini": f"/v1beta/models/{model}:{verb}",
    }[protocol]


def body(protocol: str, model: str, *, stream: bool = False, **more: Any) -> Json:
    """The smallest request of the protocol."""
    said = [{"role": "user", "content": "How is the weather?"}]
    base: Json = {
        "chat_completion": {"model": model, "messages": said},
        "responses": {"model": model, "input": "How is the weather?"},
        "messages": {"model": model, "max_tokens": 256, "messages": said},
        "gemini": {"contents": [{"role": "user", "parts": [{"text": "How is the weather?"}]}]},
    }[protocol]
    if stream and protocol != "gemini":
        base["stream"] = True
    return {**base, **more}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[Event]:
        return parsed(self.raw)


@dataclass(frozen=True)
class Event:
    name: str | None
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


@dataclass
class Caller:
    """Speaks to the gateway on `port`; every wait is bounded."""

    port: int
    headers: dict[str, str] = field(default_factory=lambda: {"authorization": f"Bearer {KEY}"})
    patience: float = PATIENCE

    def send(
        self, method: str, target: str, data: bytes | None = None, headers: Json | None = None
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        try:
            given = self.headers if headers is None else headers
            connection.request(method, target, data, {"content-type": "application/json", **given})
            response = connection.getresponse()
            named = {k.lower(): v for k, v in response.getheaders()}
            return Reply(response.status, named, response.read())
        finally:
            connection.close()

    def get(self, target: str, **headers: str) -> Reply:
        return self.send("GET", target, headers={**self.headers, **_dashed(headers)})

    def post(self, target: str, value: Any, **headers: str) -> Reply:
        data = json.dumps(value).encode()
        return self.send("POST", target, data, {**self.headers, **_dashed(headers)})

    def ask(self, protocol: str, model: str, *, stream: bool = False, **headers: str) -> Reply:
        target = path(protocol, model, stream=stream)
        return self.post(target, body(protocol, model, stream=stream), **headers)

    def open(self, protocol: str, model: str, *, stream: bool = True, buffer: int = 0) -> Line:
        """A call whose answer the test reads by itself."""
        data = json.dumps(body(protocol, model, stream=stream)).encode()
        return Line(self, path(protocol, model, stream=stream), data, buffer)


class Line:
    """A raw connection with one request on it; the answer is read piece by piece (no chunked coding left)."""

    def __init__(self, caller: Caller, target: str, data: bytes, buffer: int) -> None:
        self._socket = socket.socket()
        if buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(("127.0.0.1", caller.port))
        head = [
            f"POST {target} HTTP/1.1",
            f"host: 127.0.0.1:{caller.port}",
            "content-type: application/json",
            f"content-length: {len(data)}",
            *(f"{name}: {value}" for name, value in caller.headers.items()),
        ]
        self._socket.sendall("\r\n".join([*head, "", ""]).encode() + data)
        self._response: http.client.HTTPResponse | None = None
        self.raw = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._socket.close()

    @property
    def response(self) -> http.client.HTTPResponse:
        if self._response is None:
            self._response = http.client.HTTPResponse(self._socket, method="POST")
            self._response.begin()
        return self._response

    @property
    def status(self) -> int:
        return self.response.status

    def read_until(self, wanted: Callable[[bytes], bool]) -> bytes:
        """Everything so far, once it is what is wanted."""
        deadline = time.monotonic() + PATIENCE
        while not wanted(bytes(self.raw)):
            assert self.read_some(), f"the stream ended too soon: {self.raw[-400:]!r}"
            assert time.monotonic() < deadline, f"not what is wanted: {self.raw[-400:]!r}"
        return bytes(self.raw)

    def read_some(self) -> bytes:
        piece = self.response.read1(1 << 20)
        self.raw += piece
        return piece

    def read_rest(self) -> bytes:
        deadline = time.monotonic() + PATIENCE
        while self.read_some():
            assert time.monotonic() < deadline, f"no end: {self.raw[-400:]!r}"
        return bytes(self.raw)


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


# --- reading strictly ---


def parsed(raw: bytes) -> list[Event]:
    """Server-sent events by the letter: known fields only, comments between frames, valid UTF-8, no open end."""
    lines = raw.decode("utf-8").replace("\r\n", "\n").split("\n")
    assert lines.pop() == "", f"ends inside a line: {raw[-80:]!r}"
    events, frame = [], []
    for line in lines:
        if line.startswith(":"):
            assert not frame, f"a comment inside a frame: {frame[0][:80]!r}"
        elif line:
            frame.append(line)
        elif frame:
            events.append(_event([part.partition(": ") for part in frame]))
            frame = []
    assert not frame, f"ends inside a frame: {raw[-80:]!r}"
    return events


def _event(fields: list[tuple[str, str, str]]) -> Event:
    assert all(name in ("event", "data") for name, _, _ in fields), fields
    names = [value for name, _, value in fields if name == "event"]
    assert len(names) <= 1, names
    data = "\n".join(value for name, _, value in fields if name == "data")
    return Event(names[0] if names else None, data)


def beats(protocol: str, raw: bytes) -> int:
    """Keep-alives so far: pings for Anthropic's clients, blank lines for Google's, comments for the others."""
    match protocol:
        case "messages":
            return raw.count(b"event: ping")
        case "gemini":
            return raw.count(b"\r\n") - 2 * raw.count(b"data: ")
    return raw.count(b": keep-alive\n\n")


def end_of(protocol: str, reply: Reply, *, stream: bool) -> str:
    """How an answer ended: refused, error, complete, or cut (a 200 that is neither)."""
    if reply.status >= 400:
        assert_error_dialect(protocol, reply)
        return "refused"
    assert reply.status == 200, reply.status
    if not stream:
        return "complete" if _whole(protocol, reply.json) else "cut"
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [e for e in reply.events if e.name != "ping"]
    done = [e for e in events if e.data == "[DONE]"]
    if protocol == "chat_completion":
        assert len(done) <= 1
        assert not done or events[-1] is done[0]
    else:
        assert not done, "[DONE] is chat's alone (T10)"
    payloads = [e.json for e in events if e.data != "[DONE]"]
    return _STREAM_ENDS[protocol](payloads, bool(done))


def text_of(protocol: str, reply: Reply, *, stream: bool) -> str:
    """All the text of an answer, read without an SDK."""
    if stream:
        payloads = [e.json for e in reply.events if e.data != "[DONE]" and e.name != "ping"]
    else:
        payloads = [reply.json]
    return "".join(_texts(protocol, payload, stream=stream) for payload in payloads)


def models_of(reply: Reply, *, stream: bool) -> set[str]:
    """Every name that an answer gives its model."""
    events = [e for e in reply.events if e.data != "[DONE]"] if stream else []
    payloads = [e.json for e in events] if stream else [reply.json]
    inner = [p.get("response") or p.get("message") or p for p in payloads]
    return {p[key] for p in inner for key in ("model", "modelVersion") if key in p}


def endings(protocol: str, reply: Reply) -> int:
    """How many events of a stream say that it is over; there must be exactly one."""
    payloads = [e.json for e in reply.events if e.data != "[DONE]" and e.name != "ping"]
    match protocol:
        case "chat_completion":
            return sum(map(_ends_chat, payloads))
        case "responses":
            kinds = [p["type"] for p in payloads]
            good = kinds.count("response.completed") + kinds.count("response.incomplete")
            # The vendor says a failure twice, as an error and as the state of the response.
            return good + max(kinds.count("error"), kinds.count("response.failed"))
        case "messages":
            return sum(p["type"] in ("message_stop", "error") for p in payloads)
    reasons = [c.get("finishReason") for p in payloads for c in p.get("candidates", [])]
    return sum("error" in p for p in payloads) + sum(map(bool, reasons))


def _ends_chat(payload: Json) -> bool:
    return "error" in payload or any(c.get("finish_reason") for c in payload.get("choices", []))


def _texts(protocol: str, payload: Json, *, stream: bool) -> str:
    match protocol:
        case "chat_completion":
            key = "delta" if stream else "message"
            return "".join(c[key].get("content") or "" for c in payload.get("choices", []))
        case "responses" if stream:
            is_text = payload["type"] == "response.output_text.delta"
            return payload["delta"] if is_text else ""
        case "responses":
            parts = [p for item in payload["output"] for p in item.get("content") or []]
            return "".join(p.get("text", "") for p in parts)
        case "messages" if stream:
            return (payload.get("delta") or {}).get("text", "")
        case "messages":
            return "".join(block.get("text", "") for block in payload["content"])
    parts = [
        part
        for candidate in payload.get("candidates", [])
        for part in candidate.get("content", {}).get("parts", [])
    ]
    return "".join(p.get("text", "") for p in parts if not p.get("thought"))


def assert_error_dialect(protocol: str, reply: Reply) -> Json:
    """The error object in the caller's own shape, with a message and without anything private (D18)."""
    assert reply.headers["content-type"].startswith("application/json")
    found = reply.json
    error = found["error"]
    assert isinstance(error["message"], str), found
    assert error["message"], found
    if protocol == "messages":
        assert found["type"] == "error"
        assert isinstance(error["type"], str)
    elif protocol == "gemini":
        assert isinstance(
            error["code"], int
        )  # ours, or the provider's own where its body is passed on
        assert error["status"].isupper()
    else:
        assert isinstance(error["type"], str)
        assert {"param", "code"} <= error.keys()
    text = reply.raw.decode()
    assert "Traceback" not in text
    assert KEY not in text
    assert "sk-channel" not in text
    return error


def _whole(protocol: str, found: Json) -> bool:
    match protocol:
        case "chat_completion":
            return bool(found.get("choices")) and all(c["finish_reason"] for c in found["choices"])
        case "responses":
            return found.get("status") in ("completed", "incomplete") and bool(found.get("output"))
        case "messages":
            return bool(found.get("stop_reason"))
    candidates = found.get("candidates") or []
    return bool(candidates) and all(c.get("finishReason") for c in candidates)


def _chat_end(payloads: list[Json], done: bool) -> str:
    if any("error" in p for p in payloads):
        assert "error" in payloads[-1]
        return "error"
    finished = any(c.get("finish_reason") for p in payloads for c in p["choices"])
    return "complete" if finished and done else "cut"


def _responses_end(payloads: list[Json], done: bool) -> str:
    if not payloads:
        return "cut"
    last = payloads[-1]["type"]
    if last in ("error", "response.failed"):
        return "error"
    ends = [p for p in payloads if p["type"] in ("response.completed", "response.incomplete")]
    assert len(ends) <= 1
    return "complete" if ends and ends[0] is payloads[-1] else "cut"


def _messages_end(payloads: list[Json], done: bool) -> str:
    kinds = [p["type"] for p in payloads]
    if "error" in kinds:
        assert kinds[-1] == "error"
        assert "message_stop" not in kinds
        return "error"
    assert kinds.count("message_start") <= 1
    return "complete" if kinds and kinds[-1] == "message_stop" else "cut"


def _gemini_end(payloads: list[Json], done: bool) -> str:
    if any("error" in p for p in payloads):
        assert "error" in payloads[-1]
        return "error"
    reasons = [c.get("finishReason") for p in payloads for c in p.get("candidates", [])]
    return "complete" if any(reasons) else "cut"


_STREAM_ENDS = {
    "chat_completion": _chat_end,
    "responses": _responses_end,
    "messages": _messages_end,
    "gemini": _gemini_end,
}
