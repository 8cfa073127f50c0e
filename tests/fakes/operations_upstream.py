"""A provider of embeddings, pictures and speech on loopback: OpenAI's endpoints and Google's, well and badly behaved.

What it was sent is kept byte for byte; a form is taken apart by code that shares nothing with the program's.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from dataclasses import dataclass
from typing import Any

from fakes.speakers.wire import dumps
from fakes.upstream import Behaviour, Connection, Exchange, FakeUpstream

Json = dict[str, Any]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOUND = tuple(bytes([number]) * 700 for number in range(1, 7))  # the pieces of a spoken answer
WORDS = "Where is the station?"
SECONDS = 3
TOKENS = {"prompt_tokens": 7, "total_tokens": 7}
PICTURE_TOKENS = {
    "input_tokens": 50,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
    "output_tokens": 1056,
    "total_tokens": 1106,
}
_KINDS = {"mp3": "audio/mpeg", "wav": "audio/wav", "pcm": "audio/pcm", "opus": "audio/ogg"}


@dataclass(frozen=True)
class Part:
    """One field of a form, as it came."""

    name: str
    data: bytes
    filename: str | None = None
    mime: str | None = None


class OperationExchange(Exchange):
    def __init__(
        self, line: Connection, method: str, target: str, headers: dict[str, str], raw: bytes
    ) -> None:
        super().__init__(line, method, target, headers, b"")
        self.raw = raw
        self.form: list[Part] = []
        kind, _, boundary = headers.get("content-type", "").partition("; boundary=")
        if kind == "multipart/form-data":
            self.form = parts_of(raw, boundary.encode())
            self.body = {
                part.name: part.data.decode() for part in self.form if part.filename is None
            }
        elif raw:
            self.body = json.loads(raw)

    def file(self, name: str) -> Part:
        (found,) = (part for part in self.form if part.name == name and part.filename is not None)
        return found


def parts_of(raw: bytes, boundary: bytes) -> list[Part]:
    """By the letter of RFC 7578: every part begins with its boundary on a line of its own, the last is closed."""
    assert raw.startswith(b"--" + boundary + b"\r\n"), raw[:80]
    assert raw.endswith(b"\r\n--" + boundary + b"--\r\n"), raw[-80:]
    inside = raw[len(boundary) + 4 : -(len(boundary) + 8)]
    return [_part(piece) for piece in inside.split(b"\r\n--" + boundary + b"\r\n")]


def _part(piece: bytes) -> Part:
    head, found, data = piece.partition(b"\r\n\r\n")
    assert found, piece[:80]
    lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    said = {name.lower(): value for name, value in lines.items()}
    kind, *others = said["content-disposition"].split("; ")
    assert kind == "form-data"
    named = dict(other.split("=", 1) for other in others)
    filename = named.get("filename")
    return Part(
        name=named["name"].strip('"'),
        data=data,
        filename=None if filename is None else filename.strip('"'),
        mime=said.get("content-type"),
    )


class OperationConnection(Connection):
    """Takes bodies with a length and bodies in chunks."""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        if headers.get("transfer-encoding") == "chunked":
            taken = unchunked(rest)
        else:
            size = int(headers.get("content-length", 0))
            taken = None if len(rest) < size else (rest[:size], rest[size:])
        if taken is None:
            return
        body, self._buffer = taken
        method, target, _ = first.split(" ")
        exchange = OperationExchange(self, method, target, headers, body)
        self.exchanges.append(exchange)
        task = self.loop.create_task(self._upstream.answer(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def unchunked(data: bytes) -> tuple[bytes, bytes] | None:
    """(the body, what follows it); None: it is not complete."""
    pieces = []
    while True:
        line, found, data = data.partition(b"\r\n")
        if not found or len(data) < int(line, 16) + 2:
            return None
        size = int(line, 16)
        piece, data = data[:size], data[size + 2 :]
        if not size:
            return b"".join(pieces), data
        pieces.append(piece)


class OperationsUpstream(FakeUpstream):
    """Does one act per call; its last act goes on for ever. `sent`: the calls since `play`."""

    def __init__(self, *acts: Behaviour) -> None:
        super().__init__({})
        self._acts = [*acts] or [well]

    def play(self, *acts: Behaviour) -> None:
        self.hang_up()
        self.forget()
        self._acts = [*acts] or [well]

    @property
    def sent(self) -> list[Any]:
        return self.exchanges

    def behaviour(self, exchange: Exchange) -> Behaviour:
        return self._acts.pop(0) if len(self._acts) > 1 else self._acts[0]

    async def _serve(self, started: Any) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(
            lambda: OperationConnection(self), "127.0.0.1", self._wanted_port
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for line in list(self.lines):
            line.transport.abort()
        await asyncio.sleep(0)


# --- well ----------------------------------------------------------------------------------------


def vector(text: Any) -> list[float]:
    """Of numbers that a 32-bit float holds exactly."""
    return [float(len(text)), 0.5, -1.25]


def packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


async def well(exchange: Any) -> None:
    answer = next((act for ending, act in _ENDPOINTS if exchange.path.endswith(ending)), None)
    assert answer is not None, f"nobody answers {exchange.target}"
    await answer(exchange)


async def _embeddings(exchange: Any) -> None:
    given = exchange.body["input"]
    texts = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
    as_text = exchange.body.get("encoding_format") == "base64"
    vectors = [packed(vector(text)) if as_text else vector(text) for text in texts]
    data = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(vectors)]
    reply = {"object": "list", "data": data, "model": exchange.model, "usage": TOKENS}
    await exchange.json(reply)


async def _pictures(exchange: Any) -> None:
    if str(exchange.body.get("stream")).lower() == "true":
        name = "image_edit" if exchange.path.endswith("edits") else "image_generation"
        drawn = {"b64_json": base64.b64encode(PNG).decode(), "output_format": "png"}
        events = [
            {"type": f"{name}.partial_image", "partial_image_index": 0, **drawn},
            {"type": f"{name}.completed", "usage": PICTURE_TOKENS, **drawn},
        ]
        await _events(exchange, events)
        return
    count = int(exchange.body.get("n", 1))
    item = {"b64_json": base64.b64encode(PNG).decode(), "revised_prompt": "a small dot"}
    reply = {"created": 1, "data": [item] * count, "usage": PICTURE_TOKENS, "size": "1024x1024"}
    await exchange.json(reply)


async def _transcriptions(exchange: Any) -> None:
    form = exchange.body.get("response_format", "json")
    usage = {"type": "duration", "seconds": SECONDS}
    cue = f"00:00:00,000 --> 00:00:03,000\n{WORDS}\n\n"
    if exchange.body.get("stream") == "true":
        words = [{"type": "transcript.text.delta", "delta": word} for word in WORDS.split(" ")]
        counted = {"type": "tokens", "input_tokens": 30, "output_tokens": 6, "total_tokens": 36}
        done = {"type": "transcript.text.done", "text": WORDS, "usage": counted}
        await _events(exchange, [*words, done])
    elif form == "text":
        await exchange.whole(f"{WORDS}\n".encode(), kind="text/plain; charset=utf-8")
    elif form == "srt":
        await exchange.whole(f"1\n{cue}".encode(), kind="text/plain; charset=utf-8")
    elif form == "vtt":
        text = f"WEBVTT\n\n{cue.replace(',', '.')}"
        await exchange.whole(text.encode(), kind="text/vtt; charset=utf-8")
    elif form == "verbose_json":
        segment = {"id": 0, "seek": 0, "start": 0.0, "end": 3.0, "text": WORDS, "tokens": [1]}
        measured = {
            "temperature": 0.0,
            "avg_logprob": -0.5,
            "compression_ratio": 1.0,
            "no_speech_prob": 0.1,
        }
        reply = {"task": "transcribe", "language": "english", "duration": 3.0, "text": WORDS}
        await exchange.json({**reply, "segments": [{**segment, **measured}], "usage": usage})
    else:
        await exchange.json({"text": WORDS, "usage": usage})


async def _speech(exchange: Any) -> None:
    if exchange.body.get("stream_format") == "sse":
        sound = [
            {"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()}
            for piece in SOUND
        ]
        counted = {"input_tokens": 11, "output_tokens": 500, "total_tokens": 511}
        await _events(exchange, [*sound, {"type": "speech.audio.done", "usage": counted}])
        return
    await _begin_speech(exchange)
    for piece in SOUND:
        await exchange.chunk(piece)
    await exchange.end_stream()


async def _begin_speech(exchange: Any) -> None:
    await exchange.open_stream(_KINDS[exchange.body.get("response_format", "mp3")])


async def _events(exchange: Any, events: list[Json]) -> None:
    await exchange.open_stream()
    for event in events:
        await exchange.chunk(f"data: {dumps(event)}\n\n".encode())
    await exchange.end_stream()


async def _chat(exchange: Any) -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
    head = {"id": "chatcmpl-1", "created": 1, "model": exchange.model}
    if not exchange.body.get("stream"):
        message = {"role": "assistant", "content": "A small dot."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        await exchange.json(reply)
        return
    await exchange.open_stream()
    for delta in ({"role": "assistant", "content": "A small "}, {"content": "dot."}, {}):
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        chunk = {**head, "object": "chat.completion.chunk", "choices": [choice]}
        await exchange.chunk(f"data: {dumps(chunk)}\n\n".encode())
    last = {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
    await exchange.chunk(f"data: {dumps(last)}\n\ndata: [DONE]\n\n".encode())
    await exchange.end_stream()


async def _one_embedding(exchange: Any) -> None:
    text = exchange.body["content"]["parts"][0]["text"]
    counted = {"promptTokenCount": 7, "totalTokenCount": 7}
    await exchange.json({"embedding": {"values": vector(text)}, "usageMetadata": counted})


async def _several_embeddings(exchange: Any) -> None:
    texts = [one["content"]["parts"][0]["text"] for one in exchange.body["requests"]]
    await exchange.json({"embeddings": [{"values": vector(text)} for text in texts]})


async def _drawn_by_google(exchange: Any) -> None:
    drawn = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(PNG).decode()}}
    content = {"role": "model", "parts": [{"text": "Here it is."}, drawn]}
    counted = {"promptTokenCount": 9, "candidatesTokenCount": 1290, "totalTokenCount": 1299}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    await exchange.json({"candidates": [candidate], "usageMetadata": counted})


async def _predicted(exchange: Any) -> None:
    one = {"bytesBase64Encoded": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    await exchange.json({"predictions": [one] * exchange.body["parameters"]["sampleCount"]})


async def _models(exchange: Any) -> None:
    await exchange.json({"object": "list", "data": [{"id": "probed", "object": "model"}]})


_ENDPOINTS = (
    ("/embeddings", _embeddings),
    ("/images/generations", _pictures),
    ("/images/edits", _pictures),
    ("/audio/transcriptions", _transcriptions),
    ("/audio/speech", _speech),
    ("/chat/completions", _chat),
    (":embedContent", _one_embedding),
    (":batchEmbedContents", _several_embeddings),
    (":generateContent", _drawn_by_google),
    (":predict", _predicted),
    ("/models", _models),
)


# --- badly ---------------------------------------------------------------------------------------


def status(code: int, message: str = "", **headers: str) -> Behaviour:
    """A refusal in the dialect of the endpoint."""

    async def refuse(exchange: Any) -> None:
        said = message or f"the provider says {code}"
        await exchange.json(exchange.speaker.error(code, said), code, **headers)

    return refuse


def says(value: Any, kind: str = "application/json") -> Behaviour:
    """The same for every call: a value as JSON, or bytes as they are."""

    async def answer(exchange: Any) -> None:
        data = value if isinstance(value, bytes) else dumps(value).encode()
        await exchange.whole(data, kind=kind)

    return answer


async def silent(exchange: Any) -> None:
    await exchange.silence()


async def no_sound(exchange: Any) -> None:
    """A good status, and not one byte after it."""
    await _begin_speech(exchange)
    await exchange.silence()


def sound_then(act: Behaviour, pieces: int = 2) -> Behaviour:
    """Some of the sound, then something else when the test allows it."""

    async def speak(exchange: Any) -> None:
        await _begin_speech(exchange)
        for piece in SOUND[:pieces]:
            await exchange.chunk(piece)
        await exchange.step()
        await act(exchange)

    return speak


async def rest(exchange: Any) -> None:
    """All but the first two pieces."""
    for piece in SOUND[2:]:
        await exchange.chunk(piece)
    await exchange.end_stream()


async def reset(exchange: Any) -> None:
    exchange.reset()


async def hang_up(exchange: Any) -> None:
    exchange.hang_up()
