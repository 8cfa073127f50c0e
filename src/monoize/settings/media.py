"""Where media lie and how large they may be (spec 4, section 3)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from monoize.settings.section import PositiveInt, Seconds, Section

__all__ = ["HttpUrlSettings", "MediaSettings"]


class HttpUrlSettings(Section, frozen=True, kw_only=True):
    """Whether addresses that a caller names are fetched, and how far that goes (D30)."""

    enabled: bool = False
    hosts: tuple[str, ...] = ("*",)  # globs of the names that may be asked
    max_bytes: PositiveInt = 32 * 1024**2
    seconds: Seconds = 20  # in all
    redirects: Annotated[int, Meta(ge=0, le=10)] = 3


class MediaSettings(Section, frozen=True, kw_only=True):
    store: str = "./data/media"  # a folder, memory://, s3://bucket/prefix, gs://… or az://…
    max_bytes: PositiveInt = 64 * 1024**2  # of one upload
    quota_bytes: PositiveInt = 10 * 1024**3  # of all that one user, or a key without one, keeps
    keep_days: PositiveInt | None = 30
    inline_bytes: PositiveInt = 256 * 1024  # larger base64 of an envelope is stored (D29)
    resolve_bytes: PositiveInt = (
        48 * 1024**2
    )  # read into one request for a provider that takes bytes only
    http_urls: HttpUrlSettings = HttpUrlSettings()
