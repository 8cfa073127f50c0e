"""Words, and perhaps a picture -> pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta
from typing_extensions import override

from monoize.engine import Engine
from monoize.errors import EngineError, UnsupportedByTarget
from monoize.media.blob import Blob
from monoize.media.ref import MediaRef
from monoize.operation import Adapter, Json, Made, Needs, Outgoing, UnaryOperation, Units, WireReply
from monoize.operations import _gemini_images, _image_reply
from monoize.operations._forms import form_of, read_texts, resent, unformed
from monoize.operations._openai import (
    blobs_inline,
    body_of,
    file_of,
    named_file,
    not_in_bytes,
    refers,
    uploads,
    values_of,
)
from monoize.operations._reading import Sent, VendorPayload, converted, references, split
from monoize.operations._streams import passed_on
from monoize.operations._usage import image_usage
from monoize.operations._weighing import text_bound
from monoize.urp import Usage

__all__ = ["NO_ENGINE", "OPERATION", "ImageGeneration", "ImageGenerationPayload", "Pictures"]

NO_ENGINE = (
    "no engine of this machine draws pictures: configure a provider that does, of type chat_completion (OpenAI's"
    " gpt-image-* and what speaks like it) or gemini (gemini-*-image, imagen-*), with such a model among its models"
)

Picture: TypeAlias = Blob | Mapping[str, Any]  # a file, or a vendor's own reference to one

_PIXELS = re.compile(r"^\s*(?P<width>\d{1,6})\s*[xX]\s*(?P<height>\d{1,6})\s*$")
_TEXTS: Mapping[str, Any] = {"n": int, "seed": int, "stream": bool}
_PLACES = ("image", "mask")
_SHOWN = ("image", "images", "mask")
_FILES = {"image": ("image", "images")}

# Output tokens of a picture of a megapixel, by quality, of the models that count them; a guess for all others.
_MEGAPIXEL = 1024 * 1024
_DRAWN = {"low": 272, "medium": 1056, "standard": 1056}
_DRAWN_AT_MOST = 4160
_SEEN = 1600  # input tokens of a picture, roughly


class ImageGenerationPayload(VendorPayload, frozen=True, kw_only=True):
    """Further pictures for models that take several lie in `extra` under `images`."""

    prompt: str
    image: MediaRef | None = None
    mask: MediaRef | None = None
    n: Annotated[int, Meta(ge=1, le=1000)] | None = None
    size: str | None = None
    quality: str | None = None
    style: str | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    response_format: Literal["url", "b64_json"] | None = None

    @property
    def streams(self) -> bool:
        return self.extra.get("stream") is True

    @property
    def shown(self) -> int:
        """Pictures that it shows, however they are named."""
        named = [self.extra.get(name) for name in ("image", "images")]
        others = [one for value in named for one in (value if isinstance(value, list) else [value])]
        return sum(one is not None for one in (self.image, *others))

    @property
    def edits(self) -> bool:
        """Whether OpenAI has it at its other address; several providers take a picture's URL at the first one."""
        named = self.extra.get("image")
        return self.shown > 0 and not isinstance(named, str | list)

    def pixels(self) -> tuple[int, int] | None:
        found = _PIXELS.match(self.size or "")
        return None if found is None else (int(found["width"]), int(found["height"]))


class Pictures(msgspec.Struct, frozen=True, eq=False):
    """What a payload shows, with the files in their places."""

    shown: tuple[Picture, ...]
    mask: Picture | None

    @classmethod
    def of(cls, payload: ImageGenerationPayload, media: Mapping[str, Blob]) -> Pictures:
        named = payload.extra.get("image")  # a vendor's own way to name one
        shown: list[Any] = [] if named is None else named if isinstance(named, list) else [named]
        more = payload.extra.get("images")
        items = more if isinstance(more, list) else []
        shown = [*shown, *(media.get(f"images[{i}]", one) for i, one in enumerate(items))]
        if payload.image is not None:
            shown.insert(0, file_of(media, "image"))
        mask = file_of(media, "mask") if payload.mask is not None else payload.extra.get("mask")
        return cls(tuple(shown), mask)


class ImageGeneration(UnaryOperation[ImageGenerationPayload]):
    id = "image_generation"
    advice = NO_ENGINE
    payload_type = ImageGenerationPayload

    def __init__(self) -> None:
        self.dialects = {"openai": _OpenAI(), "gemini": _Gemini()}

    @override
    def needs(self, payload: ImageGenerationPayload) -> Needs:
        wanted = {
            "supports_image_input": payload.shown > 0,
            "supports_mask": payload.mask is not None or "mask" in payload.extra,
            "supports_seed": payload.seed is not None,
        }
        amounts: dict[str, float] = {"max_images_per_request": payload.n or 1}
        pixels = payload.pixels()
        if pixels is not None:
            amounts["max_image_size"] = max(pixels)
        features = frozenset(name for name, needed in wanted.items() if needed)
        return Needs(features=features, amounts=amounts)

    @override
    def downgraded(
        self, payload: ImageGenerationPayload, missing: frozenset[str]
    ) -> tuple[ImageGenerationPayload, tuple[str, ...]] | None:
        """Without a mask the picture is made from the words alone; nothing else can be done without."""
        if "supports_mask" not in missing or missing - {"supports_mask", "supports_image_input"}:
            return None
        told = (
            "mask dropped: the backend takes none",
            "image dropped: without its mask it would be painted over, so the picture is made from the prompt alone",
        )
        extra = {k: v for k, v in payload.extra.items() if k not in _SHOWN}
        plain = msgspec.structs.replace(payload, image=None, mask=None, extra=extra, sent=None)
        return plain, told

    @override
    def media(self, payload: ImageGenerationPayload) -> Mapping[str, MediaRef]:
        return references(payload)

    @override
    def expected(
        self, payload: ImageGenerationPayload, media: Mapping[str, Blob]
    ) -> tuple[Usage, Units]:
        """Tokens are a guess, and mean something only for models that are paid by them."""
        images = payload.n or 1
        width, height = payload.pixels() or (1024, 1024)
        per_picture = _DRAWN.get(payload.quality or "", _DRAWN_AT_MOST)
        drawn = images * -(-per_picture * width * height // _MEGAPIXEL)
        seen = payload.shown * _SEEN
        usage = Usage(
            input_tokens=text_bound(payload.prompt) + seen,
            output_tokens=drawn,
            image_input=seen or None,
            image_output=drawn,
        )
        return usage, Units(images=images)

    @override
    async def locally(
        self, payload: ImageGenerationPayload, engine: Engine, media: Mapping[str, Blob]
    ) -> Made:
        raise EngineError(NO_ENGINE)

    @override
    def from_wire(
        self, wire: Json, files: Mapping[str, tuple[Blob, ...]]
    ) -> tuple[ImageGenerationPayload, Mapping[str, Blob]]:
        fields = read_texts(unformed(wire), _TEXTS) if files else dict(wire)
        named, extra = split(ImageGenerationPayload, fields)
        for place in _PLACES:  # a URL, a file id: the vendor's own way to name a picture
            vendors = named.get(place)
            if vendors is not None and not _is_reference(vendors):
                extra[place] = named.pop(place)
        given, media, places = uploads(files, _FILES)
        more_named, more = split(ImageGenerationPayload, given)
        payload = converted(ImageGenerationPayload, {**named, **more_named}, {**extra, **more})
        if not refers(payload):
            payload = msgspec.structs.replace(payload, sent=Sent(wire, places))
        return payload, media

    @override
    def to_wire(self, payload: ImageGenerationPayload, made: Made, *, created: int) -> WireReply:
        if made.stream is not None:
            return WireReply(body=made.stream, content_type=made.content_type)
        if made.raw is not None:
            return WireReply(body=made.raw, content_type=made.content_type)
        if payload.streams:
            return _image_reply.events(made, created, edited=payload.edits)
        return _image_reply.whole(made, created)


class _OpenAI(Adapter[ImageGenerationPayload]):
    @override
    def request(
        self, payload: ImageGenerationPayload, model: str, media: Mapping[str, Blob]
    ) -> Outgoing:
        path = "/v1/images/edits" if payload.edits else "/v1/images/generations"
        sent = payload.sent
        if sent is not None and sent.files:
            body: Any = resent(sent, model, media)
        else:
            body = self._body(payload, model, media)
        return Outgoing(path=path, body=body, answers_in_bytes=payload.streams)

    def _body(self, payload: ImageGenerationPayload, model: str, media: Mapping[str, Blob]) -> Any:
        named = {
            "prompt": payload.prompt,
            "n": payload.n,
            "size": payload.size,
            "quality": payload.quality,
            "style": payload.style,
            "seed": payload.seed,
            "response_format": payload.response_format,
        }
        if not references(payload):
            return body_of(payload, model, named)
        pictures = Pictures.of(payload, media)
        values = values_of(payload, model, named, media)
        values.pop("images", None)
        values["mask"] = pictures.mask
        if all(
            isinstance(one, Blob) for one in (*pictures.shown, pictures.mask) if one is not None
        ):
            shown = [named_file(one, "image") for one in pictures.shown if isinstance(one, Blob)]
            if isinstance(pictures.mask, Blob):
                values["mask"] = named_file(pictures.mask, "mask")
            return form_of({**values, "image": shown[0] if len(shown) == 1 else shown})
        values["images"] = [_pointed(one) for one in pictures.shown]
        if pictures.mask is not None:
            values["mask"] = _pointed(pictures.mask)
        return blobs_inline({name: value for name, value in values.items() if value is not None})

    @override
    def made(self, payload: ImageGenerationPayload, reply: Json, raw: bytes) -> Made:
        result = _image_reply.read(reply)
        usage, units = image_usage(reply.get("usage")), Units(images=len(result["images"]))
        return Made(result=result, usage=usage, units=units, raw=raw)

    @override
    def heard(self, payload: ImageGenerationPayload, content_type: str, stream: Blob) -> Made:
        units = Units(images=payload.n or 1)
        stream, tally = passed_on(
            stream, content_type, lambda wire: (image_usage(wire.get("usage")), units), units
        )
        return Made(result={}, units=units, content_type=content_type, stream=stream, tally=tally)


class _Gemini(Adapter[ImageGenerationPayload]):
    @override
    def request(
        self, payload: ImageGenerationPayload, model: str, media: Mapping[str, Blob]
    ) -> Outgoing:
        return _gemini_images.request(_asked(payload, media), model)

    @override
    def made(self, payload: ImageGenerationPayload, reply: Json, raw: bytes) -> Made:
        result, usage = _gemini_images.read(reply)
        return Made(result=result, usage=usage, units=Units(images=len(result["images"])))

    @override
    def heard(self, payload: ImageGenerationPayload, content_type: str, stream: Blob) -> Made:
        not_in_bytes(content_type)


def _asked(payload: ImageGenerationPayload, media: Mapping[str, Blob]) -> _gemini_images.Asked:
    pictures = Pictures.of(payload, media)
    for name in references(payload):
        if name.partition("[")[0] not in _SHOWN:
            raise UnsupportedByTarget(f"Google has no place for the file {name!r}", param=name)
    return _gemini_images.Asked(
        prompt=payload.prompt,
        shown=pictures.shown,
        masked=pictures.mask is not None,
        n=payload.n or 1,
        size=payload.size,
        pixels=payload.pixels(),
        seed=payload.seed,
        quality=payload.quality,
        style=payload.style,
        by_url=payload.response_format == "url" and payload.sent is not None,
        extra={k: v for k, v in payload.extra.items() if k not in _SHOWN},
    )


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and "kind" in value


def _pointed(picture: Any) -> Any:
    return {"image_url": picture} if isinstance(picture, Blob) else picture


OPERATION = ImageGeneration()
