"""generateContent as Google writes it: calls without ids, thought signatures on the calls, CRLF in streams."""

from __future__ import annotations

from typing import Any

from fakes.scenarios import Hide, Refuse, Say, Think, Tokens, Turn, Use
from fakes.speakers.wire import Heard, Json, frame, pieces

LINE_END = "\r\n"
_FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}


def unary(turn: Turn, model: str) -> Json:
    parts = [p for part in turn.parts for p in _parts(part, streamed=False)]
    return _answer(turn, model, parts, last=True)


def events(turn: Turn, model: str) -> list[bytes]:
    parts = [p for part in turn.parts for p in _parts(part, streamed=True)]
    rows = [_answer(turn, model, [part], last=False) for part in parts]
    rows.append(_answer(turn, model, [{"text": ""}] if parts else [], last=True))
    return [frame(row, end=LINE_END) for row in rows]


def terminal(frames: list[bytes]) -> int:
    return len(frames) - 1


def error(status: int, message: str) -> Json:
    words = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
    word = words.get(status, "UNAVAILABLE" if status >= 500 else "FAILED_PRECONDITION")
    return {"error": {"code": status, "message": message, "status": word}}


def error_frame(message: str) -> bytes:
    return frame(error(503, message), end=LINE_END)


def count(body: Json) -> Json | None:
    return {
        "totalTokens": 4711,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4711}],
    }


def hear(body: Json) -> Heard:
    declared = [d for t in body.get("tools") or [] for d in t.get("functionDeclarations") or []]
    heard = Heard(tools=[d["name"] for d in declared])
    for part in (body.get("systemInstruction") or {}).get("parts", []):
        heard.said.append(("system", part["text"]))
    asked: list[tuple[str, str]] = []  # name, id of calls still to be answered, in order
    for content in body["contents"]:
        for part in content["parts"]:
            if call := part.get("functionCall"):
                call_id = call.get("id") or f"{call['name']}#{len(heard.calls)}"
                heard.calls.append((call_id, call["name"], call.get("args") or {}))
                asked.append((call["name"], call_id))
                if "thoughtSignature" in part:
                    heard.seals.append((call["name"], part["thoughtSignature"]))
            elif given := part.get("functionResponse"):
                # Google pairs by id where there is one, else by name in order.
                own = given.get("id")
                match = next(
                    (a for a in asked if own in (None, a[1]) and a[0] == given["name"]), None
                )
                if match:
                    asked.remove(match)
                answer = given["response"]
                text = str(answer.get("output", answer.get("result", answer)))
                heard.results.append((match[1] if match else "nobody", text))
            elif part.get("text") and not part.get("thought"):
                heard.said.append((content.get("role", "user"), part["text"]))
    return heard


def seals(turn: Turn) -> list[tuple[str, str]]:
    return [(use.name, use.seal) for use in turn.of(Use) if use.seal]


def _parts(part: Any, *, streamed: bool) -> list[Json]:
    match part:
        case Say():
            return [{"text": t} for t in (part.pieces if streamed else [part.text])]
        case Think():
            texts = pieces(part.text, 2) if streamed else [part.text]
            return [{"text": t, "thought": True} for t in texts]
        case Use():
            sealed = {"thoughtSignature": part.seal} if part.seal else {}
            return [{"functionCall": {"name": part.name, "args": part.arguments}, **sealed}]
        case Hide() | Refuse():
            return []
    raise AssertionError(part)


def _answer(turn: Turn, model: str, parts: list[Json], *, last: bool) -> Json:
    candidate: Json = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    if last:
        candidate["finishReason"] = _FINISH[turn.finish]
        chunks = [
            {"web": {"uri": url, "title": title}}
            for say in turn.of(Say)
            for url, title in say.cites
        ]
        if chunks:
            text = turn.text
            support = {
                "segment": {"startIndex": 0, "endIndex": len(text.encode()), "text": text},
                "groundingChunkIndices": list(range(len(chunks))),
            }
            candidate["groundingMetadata"] = {
                "groundingChunks": chunks,
                "groundingSupports": [support],
                "webSearchQueries": ["tower height"],
            }
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(turn.tokens),
        "modelVersion": model,
        "responseId": "Vd5kadTnHqyq1PIP3Z2j4QQ",
    }


def _usage(tokens: Tokens) -> Json:
    usage = {
        "promptTokenCount": tokens.input,
        "cachedContentTokenCount": tokens.cached,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "totalTokenCount": tokens.input + tokens.output,
    }
    return {**usage, "thoughtsTokenCount": tokens.reasoning} if tokens.reasoning else usage
