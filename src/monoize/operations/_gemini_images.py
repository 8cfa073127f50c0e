"""Pictures as Google makes them: generateContent for models that also talk, predict for Imagen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from monoize.errors import UnsupportedByTarget, UpstreamRefused, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.operation import Inline, Json, Outgoing
from monoize.operations._base64 import decoded, picture_type
from monoize.protocols.gemini.models import method_path
from monoize.protocols.gemini.spelling import found
from monoize.protocols.gemini.usage import decode_usage
from monoize.urp import Usage

__all__ = ["Asked", "read", "request"]

# What OpenAI's callers write and Google has no word for; `stream` is answered by the endpoint itself.
_OPENAI_ONLY = frozenset(
    {
        "background",
        "complexity",
        "frame_count",
        "frame_duration_ms",
        "input_fidelity",
        "moderation",
        "output_compression",
        "output_format",
        "partial_images",
        "safety_identifier",
        "stream",
        "svg",
        "user",
    }
)
_IMAGEN_RATIOS = ("1:1", "3:4", "4:3", "9:16", "16:9")
_RATIOS = (*_IMAGEN_RATIOS, "1:4", "4:1", "1:8", "8:1", "2:3", "3:2", "4:5", "5:4", "21:9")
_SIZES = ("512", "1K", "2K", "4K")
_PIXELS_UP_TO = ((300_000, "512"), (2_000_000, None), (7_000_000, "2K"))  # None: the usual, 1K
_NEAR = 0.04  # 1792x1024 is 16:9 for whoever draws it
_SHOWN = 300  # letters of a refusal


class Asked(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a payload asks for, with its files."""

    prompt: str
    shown: Sequence[Any]
    masked: bool
    n: int
    size: str | None
    pixels: tuple[int, int] | None
    seed: int | None
    quality: str | None
    style: str | None
    by_url: bool
    extra: Mapping[str, Any]


def request(asked: Asked, model: str) -> Outgoing:
    if asked.masked:
        raise UnsupportedByTarget("Google's models take no mask", param="mask")
    if asked.by_url:
        raise UnsupportedByTarget(
            "Google sends pictures and keeps none: ask for response_format b64_json",
            param="response_format",
        )
    if model.rpartition("/")[2].lower().startswith("imagen"):
        return _imagen(asked, model)
    return _talking(asked, model)


def _talking(asked: Asked, model: str) -> Outgoing:
    if asked.n > 1:
        raise UnsupportedByTarget(f"{model} makes one picture a call", param="n")
    ratio, size = _shape(asked, _RATIOS)
    travels = {name: value for name, value in asked.extra.items() if name not in _OPENAI_ONLY}
    given = travels.pop("generationConfig", travels.pop("generation_config", None))
    config: dict[str, Any] = {"responseModalities": ["IMAGE"]}
    config |= given if isinstance(given, Mapping) else {}
    if asked.seed is not None:
        config["seed"] = asked.seed
    if ratio or size:
        pictures = config.get("imageConfig")
        config["imageConfig"] = {
            **(pictures if isinstance(pictures, Mapping) else {}),
            **({"aspectRatio": ratio} if ratio else {}),
            **({"imageSize": size} if size else {}),
        }
    parts = [{"text": asked.prompt}, *(_part(one) for one in asked.shown)]
    body = {
        **travels,
        "contents": [{"role": "user", "parts": parts}],
        "generationConfig": config,
    }
    path = method_path(model, "generateContent")
    return Outgoing(path=path, body=body, dropped=_dropped(asked, frozenset()))


def _imagen(asked: Asked, model: str) -> Outgoing:
    if asked.shown:
        raise UnsupportedByTarget(f"{model} makes pictures from words alone", param="image")
    ratio, size = _shape(asked, _IMAGEN_RATIOS)
    travels = {name: value for name, value in asked.extra.items() if name not in _OPENAI_ONLY}
    parameters: dict[str, Any] = {**travels, "sampleCount": asked.n}
    named = {"aspectRatio": ratio, "sampleImageSize": size, "seed": asked.seed}
    parameters |= {name: value for name, value in named.items() if value is not None}
    output: dict[str, Any] = {}
    if isinstance(asked.extra.get("output_format"), str):
        output["mimeType"] = f"image/{asked.extra['output_format']}"
    if "output_compression" in asked.extra:
        output["compressionQuality"] = asked.extra["output_compression"]
    if output:
        parameters["outputOptions"] = output
    body = {"instances": [{"prompt": asked.prompt}], "parameters": parameters}
    carried = frozenset({"output_format", "output_compression"})
    return Outgoing(path=method_path(model, "predict"), body=body, dropped=_dropped(asked, carried))


def _dropped(asked: Asked, carried: frozenset[str]) -> tuple[str, ...]:
    lost = [name for name in asked.extra if name in _OPENAI_ONLY - carried - {"stream"}]
    if asked.quality not in (None, "auto"):
        lost.append("quality")
    if asked.style is not None:
        lost.append("style")
    return tuple(lost)


def _shape(asked: Asked, ratios: Sequence[str]) -> tuple[str | None, str | None]:
    """(aspect ratio, size) in Google's words."""
    size = asked.size
    if size is None or size == "auto":
        return None, None
    if size in ratios:
        return size, None
    if size.upper() in _SIZES:
        return None, size.upper()
    if asked.pixels is None or 0 in asked.pixels:
        _no_shape(size, ratios)
    width, height = asked.pixels
    near = min(ratios, key=lambda ratio: _apart(ratio, width / height))
    if _apart(near, width / height) > _NEAR:
        _no_shape(size, ratios)
    words = (word for limit, word in _PIXELS_UP_TO if width * height <= limit)
    return near, next(words, "4K")


def _apart(ratio: str, wanted: float) -> float:
    wide, _, high = ratio.partition(":")
    return abs(math.log(int(wide) / int(high) / wanted))


def _no_shape(size: str, ratios: Sequence[str]) -> NoReturn:
    raise UnsupportedByTarget(
        f"Google has no size {size!r}: its pictures are {', '.join(ratios)}", param="size"
    )


def _part(picture: Any) -> dict[str, Any]:
    if isinstance(picture, Blob):
        return {"inlineData": {"mimeType": picture.mime, "data": Inline(blob=picture)}}
    url = picture
    if isinstance(picture, Mapping):
        url = picture.get("image_url", picture.get("url"))
    if not isinstance(url, str):
        raise UnsupportedByTarget("Google cannot read OpenAI's file ids", param="images")
    if url.startswith("data:"):
        head, _, data = url.removeprefix("data:").partition(",")
        return {"inlineData": {"mimeType": head.partition(";")[0] or "image/png", "data": data}}
    return {"fileData": {"fileUri": url}}


def read(reply: Json) -> tuple[dict[str, Any], Usage | None]:
    """The pictures and what was said beside them. Raises UpstreamRefused where none was drawn for a reason."""
    predictions = reply.get("predictions")
    images: list[Blob] = []
    said: list[str] = []
    prompts: list[Any] = []
    if isinstance(predictions, list):
        for item in predictions:
            data = found(item, "bytesBase64Encoded")
            if data is not None:
                images.append(_picture(data, found(item, "mimeType")))
                prompts.append(found(item, "prompt"))
    else:
        for part in _parts(reply):
            inline, text = found(part, "inlineData"), found(part, "text")
            if found(part, "thought") is True:
                continue  # sketches on the way
            if inline is not None:
                images.append(_picture(found(inline, "data"), found(inline, "mimeType")))
            elif isinstance(text, str):
                said.append(text)
    if not images:
        _refuse(reply, said)
    result: dict[str, Any] = {"images": images}
    if any(prompts):
        result["revised_prompts"] = prompts
    if "".join(said).strip():
        result["text"] = "".join(said)
    return result, decode_usage(reply.get("usageMetadata"))


def _parts(reply: Json) -> Iterator[Any]:
    candidates = reply.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        parts = found(found(candidate, "content"), "parts")
        yield from parts if isinstance(parts, list) else ()


def _picture(data: Any, mime: Any) -> Blob:
    picture = decoded(data, "a picture")
    return Blob.of(picture, picture_type(picture, mime if isinstance(mime, str) else None))


def _refuse(reply: Json, said: Sequence[str]) -> NoReturn:
    """No picture: the reason is in one of several places."""
    feedback = found(reply, "promptFeedback")
    reasons = [found(feedback, "blockReason"), found(feedback, "blockReasonMessage")]
    for name, keys in (
        ("candidates", ("finishReason", "finishMessage")),
        ("predictions", ("raiFilteredReason",)),
    ):
        items = reply.get(name)
        for item in items if isinstance(items, list) else ():
            reasons += [found(item, key) for key in keys]
    told = [reason for reason in reasons if isinstance(reason, str) and reason != "STOP"]
    told += ["".join(said).strip()] if said else []
    if not told:
        raise UpstreamUnreadable("the provider's reply holds no picture")
    raise UpstreamRefused(
        f"no picture was made: {': '.join(told)[:_SHOWN]}", code="content_filter", http_status=400
    )
