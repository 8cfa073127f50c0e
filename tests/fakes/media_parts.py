"""Media in requests of every protocol: where a caller may put a reference, and who can be sent what."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
FILES = {
    "image": (b"\x89PNG\r\n\x1a\n a picture", "image/png"),
    "audio": (b"RIFF....WAVE a sound", "audio/wav"),
    "file": (b"%PDF- a document", "application/pdf"),
}


# --- where callers put a reference ---------------------------------------------------------------


def chat(kind: str, uri: str) -> list[Json]:
    return {
        "image": [
            {"type": "image_url", "image_url": {"url": uri}},
            {"type": "image_url", "image_url": {"url": uri, "detail": "high"}},
            {"type": "image_url", "image_url": uri},
        ],
        "audio": [{"type": "input_audio", "input_audio": {"data": uri, "format": "mp3"}}],
        "file": [
            {"type": "file", "file": {"file_data": uri, "filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": uri}},
            {"type": "document_url", "document_url": uri},
        ],
    }[kind]


def responses(kind: str, uri: str) -> list[Json]:
    return {
        "image": [
            {"type": "input_image", "image_url": uri},
            {"type": "input_image", "image_url": {"url": uri}},
        ],
        "audio": [{"type": "input_audio", "input_audio": {"data": uri, "format": "mp3"}}],
        "file": [
            {"type": "input_file", "file_data": uri, "filename": "a.pdf"},
            {"type": "input_file", "file_data": uri},
            {"type": "input_file", "file_url": uri},
        ],
    }[kind]


def messages(kind: str, uri: str) -> list[Json]:
    places = [
        {"type": "url", "url": uri},
        {"type": "base64", "media_type": "image/gif", "data": uri},
    ]
    name = {"image": "image", "file": "document"}.get(kind)
    return [{"type": name, "source": source} for source in places] if name else []


def gemini(kind: str, uri: str) -> list[Json]:
    mime = FILES[kind][1]
    return [
        {"fileData": {"fileUri": uri, "mimeType": mime}},
        {"file_data": {"file_uri": uri, "mime_type": mime}},
        {"fileData": {"fileUri": uri}},
        {"inlineData": {"data": uri, "mimeType": mime}},
        {"inlineData": {"data": uri, "mimeType": mime, "displayName": "a"}},
    ]


PARTS = {"chat_completion": chat, "responses": responses, "messages": messages, "gemini": gemini}


def said(caller: str, part: Json) -> Json:
    """A user's message that holds the part between two texts."""
    match caller:
        case "chat_completion" | "messages":
            content = [{"type": "text", "text": "look"}, part, {"type": "text", "text": "well?"}]
            return {"messages": [{"role": "user", "content": content}], "max_tokens": 99}
        case "responses":
            text = {"type": "input_text", "text": "look"}
            return {"input": [{"role": "user", "content": [text, part, dict(text, text="well?")]}]}
        case _:
            parts = [{"text": "look"}, part, {"text": "well?"}]
            return {"contents": [{"role": "user", "parts": parts}]}


def answered(caller: str, part: Json) -> Json:
    """A conversation in which a tool gave the part."""
    match caller:
        case "chat_completion":
            call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            result = [{"type": "text", "text": "here"}, part]
            return {
                "messages": [
                    {"role": "user", "content": "go"},
                    {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c1", "content": result},
                ]
            }
        case "responses":
            call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
            output = [{"type": "input_text", "text": "here"}, part]
            return {
                "input": [
                    {"role": "user", "content": "go"},
                    call,
                    {"type": "function_call_output", "call_id": "c1", "output": output},
                ]
            }
        case "messages":
            call = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
            content = [{"type": "text", "text": "here"}, part]
            result = {"type": "tool_result", "tool_use_id": "c1", "content": content}
            beside = {"type": "text", "text": "well?"}
            return {
                "messages": [
                    {"role": "user", "content": "go"},
                    {"role": "assistant", "content": [call]},
                    {"role": "user", "content": [result, beside]},
                ],
                "max_tokens": 99,
            }
        case _:
            response = {"name": "f", "response": {"result": "here"}, "parts": [part]}
            return {
                "contents": [
                    {"role": "user", "parts": [{"text": "go"}]},
                    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse": response}, {"text": "well?"}]},
                ]
            }


def takes(target: str, caller: str, kind: str) -> bool:
    """Whether a provider of the protocol can be sent such media at all."""
    if kind != "audio":
        return True
    if target in ("responses", "grok"):
        return caller == "responses"  # its own words go as they are
    return target in ("chat_completion", "gemini")
