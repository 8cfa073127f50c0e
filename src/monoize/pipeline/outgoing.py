"""What an operation sends, as bytes: JSON with base64 in its places, or multipart that is read while it is sent."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

from monoize import wirejson
from monoize.media.blob import Blob
from monoize.operation import Inline, Multipart
from monoize.upstream.client import Streamed

__all__ = ["json_body", "multipart_body"]


async def json_body(body: Any, limit: int) -> bytes:
    """`limit`: bytes of all media together, before base64."""
    return wirejson.dumps(await _filled(body, [limit]))


async def _filled(value: Any, left: list[int]) -> Any:
    if isinstance(value, Inline):
        data = await value.blob.read(left[0])
        left[0] -= len(data)
        text = base64.b64encode(data).decode("ascii")
        return f"data:{value.blob.mime};base64,{text}" if value.data_url else text
    if isinstance(value, Mapping):
        return {name: await _filled(item, left) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [await _filled(item, left) for item in value]
    return value


def multipart_body(form: Multipart, boundary: str) -> tuple[Streamed, str]:
    """The body and its content type; the length is told where every file's is known."""
    heads = [_head(name, value, boundary) for name, value in form.fields]
    end = f"--{boundary}--\r\n".encode()

    async def chunks() -> AsyncIterator[bytes]:
        for head, (_, value) in zip(heads, form.fields, strict=True):
            yield head
            if isinstance(value, Blob):
                async for piece in value.chunks():
                    yield piece
            else:
                yield value.encode()
            yield b"\r\n"
        yield end

    sizes = [_size(value) for _, value in form.fields]
    known = [size for size in sizes if size is not None]
    total = None
    if len(known) == len(sizes):
        total = sum(known) + sum(len(head) + len(b"\r\n") for head in heads) + len(end)
    return Streamed(chunks=chunks, size=total), f"multipart/form-data; boundary={boundary}"


def _head(name: str, value: str | Blob, boundary: str) -> bytes:
    disposition = f'form-data; name="{_quoted(name)}"'
    kind = ""
    if isinstance(value, Blob):
        disposition += f'; filename="{_quoted(value.name or name)}"'
        kind = f"Content-Type: {value.mime}\r\n"
    return f"--{boundary}\r\nContent-Disposition: {disposition}\r\n{kind}\r\n".encode()


def _quoted(text: str) -> str:
    """As browsers write names: a quote or a line's end must not end the header."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _size(value: str | Blob) -> int | None:
    return value.size if isinstance(value, Blob) else len(value.encode())
