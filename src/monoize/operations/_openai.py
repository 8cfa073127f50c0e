"""What all of OpenAI's endpoints beside chat share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from monoize.errors import InvalidRequest, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.media.ref import SmsFile
from monoize.operation import Inline
from monoize.operations._reading import VendorPayload, references

__all__ = [
    "blobs_inline",
    "body_of",
    "file_of",
    "listed",
    "named_file",
    "not_in_bytes",
    "refers",
    "uploads",
    "values_of",
]

_UPLOAD = "upload:"
_ENDINGS = {"mpeg": "mp3", "wave": "wav", "vnd.wave": "wav", "jpeg": "jpg", "svg+xml": "svg"}


def values_of(
    payload: VendorPayload, model: str, named: Mapping[str, Any], media: Mapping[str, Blob]
) -> dict[str, Any]:
    """The request as OpenAI words it: what is absent stays absent, named fields win, files stand in their places."""
    said = {name: value for name, value in named.items() if value is not None}
    return {"model": model, **said, **_filled(payload.extra, media, said)}


def body_of(payload: VendorPayload, model: str, named: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON body; a caller of the same dialect has written it already."""
    if payload.sent is not None:
        return {**payload.sent.fields, "model": model}
    return values_of(payload, model, named, {})


def _filled(extra: Mapping[str, Any], media: Mapping[str, Blob], said: Any) -> dict[str, Any]:
    filled = {}
    for name, value in extra.items():
        if name in said or name == "model":
            continue
        if isinstance(value, list):
            filled[name] = [media.get(f"{name}[{i}]", item) for i, item in enumerate(value)]
        else:
            filled[name] = media.get(name, value)
    return filled


def blobs_inline(value: Any) -> Any:
    """A JSON body with data URLs where files were."""
    if isinstance(value, Blob):
        return Inline(blob=value, data_url=True)
    if isinstance(value, Mapping):
        return {name: blobs_inline(item) for name, item in value.items()}
    if isinstance(value, list):
        return [blobs_inline(item) for item in value]
    return value


def uploads(
    files: Mapping[str, tuple[Blob, ...]], names: Mapping[str, tuple[str, str]]
) -> tuple[dict[str, Any], dict[str, Blob], tuple[tuple[str, str], ...]]:
    """Files of a form: as fields of a payload, by the names of `media`, and where each stood.

    `names`: of a form's field, that of its first file and that of the list of its others. What stands in the payload
    for a file is never looked for: the file is among the media already.
    """
    fields: dict[str, Any] = {}
    media: dict[str, Blob] = {}
    places: list[tuple[str, str]] = []
    for field, blobs in files.items():
        name = field.removesuffix("[]")
        first, others = names.get(name, (name, f"{name}_others"))
        for blob in blobs:
            key = first
            stand_in = {"kind": "sms_file", "uri": f"{_UPLOAD}{field}", "mime": blob.mime}
            if first in fields:
                more = fields.setdefault(others, [])
                key = f"{others}[{len(more)}]"
                more.append(stand_in)
            else:
                fields[first] = stand_in
            media[key] = blob
            places.append((field, key))
    return fields, media, tuple(places)


def refers(payload: VendorPayload) -> bool:
    """Whether it names media of ours, which mean nothing to a provider: it cannot go out as it was written."""
    found = references(payload).values()
    return not all(isinstance(one, SmsFile) and one.uri.startswith(_UPLOAD) for one in found)


def file_of(media: Mapping[str, Blob], name: str) -> Blob:
    if name not in media:
        raise InvalidRequest(f"{name}: the file that it refers to is not at hand", param=name)
    return media[name]


def named_file(blob: Blob, stem: str) -> Blob:
    """With a name that tells its format: OpenAI looks at nothing else."""
    if blob.name and "." in blob.name:
        return blob
    kind = blob.mime.partition(";")[0].strip().lower().rpartition("/")[2].removeprefix("x-")
    return msgspec.structs.replace(blob, name=f"{stem}.{_ENDINGS.get(kind, kind)}")


def listed(wire: Any, name: str) -> Sequence[Any]:
    """A list of a provider's reply. Raises UpstreamUnreadable."""
    value = wire.get(name)
    if not isinstance(value, list):
        raise UpstreamUnreadable(f"the provider's reply has no list {name!r}")
    return value


def not_in_bytes(content_type: str) -> NoReturn:
    raise UpstreamUnreadable(f"a JSON object was due, not {content_type or 'bytes'}")
