"""MediaRef: where a picture, a recording or a file lies, instead of its bytes (spec 4, 3.1)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = ["SMS_SCHEME", "HttpUrl", "InlineBase64", "MediaRef", "SmsFile", "sms_uri"]

SMS_SCHEME = "smsfile://"


class InlineBase64(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="inline_base64"
):
    """For small data, and for looking at."""

    mime: str
    data: str


class SmsFile(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sms_file"):
    """A file of the media store."""

    uri: str  # smsfile://<id>
    mime: str

    @property
    def id(self) -> str:
        return self.uri.removeprefix(SMS_SCHEME)


class HttpUrl(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="http_url"):
    """Somebody else's address: only where the operator's policy allows it (D30)."""

    url: str
    mime: str


MediaRef: TypeAlias = InlineBase64 | SmsFile | HttpUrl


def sms_uri(media_id: str) -> str:
    return f"{SMS_SCHEME}{media_id}"
