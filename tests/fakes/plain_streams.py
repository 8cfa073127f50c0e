"""Streams of plain words as providers write them, with whatever may come between and cut anywhere."""

import json
from itertools import pairwise

from hypothesis import strategies as st


def chat_delta(words, **other):
    choice = {"index": 0, "delta": {"content": words}, "finish_reason": None}
    return {"id": "c-1", "created": 1, "model": "m-1", "choices": [choice], **other}


def padded_delta(words, **other):
    return chat_delta(words, obfuscation="x" * (len(words) % 4), **other)


def counted_delta(words, **other):
    usage = {"prompt_tokens": 3, "completion_tokens": len(words)}
    return chat_delta(words, usage=usage, **other)


def messages_delta(words, **other):
    delta = {"type": "text_delta", "text": words}
    return {"type": "content_block_delta", "index": 0, "delta": delta, **other}


def chat(deltas):
    first = chat_delta("")
    first["choices"][0]["delta"]["role"] = "assistant"
    last = chat_delta("")
    last["choices"][0] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return [first, *deltas, last]


def messages(deltas):
    message = {"id": "msg_1", "model": "m-1", "usage": {"input_tokens": 3}}
    block = {"type": "text", "text": ""}
    stop = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", **stop},
        {"type": "message_stop"},
    ]


def responses_delta(words, **other):
    return {
        "type": "response.output_text.delta",
        "sequence_number": 7,
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": words,
        "logprobs": [],
        **other,
    }


def responses(deltas):
    response = {"id": "resp_1", "object": "response", "model": "m-1", "status": "in_progress"}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    events = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **at, "part": part},
        *deltas,
        {"type": "response.output_text.done", **at, "text": "x"},
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "usage": usage},
        },
    ]
    return [
        {**event, "sequence_number": number} if isinstance(event, dict) else event
        for number, event in enumerate(events)
    ]


def gemini_delta(words, **other):
    candidate = {"content": {"parts": [{"text": words}], "role": "model"}, "index": 0}
    return {"candidates": [candidate], "modelVersion": "m-1", "responseId": "g-1", **other}


def gemini(deltas):
    last = gemini_delta("")
    last["candidates"][0]["finishReason"] = "STOP"
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    return [*deltas, {**last, "usageMetadata": usage}]


STREAMS = {
    "chat": ("chat_completion", chat, chat_delta),
    "chat, padded": ("chat_completion", chat, padded_delta),
    "chat, counted": ("chat_completion", chat, counted_delta),
    "messages": ("messages", messages, messages_delta),
    "responses": ("responses", responses, responses_delta),
    "gemini": ("gemini", gemini, gemini_delta),
}
FIELDS = ("data: ", "data:")


def written(payloads, field="data: ", end="\n"):
    """The bytes of a stream; a string is written as it is."""
    blocks = []
    for payload in payloads:
        if isinstance(payload, str):
            blocks.append(payload)
            continue
        name = f"event: {payload['type']}{end}" if "type" in payload else ""
        blocks.append(f"{name}{field}{json.dumps(payload, ensure_ascii=False)}{end}{end}")
    return "".join(blocks).encode("utf-8", "replace")


def cut(body, places):
    return [body[a:b] for a, b in pairwise(sorted({0, len(body), *places}))]


# --- generated ---

words = st.one_of(
    st.text(max_size=8), st.sampled_from(["", '"', "\\", "\n", "🙂", "m-1", "data: ", "\n\n"])
)
BETWEEN = [
    ": a comment\n\n",
    "data: [DONE]\n\n",
    "data: {}\n\n",
    "data: {",
    "event: error\ndata: {}\n\n",
    "event: x\n",
    "\n",
    "\r\n",
    'data: {"error": {"message": "broken"}}\n\n',
    "id: 7\n",
]
OTHERS = [{"model": "m-2"}, {"index": 1}, {"choices": []}, {"usage": {"prompt_tokens": 5}}]


@st.composite
def streams(draw, kind):
    _, stream, delta = STREAMS[kind]
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        parts += [delta(word) for word in draw(st.lists(words, max_size=9))]
        match draw(st.integers(0, 3)):
            case 0:
                parts.append(draw(st.sampled_from(BETWEEN)))
            case 1:
                parts.append(delta(draw(words)) | draw(st.sampled_from(OTHERS)))
            case _:
                pass
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    body = written(stream(parts), draw(st.sampled_from(FIELDS)), end)
    whole = (end * 2).encode()
    ends = [n for n in range(2, len(body)) if body[:n].endswith(whole)]
    places = st.integers(0, len(body))
    places = st.one_of(places, st.sampled_from(ends)) if ends else places
    return cut(body, draw(st.lists(places, max_size=20)))
