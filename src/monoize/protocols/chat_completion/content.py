"""Content parts of chat messages: text, images, audio, files and what only some dialects know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from monoize.protocol import Json
from monoize.protocols.chat_completion.fields import DIALECT, source, spoken
from monoize.urp import (
    Audio,
    Base64,
    Citation,
    File,
    FileId,
    Image,
    Media,
    Part,
    ProviderItem,
    Reasoning,
    Refusal,
    Text,
    Url,
)
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "annotation",
    "citation",
    "content_value",
    "data_url",
    "media_part",
    "native_item",
    "part_from",
]

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}
_PDF = "application/pdf"
_URL_CITATION = frozenset({"url", "title", "content", "start_index", "end_index"})


def part_from(wire: Mapping[str, Any]) -> Part | None:
    """The part that a content object is; None when it is of a known type but not in its form."""
    kind = wire.get("type")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    return native_item(wire) if read is None else read(wire)


def native_item(wire: Mapping[str, Any], place: str = "") -> ProviderItem:
    """What only this dialect understands; `place` names the list that it sits in, if not the content."""
    kind = spoken(wire.get("type")) or "unknown"
    return ProviderItem(
        origin_protocol=DIALECT, item_type=place + kind, body=dict(wire), source=source(wire)
    )


def _text(wire: Mapping[str, Any]) -> Text | None:
    content = wire.get("text")
    if not isinstance(content, str):
        return None
    return Text(content=content, extra_body=rest(wire, {"type", "text"}), source=source(wire))


def _refusal(wire: Mapping[str, Any]) -> Refusal | None:
    content = wire.get("refusal")
    if not isinstance(content, str):
        return None
    return Refusal(content=content, extra_body=rest(wire, {"type", "refusal"}), source=source(wire))


def _thinking(wire: Mapping[str, Any]) -> Reasoning:
    """Mistral's reasoning stands among the content."""
    return Reasoning(content=_thinking_text(wire), source=source(wire))


def _thinking_text(wire: Mapping[str, Any]) -> str:
    inner = wire.get("thinking")
    if isinstance(inner, list):
        return "".join(spoken(item.get("text")) for item in inner if isinstance(item, dict))
    return spoken(inner)


def _image(wire: Mapping[str, Any]) -> Image | None:
    inner = wire.get("image_url")
    fields: Mapping[str, Any] = {"url": inner} if isinstance(inner, str) else inner or {}
    if not isinstance(fields, dict) or not isinstance(fields.get("url"), str):
        return None
    detail = fields.get("detail")
    return Image(
        media=_media(fields["url"], "image/png"),
        detail=detail if isinstance(detail, str) else None,
        extra_body=rest(wire, {"type", "image_url"}),
        source=source(wire),
    )


def _audio(wire: Mapping[str, Any]) -> Audio | None:
    inner = wire.get("input_audio")
    fields: Mapping[str, Any] = {"data": inner} if isinstance(inner, str) else inner or {}
    if not isinstance(fields, dict) or not isinstance(fields.get("data"), str):
        return None
    media_type = f"audio/{spoken(fields.get('format')) or 'mp3'}"
    data = fields["data"]
    remote = data.startswith(("http:", "https:", "data:"))  # Qwen and Mistral take URLs here
    return Audio(
        media=_media(data, media_type) if remote else Base64(data=data, media_type=media_type),
        extra_body=rest(wire, {"type", "input_audio"}),
        source=source(wire),
    )


def _file(wire: Mapping[str, Any]) -> File | ProviderItem | None:
    inner = wire.get("file")
    if not isinstance(inner, dict):
        return None
    data, file_id = inner.get("file_data"), inner.get("file_id")
    name = spoken(inner.get("filename")) or None
    media: Media
    if isinstance(data, str):
        remote = data.startswith(("http:", "https:", "data:"))
        media = _media(data, _PDF) if remote else Base64(data=data, media_type=_PDF)
    elif isinstance(file_id, str):
        media = FileId(protocol=DIALECT, id=file_id)
    else:
        return native_item(wire)  # some dialect's own way to name a file
    extra = rest(wire, {"type", "file"})
    return File(media=media, filename=name, extra_body=extra, source=source(wire))


def _linked_file(field: str, media_type: str) -> Callable[[Mapping[str, Any]], File | None]:
    """A reader for parts that hold a URL: Mistral's documents, and videos of many dialects."""

    def read(wire: Mapping[str, Any]) -> File | None:
        inner = wire.get(field)
        url = inner.get("url") if isinstance(inner, dict) else inner
        if not isinstance(url, str):
            return None
        name = spoken(wire.get("document_name")) or None
        return File(
            media=_media(url, media_type),
            filename=name,
            extra_body=rest(wire, {"type", field, "document_name"}),
            source=source(wire),
        )

    return read


_READERS: dict[str, Callable[[Mapping[str, Any]], Part | None]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "thinking": _thinking,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
    "document_url": _linked_file("document_url", _PDF),
    "video_url": _linked_file("video_url", "video/mp4"),
}


def _media(url: str, media_type: str) -> Media:
    header, comma, data = url.removeprefix("data:").partition(",")
    if url.startswith("data:") and comma and header.endswith(";base64"):
        return Base64(data=data, media_type=header.partition(";")[0] or media_type)
    return Url(url=url)


# --- writing -------------------------------------------------------------------------------------


def data_url(media: Media) -> str | None:
    """A URL that says where the media is or holds it; None for a file that lies with some provider."""
    match media:
        case Url():
            return media.url
        case Base64():
            return f"data:{media.media_type};base64,{media.data}"
        case FileId():
            return None


def media_part(part: Image | Audio | File) -> Json | None:
    """Media as a content part of OpenAI's chat; None when that protocol has no form for it."""
    match part:
        case Image():
            url = data_url(part.media)
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "image_url", "image_url": {"url": url, **detail}} if url else None
        case Audio(media=Base64() as media):
            form = _AUDIO_FORMATS.get(media.media_type.lower())
            sound = {"data": media.data, "format": form}
            return {"type": "input_audio", "input_audio": sound} if form else None
        case File(media=Base64() as media):
            name = part.filename or f"file.{media.media_type.rpartition('/')[2] or 'bin'}"
            return {"type": "file", "file": {"filename": name, "file_data": data_url(media)}}
        case File(media=FileId(protocol="chat_completion") as media):
            return {"type": "file", "file": {"file_id": media.id}}
        case _:
            return None


def content_value(content: Sequence[Json | str]) -> Any:
    """A lone text as a string, which every dialect takes; else a list. An empty message has an empty text (D7)."""
    if not content:
        return ""
    if len(content) == 1 and isinstance(content[0], str):
        return content[0]
    return [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]


# --- citations -----------------------------------------------------------------------------------


def citation(wire: Mapping[str, Any]) -> Citation:
    """An annotation of a reply; other kinds than URL citations travel whole in the extra fields."""
    nested = wire.get("url_citation")
    fields = nested if isinstance(nested, dict) else wire
    if wire.get("type", "url_citation") != "url_citation" or not fields.get("url"):
        return Citation(extra_body=dict(wire), source=source(wire))
    start, end = fields.get("start_index"), fields.get("end_index")
    return Citation(
        url=str(fields["url"]),
        title=spoken(fields.get("title")) or None,
        quote=spoken(fields.get("content")) or None,
        start=start if isinstance(start, int) else None,
        end=end if isinstance(end, int) else None,
        extra_body=rest(fields, _URL_CITATION | {"type"}),
        source=source(wire),
    )


def annotation(cited: Citation, offset: int, length: int, *, same: bool) -> Json | None:
    """A citation as an annotation. `offset` is where its text begins in the joined content, `length` how long it is."""
    if cited.url is None:
        return dict(cited.extra_body) if same and cited.extra_body else None
    fields: Json = {
        "url": cited.url,
        "title": cited.title or "",
        "start_index": offset + (cited.start or 0),
        "end_index": offset + (length if cited.end is None else cited.end),
    }
    if cited.quote:
        fields["content"] = cited.quote
    return {
        "type": "url_citation",
        "url_citation": flattened(fields, cited.extra_body) if same else fields,
    }
