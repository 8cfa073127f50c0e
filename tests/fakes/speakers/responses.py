"""Responses as OpenAI writes them; xAI's dialect differs in nothing that these scenarios show."""

from __future__ import annotations

import json
from typing import Any

from fakes.scenarios import Hide, Refuse, Say, Think, Tokens, Turn, Use
from fakes.speakers.wire import Heard, Json, frame, mark, pieces

LINE_END = "\n"


def unary(turn: Turn, model: str) -> Json:
    cut = turn.finish == "length"
    return {
        "id": "resp_0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "object": "response",
        "created_at": 1768500000,
        "status": "incomplete" if cut else "completed",
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": model,
        "output": [_item(n, part) for n, part in enumerate(turn.parts)],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(turn.tokens),
        "user": None,
        "metadata": {},
    }


def events(turn: Turn, model: str) -> list[bytes]:
    whole = unary(turn, model)
    begun = {
        **whole,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "incomplete_details": None,
    }
    rows: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    others = [n for n, part in enumerate(turn.parts) if not isinstance(part, Use)]
    for n in others:
        rows += _item_events(n, whole["output"][n], turn.parts[n])
    rows += _call_events(
        [(n, whole["output"][n]) for n in range(len(turn.parts)) if n not in others]
    )
    end = "response.incomplete" if turn.finish == "length" else "response.completed"
    rows.append({"type": end, "response": whole})
    return [frame({**row, "sequence_number": n}, row["type"]) for n, row in enumerate(rows)]


def terminal(frames: list[bytes]) -> int:
    return len(frames) - 1


def error(status: int, message: str) -> Json:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": f"code_{status}"}}


def error_frame(message: str) -> bytes:
    fault = {"type": "error", "code": "server_error", "message": message, "param": None}
    return frame({**fault, "sequence_number": 3}, "error")


def count(body: Json) -> Json | None:
    return {"object": "response.input_tokens", "input_tokens": 4711}


def hear(body: Json) -> Heard:
    heard = Heard(tools=[t["name"] for t in body.get("tools") or [] if "name" in t])
    if body.get("instructions"):
        heard.said.append(("system", body["instructions"]))
    items = body["input"]
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    for item in items:
        match item.get("type", "message"):
            case "function_call":
                given = json.loads(item["arguments"])
                heard.calls.append((item["call_id"], item["name"], given))
            case "function_call_output":
                heard.results.append((item["call_id"], _text(item["output"])))
            case "reasoning":
                shown = "".join(s["text"] for s in item.get("summary") or [])
                if item.get("encrypted_content"):
                    heard.seals.append((f"{item['id']}:{shown}", item["encrypted_content"]))
            case "message":
                heard.said.append((item["role"], _text(item["content"])))
    return heard


def seals(turn: Turn) -> list[tuple[str, str]]:
    """The blob is bound to the id of its item (T21)."""
    return [
        (f"{_reasoning_id(n)}:{p.text if isinstance(p, Think) else ''}", p.seal)
        for n, p in enumerate(turn.parts)
        if isinstance(p, Think | Hide)
    ]


def _reasoning_id(n: int) -> str:
    return f"rs_0a1b2c3d4e5f6{n:02d}"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _item(n: int, part: Any) -> Json:
    match part:
        case Say() | Refuse():
            said = {"id": f"msg_0a1b2c3d4e5f6{n:02d}", "type": "message", "role": "assistant"}
            return {**said, "status": "completed", "content": [_content(part)]}
        case Think() | Hide():
            summary = (
                [{"type": "summary_text", "text": part.text}] if isinstance(part, Think) else []
            )
            thought = {"id": _reasoning_id(n), "type": "reasoning", "summary": summary}
            return {**thought, "encrypted_content": part.seal}
        case Use():
            return {
                "id": f"fc_0a1b{mark(part.arguments)}",
                "type": "function_call",
                "status": "completed",
                "call_id": f"call_Xr{n}{mark(part.arguments)}",
                "name": part.name,
                "arguments": json.dumps(part.arguments, ensure_ascii=False),
            }
    raise AssertionError(part)


def _content(part: Say | Refuse) -> Json:
    if isinstance(part, Refuse):
        return {"type": "refusal", "refusal": part.text}
    annotations = [
        {
            "type": "url_citation",
            "url": url,
            "title": title,
            "start_index": 0,
            "end_index": len(part.text),
        }
        for url, title in part.cites
    ]
    return {"type": "output_text", "text": part.text, "annotations": annotations, "logprobs": []}


def _item_events(n: int, item: Json, part: Any) -> list[Json]:
    at = {"item_id": item["id"], "output_index": n}
    added = {"type": "response.output_item.added", "output_index": n}
    done = {"type": "response.output_item.done", "output_index": n, "item": item}
    if isinstance(part, Think | Hide):
        begun = {**item, "summary": []}
        return [{**added, "item": begun}, *_summary_events(item, at), done]
    begun = {**item, "status": "in_progress", "content": []}
    return [{**added, "item": begun}, *_content_events(item["content"][0], part, at), done]


def _summary_events(item: Json, at: Json) -> list[Json]:
    rows: list[Json] = []
    for index, summary in enumerate(item["summary"]):
        place = {**at, "summary_index": index}
        empty, kind = {**summary, "text": ""}, "response.reasoning_summary"
        rows.append({"type": f"{kind}_part.added", **place, "part": empty})
        rows += [
            {"type": f"{kind}_text.delta", **place, "delta": piece}
            for piece in pieces(summary["text"])
        ]
        rows.append({"type": f"{kind}_text.done", **place, "text": summary["text"]})
        rows.append({"type": f"{kind}_part.done", **place, "part": summary})
    return rows


def _content_events(content: Json, part: Say | Refuse, at: Json) -> list[Json]:
    place = {**at, "content_index": 0}
    if isinstance(part, Refuse):
        empty, kind, key = {**content, "refusal": ""}, "response.refusal", "refusal"
        cut, more = pieces(part.text), {}
    else:
        empty = {**content, "text": "", "annotations": []}
        kind, key, cut, more = "response.output_text", "text", list(part.pieces), {"logprobs": []}
    return [
        {"type": "response.content_part.added", **place, "part": empty},
        *({"type": f"{kind}.delta", **place, "delta": piece, **more} for piece in cut),
        *(
            {
                "type": "response.output_text.annotation.added",
                **place,
                "annotation_index": n,
                "annotation": a,
            }
            for n, a in enumerate(content.get("annotations", []))
        ),
        {"type": f"{kind}.done", **place, key: part.text, **more},
        {"type": "response.content_part.done", **place, "part": content},
    ]


def _call_events(calls: list[tuple[int, Json]]) -> list[Json]:
    """All calls begin, their arguments come interleaved, then each is done (T1)."""
    rows: list[Json] = []
    for n, call in calls:
        begun = {**call, "status": "in_progress", "arguments": ""}
        rows.append({"type": "response.output_item.added", "output_index": n, "item": begun})
    for step in range(3):
        for n, call in calls:
            cut = pieces(call["arguments"])
            if step < len(cut):
                at = {"item_id": call["id"], "output_index": n}
                kind = "response.function_call_arguments.delta"
                rows.append({"type": kind, **at, "delta": cut[step]})
    for n, call in calls:
        at = {"item_id": call["id"], "output_index": n, "name": call["name"]}
        kind = "response.function_call_arguments.done"
        rows.append({"type": kind, **at, "arguments": call["arguments"]})
        rows.append({"type": "response.output_item.done", "output_index": n, "item": call})
    return rows


def _usage(tokens: Tokens) -> Json:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }
