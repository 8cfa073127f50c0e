"""Pictures as OpenAI's image endpoints answer: read, and written for callers of that endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from monoize import wirejson
from monoize.errors import UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.operation import Json, Made, WireReply
from monoize.operations._base64 import decoded, encoded, picture_type
from monoize.operations._openai import listed
from monoize.operations._streams import SSE
from monoize.operations._usage import token_counts
from monoize.urp import Usage

__all__ = ["events", "read", "whole"]

_NAMED = frozenset({"data", "usage", "created"})


def read(reply: Json) -> dict[str, Any]:
    """The pictures, what became of the prompts, and everything else in `extra`."""
    items = listed(reply, "data")
    form = reply.get("output_format")
    images = [
        _image(item, f"image/{form}" if isinstance(form, str) else "image/png") for item in items
    ]
    if not images:
        raise UpstreamUnreadable("the provider's reply holds no picture")
    result: dict[str, Any] = {"images": images}
    prompts = [item.get("revised_prompt") for item in items]
    if any(prompt is not None for prompt in prompts):
        result["revised_prompts"] = prompts
    extra = {name: value for name, value in reply.items() if name not in _NAMED}
    return {**result, "extra": extra} if extra else result


def _image(item: Any, mime: str) -> Blob | dict[str, str]:
    """A URL stays one: it is the provider's, and for a while anybody's to read."""
    if not isinstance(item, Mapping):
        raise UpstreamUnreadable("the provider's reply holds no picture where one is due")
    url = item.get("url")
    if isinstance(item.get("b64_json"), str) or not isinstance(url, str):
        return _picture(decoded(item.get("b64_json"), "a picture"), mime)
    if url.startswith("data:"):
        head, _, text = url.removeprefix("data:").partition(",")
        return _picture(decoded(text, "a picture"), head.partition(";")[0] or mime)
    return {"kind": "http_url", "url": url, "mime": mime}


def _picture(data: bytes, mime: str) -> Blob:
    return Blob.of(data, picture_type(data, mime))


def whole(made: Made, created: int) -> WireReply:
    """Written as the pictures are read, so that no second copy of them is held."""
    images, prompts = made.result["images"], made.result.get("revised_prompts")
    said: dict[str, Any] = {"created": created}
    if made.result.get("text"):
        said["text"] = made.result["text"]  # what a model says beside its picture
    if made.usage is not None:
        said["usage"] = _usage(made.usage)

    async def chunks() -> AsyncIterator[bytes]:
        yield wirejson.dumps(said)[:-1] + b',"data":['
        for i, image in enumerate(images):
            yield b"," if i else b""
            revised = {"revised_prompt": prompts[i]} if prompts and prompts[i] else {}
            async for piece in _holding(revised, image):
                yield piece
        yield b"]}"

    return WireReply(body=Blob(mime="application/json", chunks=chunks))


def events(made: Made, created: int, *, edited: bool) -> WireReply:
    """A stream of one event for each picture: nothing partial is known of it."""
    name = "image_edit.completed" if edited else "image_generation.completed"
    images = made.result["images"]
    said: dict[str, Any] = {"type": name, "created_at": created}
    if made.usage is not None:
        said["usage"] = _usage(made.usage)

    async def chunks() -> AsyncIterator[bytes]:
        for image in images:
            form = image.mime.rpartition("/")[2] if isinstance(image, Blob) else "png"
            yield f"event: {name}\ndata: ".encode()
            async for piece in _holding({**said, "output_format": form}, image):
                yield piece
            yield b"\n\n"

    return WireReply(body=Blob(mime=SSE, chunks=chunks), content_type=SSE)


async def _holding(said: Json, image: Any) -> AsyncIterator[bytes]:
    if not isinstance(image, Blob):
        yield wirejson.dumps({**said, "url": image["url"]})
        return
    head = wirejson.dumps(said)[:-1]
    yield head + (b',"b64_json":"' if said else b'"b64_json":"')
    async for piece in encoded(image):
        yield piece
    yield b'"}'


def _usage(usage: Usage) -> dict[str, Any]:
    seen, drawn = usage.image_input or 0, usage.image_output or 0
    return {
        **token_counts(usage),
        "input_tokens_details": {
            "text_tokens": max(0, usage.input_tokens - seen),
            "image_tokens": seen,
        },
        "output_tokens_details": {
            "text_tokens": max(0, usage.output_tokens - drawn),
            "image_tokens": drawn,
        },
    }
