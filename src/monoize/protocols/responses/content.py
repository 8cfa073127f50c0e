"""Content parts: what a message or a tool's output is made of, wire <-> URP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monoize.protocols._reading import object_at, refuse, text
from monoize.protocols.responses.media import media_of
from monoize.protocols.responses.vocabulary import CONTENT, DIALECT, source_of
from monoize.urp import (
    Audio,
    Base64,
    Citation,
    File,
    FileId,
    Image,
    Losses,
    Media,
    Part,
    ProviderItem,
    Refusal,
    Text,
    Url,
)
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "annotation",
    "decode_citation",
    "decode_content",
    "decode_logprobs",
    "decode_part",
    "logprob",
]

_TEXT_FIELDS = frozenset({"type", "text", "annotations", "logprobs"})
_MEDIA_TYPES = {".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown"}


def decode_content(value: Any, path: str) -> tuple[Part, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (Text(content=value),)
    if not isinstance(value, list):
        refuse(path, "must be a string or an array of content parts")
    return tuple([decode_part(wire, f"{path}[{index}]") for index, wire in enumerate(value)])


def decode_part(value: Any, path: str) -> Part:
    wire = object_at(value, path)
    match wire.get("type", "text" if "text" in wire else None):
        case "input_text" | "output_text" | "text":
            return _text(wire, path)
        case "refusal":
            return Refusal(
                content=text(wire, "refusal", path) or "",
                extra_body=rest(wire, ("type", "refusal")),
                source=source_of(wire),
            )
        case "input_image":
            return _image(wire) or _unknown(wire, "input_image")
        case "input_file":
            return _file(wire) or _unknown(wire, "input_file")
        case "input_audio":
            return _audio(wire) or _unknown(wire, "input_audio")
        case kind:
            return _unknown(wire, kind)


def _unknown(wire: Mapping[str, Any], kind: Any) -> ProviderItem:
    return ProviderItem(
        origin_protocol=DIALECT,
        item_type=f"{CONTENT}{kind}",
        body=wire,
        source=source_of(wire),
    )


def _text(wire: Mapping[str, Any], path: str) -> Text:
    annotations = wire.get("annotations")
    return Text(
        content=text(wire, "text", path) or "",
        citations=tuple(decode_citation(a) for a in annotations if isinstance(a, dict))
        if annotations and isinstance(annotations, list)
        else (),
        logprobs=decode_logprobs(wire.get("logprobs")),
        extra_body=rest(wire, _TEXT_FIELDS),
        source=source_of(wire),
    )


def decode_citation(wire: Mapping[str, Any]) -> Citation:
    """A web page has an address; citations of files keep what they say in `extra_body`."""
    named = {"url": str, "title": str, "start_index": int, "end_index": int}
    good = {key for key, kind in named.items() if isinstance(wire.get(key), kind)}
    return Citation(
        url=wire["url"] if "url" in good else None,
        title=wire["title"] if "title" in good else None,
        start=wire["start_index"] if "start_index" in good else None,
        end=wire["end_index"] if "end_index" in good else None,
        extra_body=rest(wire, good),
        source=source_of(wire),
    )


def decode_logprobs(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    """An empty list says nothing: OpenAI writes one on every text."""
    if not isinstance(value, list) or not value:
        return None
    return tuple(entry for entry in value if isinstance(entry, dict)) or None


# --- media ---------------------------------------------------------------------------------------


def _image(wire: Mapping[str, Any]) -> Image | None:
    url, file_id, detail = wire.get("image_url"), wire.get("file_id"), wire.get("detail")
    if isinstance(url, dict):  # Chat's way of writing it, seen in the wild
        detail = url.get("detail", detail)
        url = url.get("url")
    media: Media
    if isinstance(url, str):
        media = media_of(url)
    elif isinstance(file_id, str):
        media = FileId(protocol=DIALECT, id=file_id)
    else:
        return None
    named = {"type", "image_url", "detail"} | ({"file_id"} if url is None else set())
    return Image(
        media=media,
        detail=detail if isinstance(detail, str) else None,
        extra_body=rest(wire, named),
        source=source_of(wire),
    )


def _file(wire: Mapping[str, Any]) -> File | None:
    filename = wire.get("filename")
    filename = filename if isinstance(filename, str) else None
    media: Media
    if isinstance(data := wire.get("file_data"), str):
        media = media_of(data)
        if isinstance(media, Url):  # bare base64
            media = Base64(data=data, media_type=_media_type(filename))
        used = "file_data"
    elif isinstance(url := wire.get("file_url"), str):
        media, used = Url(url=url), "file_url"
    elif isinstance(file_id := wire.get("file_id"), str):
        media, used = FileId(protocol=DIALECT, id=file_id), "file_id"
    else:
        return None
    extra = rest(wire, {"type", "filename", used})
    return File(media=media, filename=filename, extra_body=extra, source=source_of(wire))


def _media_type(filename: str | None) -> str:
    ending = "." + (filename or "").rpartition(".")[2].lower()
    return _MEDIA_TYPES.get(ending, "application/octet-stream" if filename else "application/pdf")


def _audio(wire: Mapping[str, Any]) -> Audio | None:
    inner = wire.get("input_audio")
    if not isinstance(inner, dict) or not isinstance(inner.get("data"), str):
        return None
    return Audio(
        media=Base64(data=inner["data"], media_type=f"audio/{inner.get('format') or 'wav'}"),
        extra_body=rest(wire, ("type", "input_audio")),
        source=source_of(wire),
    )


# --- what hangs on a text ------------------------------------------------------------------------


def annotation(
    citation: Citation, length: int, losses: Losses, *, native: bool
) -> dict[str, Any] | None:
    """A citation as this protocol says it; `length`: of the text so far, where the source gave no span."""
    if citation.source is not None and citation.source.protocol == DIALECT:
        return dict(citation.source.wire)
    if native and citation.url is None:  # of a file; changed on the way
        span = {"start_index": citation.start, "end_index": citation.end}
        known = {key: value for key, value in span.items() if value is not None}
        return {**citation.extra_body, **known}
    if citation.url is None:
        losses.drop("citations")
        return None
    if citation.quote is not None:
        losses.drop("citations.quote")
    return {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title or "",
        "start_index": citation.start if citation.start is not None else 0,
        "end_index": citation.end if citation.end is not None else length,
    }


def logprob(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One token; `bytes` and `top_logprobs` are lists here, where Chat may say null."""
    found = entry.get("top_logprobs")
    top: Sequence[Any] = found if isinstance(found, list) else ()
    return flattened(
        {
            "token": entry.get("token") or "",
            "logprob": entry.get("logprob") or 0.0,
            "bytes": entry.get("bytes") or [],
            "top_logprobs": [
                {**other, "bytes": other.get("bytes") or []}
                for other in top
                if isinstance(other, Mapping)
            ],
        },
        entry,
    )
